"""Which items a mark becomes: cases, checks, variants, shards."""
