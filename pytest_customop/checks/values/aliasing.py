"""`values.aliasing`: outputs have their own memory."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import Any

import torch

from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.run import Run
from ...cases.tensors import base_name, leaves
from ...compat.ops import compiled_code_shares_no_storage, is_alias_error, kernel_in_python
from ...compat.tensors import storage_id
from ...core.wording import listed_briefly
from ...findings import CheckFailed, Explanation, doc_links, fail, skip
from ..check import Check
from .memory.calls import Caller, expression
from .memory.placement import movable, placements
from .memory.storage import has_elements, share_memory
from .memory.trial import Trial, trial_of

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def check_aliasing(case: Case) -> None:
    """Find memory that an output shares with an argument or with another output."""
    calls = Caller(case)
    if not case.eager.outputs:
        raise skip("nothing-to-check", "the op returns no tensor", unjudged=False)
    one_storage: CheckFailed | None = None  # reported if no trial shows an overlap
    for trial in _trials(case):
        run = calls(trial.arguments)
        if run.error is not None:
            if is_alias_error(run.error):
                text = (
                    "an output shares memory with an argument or another output, so the op raises"
                )
                raise _shared(case, trial, text)
            continue
        text = _with_arguments(run) or ""
        if text:
            raise _shared(case, trial, text)
        text = _with_each_other(run) or ""
        if text:
            raise fail(
                "outputs-share-memory",
                f"{case.op.name}{trial.description}: {text}",
                repro=_script(trial),
            )
        text = _in_one_storage(run) or ""
        if text and one_storage is None:
            message = f"{case.op.name}{trial.description}: {text}"
            one_storage = fail("outputs-share-storage", message, repro=_storage_script(trial))
    if one_storage is not None and compiled_code_shares_no_storage() and not case.op.is_composite:
        raise one_storage


def _shared(case: Case, trial: Trial, text: str) -> CheckFailed:
    message = f"{case.op.name}{trial.description}: {text}"
    return fail("undeclared-alias", message, repro=_script(trial))


def _script(trial: Trial) -> str:
    return _ALIASING.format(lay_out=trial.lay_out, lines=trial.script)


def _storage_script(trial: Trial) -> str:
    return _STORAGE.format(lay_out=trial.lay_out, lines=trial.script)


def _trials(case: Case) -> Iterator[Trial]:
    """The sample, the sample in other layouts and other dtypes, and in order."""
    yield Trial("", case.inputs())
    if not case.may_take_other_branches:
        return
    for moved in placements(case.inputs, alone=False):
        yield trial_of(case, moved)
    yield from _in_other_dtypes(case)
    yield from _in_order(case)


def _in_order(case: Case) -> Iterator[Trial]:
    """Lists of integers that count up, then floating-point numbers sorted along their last dim.

    A kernel that sorts, merges or compacts may find nothing to do then, and return what it got. Native code
    gets no integers that may be out of range.
    """
    drawn = [(name, tensor) for name, tensor in case.inputs().tensors() if movable(tensor)]
    counted = [name for name, tensor in drawn if _is_list_of_integers(tensor)]
    if counted and not may_crash(case):
        yield _changed(case, counted, "counting up", "torch.arange({0}.numel(), dtype={0}.dtype)")
    floats = [name for name, tensor in drawn if tensor.dtype in _DTYPES and tensor.dim()]
    if floats:
        yield _changed(case, floats, "sorted", "{0}.detach().sort().values")


def _is_list_of_integers(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 1 and tensor.dtype in (torch.int32, torch.int64)


def _changed(case: Case, names: Collection[str], how: str, change: str) -> Trial:
    """A trial in which an expression, of which `{0}` is the tensor, replaces the named tensors."""

    def changed(path: str, tensor: torch.Tensor) -> torch.Tensor:
        if path not in names:
            return tensor
        new: torch.Tensor = eval(change.format("tensor"), {"torch": torch, "tensor": tensor})
        return new.requires_grad_(tensor.requires_grad)

    places = [expression(case, name) for name in names]
    script = "\n".join(f"{place} = {change.format(place)}" for place in places)
    description = f", with {listed_briefly(names)} {how}"
    return Trial(description, case.inputs().map_distinct(changed), script)


def _in_other_dtypes(case: Case) -> Iterator[Trial]:
    """The same values in other floating-point dtypes; for a native kernel only in wider ones.

    Native code that assumes a dtype writes past the end of a tensor in a narrower one.
    """
    drawn = case.inputs()
    floats = [(name, tensor) for name, tensor in drawn.tensors() if tensor.dtype.is_floating_point]
    if not floats or not all(movable(tensor) for _, tensor in floats):
        return
    sample_dtype = floats[0][1].dtype
    python = kernel_in_python(case.op.overload, floats[0][1].device.type)
    for dtype in _DTYPES:
        if dtype != sample_dtype and (python or dtype.itemsize > sample_dtype.itemsize):
            script = "\n".join(
                f"{expression(case, name)} = {expression(case, name)}.to({dtype})"
                for name, tensor in floats
                if tensor.dtype == sample_dtype
            )
            cast = case.inputs().map(lambda tensor, to=dtype: _cast(tensor, sample_dtype, to))  # type: ignore[misc]
            yield Trial(f", in {str(dtype).removeprefix('torch.')}", cast, script)


def _cast(tensor: torch.Tensor, sample_dtype: torch.dtype, dtype: torch.dtype) -> torch.Tensor:
    if tensor.dtype != sample_dtype:
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
    for (name, first, declared), (second_name, second, again) in itertools.combinations(
        _outputs(run), 2
    ):
        if not (declared is not None and again is not None) and share_memory(first, second):
            return f"{name} and {second_name} share memory"
    return None


def _in_one_storage(run: Run) -> str | None:
    """Text that names outputs in one storage without an element in common; None if there are none.

    torch lets an op return views if its schema declares an alias for any output.
    """
    names_by_storage: dict[int, list[str]] = {}
    for name, output, declared in _outputs(run):
        storage = storage_id(output) if has_elements(output) else None
        if declared is not None:
            return None
        if storage is not None:
            names_by_storage.setdefault(storage, []).append(name)
    sharing = next((names for names in names_by_storage.values() if len(names) > 1), None)
    if sharing is None:
        return None
    listed = (
        f"{', '.join(sharing[:3])} and {len(sharing) - 3} more"
        if len(sharing) > 4
        else (f"{', '.join(sharing[:-1])} and {sharing[-1]}")
    )
    return f"{listed} are views of one storage, without an element in common"


def _outputs(run: Run) -> Iterator[tuple[str, torch.Tensor, Any]]:
    """(name, tensor, alias information of the schema) of every tensor returned."""
    returns = run.arguments.op.schema.returns
    several = isinstance(run.result, tuple)
    for index, value in enumerate(run.result if several else [run.result]):
        declared = returns[index].alias_info if index < len(returns) else None
        for name, leaf in leaves(value, f"output {index}" if several else "output"):
            if isinstance(leaf, torch.Tensor):
                yield name, leaf, declared


def _alias_of(run: Run, path: str) -> Any:
    by_name = {argument.name: argument for argument in run.arguments.op.arguments}
    return by_name[base_name(path)].alias_info


def _same_set(output: Any, argument: Any) -> bool:
    """Whether the schema lets an output share memory with an argument."""
    if argument is None:
        return False
    returned, passed = ({*alias.before_set, *alias.after_set} for alias in (output, argument))
    anything = not returned or any(str(name).endswith("*") for name in returned | passed)
    return anything or bool(returned & passed)


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

_STORAGE = """
from torch.utils._pytree import tree_leaves
{lay_out}

args, kwargs = inputs()
args = list(args)
{lines}
outputs = [each for each in tree_leaves(op(*args, **kwargs)) if isinstance(each, torch.Tensor)]
storages = [each.untyped_storage().data_ptr() for each in outputs if each.numel()]
assert len(set(storages)) == len(storages), "two outputs are views of one storage"
"""

FINDINGS = {
    "undeclared-alias": Explanation(
        meaning=(
            "The op returns memory that it shares with an argument or with another output, "
            "but its schema does not declare it."
        ),
        why=(
            "An in-place op on the result changes the input as well. Compiled code assumes "
            "separate memory and gives other values than eager mode."
        ),
        fix="Return a copy: end the kernel with .clone().",
        before="""
@torch.library.custom_op("mylib::flat", mutates_args=())
def flat(x: Tensor) -> Tensor:
    return x.reshape(-1)              # a view of x, if x is contiguous
""",
        after="""
@torch.library.custom_op("mylib::flat", mutates_args=())
def flat(x: Tensor) -> Tensor:
    return x.reshape(-1).clone()
""",
        docs=(
            doc_links.CUSTOM_OP,
            doc_links.TENSOR_VIEWS,
        ),
    ),
    "outputs-share-memory": Explanation(
        meaning="Two outputs, or two elements of a returned list, share memory.",
        why=(
            "The schema promises that every output is fresh. An in-place operation on one "
            "changes the other in eager mode, but not in compiled code."
        ),
        fix="Return separate tensors: [part.clone() for part in parts], not one tensor twice.",
        before="""
y = x * 2
return [y, y]
""",
        after="""
y = x * 2
return [y, y.clone()]
""",
        docs=(
            doc_links.LIBRARY,
            doc_links.PYTHON_CUSTOM_OPS,
        ),
    ),
    "outputs-share-storage": Explanation(
        meaning=(
            "Two outputs, or two elements of a returned list, are views of one buffer that have no "
            "element in common."
        ),
        why=(
            "A schema without aliases promises that every output has its own storage. torch 2.13 "
            "and later check this at the first call of compiled code. They warn that it will "
            "become an error, and raise if the environment variable CI is set. "
            "torch.library.custom_op raises in eager mode, too."
        ),
        fix=(
            "Allocate each output separately, or return copies: "
            "[part.clone() for part in buffer.chunk(2)]."
        ),
        before="""
buffer = torch.empty(2, *x.shape)
kernel(x, buffer)
return [buffer[0], buffer[1]]
""",
        after="""
outputs = [torch.empty_like(x), torch.empty_like(x)]
kernel(x, outputs)
return outputs
""",
        docs=(
            doc_links.LIBRARY,
            doc_links.PYTHON_CUSTOM_OPS,
        ),
    ),
}

CHECK = Check(
    name="values.aliasing",
    summary="outputs share no memory with arguments or each other, in any layout and dtype",
    run=check_aliasing,
    variants=("shape", "dtype", "values", "positions", "arguments", "pairs"),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "An output, or an element of a returned list, that shares memory with an argument or "
        "another output although the schema does not declare it. Several layouts and dtypes are "
        "tried, because `.contiguous()` and `.to()` copy only in some of them. Integers that count up and "
        "sorted numbers are tried too: a kernel that has nothing to sort or merge may return what it got. "
        "From torch 2.13 on, also outputs that are views of one buffer and do not overlap."
    ),
    cannot_see="Native kernels are not tried in narrower dtypes than the sample's.",
    cost="many calls",
)
