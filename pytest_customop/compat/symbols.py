"""Read symbolic sizes: their expressions, ranges and guards.

Private names, seen in torch 2.4 to 2.15 unless said otherwise:

- `SymInt.node.expr`: the sympy expression of a symbolic size. Public: none.
- `torch.fx.experimental.symbolic_shapes.is_concrete_int`: documented as experimental.
- `ShapeEnv.var_to_range` and `ShapeEnv.guards`: the bounds of symbols, and the relations that code
  assumed. Public: the messages about recompiles, by TORCH_LOGS.
- `guard.sloc`: where a relation was assumed; `guard.stack` in 2.4.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..core.paths import PACKAGE_ROOT


def expression(size: Any) -> Any:
    """The sympy expression of a SymInt, SymFloat or SymBool; plain numbers come back as they are."""
    return size.node.expr if hasattr(size, "node") else size


def substitute(expression: Any, values: Mapping[Any, int]) -> Any:
    """A sympy expression with numbers in place of symbols; other values come back as they are.

    Returns:
        a number or a bool where no symbol is left, an expression otherwise.
    """
    import sympy  # type: ignore[import-untyped]

    if not isinstance(expression, sympy.Basic):
        return expression
    expression = expression.xreplace(
        {symbol: sympy.Integer(value) for symbol, value in values.items()}
    )
    if expression in (sympy.true, sympy.false):
        return bool(expression)
    if expression.free_symbols or not expression.is_number:
        return expression
    return int(expression) if expression.is_integer else float(expression)


def is_constant_size(size: Any) -> bool:
    """Whether a size is, or has become, a plain number."""
    from torch.fx.experimental.symbolic_shapes import is_concrete_int

    return is_concrete_int(size)


def value_range(mode: Any, symbol: Any) -> tuple[int | None, int | None]:
    """The smallest and the largest value of a symbol; None where there is no bound."""
    bounds = mode.shape_env.var_to_range[symbol]
    low, high = (
        int(end) if getattr(end, "is_Integer", False) else None
        for end in (bounds.lower, bounds.upper)
    )
    return low, high if high is None or high < 2**62 else None


def guards(mode: Any) -> list[tuple[Any, str | None]]:
    """The relations between sizes that were assumed under a fake mode, in order: (sympy relation, line).

    The line, `file:number in function: source`, is the last one outside of torch and of this package. It
    is None where torch does not record it: from 2.5 on, where torch's own code assumed the relation.
    """
    return [(guard.expr, _authors_line(_frames(guard))) for guard in mode.shape_env.guards]


def _frames(guard: Any) -> list[Any]:
    if hasattr(guard, "stack"):
        return list(guard.stack.summary())
    locations = (guard.sloc.framework_loc, guard.sloc.maybe_user_loc)
    return [frame for frame in locations if hasattr(frame, "filename")]


def _authors_line(frames: list[Any]) -> str | None:
    hidden_folders = (Path(torch.__file__).parent, PACKAGE_ROOT)
    hidden = tuple(str(folder) + os.sep for folder in hidden_folders)
    for frame in reversed(frames):
        if frame.filename.startswith(hidden):
            continue
        return (
            f"{_short(frame.filename)}:{frame.lineno} in {frame.name}: {(frame.line or '').strip()}"
        )
    return None


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
