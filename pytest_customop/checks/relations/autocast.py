"""`relations.autocast`: an autocast rule casts the inputs, and passes the other arguments on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ...cases.arguments import Arguments
from ...cases.autocast import autocast_device, autocast_text
from ...cases.case import Case
from ...cases.run import Run
from ...cases.tensors import is_differentiable
from ...compat.ops import has_autocast_rule
from ...core.tracebacks import error_line, message_of, raised_on_purpose, traceback_text
from ...core.wording import listed
from ...declare.ops import Op
from ...findings import CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    Leaves,
    copied,
    expression,
    first_difference,
    results,
    skip_if_incomparable,
    with_argument,
)
from .scripts import call_lines, position


def check_autocast(case: Case) -> None:
    """Compare a call under autocast with others, which get the given arguments or defaults."""
    device = autocast_device(case)
    if not has_autocast_rule(case.op.overload, device):
        reason = f"the op has no autocast rule for {device}"
        raise skip("nothing-to-check", reason, unjudged=False)
    skip_if_incomparable(case)
    calls = Caller(case)
    with torch.autocast(device):
        run = calls(case.inputs())
    if run.error is not None:
        raise _raises(calls, device, run.error)
    actual = copied(results(run))
    changed = dict(_not_defaults(case))
    if any(_agrees(actual, calls(arguments)) for arguments in _cast(case, device, {})):
        return
    for defaults in _subsets(changed):
        for arguments in _cast(case, device, defaults):
            expected = calls(arguments)
            if _agrees(actual, expected):
                raise _dropped(case, device, defaults, actual[0][0])


def _has_rule(op: Op) -> bool:
    return any(has_autocast_rule(op.overload, device) for device in ("cpu", "cuda"))


def _not_defaults(case: Case) -> Iterator[tuple[str, Any]]:
    """(name, default) of the arguments that are given and differ from their default."""
    for argument, value in case.op.bind(case.sample):
        if not argument.has_default_value():
            continue
        default = argument.default_value
        if type(value) is not type(default) or value != default:
            yield argument.name, default


def _subsets(defaults: dict[str, Any]) -> list[dict[str, Any]]:
    """Each argument by itself, and all of them."""
    alone = [{name: value} for name, value in defaults.items()]
    return [*alone, defaults] if len(alone) > 1 else alone


def _cast(case: Case, device: str, values: dict[str, Any]) -> Iterator[Arguments]:
    """The arguments as a rule may pass them on: in the dtype of autocast, in float32, as they are.

    Args:
        values: replacements for some arguments, by name.
    """
    for dtype in (torch.get_autocast_dtype(device), torch.float32, None):

        def cast(_: str, tensor: torch.Tensor, dtype: torch.dtype | None = dtype) -> torch.Tensor:
            eligible = tensor.is_floating_point() and tensor.dtype != torch.float64
            return tensor.to(dtype) if dtype is not None and eligible else tensor

        arguments = case.inputs().map_distinct(cast)
        for name, value in values.items():
            arguments = with_argument(arguments, name, value)
        yield arguments


def _agrees(actual: Leaves, run: Run) -> bool:
    """Whether a call gives the same, bit by bit, up to a cast of the results: a rule may cast them too."""
    if run.error is not None:
        return False
    leaves = dict(results(run))
    expected = [(name, _as(value, leaves.get(name))) for name, value in actual]
    return first_difference(expected, actual) is None


def _as(like: Any, value: Any) -> Any:
    are_tensors = isinstance(like, torch.Tensor) and isinstance(value, torch.Tensor)
    if are_tensors and is_differentiable(like.dtype) and is_differentiable(value.dtype):
        return value.detach().to(like.dtype)
    return value


def _raises(calls: Caller, device: str, error: BaseException) -> Exception:
    """The finding; a skip if the op raises without autocast too, or the rule raises on purpose."""
    case = calls.case
    text = error_line(error)
    if calls(case.inputs()).error is not None:
        return skip("nothing-to-check", f"the op raises {text} at a further call", unjudged=False)
    cast = calls(next(_cast(case, device, {}))).error
    rejected = cast is not None and message_of(cast) == message_of(error)
    if raised_on_purpose(error) and not rejected:
        return skip("nothing-to-check", f"the rule raises {text}", unjudged=False)
    return fail(
        "autocast-raises",
        f"{case.op.name} raises under {autocast_text(device)}, for which it has a rule: {text}",
        traceback_text(error),
        repro=f"args, kwargs = inputs()\nwith torch.autocast({device!r}):\n    op(*args, **kwargs)\n",
    )


def _dropped(case: Case, device: str, defaults: dict[str, Any], result: str) -> CheckFailed:
    arguments = {argument.name: value for argument, value in case.op.bind(case.sample)}
    names = [f"{name}={value!r}" for name, value in defaults.items()]
    values = [f"{name}={_text(arguments[name])}" for name in defaults]
    default, are = ("default", "is") if len(names) == 1 else ("defaults", "are")
    return fail(
        "autocast-drops-argument",
        f"{case.op.name}: under {autocast_text(device)} it gives, bit by bit, the same as for "
        f"{listed(names)}, the {default}, although {listed(values)} {are} given",
        repro=_script(case, device, defaults, result),
    )


def _text(value: Any) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) or hasattr(value, "shape") else repr(value)


def _script(case: Case, device: str, defaults: dict[str, Any], result: str) -> str:
    lines = [f"    {expression(case, name)} = {value!r}\n" for name, value in defaults.items()]
    return call_lines(result) + _SCRIPT.format(
        device=device,
        dtype=torch.get_autocast_dtype(device),
        at=position(case, result),
        defaults="".join(lines),
    )


_SCRIPT = """
with torch.autocast({device!r}):
    got = call(*inputs())[{at}]
for dtype in ({dtype}, torch.float32, None):
    cast = lambda each: each.to(dtype) if dtype and each.is_floating_point() else each
    args, kwargs = tree_map_only(torch.Tensor, cast, inputs())
    args = list(args)
{defaults}    found = call(args, kwargs)[{at}]
    assert not torch.equal(found.to(got.dtype), got), "the default is used in place of what is given"
"""

FINDINGS = {
    "autocast-drops-argument": Explanation(
        meaning=(
            "Under torch.autocast the op gives, bit by bit, the same as for the default of an argument, "
            "although another value is given."
        ),
        why=(
            "Its autocast rule calls the op again and leaves the argument out. Mixed precision then "
            "computes something else, without an error."
        ),
        fix=(
            "Pass every argument on in the autocast rule, also those given by keyword. Or let torch write "
            "the rule: torch.library.register_autocast(op, device_type, cast_inputs)."
        ),
        before="""
def autocast_rule(x, scale=1.0, *, margin=0.2):
    with torch.autocast("cpu", enabled=False):
        return torch.ops.mylib.logits(x.bfloat16(), scale)
""",
        after="""
def autocast_rule(x, scale=1.0, *, margin=0.2):
    with torch.autocast("cpu", enabled=False):
        return torch.ops.mylib.logits(x.bfloat16(), scale, margin=margin)
""",
        docs=(doc_links.REGISTER_AUTOCAST, doc_links.AMP),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
    "autocast-raises": Explanation(
        meaning=(
            "The op has an autocast rule, but raises under torch.autocast for inputs that it takes outside."
        ),
        why=(
            "The rule says that the op can be used in mixed precision. It may cast to a dtype that the "
            "kernel rejects, or call the op again with autocast still on, which never ends."
        ),
        fix=(
            "Cast to a dtype that the kernel takes, as register_autocast(op, device_type, torch.float32) "
            "does. In your own rule, call the op under torch.autocast(device_type, enabled=False)."
        ),
        before="""
torch.library.register_autocast(op, "cpu", torch.bfloat16)   # the kernel takes float32 alone
""",
        after="""
torch.library.register_autocast(op, "cpu", torch.float32)
""",
        docs=(doc_links.REGISTER_AUTOCAST, doc_links.AMP),
    ),
}

CHECK = Check(
    name="relations.autocast",
    summary="an autocast rule casts the inputs, and passes the other arguments on",
    run=check_autocast,
    needs=_has_rule,
    variants=("arguments",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "An autocast rule that drops an argument: under `torch.autocast` the op returns, bit by bit, what "
        "it returns with the argument at its default, and not what it returns for the given value in any "
        "dtype that the rule may cast to. Also a rule that raises where the op does not."
    ),
    cannot_see=(
        "A wrong value other than the default, arguments that change nothing on the sample, and autocast "
        "dtypes other than the device's default."
    ),
    cost="calls",
)
