"""Attempts to refute certificates: adversaries, the campaign against a run, its records and its table."""
