"""Answers with proofs over HTTP: one engine for all requests, draws under a secret key, every answer kept in a run."""
