"""Tools of the family `values`: repeated calls, other values and layouts, raw bytes of storages."""
