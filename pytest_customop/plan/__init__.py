"""Plan the items of a mark: checks on its cases and on their variants."""
