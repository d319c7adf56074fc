"""The family `export`: the op through `torch.export`."""
