"""Files that hold a model, one file per format."""
