"""What `values.*` stand on: repeated calls, other values and layouts, the raw bytes of storages."""
