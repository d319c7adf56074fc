"""The baseline file: read it, find the entry that covers a case, and edit its entries in place.

Everything else stays as it was, character by character: comments, blank lines and the order of entries.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.suggest import did_you_mean
from .entry import PLAIN, VARIANT, Cell, Entry, Key, Value, Values
from .toml import Part, TomlError, parse, parts, statement

VERSION = 1
_TABLE = "[[failure]]"
_HEAD = """\
# Known failures of this suite, written by pytest --customop-update-baseline.
# Explain in the comment of an entry why the failure is not fixed. Updates keep comments.
version = 1
"""
# The keys of an entry, in the order in which they are written, and the dimensions of lists of names.
_NAMES = ("op", "check", "finding")
_LISTS = {"devices": "device", "dtypes": "dtype", "layouts": "layout", "samples": "sample"}
_KEYS = (*_NAMES, "devices", "dtypes", "requires_grad", "layouts", "samples", "variants", "comment")
_ALSO, _ONLY = "also", "only"


@dataclass
class _Block:
    """An entry in the text.

    Args:
        leading: the blank lines and the comments above it.
        body: its header and what follows that.
    """

    entry: Entry
    leading: list[Part] = field(default_factory=list)
    body: list[Part] = field(default_factory=list)


class Baseline:
    """The content of a baseline file.

    Args:
        text: the text of the file; None: an empty baseline.

    Raises:
        TomlError: for a text that is not a baseline.
    """

    def __init__(self, text: str | None = None) -> None:
        text = _HEAD if text is None else text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        values = parse(text)
        self._head: list[Part] = []
        self._blocks: list[_Block] = []
        self._tail: list[Part] = []
        _validate_version(values)
        self._split(text)
        self._by_check: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            self._by_check.setdefault(entry.key[:2], []).append(entry)

    def _split(self, text: str) -> None:
        pending: list[Part] = []
        for part in parts(text):
            if part.header:
                _validate_header(part)
                self._blocks.append(_Block(_NO_ENTRY, pending, [part]))
                pending = []
            elif not part.key:
                pending.append(part)
            elif self._blocks:
                self._blocks[-1].body += [*pending, part]
                pending = []
            else:
                if part.key != "version":
                    raise TomlError(f"has an unknown key {part.key!r} above its tables", part.line)
                self._head += [*pending, part]
                pending = []
        self._tail = pending
        for block in self._blocks:
            block.entry = _read_entry(block.body)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries in the order of the file."""
        return tuple(block.entry for block in self._blocks)

    def find(self, key: Key, cell: Cell, step: str | None) -> Entry | None:
        """The entry that covers a finding of a case, or of its variant with this step; or None."""
        entries = self._covering(key.op, key.check, cell, step)
        return next((entry for entry in entries if entry.key == key), None)

    def findings(self, op: str, check: str, cell: Cell, step: str | None) -> list[str]:
        """The findings that are recorded for a check on a case."""
        return sorted({entry.key.finding for entry in self._covering(op, check, cell, step)})

    def _covering(self, op: str, check: str, cell: Cell, step: str | None) -> Iterator[Entry]:
        entries = self._by_check.get((op, check), ())
        return (entry for entry in entries if entry.covers(cell, step))

    def edit(self, changes: Mapping[int, Entry | None], added: Iterable[Entry]) -> str:
        """The text with some entries changed.

        Args:
            changes: the changed entries by position; None removes an entry.
            added: new entries. Each is put before the first entry with a greater key.
        """
        blocks: list[_Block] = []
        left: list[Part] = []  # comments above removed entries that are not about these entries
        for at, block in enumerate(self._blocks):
            entry = changes.get(at, block.entry)
            if entry is None:
                left += _not_about_it(block.leading)
                continue
            body = block.body if entry is block.entry else _edited(block, entry)
            blocks.append(_Block(entry, [*left, *block.leading], body))
            left = []
        for entry in sorted(added, key=lambda entry: entry.key):
            blocks.insert(_place_for(entry.key, blocks), _new_block(entry))
        all_parts = [*self._head]
        for block in blocks:
            all_parts += [*block.leading, *block.body]
        text = ""
        for part in [*all_parts, *left, *self._tail]:
            text += "" if text.endswith("\n") or not text else "\n"
            text += part.text
        return text.replace("\r\n", "\n").replace("\n", self._newline)


_NO_ENTRY = Entry(Key("", "", ""), {})


def _place_for(key: Key, blocks: Sequence[_Block]) -> int:
    """The position of a new entry: before the first entry with a greater key."""
    keys = [block.entry.key for block in blocks]
    if keys == sorted(keys):
        return bisect.bisect_right(keys, key)
    return next((at for at, existing in enumerate(keys) if existing > key), len(keys))


def _new_block(entry: Entry) -> _Block:
    lines = [f"{_TABLE}\n", *(statement(key, value) for key, value in _fields(entry).items())]
    return _Block(entry, [Part(0, "\n")], [Part(0, "".join(lines))])


def _not_about_it(leading: Sequence[Part]) -> list[Part]:
    """The lines above an entry that are not directly above it: those before the last blank line."""
    blank = [at for at, part in enumerate(leading) if not part.text.strip()]
    return [*leading[: blank[-1]]] if blank else []


def _edited(block: _Block, entry: Entry) -> list[Part]:
    """The lines of an entry after some of its values have changed."""
    old, new = _fields(block.entry), _fields(entry)
    body = [*block.body]
    for key in _KEYS:
        at = next((index for index, part in enumerate(body) if part.key == key), None)
        if old.get(key) == new.get(key):
            continue
        if at is not None:
            body[at : at + 1] = [Part(0, statement(key, new[key]), key=key)] if key in new else []
            continue
        before = _KEYS[: _KEYS.index(key)]
        last = max(index for index, part in enumerate(body) if part.key in before)
        body.insert(last + 1, Part(0, statement(key, new[key]), key=key))
    return body


def _fields(entry: Entry) -> dict[str, Any]:
    """The keys of an entry with their values in the file, in order."""
    values: dict[str, Any] = dict(zip(_NAMES, entry.key, strict=True))
    for key, dimension in _LISTS.items():
        values[key] = _names(entry.lists[dimension])
    grad = entry.lists["requires_grad"]
    values["requires_grad"] = next(iter(grad)) if grad is not None and len(grad) == 1 else None
    kinds = entry.lists["kind"] or {PLAIN, VARIANT}
    if VARIANT in kinds:
        steps = None if entry.steps is None else sorted(entry.steps)
        values["variants"] = _ALSO if PLAIN in kinds else steps or _ONLY
    values["comment"] = entry.comment
    return {key: values[key] for key in _KEYS if values.get(key) is not None}


def _names(values: Values) -> list[str] | None:
    names = {value for value in values or () if isinstance(value, str)}
    return sorted(names) if values is not None and len(names) == len(values) else None


# Reading


def _validate_version(values: Mapping[str, Any]) -> None:
    version = values.get("version")
    if version is None:
        raise TomlError("has no version: it is not a baseline of pytest-customop")
    if type(version) is not int or version < 1:
        raise TomlError(f"has the version {version!r}: it is not a baseline of pytest-customop")
    if version > VERSION:
        raise TomlError(
            f"has version {version}, written by a newer pytest-customop; this one reads {VERSION}"
        )


def _validate_header(part: Part) -> None:
    if part.header != _TABLE:
        raise TomlError(f"has an unknown table {part.header}: write {_TABLE}", part.line)


def _read_entry(body: Sequence[Part]) -> Entry:
    """The entry of a block.

    Raises:
        TomlError: for keys that are unknown or missing, and for wrong values.
    """
    header, statements = body[0], {part.key: part for part in body if part.key}
    for key, part in statements.items():
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS)
            raise TomlError(
                f"has an unknown key {key!r}{hint} (known: {', '.join(_KEYS)})", part.line
            )
        wrong = _why_wrong(key, part.value)
        if wrong:
            raise TomlError(f"has {key} = {part.value!r}: {wrong}", part.line)
    for key in _NAMES:
        if key not in statements:
            raise TomlError(f"has an entry without {key!r}", header.line)
    values = {key: part.value for key, part in statements.items()}
    lists: dict[str, Values] = {
        dimension: frozenset(values[key]) if key in values else None
        for key, dimension in _LISTS.items()
    }
    grad = values.get("requires_grad")
    lists["requires_grad"] = None if grad is None else frozenset({grad})
    lists["kind"], steps = _read_variants(values.get("variants"))
    name = Key(*(values[key] for key in _NAMES))
    return Entry(name, lists, steps, values.get("comment", ""))


def _why_wrong(key: str, value: Any) -> str | None:
    if key == "requires_grad":
        return None if isinstance(value, bool) else "give true or false"
    if key in _LISTS:
        return None if _is_names(value) else "give a list of names"
    if key == "variants":
        right = value in (_ALSO, _ONLY) or _is_names(value)
        return None if right else f'give "{_ALSO}", "{_ONLY}", or a list of steps'
    if not isinstance(value, str):
        return "give a string"
    return None if value or key == "comment" else "give a name"


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) is str for item in value)


def _read_variants(value: Any) -> tuple[frozenset[Value], frozenset[str] | None]:
    """The kinds of cases that are covered, and the steps."""
    if value is None:
        return frozenset({PLAIN}), None
    if value == _ALSO:
        return frozenset({PLAIN, VARIANT}), None
    return frozenset({VARIANT}), None if value == _ONLY else frozenset(value)
