"""Properties that every backward must have, and that finite differences do not test.

These checks need no compiler and take milliseconds on a small case. Most compare gradients of the op in
the case's own dtype with other gradients of the same op. They find an inconsistent backward, and miss one
that is consistently wrong: gradcheck finds that. Only `backward.narrow` uses finite differences, for ops
that gradcheck cannot judge.

Autograd itself checks the number, shape and device of gradients, and raises. It casts their dtypes and
sums gradients whose shape is too large, in compiled code too, so neither is a finding. `torch.func` raises
for a custom op with its own autograd formula, so no check covers it.
"""
