"""The foundation: errors, registries, descriptions, plug-ins, named randomness, whole files. No torch at import."""
