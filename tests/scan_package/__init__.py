"""A package of ops in the styles of released ones, some with a planted defect, and no test for any.

`PLANTED` names the defects that need inputs: the op, a check that finds it, and the code.
"""

from . import attention, images, inplace, jagged, lists, quantise, registrations  # noqa: F401

PLANTED = {
    ("scanned::dequantize_rows", "fake.forward", "fake-dtype-mismatch"),
    ("scanned::jagged_counts", "fake.forward", "fake-shape-mismatch"),
    ("scanned::rotate_half", "fake.forward", "fake-stride-mismatch"),
    ("scanned::accumulate", "values.mutation", "undeclared-mutation"),
    ("scanned::first_of", "fake.forward", "output-alias-rejected"),
}
