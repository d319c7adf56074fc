"""Process-global state: what is read, compared, and restored around a check."""
