"""The family `values`: what the op returns and writes to, call after call."""
