"""The family `fake`: fake kernels compared with real ones."""
