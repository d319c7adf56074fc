"""Write the function around an op as straight-line source code, which a compiler traces fastest.

A general function with loops and helpers gives the same graph, but takes dynamo three times as long.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Sequence
from keyword import iskeyword
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...core.paths import PACKAGE_PREFIX
from ...declare.ops import Op

# Not a file, so tracebacks show no lines of it; in the package's folder, so they are cut like its own.
_FILE = PACKAGE_PREFIX + "<around the op>"
_LITERAL = (type(None), bool, int, str)


class SourceBuilder:
    """The source of a function of one list of tensors, and the objects that it uses.

    Args:
        objects: by the names under which the source uses them.
    """

    def __init__(self, **objects: Any) -> None:
        self._objects = objects
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        """Add a line."""
        self._lines.append(f"    {text}\n")

    @property
    def text(self) -> str:
        """The source lines."""
        return "".join(self._lines)

    @property
    def objects(self) -> dict[str, Any]:
        """The objects that the lines may use, by name."""
        return dict(self._objects)

    @property
    def constants(self) -> tuple[Any, ...]:
        """The objects that the lines use; they distinguish functions with the same text."""
        return tuple(self._objects.values())

    def function(self, name: str) -> types.FunctionType:
        """A function of these lines, with a code object of its own."""
        names = dict(self._objects)
        exec(compile(f"def {name}(tensors):\n{self.text}", _FILE, "exec"), names)
        # Not left in its own globals: guards keep those alive, and the code object keeps the guards.
        return names.pop(name)  # type: ignore[no-any-return]

    def call(self, arguments: Arguments, used: Sequence[str]) -> str:
        """The source of a call of the op; arguments that are not tensors become constants.

        Args:
            arguments: of the call.
            used: the expressions for its tensors, in order.
        """
        rest = iter(used)
        parts = [self._argument(value, rest) for value in arguments.args]
        for name, value in arguments.kwargs.items():
            text = self._argument(value, rest)
            parts.append(f"**{{{name!r}: {text}}}" if iskeyword(name) else f"{name}={text}")
        return f"{self._op(arguments.op)}({', '.join(parts)})"

    def _op(self, op: Op) -> str:
        known = (name for name, value in self._objects.items() if value is op.overload)
        name = next(known, f"op_{len(self._objects)}")
        self._objects[name] = op.overload
        return name

    def _argument(self, value: Any, rest: Iterator[str]) -> str:
        if isinstance(value, torch.Tensor):
            return next(rest)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self._argument(item, rest) for item in value)}]"
        if type(value) in _LITERAL or (type(value) is float and math.isfinite(value)):
            return repr(value)
        name = f"constant_{len(self._objects)}"
        self._objects[name] = value
        return name


def consumer(kind: str, name: str) -> str:
    """The expression that consumes the tensor of that name, detached from autograd."""
    if kind == "double":
        return f"{name}.detach() * 2"
    if kind == "invert":
        return f"bitwise_not({name}.detach())"
    return f"consume({name}.detach().unsqueeze(0))"


def returned_tensors(op: Op, result: Any, name: str) -> list[str] | None:
    """Expressions for the returned tensors; None if the schema does not fix their number.

    Args:
        op: the op.
        result: what it returns in eager mode.
        name: of the result in the expressions.
    """
    kinds = [str(value.type) for value in op.schema.returns]
    if any(kind != "Tensor" for kind in kinds):
        return None
    if len(kinds) == 1:
        return [name] if isinstance(result, torch.Tensor) else None
    if not isinstance(result, (list, tuple)) or len(result) != len(kinds):
        return [] if not kinds and result is None else None
    if not all(isinstance(item, torch.Tensor) for item in result):
        return None
    return [f"{name}[{index}]" for index in range(len(kinds))]


def tensors_of(result: Any) -> list[torch.Tensor]:
    """Every tensor in a result; written so that every tracer supports it."""
    if isinstance(result, torch.Tensor):
        return [result]
    tensors = []
    if isinstance(result, (list, tuple)):
        for item in result:
            tensors += tensors_of(item)
    return tensors


# Further objects that every function may use.
HELPERS = {"bitwise_not": torch.bitwise_not, "tensors_of": tensors_of}
