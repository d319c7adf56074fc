"""Process-global state: read, perturb and restore it around a check."""
