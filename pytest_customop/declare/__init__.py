"""What an author writes: the mark, the op, samples, descriptions of tensors; read and validated."""
