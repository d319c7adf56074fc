"""The family `vmap`: the op under `torch.func.vmap`."""
