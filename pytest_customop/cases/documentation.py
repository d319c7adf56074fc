"""The texts in which the author describes an op: docstrings, and comments above its definition.

An op in C++ has its docstring on the Python function that calls it, and comments in its source, which may
be a string in a module.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

from ..compat.kernel_functions import functions_of
from ..compat.ops import (
    OpOverloadPacket,
    is_custom_op_def,
    overload_of,
    packet_name,
    traced_functions,
)
from ..core.functions import code_of, is_of_library, known_names
from ..declare.ops import Op

_CALL = re.compile(r"^\W*([A-Za-z]\w*)\(", re.M)  # at the beginning of a line
_SHORT = 2  # names with at most as many letters may be words
_NO_ARTICLE = r"(?!\s+(?!(?:and|or|is|are|must|has|may|can|in|to|with|by|times)\b)[A-Za-z])"
_COMMENT = re.compile(
    r"^\s*(#(?!include\b|define\b|pragma\b|if|endif\b|else\b)|//+|/\*+|\*(?!\w))\s?(.*?)(\*/)?\s*$"
)


@functools.lru_cache(maxsize=256)  # functions of a library are searched in all modules
def python_functions(op: Op) -> tuple[Any, ...]:
    """The author's known Python functions: kernels, and those that autograd and compilers trace."""
    functions = [*functions_of(op.overload), *traced_functions(op.overload)]
    known = dict.fromkeys(function for function in functions if function is not None)
    return tuple(function for function in known if not is_of_library(function))


@functools.lru_cache(maxsize=256)  # asked for every sample
def texts_about(op: Op) -> tuple[str, ...]:
    """The texts about this op; a module's docstring only if it names the op or its arguments."""
    return (*_of_functions(op), *(text for text in _of_modules(op) if _is_about(op, text)))


def texts_beside(op: Op) -> tuple[str, ...]:
    """The texts about this op, and the docstrings of its modules."""
    return (*_of_functions(op), *_of_modules(op))


def mention(*names: str) -> str:
    """A pattern for the name of one of some arguments in a sentence, where `a` may be an article."""
    patterns = [re.escape(name) + (_NO_ARTICLE if name == "a" else "") for name in names]
    return rf"\b(?:{'|'.join(patterns) or '(?!)'})\b"


def mention_of_others(op: Op, argument: str) -> str:
    """The same for all arguments of an op but one."""
    return mention(*(item.name for item in op.arguments if item.name != argument))


def beginning(names: Sequence[str]) -> re.Pattern[str]:
    """A pattern for the beginning of a line about an argument; after a short name, a sign must follow."""
    all_names = "|".join(map(re.escape, names))
    long = "|".join(re.escape(name) for name in names if len(name) > _SHORT) or "(?!)"
    return re.compile(rf"^\W*({all_names})(?=\s*[:(,=]|\s\s|\s*$)|^\W*({long})\b")


@functools.cache
def listed_together(names: Sequence[str]) -> re.Pattern[str]:
    """A pattern for the beginning of a line about several arguments: `a, b and c: ...`."""
    name = f"`*({'|'.join(map(re.escape, names)) or '(?!)'})`*"
    return re.compile(rf"^\W*{name}((,|,?\s+and)\s+{name})+\s*:")


@functools.lru_cache(maxsize=256)
def _of_functions(op: Op) -> tuple[str, ...]:
    functions = python_functions(op)
    texts = [inspect.getdoc(function) for function in functions]
    for named in (op.overload, op.overload.overloadpacket):  # `torch.ops.mylib.warp.__doc__ = ...`
        texts.append(inspect.cleandoc(vars(named).get("__doc__") or ""))
    for module in _modules(op):
        texts += [inspect.getdoc(function) for function in _callers(op, module, functions)]
        texts += _comments(op, module)
    return tuple(text for text in texts if text)


@functools.lru_cache(maxsize=256)
def _of_modules(op: Op) -> tuple[str, ...]:
    return tuple(text for text in map(inspect.getdoc, _modules(op)) if text)


def _modules(op: Op) -> list[ModuleType]:
    modules = map(inspect.getmodule, python_functions(op))
    return [*dict.fromkeys(module for module in modules if module is not None)]


def _callers(op: Op, module: ModuleType, known: Sequence[Any]) -> Iterator[FunctionType]:
    """The functions of a module, without tests, that have the op's tensors as parameters and call it."""
    tensors = {item.name for item in op.arguments if "Tensor" in str(item.type)}
    for value in [*vars(module).values()]:
        if not isinstance(value, FunctionType) or value.__name__.startswith("test"):
            continue
        parameters = value.__code__.co_varnames[: value.__code__.co_argcount]
        takes = tensors and tensors <= {*parameters} and value.__module__ == module.__name__
        if takes and value not in known and _calls(value, op):
            yield value


def _calls(function: FunctionType, op: Op) -> bool:
    """Whether the code names `torch.ops.ns.name`, or a variable that holds the op."""
    code = code_of(function)
    names = {*code.co_names, *code.co_freevars} if code is not None else set()
    if {"ops", *_namespace_and_name(op)} <= names:
        return True
    known = known_names(function)
    return any(_is_op(known[name], op) for name in names if name in known)


def _is_op(value: Any, op: Op) -> bool:
    if isinstance(value, OpOverloadPacket):
        return packet_name(value) == "::".join(_namespace_and_name(op))
    return value is op.overload or (is_custom_op_def(value) and overload_of(value) is op.overload)


def _comments(op: Op, module: ModuleType) -> Iterator[str]:
    """The comments right above a line that defines or registers the op, in Python or C++."""
    try:
        lines = inspect.getsource(module).splitlines()
    except (OSError, TypeError):  # it is in no file
        return
    _, name = map(re.escape, _namespace_and_name(op))
    defines = re.compile(
        rf"\b(def|define|impl|custom_op|triton_op)\(\s*[rf]?[\"'](\w+::)?{name}\b"
        rf"|^\s*((static|inline)\s+)*(void|Tensor|(at|torch|std)::)[\w:<>,\s&*]*\b{name}\s*\("
    )
    for at, line in enumerate(lines):
        if not defines.search(line):
            continue
        above: list[str] = []
        while len(above) < at and (comment := _COMMENT.match(lines[at - len(above) - 1])):
            above.append(comment[2].rstrip())
        if above:
            yield "\n".join(reversed(above))


def _namespace_and_name(op: Op) -> tuple[str, str]:
    namespace, _, name = op.name.partition("::")
    return namespace, name.partition(".")[0]


def _is_about(op: Op, text: str) -> bool:
    """Whether a text names an op, calls it, or has a line about each of several arguments.

    The name of an op often begins with that of the package: `warp(x, grid)` for `mylib::mylib_warp`.
    """
    _, op_name = _namespace_and_name(op)
    calls = [call for call in _CALL.findall(text) if len(call) > _SHORT]
    if op_name in text or any(op_name.endswith(f"_{call}") for call in calls):
        return True
    names = [item.name for item in op.arguments]
    matches = map(beginning(tuple(names)).match, text.splitlines())
    begun = {name for match in matches if match for name in match.groups()}
    return len(names) > 1 and begun >= set(names)
