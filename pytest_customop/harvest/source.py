"""The source of a marked test for a group of harvested calls, and of the file of such tests."""

from __future__ import annotations

import itertools
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..compat.ops import defining_module
from ..core.source import Bracketed, Expression, laid_out, quoted
from ..declare.inputs import Sample, TensorSpec
from .samples import Group

_LISTED = 24  # the most numbers that are written in a sample itself

_HELPER = '''def _values(text, *shape, kind=int):
    """Nested lists of this shape, from the numbers in a text."""
    numbers = [kind(int(number)) for number in text.split()]
    return torch.tensor(numbers).reshape(shape).tolist()'''


@dataclass(frozen=True)
class Piece:
    """The source of one marked test.

    Args:
        op: the op's name.
        place: distinguishes the tests of one op: `cuda`, `withgrad`.
        imports: the names of modules that register the op; an empty name stands for a conftest.
        constants: long lists of numbers, by name.
        decorator: the mark.
    """

    op: str
    place: tuple[str, ...]
    imports: tuple[str, ...]
    constants: Mapping[str, str] = field(default_factory=dict)
    decorator: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As lists, dicts and strings."""
        return {
            "op": self.op,
            "place": list(self.place),
            "imports": list(self.imports),
            "constants": dict(self.constants),
            "decorator": self.decorator,
        }


def piece_from(sent: Mapping[str, Any]) -> Piece:
    """The piece that `to_dict` has made plain."""
    lists = {name: tuple(sent[name]) for name in ("place", "imports")}
    return Piece(**{**sent, **lists})


def piece_of(group: Group, modules: Mapping[str, ModuleType | None]) -> Piece:
    """The marked test of a group.

    Args:
        modules: for each sample, the module of the test in which its call was seen, if it is known.
    """
    writer = _Writer(_word(group.op.name))
    samples = [writer.sample(sample) for sample in group.samples.values()]
    comments = [group.seen_in[name] for name in group.samples]
    arguments: list[Expression] = [
        quoted(group.op.name),
        Bracketed("samples=[", samples, "]", comments=comments, exploded=True),
    ]
    if group.requires_grad is not None:
        arguments.append(f"requires_grad={group.requires_grad}")
    if group.device != "cpu":
        arguments.append(f"devices={quoted(group.device)}")
    imports = {_registering(group.op.name, modules.get(name)) for name in group.samples}
    return Piece(
        op=group.op.name,
        place=(group.device, "nograd" if group.requires_grad is False else "withgrad"),
        imports=tuple(sorted(name for name in imports if name is not None)),
        constants=writer.constants,
        decorator=laid_out(Bracketed("@customop_cases(", arguments, ")")),
    )


def sample_source(sample: Sample) -> str:
    """The source of one sample on one line, with all of its numbers in it."""
    return str(_Inline("").sample(sample))


def file_of(pieces: Iterable[Piece], title: str) -> str:
    """The file of marked tests.

    Args:
        title: its docstring, with the quotes.
    """
    ordered = sorted(pieces, key=lambda piece: (piece.op, piece.place))
    names = _test_names(ordered)
    blocks = ["\n".join([title, "", *_imports(ordered)])]
    constants = [item for piece in ordered for item in piece.constants.items()]
    if constants:
        blocks.append(_HELPER)
    blocks += [
        f'{name} = """\n{textwrap.fill(text, 86, break_long_words=False)}\n"""'
        for name, text in constants
    ]
    blocks += [
        f"{piece.decorator}\ndef {name}(): ..." for piece, name in zip(ordered, names, strict=True)
    ]
    return _joined(blocks)


def _joined(blocks: Sequence[str]) -> str:
    """Blocks with two empty lines between them, and one between constants."""
    lines = blocks[0]
    for before, block in itertools.pairwise(blocks):
        constants = before.startswith("_") and block.startswith("_")
        lines += ("\n" if constants else "\n\n\n") + block
    return lines + "\n"


def _imports(pieces: Sequence[Piece]) -> list[str]:
    """The imports, installed modules first; torch and `tensor` where they are used."""
    text = "".join(piece.decorator for piece in pieces)
    uses_torch = "torch." in text or any(piece.constants for piece in pieces)
    modules = sorted({name for piece in pieces for name in piece.imports if name})
    installed = [name for name in modules if _is_installed(name)]
    first = sorted([*map(_import, installed), *(["import torch"] if uses_torch else [])])
    names = ["Sample", "customop_cases", *(["tensor"] if "tensor(" in text else [])]
    lines = [*first, f"from pytest_customop import {', '.join(names)}"]
    local = [_import(name) for name in modules if name not in installed]
    unknown = sorted({piece.op for piece in pieces if not piece.imports})
    local += [f"# Import here what registers {name}." for name in unknown]
    return [*lines, *(["", *local] if local else [])]


def _import(name: str) -> str:
    return f"import {name}  # noqa: F401 -- registers ops"


def _is_installed(name: str) -> bool:
    return "site-packages" in Path(getattr(sys.modules.get(name), "__file__", None) or "").parts


def _test_names(pieces: Sequence[Piece]) -> list[str]:
    """`test_scale`, with a suffix if an op has several tests."""
    names = []
    for piece in pieces:
        same = [sibling for sibling in pieces if _base(sibling.op) == _base(piece.op)]
        parts = [
            _word(piece.op) if any(sibling.op != piece.op for sibling in same) else _base(piece.op)
        ]
        if (
            any(sibling.place[1] != piece.place[1] for sibling in same)
            and piece.place[1] == "withgrad"
        ):
            parts.append("withgrad")
        if any(sibling.place[0] != piece.place[0] for sibling in same):
            parts.append(_word(piece.place[0]))
        names.append(f"test_{'_'.join(parts)}")
    return names


def _base(op: str) -> str:
    return _word(op.partition("::")[2])


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")


# Samples


class _Writer:
    """Writes samples, and keeps their long lists of numbers as constants."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.upper()
        self.constants: dict[str, str] = {}

    def sample(self, sample: Sample) -> Expression:
        """`Sample((tensor(4, 3), 2), id="4x3,2")`."""
        args = [self._value(value) for value in sample.args]
        parts: list[Expression] = [Bracketed("(", args, ")", comma=len(args) == 1)]
        if sample.kwargs:
            named = [_after(f"{quoted(k)}: ", self._value(v)) for k, v in sample.kwargs.items()]
            parts.append(Bracketed("{", named, "}"))
        return Bracketed("Sample(", [*parts, f"id={quoted(sample.id or '')}"], ")")

    def _value(self, value: Any) -> Expression:
        if isinstance(value, TensorSpec):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            return Bracketed("[", [self._value(element) for element in value], "]")
        return _plain(value)

    def _tensor(self, spec: TensorSpec) -> Expression:
        parts: list[Expression] = [str(size) for size in spec.shape]
        if spec.values is not None:
            parts = [_after("values=", self._numbers(spec))]
        for name in ("dtype", "low", "high", "fill", "requires_grad", "layout"):
            value = getattr(spec, name)
            if value is not None:
                parts.append(f"{name}={_plain(value)}")
        if spec.strides is not None:
            strides = [str(stride) for stride in spec.strides]
            parts.append(Bracketed("strides=(", strides, ")", comma=len(strides) == 1))
        return Bracketed("tensor(", parts, ")")

    def _numbers(self, spec: TensorSpec) -> Expression:
        flat = _flattened(spec.values)
        if len(flat) <= _LISTED or not all(isinstance(number, int) for number in flat):
            return _nested(spec.values)
        regular = _as_range(flat) if len(spec.shape) == 1 else None
        if regular is not None:
            return regular
        name = f"_{self._prefix}_{len(self.constants) + 1}"
        self.constants[name] = " ".join(str(int(number)) for number in flat)
        sizes = [str(size) for size in spec.shape]
        kind = ["kind=bool"] if isinstance(flat[0], bool) else []
        return Bracketed("_values(", [name, *sizes, *kind], ")")


class _Inline(_Writer):
    """Writes one sample without constants."""

    def _numbers(self, spec: TensorSpec) -> Expression:
        return _nested(spec.values)


def _after(prefix: str, value: Expression) -> Expression:
    """An expression after a keyword."""
    if isinstance(value, str):
        return prefix + value
    return Bracketed(prefix + value.opening, value.elements, value.closing, value.comma)


def _nested(values: Any) -> Expression:
    if isinstance(values, list):
        return Bracketed("[", [_nested(value) for value in values], "]")
    return _plain(values)


def _flattened(values: Any) -> list[Any]:
    if isinstance(values, list):
        return [number for value in values for number in _flattened(value)]
    return [values]


def _as_range(numbers: Sequence[int]) -> str | None:
    """The source of a range for numbers in equal steps; None for others."""
    step = numbers[1] - numbers[0]
    if isinstance(numbers[0], bool) or not step:
        return None
    whole = range(numbers[0], numbers[-1] + (1 if step > 0 else -1), step)
    if list(whole) != list(numbers):
        return None
    if step != 1:
        return f"list({whole!r})"
    return f"list(range({whole.stop}))" if not whole.start else f"list({whole!r})"


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, complex):
        return f"complex({_plain(value.real)}, {_plain(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, torch.device):
        return f"torch.device({quoted(str(value))})"
    return str(value) if isinstance(value, (torch.dtype, torch.layout)) else repr(value)


# Imports


def _registering(op: str, seen_in: ModuleType | None) -> str | None:
    """The module whose import registers an op, as far as that is known; empty if a conftest does."""
    namespace = op.partition("::")[0]
    candidates = [
        sys.modules.get(defining_module(op.partition(".")[0]) or ""),
        sys.modules.get(namespace),
        seen_in,
    ]
    for module in candidates:
        if module is None or module.__name__ == "__main__":
            continue
        if module.__name__.rpartition(".")[2] == "conftest":
            return ""
        if _is_importable(module):
            return module.__name__
    return None


def _is_importable(module: ModuleType) -> bool:
    """Whether the module would be found under its name: `--import-mode=importlib` invents names."""
    file = getattr(module, "__file__", None)
    if not file:
        return False
    path = Path(file).resolve()
    root = path.parents[module.__name__.count(".") + (path.name == "__init__.py")]
    return root in {Path(folder or ".").resolve() for folder in sys.path}
