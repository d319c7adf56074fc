"""The op under `torch.vmap`, compared with a loop over the batch."""
