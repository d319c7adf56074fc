"""`fake.forward`: the outputs of the fake kernel are like those of the real one."""

from __future__ import annotations

from ...cases.case import Case
from ...cases.fake_run import fake_run, kernel_failure, shapes_of, skip_if_unfakeable
from ...declare.variant import KINDS
from ...findings import fail
from ..check import Check
from .metadata import SizeReader, compare_outputs, table, worst_mismatch
from .scripts import FORWARD


def check_forward(case: Case) -> None:
    """Compare the outputs of the fake kernel with those of the real one, field by field."""
    skip_if_unfakeable(case.eager)
    fake = fake_run(shapes_of(case))
    if fake.error is not None:
        raise kernel_failure(case.op.name, fake.error)
    outputs = compare_outputs(fake.run, case.eager, SizeReader(fake.mode))
    mismatch = worst_mismatch(outputs)
    if mismatch:
        code, text = mismatch
        raise fail(code, f"{case.op.name} {text}", table(outputs))


CHECK = Check(
    name="fake.forward",
    summary="the op returns what its fake kernel says: shape, strides, dtype, device, layout, memory",
    run=check_forward,
    variants=KINDS,
    cheap=True,
    repro=FORWARD,
    catches=(
        "A fake kernel that is missing or raises, and every field of every output in which "
        "it differs from the real kernel."
    ),
    cannot_see=(
        "Inputs beyond the samples and their variants. To find a fake kernel that is right "
        "only for contiguous inputs, add `layouts=`."
    ),
    cost="calls",
)
