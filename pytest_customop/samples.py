"""What an author gives as samples, made into `Sample`s with ids, each held to the op's schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .inputs import Sample
from .tracebacks import raised_at

if TYPE_CHECKING:
    from .ops import Op


class MarkError(Exception):
    """A mark that cannot be what its author meant."""


def read_samples(given: Iterable[Any], op: Op, origin: str = "samples") -> tuple[Sample, ...]:
    """The samples of a list or generator, with their ids, each held to the op's schema.

    Raises:
        MarkError: for none, for one that is no tuple, for a duplicate, and for what a generator raises.
        OpError: for arguments that do not fit the schema.
    """
    try:
        listed = list(given)
    except Exception as error:
        what = f"{type(error).__name__}: {error} ({raised_at(error)})"
        raise MarkError(f"{origin} raised {what}") from error
    if not listed:
        raise MarkError(f"{origin} is empty: give at least one tuple of the op's arguments")
    samples = [_sample(one, index, origin) for index, one in enumerate(listed)]
    _refuse_duplicates(samples, origin)
    from .ops import OpError

    for index, sample in enumerate(samples):
        try:
            op.refuse_misfit(sample)
        except OpError as error:
            raise OpError(f"{origin}[{index}]: {error}") from None
    return tuple(samples)


def _sample(given: Any, index: int, origin: str) -> Sample:
    if isinstance(given, Sample):
        name = str(index) if given.id is None else read_id(given.id, f"{origin}[{index}].id")
        return Sample(given.args, given.kwargs, name)
    if isinstance(given, (tuple, list)):
        return Sample(tuple(given), {}, str(index))
    raise MarkError(
        f"{origin}[{index}] is {_short(given)}, which is no tuple of arguments; for an op of one "
        f"argument write ({_short(given)},)"
    )


def _refuse_duplicates(samples: Sequence[Sample], origin: str) -> None:
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
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_identity, value))}]"
    return repr(value) if not hasattr(value, "untyped_storage") else f"tensor at {id(value)}"


def _short(value: Any) -> str:
    if hasattr(value, "untyped_storage"):
        return f"a tensor of shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_id(given: Any, keyword: str = "id") -> str | None:
    """A word that can stand in a test id, or None."""
    if given is None:
        return None
    if not isinstance(given, str) or not given or any(c.isspace() or c in "[]" for c in given):
        raise MarkError(f"{keyword} is {given!r}: give a word without spaces and brackets")
    if "::" in given:
        raise MarkError(f"{keyword} is {given!r}: '::' separates the parts of a test id")
    return given
