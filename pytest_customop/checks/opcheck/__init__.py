"""The family `opcheck`: the four utilities of `torch.library.opcheck`."""
