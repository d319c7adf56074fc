"""`values.defaults`: the defaults of the kernels are those of the schema."""

from __future__ import annotations

import inspect
from typing import Any

from ...cases.case import Case
from ...compat.ops import python_kernels
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check


def check_defaults(case: Case) -> None:
    """Compare the defaults in the signatures of Python kernels with those of the schema.

    torch leaves out arguments that equal the schema's default when it calls a Python kernel, so the
    kernel's own default decides.
    """
    schema = {
        argument.name: argument.default_value
        for argument in case.op.arguments
        if argument.has_default_value()
    }
    if not schema:
        raise skip("nothing-to-check", "the schema has no defaults", unjudged=False)
    kernels = python_kernels(case.op.overload)
    if not kernels:
        reason = "torch does not say which Python functions are the op's kernels, if any"
        raise skip("nothing-to-check", reason, unjudged=False)
    for description, kernel in kernels:
        for name, default in schema.items():
            found = _parameter(case, kernel, name)
            if found is not None and not _agree(found.default, default):
                _report(case, description, found, default)


def _report(case: Case, description: str, found: inspect.Parameter, default: Any) -> None:
    missing = found.default is found.empty
    has = "no default" if missing else f"the default {found.default!r}"
    kernel = _FAKE if description == "the fake kernel" else _REAL
    result = "raises" if missing else f"computes with {found.default!r}"
    raise fail(
        "default-differs",
        f"{case.op.name}: {description} has {has} for {found.name}, and the schema {default!r}: called "
        f"without it, or with {default!r}, {description} {result}",
        repro=_SCRIPT.format(kernel=kernel.rstrip(), name=found.name, default=default),
    )


def _parameter(case: Case, kernel: Any, name: str) -> inspect.Parameter | None:
    """The kernel's parameter for an argument of the schema; None if it cannot be found."""
    try:
        parameters = inspect.signature(kernel).parameters
    except (TypeError, ValueError):
        return None
    if name in parameters:
        return parameters[name]
    named = [argument.name for argument in case.op.positional]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [one for one in parameters.values() if one.kind in kinds]
    index = named.index(name) if name in named else len(places)
    return places[index] if index < len(places) else None


_PLAIN = (bool, int, float, complex, str, type(None))


def _agree(own: Any, default: Any) -> bool:
    if own is inspect.Parameter.empty:
        return False
    if isinstance(own, (list, tuple)) and isinstance(default, (list, tuple)):
        pairs = zip(own, default, strict=False)
        return len(own) == len(default) and all(
            _agree(actual, expected) for actual, expected in pairs
        )
    if not (isinstance(own, _PLAIN) and isinstance(default, _PLAIN)):
        return True  # dtypes, devices and the like have several spellings
    return bool(own == default) or (own != own and default != default)


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
_SCRIPT = """
import inspect
{kernel}
own = inspect.signature(kernel).parameters[{name!r}].default
assert own == {default!r}, f"the kernel's own default is {{own}}"
"""

FINDINGS = {
    "default-differs": Explanation(
        meaning=(
            "A Python kernel, or the fake kernel, has another default for an argument than "
            "the schema, or none."
        ),
        why=(
            "torch leaves out trailing arguments that equal the schema's default when it "
            "calls a Python kernel, even if the caller gave them. The kernel's own default "
            "then decides, without an error."
        ),
        fix="Give the kernel's parameter the default that the schema has.",
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
    summary="the kernels' own defaults are those of the schema",
    run=check_defaults,
    variants=(),
    findings=FINDINGS,
    catches=(
        "A default in the signature of a Python kernel or of the fake kernel that differs "
        "from the schema's. torch leaves out arguments that equal the schema's default when "
        "it calls a Python kernel, so the kernel's own default decides, or the call raises."
    ),
    cannot_see=(
        "Kernels registered by `Library.impl`: torch does not say which function that was, "
        "so of such ops only the fake kernel is looked at."
    ),
    cost="nothing",
)
