"""Planning: the items that a mark becomes, which are checks on cases, variants among them."""
