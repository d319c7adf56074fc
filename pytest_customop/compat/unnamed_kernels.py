"""Find the kernels to which no name refers after `@torch.library.impl("ns::name", ...)`.

That decorator returns None (seen in torch 2.4 to 2.15), and the dispatcher shows nobody what it holds. So
the function is made again from the source of its module.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Iterator


def unnamed_kernels(name: str, module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Functions like those that a module has registered for an op under no name.

    They have the code, the docstring and the globals of the kernel, and no defaults.

    Args:
        name: of the op: `ns::name`.
        module: where to look.
    """
    registers = re.compile(rf"""\s*@[^\n]*\bimpl\(\s*["']{re.escape(name)}["']""")
    for code in _functions(module):
        function = types.FunctionType(code, vars(module))
        if vars(module).get(code.co_name) is None and registers.match(inspect.getsource(function)):
            yield function


@functools.lru_cache(maxsize=64)
def _functions(module: types.ModuleType) -> tuple[types.CodeType, ...]:
    """The code of the functions at the top level of a module; none if its source is unknown."""
    try:
        lines = inspect.getsource(module)
        whole = compile(lines, str(module.__file__), "exec", dont_inherit=True)
    except (OSError, TypeError, SyntaxError, ValueError):
        return ()
    return tuple(
        constant
        for constant in whole.co_consts
        if isinstance(constant, types.CodeType) and constant.co_name.isidentifier()
    )
