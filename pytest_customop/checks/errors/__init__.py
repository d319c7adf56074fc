"""The family `errors`: inputs that the op must reject."""
