"""`relations.seed`: a random op gives the same for the same seed, and draws from its generator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ...cases.case import Case
from ...cases.documented import has_own_generator, speaks_of_seed, zero_is_no_seed
from ...cases.picture import picture_of
from ...cases.run import Run
from ...core import rng
from ...declare.ops import Op
from ...findings import NOT_ASKED, CheckSkipped, Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Leaves,
    copied,
    expression,
    results,
    skip_if_no_results,
    with_argument,
)
from .compare import Disagreement, disagreement
from .scripts import call_lines, compare_lines
from .unseeded import call_unseeded

_HALF = (torch.float16, torch.bfloat16)
_FEW = 0.1  # of the elements: a sum in another order may change that many last digits
_OTHER = 1_276_019_553  # added to the case's seed


def check_seed(case: Case) -> None:
    """Call the op twice from one state of all random streams, of torch's only, and of its generator."""
    skip_if_no_results(case)
    if has_own_generator(case.op):
        reason = "a docstring says that the op does not draw from torch's seed"
        raise skip("nothing-to-check", reason, unjudged=False)
    name = _generator_of(case.op)
    generator = _generator(case, name) if name is not None else None
    is_given = name is not None and name in dict(case.inputs().named())
    given = generator if is_given else None
    _compare(case, given, "outputs-ignore-seed")
    _compare_besides_torch(case, given)
    if generator is not None:
        _compare(case, generator, "outputs-ignore-generator", other=_OTHER)
    seed = _optional_seed_of(case.op)
    if seed is not None and case.base_case is None and not zero_is_no_seed(case.op, seed):
        with contextlib.suppress(CheckSkipped):  # it may reject a seed
            _compare_zero(case, seed)


def _is_random(op: Op) -> bool:
    return op.tagged("nondeterministic_seeded")


class _Argument(NamedTuple):
    """An argument that decides what a random op draws.

    Args:
        name: of the argument.
        make: makes its value, anew for each call.
        expression: of the value, for a script.
        what: for a message.
    """

    name: str
    make: Callable[[], Any]
    expression: str
    what: str


def _generator(case: Case, name: str) -> _Argument:
    """A new generator of the case's seed."""
    device, seed = case.placement.device, case.seed
    return _Argument(
        name,
        lambda: torch.Generator(device).manual_seed(seed),
        f"torch.Generator({device!r}).manual_seed({seed})",
        f"from two generators of one seed (`{name}`)",
    )


def _generator_of(op: Op) -> str | None:
    """The name of the argument that is a `torch.Generator`; None without one."""
    names = [argument.name for argument in op.arguments if "Generator" in str(argument.type)]
    return names[0] if names else None


def _optional_seed_of(op: Op) -> str | None:
    """The name of the argument that is an optional seed; None without one."""
    names = [
        argument.name
        for argument in op.arguments
        if argument.name.endswith("seed") and str(argument.type) == "Optional[int]"
    ]
    return names[0] if names else None


def _compare_zero(case: Case, name: str) -> None:
    """Compare two calls with the seed 0, which an op may take for None: `if seed:`.

    Before that, the seed must show that it works: without one, the random streams of the process decide,
    and with another one they do not.
    """
    sample = dict(case.inputs().named()).get(name)
    usual = sample if type(sample) is int and sample else 1
    if _difference(case, _number(name, None)) is None or any(
        _difference(case, _number(name, usual), shift) for shift in (_OTHER, 1, 2)
    ):
        return
    _compare(case, _number(name, 0), "zero-taken-for-no-seed", other=_OTHER)


def _number(name: str, value: int | None) -> _Argument:
    what = f"with {name}={value!r} and other states of the random streams of the process"
    return _Argument(name, lambda: value, repr(value), what)


def _compare_besides_torch(case: Case, argument: _Argument | None) -> None:
    """Compare two calls from one torch seed and different states of Python's and numpy's streams."""
    kept = copied(results(_call(case, argument, 0)))
    actual = results(_call(case, argument, 0, besides_torch=_OTHER))
    wrong = _disagreement(case, actual, kept)
    if wrong is not None:
        raise fail(
            "outputs-ignore-seed",
            f"{case.op.name}: two calls with equal inputs, from one torch.manual_seed and different states "
            f"of Python's and numpy's random streams, give different values: {wrong}",
            repro=_script(case, argument, 0, wrong.name),
            picture=wrong.picture,
            note=None if speaks_of_seed(case.op) else NOT_ASKED,
        )


def _difference(case: Case, argument: _Argument | None, other: int = _OTHER) -> Disagreement | None:
    """How two calls differ, the second one from other states of the random streams of the process.

    Args:
        argument: the argument that both calls get; None: none.
        other: by how much the seed of the streams differs; 0: not at all.
    """
    first = _call(case, argument, 0)
    kept = copied(results(first))
    return _disagreement(case, results(_call(case, argument, other)), kept)


def _disagreement(case: Case, actual: Leaves, expected: Leaves) -> Disagreement | None:
    """The first difference, as `compare.disagreement`, and in half precision that of many last digits.

    There a last digit lies within the tolerances, and stochastic rounding changes nothing else.
    """
    wrong = disagreement(case, actual, expected)
    of_other = dict(expected)
    for name, value in actual if wrong is None else ():
        other = of_other.get(name)
        if not isinstance(value, torch.Tensor) or value.dtype not in _HALF:
            continue
        if not isinstance(other, torch.Tensor) or other.shape != value.shape:
            continue
        differs = (value != other) & ~(value.isnan() & other.isnan())
        if int(differs.sum()) > _FEW * value.numel():
            text = f"{int(differs.sum())} of {value.numel()} elements differ, by a last digit"
            return Disagreement(name, text, picture_of(name, value, other))
    return wrong


def _compare(case: Case, argument: _Argument | None, code: str, other: int = 0) -> None:
    """Fail with a finding of this code if two calls differ; see `_difference`."""
    wrong = _difference(case, argument, other)
    if wrong is None:
        return
    where = "from one seed" if argument is None else argument.what
    raise fail(
        code,
        f"{case.op.name}: two calls with equal inputs, {where}, give different values: {wrong}",
        repro=_script(case, argument, other, wrong.name),
        picture=wrong.picture,
    )


def _call(
    case: Case, argument: _Argument | None, other: int, *, besides_torch: int | None = None
) -> Run:
    """One call.

    Args:
        argument: the argument that it gets; None: none.
        other: by how much the seed of all streams differs.
        besides_torch: the same for Python's and numpy's streams; None: as torch's.
    """
    arguments = case.inputs()
    if argument is not None:
        arguments = with_argument(arguments, argument.name, argument.make())
    rng.seed(case.seed + other)
    if besides_torch is not None:
        rng.seed_besides_torch(case.seed + besides_torch)
    return call_unseeded(arguments)


def _script(case: Case, argument: _Argument | None, other: int, result: str) -> str:
    changed = (
        "" if argument is None else f"{expression(case, argument.name)} = {argument.expression}\n"
    )
    lines = call_lines(result).replace("manual_seed(seed)", "manual_seed(SEEDS.pop())", 1)
    setup = f"args, kwargs = inputs()\nargs = list(args)\n{changed}"
    return (
        f"{lines}\nSEEDS = [seed + {other}, seed]\n{setup}expected = call(args, kwargs)\n"
        f"{setup}got = call(args, kwargs)\n{compare_lines(case, result)}"
    )


FINDINGS = {
    "outputs-ignore-seed": Explanation(
        meaning=(
            "The op is tagged torch.Tag.nondeterministic_seeded, but two calls from one seed give "
            "different values. That holds for torch.manual_seed alone, or also if numpy and Python are "
            "seeded."
        ),
        why=(
            "The tag says that the seed decides. Activation checkpointing restores the random state and "
            "calls the op again: it gets another mask, and wrong gradients. No run can be repeated."
        ),
        fix=(
            "Draw from torch's generator of the device, or seed your own from it. If the values come from "
            'hardware or time on purpose, write checks=["-relations.seed"].'
        ),
        before="""
noise = numpy.random.default_rng().standard_normal(x.shape)   # seeded from the system
""",
        after="""
noise = torch.randn(x.shape, device=x.device)
""",
        docs=(doc_links.RANDOMNESS, doc_links.RANDOM),
        follows=("stale-result", "uninitialized-output"),
    ),
    "outputs-ignore-generator": Explanation(
        meaning=(
            "The op takes a torch.Generator, but two calls with generators of one seed give different "
            "values where the global random streams differ."
        ),
        why=(
            "The caller's generator does not decide what is drawn, so the caller cannot reproduce the "
            "values."
        ),
        fix="Pass the generator on to every function that draws: torch.rand(..., generator=generator).",
        before="""
return x * (torch.rand(x.shape, device=x.device) > p)
""",
        after="""
return x * (torch.rand(x.shape, generator=generator, device=x.device) > p)
""",
        docs=(doc_links.RANDOM, doc_links.RANDOMNESS),
        follows=("outputs-ignore-seed", "stale-result"),
    ),
    "zero-taken-for-no-seed": Explanation(
        meaning=(
            "The op takes an optional seed. With another seed, it alone decides. With 0, the random "
            "streams of the process decide, as without a seed."
        ),
        why="0 is the seed that most callers begin with, and their runs cannot be repeated.",
        fix=(
            "Test `seed is not None`. If 0 is meant to be no seed, say so where a docstring describes the "
            'argument ("0: no seed"), or write checks=["-relations.seed"].'
        ),
        before="""
generator = torch.Generator().manual_seed(seed) if seed else None
""",
        after="""
generator = torch.Generator().manual_seed(seed) if seed is not None else None
""",
        docs=(doc_links.RANDOM, doc_links.RANDOMNESS),
        follows=("outputs-ignore-seed", "stale-result"),
    ),
}

CHECK = Check(
    name="relations.seed",
    summary="a random op gives the same for the same seed, and for generators of one seed",
    run=check_seed,
    needs=_is_random,
    variants=("arguments",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "An op tagged `nondeterministic_seeded` that gives different values for the same seed of torch, "
        "numpy and Python, or of torch alone (a note where no docstring speaks of seeds). One that takes a "
        "`torch.Generator`, and gives different values for generators of one seed where the global streams "
        "differ. An optional seed whose 0 is taken for none. An op with its own generator, according to "
        "its docstring, is left alone."
    ),
    cannot_see="Random numbers of the backward, and differences that rounding explains.",
    cost="calls",
)
