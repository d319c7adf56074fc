"""The mark `customop_cases` as its users write it: a typed decorator. Imports no torch."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest

from .marked import NAME, NOT_CALLED, POSITIONAL

if TYPE_CHECKING:
    import torch

    from .inputs import ErrorSample, GradOptions
    from .known import Known

P = ParamSpec("P")


def _mistakes_at_collection(mark: Callable[P, pytest.MarkDecorator]) -> Callable[P, Any]:
    """Turn a wrong call into a mark too, so that it is reported when pytest collects the test.

    `@customop_cases` without a call gets the test itself as `op`: the test is then marked as well.
    """

    @functools.wraps(mark)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Any:
        marker: Any = getattr(pytest.mark, NAME)
        if len(args) == 1 and not kwargs and _is_test(args[0]):
            return marker(**{NOT_CALLED: True})(args[0])
        try:
            inspect.signature(mark).bind(*args, **kwargs)
        except TypeError:
            return marker(**{POSITIONAL: args}, **kwargs)
        return mark(*args, **kwargs)

    return wrapper


def _is_test(value: Any) -> bool:
    """Whether this is a test function or class by its name, not a function that returns an op."""
    plain = isinstance(value, (types.FunctionType, type, staticmethod, classmethod))
    return plain and value.__name__.lower().startswith("test")


@_mistakes_at_collection
def customop_cases(
    op: Any,
    samples: Iterable[Any] | Callable[..., Iterable[Any]],
    *,
    devices: str | Sequence[str] | None = None,
    dtypes: torch.dtype | Sequence[torch.dtype] | None = None,
    requires_grad: bool | Sequence[bool] | None = None,
    layouts: str | Sequence[str] = ("contiguous",),
    axes: Mapping[str, Sequence[Any]] | None = None,
    skip_if: Callable[[Any], str | None] | None = None,
    checks: str | Sequence[str] | None = None,
    tolerances: Mapping[torch.dtype, tuple[float, float]] | tuple[float, float] | None = None,
    gradcheck: GradOptions | str | None = None,
    reference: Callable[..., Any] | None = None,
    errors: Sequence[ErrorSample] = (),
    variants: bool | str | Callable[[Any], str | None] | Sequence[Any] | None = None,
    known: Sequence[Known] = (),
    id: str | None = None,
) -> pytest.MarkDecorator:
    """Check this op on these cases.

    Args:
        op: a CustomOpDef, OpOverload, OpOverloadPacket, `"ns::name"`, `"ns::name.overload"`, or a
            function without arguments that returns one of these.
        samples: tuples of the op's arguments (or `Sample` objects), or a function
            `(device, dtype, requires_grad, **axes)` that returns or yields them. A real floating-point
            tensor in a list is a template: its own values are tried first, and other sizes, dtypes and
            cases with gradients are derived from it. The op gets what a function returns unchanged.
        devices: the devices the op supports; None: those of the session.
        dtypes: the dtypes of the tensors that are described without one; None: those of the session.
            Real tensors of a list keep their dtypes unless this is given.
        requires_grad: False, True or both; None: both, if the op has an autograd formula. If real tensors
            in a list have `requires_grad=True`, only these require gradients; if none has, all do.
        layouts: memory layouts of every tensor argument: `contiguous`, `transposed`, `strided`,
            `row_padded`, `offset`, `expanded`, `channels_last`.
        axes: further axes of the matrix, name -> values, passed to the samples function. The values are
            part of test ids: give words and numbers.
        skip_if: (cell) -> the reason why the op does not support this cell, or None. The cell has
            `device`, `dtype`, `requires_grad`, `layout`, `sample_id` and `axes`.
        checks: names and families of checks; `-name` removes one; None: those of the session.
        tolerances: (rtol, atol), or a dict of these by dtype; None: those of `torch.testing.assert_close`.
        gradcheck: how gradients are compared with finite differences, or a reason not to do so.
        reference: a function with the op's arguments. Its results, its writes to mutated arguments and
            its gradients must agree with the op's.
        errors: arguments that the op and its fake kernel must reject, each an `ErrorSample`.
        variants: the kinds of variants of the samples that are tried too: `layout`, `shape`, `large`,
            `long`, `dtype`, `complex`, `values`, `magnitudes`, `positions`, `special`, `arguments`,
            `pairs`, `gradients`, `alias`; False: none; None: all kinds, as many variants as the session
            sets. Or a function: (variant) -> the reason why the op does not support it, or None. The
            variant has `kind`, `step`, `description`, `sample` and `beyond`. `"strict"`, alone, among the
            kinds or in a list with the function: notes, such as those on variants beyond what the samples
            show, count as failures.
        known: known failures that stay for now, each a `Known` with the reason. They are expected failures.
        id: the op's part of test ids when marks are stacked.

    Mistakes are reported when the test is collected.
    """
    arguments = locals()
    return getattr(pytest.mark, NAME)(**arguments)  # type: ignore[no-any-return]
