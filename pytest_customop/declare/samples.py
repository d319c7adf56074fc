"""Read the samples of a mark: give each an id, and check its arguments against the op's schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.tracebacks import raised_at
from .inputs import ErrorSample, Sample
from .mistakes import MarkError

if TYPE_CHECKING:
    from .ops import Op


def read_samples(values: Iterable[Any], op: Op, origin: str = "samples") -> tuple[Sample, ...]:
    """The samples of a list or generator, with their ids.

    Args:
        origin: their name in messages.

    Raises:
        MarkError: for no sample, for one that is not a tuple, for two equal ones, and if a generator
            raises.
        OpError: for arguments that do not fit the schema.
    """
    try:
        listed = list(values)
    except Exception as error:  # whatever the author's generator raises
        text = f"{type(error).__name__}: {error} ({raised_at(error)})"
        raise MarkError(f"{origin} raised {text}") from error
    if not listed:
        raise MarkError(f"{origin} is empty: give at least one tuple of the op's arguments")
    samples = [_sample(item, index, origin) for index, item in enumerate(listed)]
    _validate_distinct(samples, origin)
    from .ops import OpError

    for index, sample in enumerate(samples):
        try:
            op.validate_arguments(sample)
        except OpError as error:
            raise OpError(f"{origin}[{index}]: {error}") from None
    return tuple(samples)


def read_errors(
    value: Any, op: Op, samples: Sequence[Sample] | Callable[..., Any]
) -> tuple[ErrorSample, ...]:
    """The error samples of a mark, with their ids.

    Args:
        samples: of the same mark. The ids of error samples must differ from theirs.

    Raises:
        MarkError: for one that is not an `ErrorSample`, and for wrong fields.
        OpError: for arguments that do not fit the schema.
    """
    if isinstance(value, ErrorSample):
        raise MarkError("errors is one ErrorSample: give a list of them")
    if value is not None and (isinstance(value, str) or not isinstance(value, Iterable)):
        raise MarkError(f"errors is {shortened(value)}: give a list of ErrorSample(...)")
    listed = list(value or ())
    errors = [_error_sample(item, index) for index, item in enumerate(listed)]
    taken = {
        sample.id: f"samples[{i}]" for i, sample in enumerate(() if callable(samples) else samples)
    }
    from .ops import OpError

    for index, error in enumerate(errors):
        place = f"errors[{index}]"
        if error.id in taken:
            raise MarkError(f"{taken[error.id]} and {place} have one id, {error.id!r}")
        taken[error.id] = place
        try:
            op.validate_arguments(error)
        except OpError as wrong:
            known = "torch itself rejects arguments that do not fit the schema"
            raise OpError(f"{place}: {wrong} ({known})") from None
    return tuple(errors)


def _error_sample(item: Any, index: int) -> ErrorSample:
    place = f"errors[{index}]"
    if not isinstance(item, ErrorSample):
        raise MarkError(f"{place} is {shortened(item)}: give ErrorSample((...), raises=ValueError)")
    types = item.raises if isinstance(item.raises, tuple) else (item.raises,)
    if not types or not all(isinstance(cls, type) and issubclass(cls, Exception) for cls in types):
        raise MarkError(
            f"{place}: raises is {item.raises!r}: give a type of exception, or a tuple of them"
        )
    if item.match is not None:
        try:
            re.compile(item.match)
        except (TypeError, re.error) as wrong:
            raise MarkError(
                f"{place}: match is {item.match!r}: give a regular expression ({wrong})"
            ) from None
    if not isinstance(item.data_dependent, bool):
        raise MarkError(f"{place}: data_dependent is {item.data_dependent!r}: give True or False")
    name = f"error{index}" if item.id is None else read_id(item.id, f"{place}.id")
    return replace(item, id=name)


def _sample(item: Any, index: int, origin: str) -> Sample:
    if isinstance(item, ErrorSample):
        raise MarkError(f"{origin}[{index}] is an ErrorSample: put it into errors=")
    if isinstance(item, Sample):
        name = str(index) if item.id is None else read_id(item.id, f"{origin}[{index}].id")
        return Sample(item.args, item.kwargs, name)
    if isinstance(item, (tuple, list)):
        return Sample(tuple(item), {}, str(index))
    raise MarkError(
        f"{origin}[{index}] is {shortened(item)}, which is not a tuple of arguments; for an op of one "
        f"argument write ({shortened(item)},)"
    )


def _validate_distinct(samples: Sequence[Sample], origin: str) -> None:
    """Reject equal ids, and equal arguments of samples that have no id of their own."""
    seen: dict[str | None, int] = {}
    for index, sample in enumerate(samples):
        if sample.id in seen:
            raise MarkError(f"{origin}[{seen[sample.id]}] and [{index}] have one id, {sample.id!r}")
        seen[sample.id] = index
    described: dict[str, int] = {}
    for index, sample in enumerate(samples):
        if sample.id != str(index):
            continue
        text = _identity([list(sample.args), sorted(sample.kwargs.items())])
        if text in described:
            raise MarkError(
                f"{origin}[{described[text]}] and [{index}] are the same sample; "
                "drop one, or tell them apart by an id: Sample((...), id=...)"
            )
        described[text] = index


def _identity(value: Any) -> str:
    """A text that is equal for equal descriptions, and for the same tensor."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_identity, value))}]"
    return repr(value) if not hasattr(value, "untyped_storage") else f"tensor at {id(value)}"


def shortened(value: Any) -> str:
    """The repr of a value, cut after 60 characters; a tensor by its shape."""
    if hasattr(value, "untyped_storage"):
        return f"a tensor of shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_id(value: Any, keyword: str = "id") -> str | None:
    """Validate a part of a test id; None stays None.

    Args:
        keyword: its name in messages.

    Raises:
        MarkError: for anything but a word, and for `~` and `::`, which separate parts of an id.
    """
    if value is None:
        return None
    if not isinstance(value, str) or not value or any(c.isspace() or c in "[]" for c in value):
        raise MarkError(f"{keyword} is {value!r}: give a word without spaces and brackets")
    if "~" in value:
        raise MarkError(f"{keyword} is {value!r}: '~' stands between a sample and its variants")
    if "::" in value:
        raise MarkError(f"{keyword} is {value!r}: '::' separates the parts of a test id")
    return value
