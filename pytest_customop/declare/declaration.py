"""Read a mark, or a call with the mark's keywords, into a validated `Declaration`.

Every mistake becomes one `MarkError`: where the mark is, what is wrong, what is allowed. Imports torch
when a mark is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ..core.suggest import unknown
from .inputs import ErrorSample, GradOptions, Sample, TensorSpec
from .keywords import (
    read_axes,
    read_dtypes,
    read_function,
    read_gradcheck,
    read_layouts,
    read_names,
    read_reference,
    read_requires_grad,
    read_tolerances,
    read_variants,
)
from .known import Known, read_known
from .marked import NOT_CALLED, POSITIONAL
from .mistakes import MarkError, wrong_mark
from .samples import read_errors, read_id, read_samples
from .variant import KINDS, Predicate

if TYPE_CHECKING:
    import pytest
    import torch

    from .ops import Op

NOT_CALLED_MESSAGE = "it is used without a call: write @customop_cases(op, samples=[(...), ...])"


@dataclass(frozen=True, eq=False)
class Declaration:
    """A validated mark. The fields are the keywords of `customop_cases`, with lists made tuples.

    Args:
        where: file, line and name of what is marked; without a mark, the name of the function that was
            called.
        as_given: whether real tensors are checked as they are, as those of a samples function. The
            tensors of a list are templates: each case casts them and sets whether they require gradients.
        is_mark: whether this is a mark, and not a call of `check_op` or `customop_check`.
        strict: whether notes count as failures, by `variants=`.
    """

    op: Op
    samples: tuple[Sample, ...] | Callable[..., Iterable[Any]]
    where: str
    devices: tuple[str, ...] | None = None
    dtypes: tuple[torch.dtype, ...] | None = None
    requires_grad: tuple[bool, ...] | None = None
    layouts: tuple[str, ...] = ("contiguous",)
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    skip_if: Callable[[Any], str | None] | None = None
    checks: tuple[str, ...] | None = None
    tolerances: Mapping[torch.dtype, tuple[float, float]] | None = None
    gradcheck: GradOptions | str = GradOptions()  # noqa: RUF009 -- frozen
    reference: Callable[..., Any] | None = None
    errors: tuple[ErrorSample, ...] = ()
    variants: tuple[str, ...] | Predicate = KINDS
    known: tuple[Known, ...] = ()
    id: str | None = None
    as_given: bool = False
    is_mark: bool = True
    strict: bool = False

    def mistake(self, message: str) -> MarkError:
        """The error for a mistake in this mark or call; the message says where it is."""
        if self.is_mark:
            return wrong_mark(message, self.where)
        return MarkError(f"{self.where}: {message}")


_NOT_GIVEN = ("where", "as_given", "is_mark", "strict")
KEYWORDS = tuple(f.name for f in fields(Declaration) if f.name not in _NOT_GIVEN)


def declare(mark: pytest.Mark, where: str) -> Declaration:
    """Read a mark into a `Declaration`.

    Args:
        mark: from the wrapper or from `pytest.mark.customop_cases(...)`.
        where: file and line, and the name of what is marked.

    Raises:
        MarkError: for an invalid mark.
    """
    try:
        return _declare(_keywords(mark), where)
    except MarkError as error:
        raise wrong_mark(str(error), where) from error.__cause__


def declare_call(keywords: Mapping[str, Any], where: str, *, as_given: bool = False) -> Declaration:
    """Read a call with the mark's keywords into a `Declaration`.

    Args:
        as_given: as in `Declaration`.

    Raises:
        MarkError: for invalid arguments.
    """
    try:
        return _declare(keywords, where, is_mark=False, as_given=as_given)
    except MarkError as error:
        raise MarkError(f"{where}: {error}") from error.__cause__


def _keywords(mark: pytest.Mark) -> dict[str, Any]:
    keywords = dict(mark.kwargs)
    if keywords.pop(NOT_CALLED, False):
        raise MarkError(NOT_CALLED_MESSAGE)
    positional = tuple(keywords.pop(POSITIONAL, ())) + tuple(mark.args)
    if len(positional) > 2:
        raise MarkError("takes op and samples by position, the rest by keyword")
    for name in keywords:
        if name not in KEYWORDS:
            raise MarkError(unknown("keyword", name, KEYWORDS))
    for name, value in zip(("op", "samples"), positional, strict=False):
        if name in keywords:
            raise MarkError(f"{name} is given twice")
        keywords[name] = value
    for name in ("op", "samples"):
        if name not in keywords:
            raise MarkError(f"{name} is missing: write customop_cases(op, samples=[(...), ...])")
    return keywords


def _declare(
    keywords: Mapping[str, Any], where: str, *, is_mark: bool = True, as_given: bool = False
) -> Declaration:
    from .ops import OpError, resolve

    try:
        op = resolve(keywords["op"])
        samples = _samples(keywords["samples"], op)
        errors = read_errors(keywords.get("errors"), op, samples)
    except OpError as error:
        raise MarkError(str(error)) from error.__cause__
    axes = read_axes(keywords.get("axes"), samples)
    variants, strict = read_variants(keywords.get("variants"))
    return Declaration(
        op=op,
        samples=samples,
        where=where,
        devices=read_names(keywords.get("devices"), "devices"),
        dtypes=read_dtypes(keywords.get("dtypes")),
        requires_grad=read_requires_grad(keywords.get("requires_grad")),
        layouts=read_layouts(keywords.get("layouts", ("contiguous",))),
        axes=axes,
        skip_if=read_function(keywords.get("skip_if"), "skip_if", "a function of a cell"),
        checks=read_names(keywords.get("checks"), "checks"),
        tolerances=read_tolerances(keywords.get("tolerances")),
        gradcheck=read_gradcheck(keywords.get("gradcheck")),
        reference=read_reference(keywords.get("reference"), samples),
        errors=errors,
        variants=variants,
        known=read_known(keywords.get("known")),
        id=read_id(keywords.get("id")),
        as_given=as_given or callable(samples),
        is_mark=is_mark,
        strict=strict,
    )


def _samples(value: Any, op: Op) -> tuple[Sample, ...] | Callable[..., Iterable[Any]]:
    if callable(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, (str, bytes, Mapping, Sample, TensorSpec)) or not isinstance(
        value, Iterable
    ):
        raise MarkError(
            f"samples is {value!r}: give a list of tuples of the op's arguments, or a function "
            "(device, dtype, requires_grad) that returns one"
        )
    return read_samples(value, op)
