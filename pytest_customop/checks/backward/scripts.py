"""The lines that show a wrong backward by plain torch calls; see `Check.repro`."""

from __future__ import annotations

from ...cases.guarded import LAY_OUT

_GRAPH = """
from torch.utils._pytree import tree_leaves


def tensors(values):
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def call():
    given = inputs()
    torch.manual_seed(seed)
    result = op(*given[0], **given[1])
    outputs = [each for each in tensors(result) if each.requires_grad and each.numel()]
    return tensors(given), [each for each in tensors(given) if each.requires_grad], outputs


def gradients(outputs, leaves, grads):
    torch.manual_seed(seed)
    return torch.autograd.grad(
        outputs, leaves, grads, retain_graph=True, allow_unused=True, materialize_grads=True
    )


def assert_same(got, expected):
    torch.testing.assert_close(got, expected, rtol=0.01, atol=0.001, equal_nan=True)


given, leaves, outputs = call()
grads = [torch.randn_like(each) for each in outputs]
"""
RAISES = (
    _GRAPH
    + """
gradients(outputs, leaves, grads)
"""
)
LINEAR = (
    _GRAPH
    + """
once = gradients(outputs, leaves, grads)
for factor in (-1.0, 0.0, 2.0**10, 2.0**-10):
    found = gradients(outputs, leaves, [factor * each for each in grads])
    for got, expected in zip(found, once):
        atol = 0.01 * abs(factor) * expected.abs().max().item()
        torch.testing.assert_close(got, factor * expected, rtol=0.01, atol=atol)
others = [torch.randn_like(each) for each in outputs]
apart = zip(once, gradients(outputs, leaves, others))
together = gradients(outputs, leaves, [one + two for one, two in zip(grads, others)])
assert_same(together, tuple(one + two for one, two in apart))
"""
)
_LAYOUT = (
    _GRAPH
    + """
PLACED
dense = [torch.empty_like(each).copy_(one) for each, one in zip(grads, laid_out)]
assert_same(gradients(outputs, leaves, laid_out), gradients(outputs, leaves, dense))
"""
)
_UNUSED = (
    _GRAPH
    + """
used = USED
alone = gradients([outputs[at] for at in used], leaves, [grads[at] for at in used])
zeros = [each if at in used else torch.zeros_like(each) for at, each in enumerate(grads)]
assert_same(alone, gradients(outputs, leaves, zeros))
"""
)
INTACT = (
    _GRAPH
    + """
watched = [*given, *outputs, *grads]
before = [each.detach().clone() for each in watched]
versions = [each._version for each in watched]
first = gradients(outputs, leaves, grads)
kept = tuple(each.clone() for each in first)
torch.testing.assert_close(watched, before, rtol=0, atol=0, equal_nan=True)
assert versions == [each._version for each in watched], "the backward writes to what it is given"
gradients(outputs, leaves, [3 * each for each in grads])
torch.testing.assert_close(first, kept, rtol=0, atol=0, equal_nan=True)
assert_same(gradients(outputs, leaves, grads), kept)
"""
)
_STALE = (
    _GRAPH
    + """
expected = gradients(outputs, leaves, grads)
given, leaves, outputs = call()
with torch.no_grad():
    each = WHICH
    each.copy_(each.flip(0) * 0.5 if each.dim() else each * 0.5)
try:
    got = gradients(outputs, leaves, grads)
except RuntimeError:
    got = expected  # autograd noticed
assert_same(got, expected)
"""
)
INTERLEAVED = (
    _GRAPH
    + """
expected = gradients(outputs, leaves, grads)
given, leaves, outputs = call()
first, inputs = inputs, lambda: torch.utils._pytree.tree_map_only(
    torch.Tensor,
    lambda each: each.detach().flip(0).mul(0.5).requires_grad_(each.requires_grad)
    if each.dim() and each.is_floating_point() else each,
    first(),
)
call()  # with other values
assert_same(gradients(outputs, leaves, grads), expected)
"""
)
FREED = (
    _GRAPH
    + """
import gc
import weakref

del given, leaves, outputs, grads
gc.disable()
kept = []
for _ in range(3):
    given, leaves, outputs = call()
    kept.append([weakref.ref(each) for each in WHICH])
    del given, leaves, outputs
assert not all(any(ref() is not None for ref in refs) for refs in kept), "still in memory"
"""
)
_SUBSET = (
    _GRAPH
    + """
expected = dict(enumerate(gradients(outputs, leaves, grads)))
wanted = WANTED
original, first = inputs, []


def inputs():
    given = original()
    first[:] = [each for each in tensors(given) if each.requires_grad]
    for at, each in enumerate(first):
        each.requires_grad_(at in wanted)
    return given


shapes = [each.shape for each in outputs]
given, leaves, found = call()
some = torch.autograd.grad(
    found, leaves, [grads[at] for at in REACHED], allow_unused=True, materialize_grads=True
) if found else [torch.zeros_like(each) for each in leaves]
assert_same(tuple(some), tuple(expected[at] for at in wanted))
"""
)
SECOND_ORDER = (
    _GRAPH
    + """
for each in grads:
    each.requires_grad_()
try:
    found = torch.autograd.grad(outputs, leaves, grads, create_graph=True, allow_unused=True)
except Exception:
    found = []  # refused, and so not silently wrong
for each in found:
    cut = each is not None and each.any() and not each.requires_grad
    assert not cut, "not connected to grad_output: second-order gradients lack this part"
"""
)
CHECKPOINT = (
    _GRAPH
    + """
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

expected = gradients(outputs, leaves, grads)
results, original = [], op


def op(*args, **kwargs):
    def recording(*_):
        result = original(*args, **kwargs)
        results.append([each.detach().clone() for each in tensors(result)])
        return result

    return checkpoint(recording, *tensors((args, kwargs)), use_reentrant=False)


with set_checkpoint_early_stop(False):
    given, leaves, outputs = call()
    got = torch.autograd.grad(
        outputs, leaves, grads, allow_unused=True, materialize_grads=True
    )
assert_same(results[0], results[-1])
COMPARE
"""
)
NARROW = (
    _GRAPH
    + """
drawn, expected = [], []
args, kwargs = inputs()
found = gradients(outputs, leaves, grads)
for trial in range(8):
    torch.manual_seed(trial)
    steps = [torch.randn_like(each).sgn() * STEP * (at == WHICH) for at, each in enumerate(leaves)]
    moved = []
    for sign in (1, -1):
        original, rest = inputs, iter(steps)
        inputs = lambda: torch.utils._pytree.tree_map_only(
            torch.Tensor,
            lambda each: (each.detach() + sign * next(rest)).requires_grad_()
            if each.requires_grad else each,
            original(),
        )
        moved.append(call())
        inputs = original
    (_, up, above), (_, down, below) = moved
    drawn.append(sum(
        (each.conj() * (one - two)).real.sum().item() for each, one, two in zip(grads, above, below)
    ))
    expected.append(sum(
        (each.conj() * (one - two)).real.sum().item() for each, one, two in zip(found, up, down)
    ))
drawn, expected = torch.tensor([drawn, expected])
error = (drawn - expected).norm() / torch.maximum(drawn.norm(), expected.norm())
assert error < 0.3, f"finite differences and gradients differ by {error:.0%}"
"""
)


def _filled(lines: str, **parts: object) -> str:
    for name, text in parts.items():
        lines = lines.replace(name, str(text))
    return lines


def layout(placed: dict[str, str]) -> str:
    """Lines that give grad_outputs in a layout.

    Args:
        placed: for a grad_output, `grads[0]`, the expression that lays it out.
    """
    lines = [f"{one.replace('grads', 'laid_out')} = {how}" for one, how in placed.items()]
    lay_out = LAY_OUT if "lay_out(" in "".join(placed.values()) else ""
    return lay_out + _filled(_LAYOUT, PLACED="\n".join(["laid_out = list(grads)", *lines]))


def unused(used: list[int]) -> str:
    """Lines that use only the outputs at these positions."""
    return _filled(_UNUSED, USED=used)


def stale(which: str) -> str:
    """Lines that change a tensor, `given[0]` or `outputs[1]`, between forward and backward."""
    return _filled(_STALE, WHICH=which)


def freed(which: str) -> str:
    """Lines that see whether `given` or `outputs` go when nothing refers to them."""
    return _filled(FREED, WHICH=which)


def subset(wanted: list[int], reached: list[int]) -> str:
    """Lines that ask for some gradients only.

    Args:
        wanted: the positions of the arguments, of those that require gradients.
        reached: the positions of the outputs that then require gradients.
    """
    return _filled(_SUBSET, WANTED=wanted, REACHED=reached)


def checkpoint(gradients: bool) -> str:
    """Lines that compare the recomputed outputs, and with `gradients` the gradients too."""
    compare = "assert_same(got, expected)" if gradients else ""
    return _filled(CHECKPOINT, COMPARE=compare)


def narrow(which: int, step: float) -> str:
    """Lines that compare with differences along random directions in one argument."""
    return _filled(NARROW, WHICH=which, STEP=repr(step))
