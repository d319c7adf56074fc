"""Read and validate what an author writes: the mark, the op, samples, descriptions of tensors."""
