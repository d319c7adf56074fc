"""A generated input on its way from the child process, which may end while it tries it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...cases.case import Case
    from ...fuzz.inputs import Generated
    from ...plan.items import PlannedItem


def packed(generated: Generated) -> bytes | None:
    """An input in a form that another process can read; None if that is not possible."""
    try:
        return pickle.dumps((generated.template, generated.variant, generated.salt))
    except (
        pickle.PicklingError,
        TypeError,
        AttributeError,
    ):  # as of a generator among the arguments
        return None


def case_of(planned: PlannedItem, sent: bytes | None) -> Case | None:
    """The case of an input that a child process has sent; None if it has sent none."""
    if planned.fuzz is None or sent is None:
        return None
    return planned.fuzz.case(*pickle.loads(sent))
