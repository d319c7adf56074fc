"""The family `reference`: the op compared with a reference implementation."""
