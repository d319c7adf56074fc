"""The family `state`: what the op leaves behind in the process."""
