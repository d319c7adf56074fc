"""What the mark says, made into a validated declaration; and the mark itself.

Every mistake becomes one `MarkError` with the place of the mark, what was wrong, and what is allowed.
Importing this module imports no torch.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest

from ..core.suggest import unknown
from .inputs import ErrorSample, GradOptions, Sample, TensorSpec
from .layouts import LAYOUTS
from .marked import NAME
from .mistakes import MarkError
from .samples import read_errors, read_id, read_samples
from .variant import KINDS, Predicate

if TYPE_CHECKING:
    import torch

    from .ops import Op

P = ParamSpec("P")
NOT_CALLED = "it is used without a call: write @customop_cases(op, samples=[(...), ...])"


def _mistakes_at_collection(mark: Callable[P, pytest.MarkDecorator]) -> Callable[P, Any]:
    """Let a call that does not fit the signature through: it is reported when it is collected.

    Without a call, `@customop_cases` gets the test itself. It is marked too, and reported.
    """

    @functools.wraps(mark)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Any:
        marker: Any = getattr(pytest.mark, NAME)
        if len(args) == 1 and not kwargs and _is_test(args[0]):
            return marker(_not_called=True)(args[0])
        try:
            inspect.signature(mark).bind(*args, **kwargs)
        except TypeError:
            return marker(_positional=args, **kwargs)
        return mark(*args, **kwargs)

    return wrapper


def _is_test(given: Any) -> bool:
    """Whether this is a test function or class by its name, and no function that returns an op."""
    plain = isinstance(given, (types.FunctionType, type, staticmethod, classmethod))
    return plain and given.__name__.lower().startswith("test")


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
    variants: bool | str | Sequence[str] | Callable[[Any], str | None] | None = None,
    id: str | None = None,
) -> pytest.MarkDecorator:
    """Check this op on these cases.

    Args:
        op: a CustomOpDef, OpOverload, OpOverloadPacket, `"ns::name"`, `"ns::name.overload"`, or a
            function without arguments that returns one of these.
        samples: tuples of the op's arguments (or `Sample` objects), or a function
            `(device, dtype, requires_grad, **axes)` that returns or yields them.
        devices: the devices the op supports; None: those of the session.
        dtypes: the dtypes of the tensors that are described without one; None: those of the session.
            Real tensors keep theirs unless this says otherwise.
        requires_grad: False, True or both; None: both, if the op has an autograd formula.
        layouts: memory layouts of every tensor argument, of `pytest_customop.layouts.LAYOUTS`.
        axes: further axes of the matrix, name -> values, handed to the samples function.
        skip_if: (cell) -> the reason why the op does not support this cell, or None. The cell has
            `device`, `dtype`, `requires_grad`, `layout`, `sample_id` and `axes`.
        checks: names and families of checks; `-name` removes one; None: those of the session.
        tolerances: (rtol, atol), or that by dtype; None: those of `torch.testing.assert_close`.
        gradcheck: how gradients are compared with finite differences, or a reason not to do so.
        reference: a function with the op's arguments whose results, writes to mutated arguments and
            gradients the op's must agree with.
        errors: arguments that the op and its fake kernel must refuse, each an `ErrorSample`.
        variants: the kinds of variants of the samples that are tried too, of
            `pytest_customop.variants.variant.KINDS`; False: none; None: all kinds, as many as the
            session says. Or a function: (variant) -> the reason why the op does not support it, or
            None. The variant has `kind`, `step`, `words` and `sample`.
        id: what stands for the op in test ids when marks are stacked.

    Mistakes are reported when the test is collected.
    """
    given = locals()
    return getattr(pytest.mark, NAME)(**given)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Declaration:
    """A validated mark. The fields are those of `customop_cases`, lists made tuples.

    Args:
        where: file, line and name of what is marked; the name of the function that was called, where
            there is no mark.
        is_mark: whether this is a mark, and not a call of `check_op` or `customop_check`.
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
    id: str | None = None
    is_mark: bool = True

    def mistake(self, message: str) -> MarkError:
        """The error for a mistake in this mark or call, which says where it is."""
        return MarkError(f"{_label(self.where, self.is_mark)}: {message}")


KEYWORDS = tuple(f.name for f in fields(Declaration) if f.name not in ("where", "is_mark"))


def _label(where: str, is_mark: bool) -> str:
    return f"customop_cases at {where}" if is_mark else where


def declare(mark: pytest.Mark, where: str) -> Declaration:
    """The declaration that a mark makes.

    Args:
        mark: from the wrapper or from `pytest.mark.customop_cases(...)`.
        where: file and line, and the name of what is marked.

    Raises:
        MarkError: for a mark that cannot be meant.
    """
    try:
        return _declare(_keywords(mark), where, True)
    except MarkError as error:
        raise MarkError(f"{_label(where, True)}: {error}") from error.__cause__


def declare_call(given: Mapping[str, Any], where: str) -> Declaration:
    """The declaration of a call with the mark's keywords.

    Raises:
        MarkError: for arguments that cannot be meant.
    """
    try:
        return _declare(given, where, False)
    except MarkError as error:
        raise MarkError(f"{where}: {error}") from error.__cause__


def _keywords(mark: pytest.Mark) -> dict[str, Any]:
    given = dict(mark.kwargs)
    if given.pop("_not_called", False):
        raise MarkError(NOT_CALLED)
    positional = tuple(given.pop("_positional", ())) + tuple(mark.args)
    if len(positional) > 2:
        raise MarkError("takes op and samples by position, the rest by keyword")
    for name in given:
        if name not in KEYWORDS:
            raise MarkError(unknown("keyword", name, KEYWORDS))
    for name, value in zip(("op", "samples"), positional, strict=False):
        if name in given:
            raise MarkError(f"{name} is given twice")
        given[name] = value
    for name in ("op", "samples"):
        if name not in given:
            raise MarkError(f"{name} is missing: write customop_cases(op, samples=[(...), ...])")
    return given


def _declare(given: Mapping[str, Any], where: str, is_mark: bool) -> Declaration:
    from .ops import OpError, resolve

    try:
        op = resolve(given["op"])
        samples = _samples(given["samples"], op)
        errors = read_errors(given.get("errors"), op, samples)
    except OpError as error:
        raise MarkError(str(error)) from error.__cause__
    axes = _axes(given.get("axes"), samples)
    return Declaration(
        op=op,
        samples=samples,
        where=where,
        devices=_names(given.get("devices"), "devices"),
        dtypes=_dtypes(given.get("dtypes")),
        requires_grad=_flags(given.get("requires_grad")),
        layouts=_layouts(given.get("layouts", ("contiguous",))),
        axes=axes,
        skip_if=_callable(given.get("skip_if"), "skip_if", "a function of a cell"),
        checks=_names(given.get("checks"), "checks"),
        tolerances=_tolerances(given.get("tolerances")),
        gradcheck=_gradcheck(given.get("gradcheck")),
        reference=_reference(given.get("reference"), samples),
        errors=errors,
        variants=_variants(given.get("variants")),
        id=read_id(given.get("id")),
        is_mark=is_mark,
    )


def _samples(given: Any, op: Op) -> tuple[Sample, ...] | Callable[..., Iterable[Any]]:
    if callable(given):
        return given  # type: ignore[no-any-return]
    if isinstance(given, (str, bytes, Mapping, Sample, TensorSpec)) or not isinstance(
        given, Iterable
    ):
        raise MarkError(
            f"samples is {given!r}: give a list of tuples of the op's arguments, or a function "
            "(device, dtype, requires_grad) that returns one"
        )
    return read_samples(given, op)


def _listed(given: Any, single: tuple[type, ...]) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if isinstance(given, single):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)):
        return tuple(given)
    return (given,)


def _names(given: Any, keyword: str) -> tuple[str, ...] | None:
    listed = _listed(given, (str,))
    if listed is None:
        return None
    if not listed or not all(isinstance(name, str) for name in listed):
        raise MarkError(f"{keyword} is {given!r}: give a list of names")
    return listed


def _dtypes(given: Any) -> tuple[torch.dtype, ...] | None:
    import torch

    listed = _listed(given, (torch.dtype,))
    if listed is not None and (
        not listed or not all(isinstance(dtype, torch.dtype) for dtype in listed)
    ):
        raise MarkError(f"dtypes is {given!r}: give a list of dtypes, as [torch.float32]")
    return tuple(dict.fromkeys(listed)) if listed is not None else None


def _flags(given: Any) -> tuple[bool, ...] | None:
    listed = _listed(given, (bool,))
    if listed is not None and (not listed or not all(isinstance(flag, bool) for flag in listed)):
        raise MarkError(f"requires_grad is {given!r}: give False, True, or a list of both")
    return tuple(dict.fromkeys(listed)) if listed is not None else None


def _layouts(given: Any) -> tuple[str, ...]:
    listed = _listed(given, (str,)) or ()
    if not listed:
        raise MarkError(f"layouts is {given!r}: give a list of layouts ({', '.join(LAYOUTS)})")
    for layout in listed:
        if layout not in LAYOUTS:
            raise MarkError(unknown("layout", str(layout), LAYOUTS))
    return tuple(dict.fromkeys(listed))


def _axes(given: Any, samples: Any) -> dict[str, tuple[Any, ...]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise MarkError(f"axes is {given!r}: give a dict of names to lists of values")
    if given and not callable(samples):
        raise MarkError(
            "axes are handed to a samples function, and samples is a list: "
            "make it a function (device, dtype, requires_grad, **axes)"
        )
    axes = {name: _listed(values, (str,)) or () for name, values in given.items()}
    for name, values in axes.items():
        _validate_axis(name, values)
    return axes


def _validate_axis(name: str, values: tuple[Any, ...]) -> None:
    """Values of an axis stand in test ids, after its name."""
    if not name.isidentifier():
        raise MarkError(f"axes has {name!r}: give the name of an argument of the samples function")
    if not values:
        raise MarkError(f"axes[{name!r}] is empty")
    words = [str(value) for value in values]
    for index, word in enumerate(words):
        try:
            read_id(f"{name}{word}", f"axes[{name!r}][{index}] in test ids")
        except MarkError as error:
            raise MarkError(f"{error}; look up other values by a name") from None
        if word in words[:index]:
            raise MarkError(f"axes[{name!r}] has two values that read {word!r} in test ids")


def _callable(given: Any, keyword: str, wanted: str) -> Callable[..., Any] | None:
    if given is not None and not callable(given):
        raise MarkError(f"{keyword} is {given!r}: give {wanted}")
    return given  # type: ignore[no-any-return]


def _reference(given: Any, samples: Any) -> Callable[..., Any] | None:
    reference = _callable(given, "reference", "a function with the op's arguments")
    if reference is None or callable(samples):
        return reference
    try:
        signature = inspect.signature(reference)
    except (TypeError, ValueError):
        return reference  # written in C: its call will tell
    for index, sample in enumerate(samples):
        try:
            signature.bind(*sample.args, **sample.kwargs)
        except TypeError as error:
            raise MarkError(
                f"reference does not take the arguments of samples[{index}]: {error}"
            ) from None
    return reference


def _variants(given: Any) -> tuple[str, ...] | Predicate:
    if given is None or given is True:
        return KINDS
    if given is False:
        return ()
    if callable(given):
        return given  # type: ignore[no-any-return]
    kinds = _names(given, "variants") or ()
    for kind in kinds:
        if kind not in KINDS:
            raise MarkError(unknown("kind of variants", kind, KINDS))
    return tuple(dict.fromkeys(kinds))


def _tolerances(given: Any) -> Mapping[torch.dtype, tuple[float, float]] | None:
    import torch

    if given is None:
        return None
    if isinstance(given, Mapping):
        pairs = dict(given)
    else:
        floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        complexes = (torch.complex32, torch.complex64, torch.complex128)
        pairs = dict.fromkeys((*floats, *complexes), given)
    for dtype, pair in pairs.items():
        two = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not isinstance(dtype, torch.dtype) or not two or not all(map(_is_tolerance, pair)):
            raise MarkError(
                f"tolerances is {given!r}: give (rtol, atol), or {{dtype: (rtol, atol)}}, "
                "numbers of at least 0"
            )
    return pairs


def _is_tolerance(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0


def _gradcheck(given: Any) -> GradOptions | str:
    if given is None:
        return GradOptions()
    if isinstance(given, GradOptions):
        if not all(map(_is_tolerance, (given.eps, given.atol, given.rtol))) or given.eps == 0:
            raise MarkError(f"gradcheck is {given!r}: give numbers of at least 0, and eps above 0")
        return given
    if isinstance(given, str) and given.strip():
        return given
    raise MarkError(
        f"gradcheck is {given!r}: give GradOptions(eps=, atol=, rtol=), or the reason to leave it out"
    )
