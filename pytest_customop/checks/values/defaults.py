"""`values.defaults`: the kernels take the arguments of the schema, in its order, with its defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from ...cases.case import Case
from ...compat.kernel_functions import kernels_by_call, kernels_by_decorator
from ...compat.ops import python_kernels
from ...declare.ops import Op
from ...findings import CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check


class _Kernel(NamedTuple):
    """A Python kernel of an op, or its fake kernel.

    Args:
        description: for messages.
        function: the kernel.
        code: lines of a script that find it.
    """

    description: str
    function: Any
    code: str


def check_defaults(case: Case) -> None:
    """Compare the signatures of Python kernels with the schema: parameters, their order and their defaults.

    torch leaves out arguments that equal the schema's default when it calls a Python kernel. So the
    kernel's own default decides, and a missing parameter goes unnoticed.
    """
    if not _kernels(case.op):
        reason = "torch does not say which Python functions are the op's kernels, if any"
        raise skip("nothing-to-check", reason, unjudged=False)
    for failure in signature_failures(case.op):
        raise failure


def signature_failures(op: Op) -> Iterator[CheckFailed]:
    """The findings on the signatures of an op's Python kernels, one kernel after the other."""
    for kernel in _kernels(op):
        lost = _lost(op, kernel.function)
        if lost:
            yield _lost_failure(op, kernel, lost)
        elif _is_in_another_order(op, kernel.function):
            yield _order_failure(op, kernel)
        for name, default in _defaults(op).items():
            parameter = _parameter(op, kernel.function, name)
            if parameter is not None and not _agree(parameter.default, default):
                yield _default_failure(op, kernel, parameter, default)


def _kernels(op: Op) -> list[_Kernel]:
    """The kernels that are known, and the fake kernel."""
    decorated = [
        _Kernel("the decorated kernel", function, _in_file(function))
        for function in kernels_by_decorator(op.overload)
    ]
    called = [
        _Kernel(f"the kernel {function.__name__}", function, _in_file(function))
        for function in kernels_by_call(op.overload)
    ]
    others = [
        _Kernel(description, function, _FAKE if description == "the fake kernel" else _REAL)
        for description, function in python_kernels(op.overload)
    ]
    return [*decorated, *called, *others]


def _in_file(kernel: FunctionType) -> str:
    code = kernel.__code__
    return _IN_FILE.format(
        file=code.co_filename, function=code.co_name, line=code.co_firstlineno
    ).strip()


def _defaults(op: Op) -> dict[str, Any]:
    """The schema's defaults, by argument."""
    return {
        argument.name: argument.default_value
        for argument in op.arguments
        if argument.has_default_value()
    }


def _lost(op: Op, kernel: Any) -> list[str]:
    """The arguments of the schema that a kernel cannot take as torch passes them.

    torch passes keyword-only arguments by keyword, and the others by position. The list is empty if the
    function does not show its parameters: it is decorated, partial, an object, or written in C.
    """
    if not _shows_parameters(kernel):
        return []
    parameters = inspect.signature(kernel).parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    by_position = sum(parameter.kind in _PLACES for parameter in parameters)
    by_keyword = {parameter.name for parameter in parameters if parameter.kind in _NAMED}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        by_position = len(op.positional_names)
    lost = [*op.positional_names[by_position:]]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        keywords = [argument.name for argument in op.arguments if argument.kwarg_only]
        lost += [name for name in keywords if name not in by_keyword]
    return lost


def _shows_parameters(kernel: Any) -> bool:
    plain = isinstance(kernel, (FunctionType, MethodType))
    return plain and not hasattr(kernel, "__wrapped__") and not hasattr(kernel, "__signature__")


def _is_in_another_order(op: Op, kernel: Any) -> bool:
    """Whether a kernel has the names of the schema's positional arguments, but not in the same order."""
    named = _named_by_position(kernel) if _shows_parameters(kernel) else []
    return named != op.positional_names and sorted(named) == sorted(op.positional_names)


def _named_by_position(kernel: Any) -> list[str]:
    parameters = inspect.signature(kernel).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in _PLACES]


def _order_failure(op: Op, kernel: _Kernel) -> CheckFailed:
    named = _named_by_position(kernel.function)
    pairs = zip(op.positional_names, named, strict=True)
    passed, taken = next((one, other) for one, other in pairs if one != other)
    return fail(
        "argument-order-differs",
        f"{op.name}: {kernel.description} takes ({', '.join(named)}), in another order than the schema: "
        f"torch passes arguments by position, so the kernel uses {passed} as {taken}",
        f"the schema: {op.schema}",
        repro=_ORDER.format(kernel=kernel.code.strip()),
    )


def _lost_failure(op: Op, kernel: _Kernel, lost: list[str]) -> CheckFailed:
    description = kernel.description
    return fail(
        "signature-differs",
        f"{op.name}: {description} does not take {', '.join(lost)}, which the schema has: called "
        f"with another value than the default, {description} raises a TypeError",
        f"the schema: {op.schema}",
        repro=_SIGNATURE.format(kernel=kernel.code.strip()),
    )


def _default_failure(
    op: Op, kernel: _Kernel, parameter: inspect.Parameter, default: Any
) -> CheckFailed:
    description, name = kernel.description, parameter.name
    missing = parameter.default is parameter.empty
    has = "no default" if missing else f"the default {parameter.default!r}"
    result = "raises" if missing else f"computes with {parameter.default!r}"
    return fail(
        "default-differs",
        f"{op.name}: {description} has {has} for {name}, and the schema {default!r}: called "
        f"without it, or with {default!r}, {description} {result}",
        repro=_DEFAULT.format(kernel=kernel.code.strip(), name=name, default=default),
    )


def _parameter(op: Op, kernel: Any, name: str) -> inspect.Parameter | None:
    """The kernel's parameter for an argument of the schema; None if it cannot be found."""
    try:
        parameters = inspect.signature(kernel).parameters
    except (TypeError, ValueError):
        return None
    if name in parameters:
        return parameters[name]
    named = op.positional_names
    places = [parameter for parameter in parameters.values() if parameter.kind in _PLACES]
    index = named.index(name) if name in named else len(places)
    return places[index] if index < len(places) else None


# The kinds of parameters that take an argument by position, and those that take one by keyword.
_PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_PLAIN = (bool, int, float, complex, str, type(None))


def _agree(kernel_default: Any, default: Any) -> bool:
    if kernel_default is inspect.Parameter.empty:
        return False
    if isinstance(kernel_default, (list, tuple)) and isinstance(default, (list, tuple)):
        pairs = zip(kernel_default, default, strict=False)
        return len(kernel_default) == len(default) and all(
            _agree(actual, expected) for actual, expected in pairs
        )
    if not (isinstance(kernel_default, _PLAIN) and isinstance(default, _PLAIN)):
        return True  # dtypes, devices and the like have several spellings
    return bool(kernel_default == default) or (
        kernel_default != kernel_default and default != default
    )


_REAL = """
kernel = torch._library.custom_ops.OPDEFS[op._schema.name]._init_fn
"""
_FAKE = """
definition = torch._library.custom_ops.OPDEFS.get(op._schema.name)
if definition is None:
    entry = torch._library.simple_registry.singleton.find(op._schema.name)
    holder = getattr(entry, "fake_impl", None) or entry.abstract_impl
    kernel = inspect.getclosurevars(holder.kernel.func).nonlocals["func"]
else:
    kernel = definition._abstract_fn
"""
_IN_FILE = """
import ast

(found,) = [
    each
    for each in ast.walk(ast.parse(open({file!r}, encoding="utf-8").read()))
    if isinstance(each, ast.FunctionDef)
    and each.name == {function!r}
    and [*each.decorator_list, each][0].lineno == {line}
]
for each in (*found.args.posonlyargs, *found.args.args, *found.args.kwonlyargs):
    each.annotation = None
kernel = eval(f"lambda {{ast.unparse(found.args)}}: None")
"""
_DEFAULT = """
import inspect
{kernel}
own = inspect.signature(kernel).parameters[{name!r}].default
assert own == {default!r}, f"the kernel's own default is {{own}}"
"""

_SIGNATURE = """
import inspect
{kernel}
arguments = op._schema.arguments
inspect.signature(kernel).bind(
    *(each for each in arguments if not each.kwarg_only),
    **{{each.name: each for each in arguments if each.kwarg_only}},
)
"""

_ORDER = """
import inspect
{kernel}
expected = [each.name for each in op._schema.arguments if not each.kwarg_only]
taken = [*inspect.signature(kernel).parameters][: len(expected)]
assert taken == expected, f"the kernel takes {{taken}}, the schema has {{expected}}"
"""

FINDINGS = {
    "argument-order-differs": Explanation(
        meaning=(
            "A Python kernel has parameters with the names of the schema's arguments, in another order."
        ),
        why=(
            "torch passes arguments to a kernel by position. So the kernel takes one argument for "
            "another, which goes unnoticed while the two are equal."
        ),
        fix="Give the kernel's parameters the order of the schema.",
        before="""
lib.define("store(Tensor k, Tensor v, float k_scale=1.0, float v_scale=1.0) -> Tensor")
def store(k, v, v_scale=1.0, k_scale=1.0):
    return torch.cat([k / k_scale, v / v_scale])
""",
        after="""
lib.define("store(Tensor k, Tensor v, float k_scale=1.0, float v_scale=1.0) -> Tensor")
def store(k, v, k_scale=1.0, v_scale=1.0):
    return torch.cat([k / k_scale, v / v_scale])
""",
        docs=(doc_links.LIBRARY,),
    ),
    "signature-differs": Explanation(
        meaning=(
            "A Python kernel, usually the fake kernel, has no parameter for an argument of the schema."
        ),
        why=(
            "torch passes an argument to the kernel only if its value is not the schema's default. "
            "So all is well until someone passes another value: then the kernel raises a TypeError. "
            "A fake kernel does so only when the op is compiled or exported."
        ),
        fix="Give the kernel every parameter of the schema, in its order, with the same defaults.",
        before="""
@torch.library.custom_op("mylib::mean", mutates_args=())
def mean(x: Tensor, keepdim: bool = False) -> Tensor: ...

@mean.register_fake
def _(x):
    return x.new_empty(x.shape[1:])
""",
        after="""
@mean.register_fake
def _(x, keepdim=False):
    return x.new_empty((1, *x.shape[1:]) if keepdim else x.shape[1:])
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.LIBRARY),
    ),
    "default-differs": Explanation(
        meaning=(
            "For some argument, a Python kernel or the fake kernel has another default than "
            "the schema, or none."
        ),
        why=(
            "torch leaves out trailing arguments that equal the schema's default when it "
            "calls a Python kernel, even if the caller passed them. The kernel's own default "
            "then decides, without an error."
        ),
        fix="Give the kernel's parameter the schema's default.",
        before="""
lib.define("scale(Tensor x, float factor=0.5) -> Tensor")
def scale_fake(x, factor):
    return torch.empty_like(x)
""",
        after="""
lib.define("scale(Tensor x, float factor=0.5) -> Tensor")
def scale_fake(x, factor=0.5):
    return torch.empty_like(x)
""",
        docs=(doc_links.LIBRARY,),
    ),
}

CHECK = Check(
    name="values.defaults",
    summary="the kernels take every argument of the schema, in its order, with its defaults",
    run=check_defaults,
    variants=(),
    findings=FINDINGS,
    catches=(
        "An argument of the schema that a Python kernel or the fake kernel does not take. "
        "Parameters with the names of the schema's arguments in another order: torch passes arguments by "
        "position. "
        "A default in the signature of a Python kernel or of the fake kernel that differs "
        "from the schema's. torch leaves out arguments that equal the schema's default when "
        "it calls a Python kernel, so the kernel's own default decides, or the call raises."
    ),
    cannot_see=(
        "Kernels of a `torch.library.Library` that are not registered at the top level of a module, by "
        '`@torch.library.impl`, or by `library.impl("name", kernel, "CPU")` with a function that has a '
        "name: torch does not say which function it was. Missing parameters of functions that are "
        "decorated, partial or objects: their own signature may mean nothing."
    ),
    cost="nothing",
)
