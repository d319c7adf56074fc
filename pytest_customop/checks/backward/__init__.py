"""Properties that every backward must have, and that finite differences do not test.

These checks need no compiler and take milliseconds on a small case. They compare gradients of the op in
the case's own dtype with other gradients of the same op. Most of them therefore see a backward that is
inconsistent; none sees one that is consistently wrong, which gradcheck does.

Autograd itself checks the number, shape and device of gradients, and raises. It casts their dtypes and
sums gradients that are too large, in compiled code too, so neither is a finding. `torch.func` raises for
a custom op with an autograd formula of its own, so no check is about it.
"""
