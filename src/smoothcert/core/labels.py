"""The truth about an input, where nobody knows it."""

UNKNOWN = -1
"""The label of an input without one. Nothing is right or wrong about its answer; it may be certified all the same."""
