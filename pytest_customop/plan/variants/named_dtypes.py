"""The dtypes of tensors that the Python code of an op names.

`if x.dtype not in (torch.float32, torch.float16): raise ...` shows which dtypes the author had in mind, and
so does a tuple or a dict of dtypes at the top of the module. Complex dtypes count if they are in such a
tuple, or if the code calls `x.is_complex()`: an op may compute with complex numbers but take only real
ones. Integer dtypes count if they are listed beside floating-point ones, or if the code calls
`x.is_floating_point()`.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from ...compat.kernel_functions import functions_of
from ...compat.ops import traced_functions
from ...core.functions import code_of, known_names
from ...core.tracebacks import is_of_author
from ...core.wording import dtype_name
from ...declare.ops import Op

_DEPTH = 3  # levels of functions that call functions
_REAL = {dtype_name(dtype): dtype for dtype in (torch.float16, torch.float32, torch.float64)}

_ASKED = {"is_complex": torch.complex64, "is_floating_point": torch.int64}


def named_dtypes(op: Op) -> list[torch.dtype]:
    """The dtypes, each once, in the order of the code: kernels, fake kernel, formula."""
    dtypes: dict[torch.dtype, None] = {}
    for named in _named_in(op):
        dtypes |= dict.fromkeys(named.dtypes if named.alone else _listed(named.dtypes))
    return [*dtypes]


def floats_beside(op: Op, dtype: torch.dtype) -> list[torch.dtype]:
    """The real floating-point dtypes that the code lists together with a dtype."""
    dtypes: dict[torch.dtype, None] = {}
    for named in _named_in(op):
        if dtype in named.dtypes:
            dtypes |= dict.fromkeys(
                candidate for candidate in named.dtypes if candidate in _REAL.values()
            )
    return [*dtypes]


class _Named(NamedTuple):
    """Dtypes in the code.

    Args:
        dtypes: those of one list, tuple, set or dict; or a single dtype.
        alone: whether it is a single dtype.
    """

    dtypes: Sequence[torch.dtype]
    alone: bool = False


@functools.lru_cache(maxsize=256)
def _named_in(op: Op) -> Sequence[_Named]:
    functions = functions_of(op.overload)
    seen: set[int] = set()
    return [
        named
        for function in [*functions, *filter(None, traced_functions(op.overload))]
        for named in _of_function(function, _DEPTH, seen)
    ]


def _of_function(function: Any, depth: int, seen: set[int]) -> Iterator[_Named]:
    code = code_of(function)
    if code is None or depth == 0 or id(code) in seen or not is_of_author(code.co_filename):
        return
    seen.add(id(code))
    yield from map(_Named, _written(code))
    known = known_names(function)
    for name in (*code.co_names, *code.co_freevars):
        if name in _ASKED:
            yield _Named([_ASKED[name]], alone=True)
        elif name in _REAL:
            yield _Named([_REAL[name]], alone=True)
        value = known.get(name)
        if isinstance(value, Collection) and not isinstance(value, (str, bytes, torch.Tensor)):
            yield _Named([item for item in value if isinstance(item, torch.dtype)])
        elif isinstance(value, types.FunctionType):
            yield from _of_function(value, depth - 1, seen)


def _written(code: types.CodeType) -> Iterator[list[torch.dtype]]:
    """The tuples, lists and sets of dtypes that the code writes out: `(torch.float32, torch.int64)`."""
    row: list[torch.dtype] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET"):
            if row and len(row) == instruction.arg:
                yield row
            row = []
        elif instruction.opname == "LOAD_ATTR" and isinstance(
            getattr(torch, instruction.argval, None), torch.dtype
        ):
            row.append(getattr(torch, instruction.argval))
        elif instruction.opname not in ("LOAD_GLOBAL", "CACHE"):
            row = []


def _listed(values: Collection[torch.dtype]) -> list[torch.dtype]:
    """The dtypes of a list, without those of one byte; none if no floating-point dtype is left."""
    dtypes = [dtype for dtype in values if dtype.itemsize > 1]
    return dtypes if any(dtype.is_floating_point for dtype in dtypes) else []
