"""Read the rejection of an op: where it was raised, and words and numbers that may be useful."""

from __future__ import annotations

import contextlib
import enum
import linecache
import re
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ...core.functions import code_of, known_names
from ...core.tracebacks import frames_of, is_of_author, message_of

_DRAWABLE = re.compile(
    r"(float(16|32|64)|bfloat16|float8_\w+fn|float8_e5m2|half|double|u?int8|int(16|32|64)|bool|complex64)$"
)
_NAMES_OF_DTYPES = {
    **{
        key: value
        for key, value in vars(torch).items()
        if isinstance(value, torch.dtype) and _DRAWABLE.match(key)
    },
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Float": torch.float32,
    "Double": torch.float64,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Int": torch.int32,
    "Long": torch.int64,
    "Bool": torch.bool,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
_DTYPE = re.compile(rf"(?<!\w)(torch\.)?({'|'.join(_NAMES_OF_DTYPES)})(?!\w)")
_TOKEN = re.compile(r"[\w\-.]{1,30}")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?![\w.])")
_LIST = re.compile(r"\[[-\d, ]*\]")
_RANK = re.compile(
    r"(?<!\d)([0-4])\s*-?\s*(?:d\b|dim)|(?:dims?|rank|dim\(\)|ndim|dimension)\D{0,12}([0-4])\b",
    re.IGNORECASE,
)
# Messages that require a number of dims, and what is added to the number in the message.
_NEEDED_RANKS = (
    (re.compile(r"Dimension out of range.*but got (-?\d)"), 1),
    (re.compile(r"Dimension specified as (-?\d)"), 1),
    (re.compile(r"values to unpack \(expected (\d)"), 0),
    (re.compile(r"expected (\d) dims"), 0),
)
_MOST_DIMS = 5
_QUOTED = re.compile(r"""['"`]([^'"`\s]{1,30})['"`]""")
# Text that torch adds to the message of native code.
_OF_TORCH = re.compile(r"\nException raised from|\s*\(originally from ")
_FILE = re.compile(r"\S+\.(?:cpp|cc|cxx|cu|h|hpp|cuh):\d+")
_NATIVE = re.compile(r"\w+\.(?:cpp|cc|cxx|cu):(\d+)")
_MOST_LINES = 900  # later lines of a native file do not count as farther
_FOLDER = re.compile(r"(?<![\w.])/[\w./+-]*/(?=[\w+-]+\.\w+:\d)")
_BEFORE = 4  # lines above a `raise` that are read with it
_MOST = 4096
_MOST_HELD = 64  # elements of a container that is read
_RANK_WORDS = {"vector": 1, "matrix": 2, "one": 1, "two": 2, "three": 3, "four": 4}


def dtypes_named(text: str) -> list[torch.dtype]:
    """The dtypes that a text names, each once."""
    names = (match[2] for match in _DTYPE.finditer(text))
    return [*dict.fromkeys(_NAMES_OF_DTYPES[name] for name in names)]


@dataclass
class Words:
    """The words of sources and rejections so far: lists without repeats, the latest last."""

    numbers: list[int] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    dtypes: list[torch.dtype] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    _read: set[int] = field(default_factory=set)

    def learn(self, text: str, *, source: bool = False) -> None:
        """Add the words of a text: a message, or lines of source."""
        for number in _NUMBER.findall(text):
            if abs(int(number)) <= _MOST:
                _add(self.numbers, int(number))
        for word in _WORD.findall(text if source else _without_actual(text)):
            if word in _NAMES_OF_DTYPES and not (
                source and word in ("int", "float", "bool", "long")
            ):
                _add(self.dtypes, _NAMES_OF_DTYPES[word])
        for before, after in _RANK.findall(text):
            _add(self.ranks, int(before or after))
        for word, rank in _RANK_WORDS.items():
            if re.search(rf"\b{word}\b(-?\s?dim|$|\b)", text, re.I) and word not in ("one",):
                _add(self.ranks, rank)
        for pattern, plus in _NEEDED_RANKS:
            for number in pattern.findall(text):
                rank = int(number) + plus if int(number) >= 0 else -int(number)
                if 0 <= rank <= _MOST_DIMS:
                    _add(self.ranks, rank)
        for word in _QUOTED.findall(text):
            _add(self.strings, word)

    def read(self, function: Any, depth: int = 3) -> None:
        """Add the constants of a Python function, and of the functions that it calls."""
        code = code_of(function)
        if code is None or id(code) in self._read or not is_of_author(code.co_filename):
            return
        known = known_names(function)
        self.read_code(code, known)
        if depth > 0:
            for name in code.co_names:
                if isinstance(known.get(name), types.FunctionType):
                    self.read(known[name], depth - 1)

    def _read_global(self, value: Any) -> None:
        """Add the members of an enumeration, or the words and numbers in a container."""
        if isinstance(value, enum.EnumMeta):
            members: Mapping[str, Any] = value.__members__
            values: list[Any] = [*members, *(member.value for member in members.values())]
        elif isinstance(value, (Mapping, list, tuple, set, frozenset)) and len(value) <= _MOST_HELD:
            values = [*value]
        else:
            return
        for item in values:
            self._read_constant(item)

    def _read_constant(self, value: Any) -> None:
        if isinstance(value, str) and _TOKEN.fullmatch(value):
            _add(self.strings, value)
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST:
            _add(self.numbers, value)
        elif isinstance(value, torch.dtype) and value in _NAMES_OF_DTYPES.values():
            _add(self.dtypes, value)

    def read_code(self, code: types.CodeType, known: Mapping[str, Any] | None = None) -> None:
        """Add the constants of some code.

        Args:
            known: the values of its globals.
        """
        if id(code) in self._read:
            return
        self._read.add(id(code))
        for value in _constants(code.co_consts):
            if isinstance(value, types.CodeType):
                self.read_code(value, known)
            else:
                self._read_constant(value)
        for name in code.co_names:
            self._read_global((known or {}).get(name))
            if name in _NAMES_OF_DTYPES and name not in ("int", "float", "bool", "long", "double"):
                _add(self.dtypes, _NAMES_OF_DTYPES[name])


@dataclass(frozen=True)
class Rejection:
    """One rejection.

    Args:
        key: equal for equivalent rejections: the type, the place, and the text without numbers and dtypes.
        depth: the line of the author's outermost function in which it was raised: how far the op got.
        about: the arguments that it names.
        text: its beginning, in one line.
        message: its message, without the type of the error.
    """

    key: tuple[str, ...]
    depth: int
    about: frozenset[str]
    text: str
    message: str


def rejection_of(error: Exception, arguments: Collection[str], words: Words) -> Rejection:
    """Read a rejection, and add its words to `words`."""
    message = message_of(error)[:2000]
    head = _OF_TORCH.split(message, maxsplit=1)[0]
    plain = _FILE.sub("", head)
    words.learn(plain)
    frames = [frame for frame in frames_of(error) if is_of_author(frame.f_code.co_filename)]
    lines = ""
    native = None if head.startswith("[enforce fail") else _NATIVE.search(head)
    place = native[0] if native else ""
    depth = min(int(native[1]), _MOST_LINES) if native else 0
    if frames:
        with contextlib.suppress(Exception):
            depth = int(_line_of(error, frames[0]))
        last = frames[-1]
        number = _line_of(error, last)
        place = f"{last.f_code.co_filename}:{number}"
        for frame in frames:
            words.read_code(frame.f_code, frame.f_globals)
        lines = _statement(last.f_code.co_filename, number)
        words.learn(lines, source=True)
    about = set(_WORD.findall(plain)) & set(arguments)
    if not about:
        words_said = set(_WORD.findall(f"{plain}\n{lines}"))
        letters = {word.lower() for word in words_said if len(word) == 1}
        about = words_said & set(arguments) or {n for n in arguments if n[0].lower() in letters}
    text = " ".join(_FOLDER.sub("", head).split())
    key = re.sub(r"-?\d+(\.\d+)?", "#", _DTYPE.sub("@", _LIST.sub("[]", head)))[:160]
    return Rejection(
        key=(type(error).__name__, place, key),
        depth=depth,
        about=frozenset(about),
        text=_typed(error, text[:240]),
        message=" ".join(plain.split()),
    )


def _without_actual(text: str) -> str:
    """A message without its description of the actual arguments: `but got Half`."""
    return re.sub(r"\b(but )?(got|found|not)\b[^.;\n]*", "", text)


def _typed(error: Exception, text: str) -> str:
    return f"{type(error).__name__}: {text}"


def _statement(file: str, line: int) -> str:
    """The line that raised, with those above it that belong to the same check."""
    lines = [linecache.getline(file, line)]
    indent = _indent(lines[0])
    for number in range(line - 1, max(line - 1 - _BEFORE, 0), -1):
        text = linecache.getline(file, number)
        lines.insert(0, text)
        if text.strip() and _indent(text) < indent:
            break
    return "".join(lines)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _line_of(error: Exception, frame: types.FrameType) -> int:
    entry = error.__traceback__
    number = frame.f_lineno
    while entry is not None:
        if entry.tb_frame is frame:
            number = entry.tb_lineno
        entry = entry.tb_next
    return number or 0


def _constants(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, frozenset)):
            yield from _constants(value)
        else:
            yield value


def _add(values: list[Any], value: Any) -> None:
    """Move a value to the end, or append it."""
    if value in values:
        values.remove(value)
    values.append(value)
