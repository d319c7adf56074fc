"""The family `compile`: the op under `torch.compile(fullgraph=True)`."""
