"""What an author writes: the mark, its samples, its op."""
