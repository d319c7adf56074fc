"""Match the known failures of a mark with its items, and reject entries that match none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..checks import Registry, catalogue
from ..core.suggest import did_you_mean, misspelt, unknown
from ..core.wording import dtype_name
from ..declare.declaration import Declaration
from ..declare.known import ANY_VARIANT, Known
from .place import Place


def validate_known(declaration: Declaration, registry: Registry) -> None:
    """Check the entries of a mark against what the mark declares.

    Only the mark itself counts: an entry stays valid in a session that runs only a part of the cases.

    Raises:
        MarkError: for an entry that can match no case, with a suggestion.
    """
    for index, entry in enumerate(declaration.known):
        wrong = _why_unmatched(entry, declaration, registry)
        if wrong:
            raise declaration.mistake(f"known[{index}] matches no case: {wrong}")


def _why_unmatched(entry: Known, declaration: Declaration, registry: Registry) -> str | None:
    checks = [name for name in registry.names() if name != "body"]
    if entry.check is not None and entry.check not in checks:
        return unknown("check", entry.check, checks)
    codes = {*catalogue(), *registry.findings()}
    # An author's own check may report codes that are not in the catalogue.
    if entry.finding is not None and entry.finding not in codes and misspelt(entry.finding, codes):
        return f"unknown finding {entry.finding!r}{did_you_mean(entry.finding, codes)}"
    allowed: list[tuple[str, str | None, Collection[str]]] = [
        ("layout", entry.layout, declaration.layouts),
        ("dtype", entry.dtype_name, [dtype_name(dtype) for dtype in declaration.dtypes or ()]),
        ("device", entry.device, declaration.devices or ()),
    ]
    if not callable(declaration.samples):
        ids = [str(sample.id) for sample in (*declaration.samples, *declaration.errors)]
        allowed.append(("sample", _text(entry.sample), ids))
    for kind, value, choices in allowed:
        if value is not None and choices and not any(_is(value, choice) for choice in choices):
            return unknown(kind, value, choices)
    requires_grad = declaration.requires_grad
    if (
        entry.requires_grad is not None
        and requires_grad
        and entry.requires_grad not in requires_grad
    ):
        return f"the mark has requires_grad={list(requires_grad)}"
    return None


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)


def _is(expected: str, actual: str) -> bool:
    """Whether two names are equal; `cuda` matches every CUDA device."""
    return expected == actual or actual.partition(":")[0] == expected


def known_of(known: Iterable[Known], check: str, place: Place) -> tuple[Known, ...]:
    """The entries that may be about a check on a case, or about one of its variants.

    Args:
        place: of the case, or of all its variants (`ALL_VARIANTS`).
    """
    return tuple(entry for entry in known if _is_about(entry, check, place))


def _is_about(entry: Known, check: str, place: Place) -> bool:
    if (entry.variant is None) != (place.variant is None):
        return False
    pairs: Sequence[tuple[object, object]] = (
        (entry.dtype_name, place.dtype),
        (entry.requires_grad, place.requires_grad),
        (entry.layout, place.layout),
        (_text(entry.sample), place.sample),
    )
    if any(expected is not None and expected != actual for expected, actual in pairs):
        return False
    if entry.device is not None and not _is(entry.device, place.device or ""):
        return False
    return entry.check is None or entry.check in (check, check.partition(".")[0])


def matches_variant(entry: Known, step: str | None) -> bool:
    """Whether an entry about a case's variants is about the variant with this step."""
    return entry.variant in (step, ANY_VARIANT) if step is not None else entry.variant is None
