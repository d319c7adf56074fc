"""The four utilities of `torch.library.opcheck`, under torch's names, one item each.

torch's messages are reduced to their cause. "Nothing to check here" is a skip, and so is a limit of
torch's own checker (`checker-limit`): a NaN in an output compares unequal to itself, and some dtypes
cannot be cloned.
"""
