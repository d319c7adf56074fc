"""`fake.data_dependent`: output sizes at other values of the inputs: no hits, one, all of them, a NaN.

For an op whose output sizes depend on values, `fake.forward` sees only the sample's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.fake_run import FakeRun, fake_run, shapes_of, skip_if_unfakeable
from ...cases.run import Run
from ...cases.tensors import is_differentiable, is_plain
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from .metadata import OutputComparison, Row, SizeReader, compare_outputs, table

_SIZES = ("shape", "kind", "value")


def check_data_dependent(case: Case) -> None:
    """Compare the sizes that the fake kernel allows with the real ones at other input values."""
    skip_if_unfakeable(case.eager)
    if not any(_fillable(tensor) for _, tensor in case.eager.arguments.tensors()):
        raise skip("nothing-to-check", "no tensor argument has values to change", unjudged=False)
    fake = fake_run(shapes_of(case))
    if fake.error is not None:
        raise skip("nothing-to-check", "the fake kernel raises: see fake.forward", unjudged=False)
    if _wrong_sizes(compare_outputs(fake.run, case.eager, SizeReader(fake.mode))):
        raise skip("nothing-to-check", "fake and real disagree: see fake.forward", unjudged=False)
    declared = _declares_data_dependence(fake)
    for changed in _changed_runs(case, declared):
        if _sizes(changed.run) != _sizes(case.eager):
            _fail_if_sizes_differ(case, fake, changed)


@dataclass(frozen=True)
class _ChangedRun:
    """A call of the op with other values of some arguments.

    Args:
        case: the case whose arguments were changed.
        names: of the arguments that were changed.
        change: how their values were changed.
        run: the call.
    """

    case: Case
    names: list[str]
    change: _Change
    run: Run

    def __str__(self) -> str:
        return " ".join(filter(None, (", ".join(self.names), self.change.description)))


def _declares_data_dependence(fake: FakeRun) -> bool:
    """Whether the fake kernel declares any output size as dependent on data."""
    return any(
        isinstance(size, torch.SymInt) for _, output in fake.run.outputs for size in output.shape
    )


def _fail_if_sizes_differ(case: Case, fake: FakeRun, changed: _ChangedRun) -> None:
    """Fail if the fake kernel does not allow the sizes of a run."""
    outputs = compare_outputs(fake.run, changed.run, SizeReader(fake.mode))
    wrong = _wrong_sizes(outputs)
    if not wrong:
        return
    name, row = wrong[0]
    declared = _declares_data_dependence(fake)
    always = "" if declared else "always "
    raise fail(
        "fake-size-range" if declared else "fake-size-ignores-data",
        f"{case.op.name} {name}: with {changed} the real {row.field} is {row.real}, the fake one "
        f"{always}{row.fake}",
        table(outputs),
        repro=_script(case, changed),
        case=changed.case,
    )


def _wrong_sizes(outputs: list[OutputComparison]) -> list[tuple[str, Row]]:
    return [(output.name, row) for output in outputs for row in output.wrong if row.field in _SIZES]


def _sizes(run: Run) -> list[tuple[str, object]]:
    return [(name, tuple(tensor.shape)) for name, tensor in run.outputs]


@dataclass(frozen=True)
class _Change:
    """Other values for one tensor.

    Args:
        description: for a message: `all zeros`.
        source: the Python statement for a script, on `tensor`.
        apply: the same as a function.
    """

    description: str
    source: str
    apply: Callable[[torch.Tensor], object]


def _one_hot(tensor: torch.Tensor) -> None:
    tensor.zero_()
    tensor[(-1,) * tensor.dim()] = 1


_ZEROS = _Change("all zeros", "tensor.zero_()", lambda tensor: tensor.zero_())
_ONES = _Change("all ones", "tensor.fill_(1)", lambda tensor: tensor.fill_(1))
_ONE_HOT = _Change(
    "zeros and a single 1",
    "tensor.zero_()[(-1,) * tensor.dim()] = 1",
    lambda tensor: _one_hot(tensor),
)
_NAN = _Change(
    "a single NaN",
    "tensor[(0,) * tensor.dim()].fill_(torch.nan)",
    lambda tensor: tensor[(0,) * tensor.dim()].fill_(torch.nan),
)
_REDRAWN = _Change("other values", "pass", lambda tensor: None)


def _changed_runs(case: Case, fill_integers: bool) -> Iterator[_ChangedRun]:
    """Calls with other values of the arguments, if the op works on these.

    Described tensors are drawn again. Floating-point and boolean tensors are filled with zeros, with ones,
    and with zeros and a single one. Floating-point tensors get a NaN if that cannot crash the process.

    Args:
        case: the case.
        fill_integers: whether integers are filled too. They may be indices or divisors that a kernel
            does not check, so it is done only if the fake kernel declares that sizes depend on data.
    """
    if any(spec.values is None and spec.fill is None for spec in case.sample.specs()):
        for step in (1, 2):
            again = replace(case, seed=case.seed + step)
            if again.eager.error is None:
                yield _ChangedRun(again, [], _REDRAWN, again.eager)
    tensors = dict(case.eager.arguments.tensors())
    names = [name for name, tensor in tensors.items() if _fillable(tensor)]
    safe = [name for name in names if fill_integers or not _is_integral(tensors[name])]
    for change in (_ZEROS, _ONES, _ONE_HOT) if safe else ():
        together = list(_changed_run(case, safe, change))
        yield from together
        if len(safe) > 1 and (fill_integers or not together):
            for name in safe:
                yield from _changed_run(case, [name], change)
    floats = [name for name in names if is_differentiable(tensors[name].dtype)]
    # An index that native code computes from a NaN may be anywhere.
    if floats and not may_crash(case):
        yield from _changed_run(case, floats, _NAN)


def _changed_run(case: Case, names: list[str], change: _Change) -> Iterator[_ChangedRun]:
    """The call with these arguments changed; nothing if that is impossible or the op raises."""
    arguments = case.inputs()
    try:
        with torch.no_grad():
            for name, tensor in arguments.tensors():
                if name in names:
                    change.apply(tensor)
    except RuntimeError:  # elements that share memory, or a dtype that cannot be filled
        return
    run = case.run(arguments)
    if run.error is None:
        yield _ChangedRun(case, names, change, run)


def _fillable(tensor: torch.Tensor) -> bool:
    return is_plain(tensor) and tensor.numel() > 0


def _is_integral(tensor: torch.Tensor) -> bool:
    return not is_differentiable(tensor.dtype) and tensor.dtype != torch.bool


_SCRIPT = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map_only

given = inputs()
tensors = [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
with torch.no_grad():
    for tensor in [tensors[at] for at in PLACES]:
        CHANGE
mode = FakeTensorMode(shape_env=ShapeEnv(allow_scalar_outputs=True))
args, kwargs = tree_map_only(
    torch.Tensor, lambda one: mode.from_tensor(one, static_shapes=True), given
)
with mode:
    fakes = tree_leaves(op(*args, **kwargs))
reals = tree_leaves(op(*given[0], **given[1]))
assert len(fakes) == len(reals), f"{len(fakes)} outputs promised, {len(reals)} returned"
for fake, real in zip(fakes, reals):
    for said, size in zip(fake.shape, real.shape):
        if isinstance(said, torch.SymInt):
            allowed = mode.shape_env.var_to_range[said.node.expr]
            assert allowed.lower <= size <= allowed.upper, f"{size} is not in {allowed}"
        else:
            assert said == size, f"{said} promised, {size} returned"
"""


def _script(case: Case, changed: _ChangedRun) -> str:
    names = [name for name, _ in case.eager.arguments.tensors()]
    places = [names.index(name) for name in changed.names]
    return _SCRIPT.replace("PLACES", repr(places)).replace("CHANGE", changed.change.source)


FINDINGS = {
    "fake-size-ignores-data": Explanation(
        meaning=(
            "The size of an output depends on the values of the inputs, and the fake kernel "
            "returns a fixed size."
        ),
        why=(
            "The fixed size happens to be right for the sample. For other values, compiled "
            "code reads past the end of the output, or raises."
        ),
        fix=(
            "Return a size that is not known yet: "
            "torch.library.get_ctx().new_dynamic_size(). Or let the real kernel return the "
            "fixed size, padded."
        ),
        before="""
@positives.register_fake
def _(x):
    return x.new_empty(x.numel())
""",
        after="""
@positives.register_fake
def _(x):
    count = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(count)
""",
        docs=(doc_links.REGISTER_FAKE,),
    ),
    "fake-size-range": Explanation(
        meaning=(
            "The fake kernel promises a range for a size that depends on data, but the real "
            "size can be outside of it."
        ),
        why=(
            "torch.compile relies on the range: it leaves out branches for empty outputs. If "
            "the real size is outside of it, the remaining code is wrong or raises at run "
            "time."
        ),
        fix=(
            "Promise only what holds: new_dynamic_size(min=0), which is the default, unless "
            "the op really never returns fewer; and a max only if there is one."
        ),
        before="""
count = torch.library.get_ctx().new_dynamic_size(min=2)
""",
        after="""
count = torch.library.get_ctx().new_dynamic_size()  # 0 and 1 are possible
""",
        docs=(doc_links.REGISTER_FAKE,),
    ),
}

CHECK = Check(
    name="fake.data_dependent",
    summary="the fake kernel allows the data-dependent sizes of other values: no hits, all, or a NaN",
    run=check_data_dependent,
    variants=("arguments",),
    findings=FINDINGS,
    catches=(
        "Output sizes that depend on values although the fake kernel returns a fixed size, "
        "and sizes outside of the range that it declares: `new_dynamic_size(min=2)` is wrong "
        "if there can be one hit or none. The op is called with other values: drawn again, "
        "all zeros, all ones, a single one."
    ),
    cannot_see=(
        "Values that are not tried. Integer tensors, which may be indices, are filled only "
        "if the fake kernel declares that sizes depend on data."
    ),
    cost="many calls",
)
