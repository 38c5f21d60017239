"""The foundation: errors, named randomness, files that appear whole, what a model is. No torch at import."""
