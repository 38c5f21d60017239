"""The service over HTTP: the Open Inference Protocol, image files, a page, numbers for Prometheus."""
