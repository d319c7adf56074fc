"""`values.aliasing`: outputs have memory of their own; `values.same_tensor`: arguments need not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from ... import compat
from ...cases.arguments import Arguments
from ...cases.case import Case, Run
from ...cases.tensors import base_name, leaves
from ...findings import CheckFailed, fail, skip
from .memory.calls import CALL, Caller, differ, expression, results, skip_if_random, skip_if_silent
from .memory.perturb import changeable
from .memory.placement import movable, placements
from .memory.storage import share_memory
from .memory.trial import Tried, moved_to

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def aliasing(case: Case) -> None:
    """Look for memory that an output shares with an argument or with another output."""
    calls = Caller(case)
    if not case.eager.outputs:
        raise skip("nothing-to-check", "the op returns no tensor", unjudged=False)
    for tried in _tried(case):
        run = calls(tried.arguments)
        if run.error is not None:
            if compat.refuses_alias(run.error):
                text = (
                    "an output shares memory with an argument or another output, so the op raises"
                )
                raise _shared(case, tried, text)
            continue
        text = _with_arguments(run) or ""
        if text:
            raise _shared(case, tried, text)
        text = _with_each_other(run) or ""
        if text:
            raise fail(
                "outputs-share-memory",
                f"{case.op.name}{tried.words}: {text}",
                repro=_script(tried),
            )


def _shared(case: Case, tried: Tried, text: str) -> CheckFailed:
    message = f"{case.op.name}{tried.words}: {text}"
    return fail("undeclared-alias", message, repro=_script(tried))


def _script(tried: Tried) -> str:
    return _ALIASING.format(lay_out=tried.lay_out, lines=tried.script)


def _tried(case: Case) -> Iterator[Tried]:
    """The sample, other layouts of it, and other dtypes."""
    yield Tried("", case.inputs())
    for moved in placements(case.inputs, alone=False):
        yield moved_to(case, moved)
    yield from _in_other_dtypes(case)


def _in_other_dtypes(case: Case) -> Iterator[Tried]:
    """The same values in other floating-point dtypes: wider ones only, for a native kernel.

    Native code that takes a dtype for granted writes past the end of a tensor of a narrower one.
    """
    drawn = case.inputs()
    floats = [(name, one) for name, one in drawn.tensors() if one.dtype.is_floating_point]
    if not floats or not all(movable(one) for _, one in floats):
        return
    given = floats[0][1].dtype
    python = compat.kernel_in_python(case.op.overload, floats[0][1].device.type)
    for dtype in _DTYPES:
        if dtype != given and (python or dtype.itemsize > given.itemsize):
            script = "\n".join(
                f"{expression(case, name)} = {expression(case, name)}.to({dtype})"
                for name, one in floats
                if one.dtype == given
            )
            cast = case.inputs().map(lambda one, to=dtype: _cast(one, given, to))  # type: ignore[misc]
            yield Tried(f", in {str(dtype).removeprefix('torch.')}", cast, script)


def _cast(tensor: torch.Tensor, given: torch.dtype, dtype: torch.dtype) -> torch.Tensor:
    if tensor.dtype != given:
        return tensor
    return tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)


def _with_arguments(run: Run) -> str | None:
    for name, output, declared in _outputs(run):
        for path, argument in run.arguments.tensors():
            may = declared is not None and _same_set(declared, _alias_of(run, path))
            if not may and share_memory(output, argument):
                same = "is" if output is argument else "shares memory with"
                return f"{name} {same} argument {path}"
    return None


def _with_each_other(run: Run) -> str | None:
    for (name, one, declared), (other, two, again) in itertools.combinations(_outputs(run), 2):
        if not (declared is not None and again is not None) and share_memory(one, two):
            return f"{name} and {other} share memory"
    return None


def _outputs(run: Run) -> Iterator[tuple[str, torch.Tensor, Any]]:
    """Every tensor returned, with its name and what the schema says of its memory."""
    returns = run.arguments.op.schema.returns
    several = isinstance(run.result, tuple)
    for index, one in enumerate(run.result if several else [run.result]):
        declared = returns[index].alias_info if index < len(returns) else None
        for name, leaf in leaves(one, f"output {index}" if several else "output"):
            if isinstance(leaf, torch.Tensor):
                yield name, leaf, declared


def _alias_of(run: Run, path: str) -> Any:
    by_name = {argument.name: argument for argument in run.arguments.op.arguments}
    return by_name[base_name(path)].alias_info


def _same_set(output: Any, argument: Any) -> bool:
    """Whether the schema lets an output share memory with an argument."""
    if argument is None:
        return False
    mine, theirs = ({*one.before_set, *one.after_set} for one in (output, argument))
    anything = not mine or any(str(each).endswith("*") for each in mine | theirs)
    return anything or bool(mine & theirs)


def same_tensor(case: Case) -> None:
    """Compare the op on one tensor in two places with the op on that tensor and a copy of it."""
    calls = Caller(case)
    skip_if_silent(case)
    skip_if_random(case)
    pairs = _pairs(case)
    if not pairs:
        reason = "no two floating-point arguments have one shape and dtype"
        raise skip("nothing-to-check", reason, unjudged=False)
    for first, second in pairs:
        expected, got = (
            calls(_twice(case.inputs(), first, second, copy=copy)) for copy in (True, False)
        )
        if got.error is not None or expected.error is not None:
            continue
        wrong = differ(results(got), results(expected), case)
        again = calls(_twice(case.inputs(), first, second, copy=True))
        if wrong is None or again.error or differ(results(again), results(expected), case):
            continue
        one, other = expression(case, first), expression(case, second)
        raise fail(
            "same-tensor-result",
            f"{case.op.name}: with one tensor as {first} and {second} it gives other values than "
            f"with a copy of it as {second}: {wrong}",
            repro=CALL + _SAME.format(one=one, other=other),
        )


def _pairs(case: Case) -> list[tuple[str, str]]:
    """The arguments that may be one tensor: nothing else than values tells them apart."""
    arguments = case.inputs()
    free = [
        (name, one) for name, one in changeable(arguments) if base_name(name) not in case.op.mutated
    ]
    return [
        (name, other)
        for (name, one), (other, two) in itertools.combinations(free[:6], 2)
        if one.shape == two.shape and one.dtype == two.dtype and one.device == two.device
    ]


def _twice(arguments: Arguments, first: str, second: str, *, copy: bool) -> Arguments:
    tensors = dict(arguments.tensors())
    one = tensors[first]
    again = one.detach().clone().requires_grad_(one.requires_grad) if copy else one
    names = iter(tensors)
    return arguments.map(lambda tensor: again if next(names) == second else tensor)


_ALIASING = """
from torch.utils._pytree import tree_leaves
{lay_out}

def span(t):
    reach = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
    return t.data_ptr(), t.data_ptr() + (1 + reach) * t.element_size()


args, kwargs = inputs()
args = list(args)
{lines}
outputs = [each for each in tree_leaves(op(*args, **kwargs)) if isinstance(each, torch.Tensor)]
given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
for index, output in enumerate(outputs):
    for other in (*given, *outputs[:index]):
        (low, high), (start, end) = span(output), span(other)
        assert high <= start or end <= low, "an output shares memory"
"""
_SAME = """

args, kwargs = inputs()
args = list(args)
{other} = {one}.detach().clone()
expected = call(args, kwargs)
{other} = {one}
torch.testing.assert_close(call(args, kwargs), expected, rtol=1e-3, atol=1e-5, equal_nan=True)
"""
