"""`relations.seed`: a random op gives the same for the same seed, and draws from its generator."""

from __future__ import annotations

from typing import Any

import torch

from ...cases.case import Case, Run
from ...core import rng
from ...core.tracebacks import error_line, reraise_bug
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import copied, results, skip_if_no_results, with_argument
from .compare import disagreement
from .scripts import call_lines, compare_lines

_OTHER = 1_276_019_553  # added to the case's seed


def check_seed(case: Case) -> None:
    """Call the op twice from one state of all random streams; then from one state of its generator."""
    skip_if_no_results(case)
    name = _generator_of(case.op)
    given = name is not None and name in dict(case.inputs().named())
    _compare(case, name if given else None, "outputs-ignore-seed")
    if name is not None:
        _compare(case, name, "outputs-ignore-generator", other=_OTHER)


def _is_random(op: Op) -> bool:
    return op.tagged("nondeterministic_seeded")


def _generator_of(op: Op) -> str | None:
    """The name of the argument that is a `torch.Generator`; None without one."""
    names = [one.name for one in op.arguments if "Generator" in str(one.type)]
    return names[0] if names else None


def _compare(case: Case, generator: str | None, code: str, other: int = 0) -> None:
    """Compare two calls from equal states.

    Args:
        generator: the argument that gets a new generator of one seed; None: none.
        code: of the finding.
        other: what the seed of the streams of the process differs by in the second call.
    """
    first = _call(case, generator, 0)
    kept = copied(results(first))
    second = _call(case, generator, other)
    wrong = disagreement(case, results(second), kept)
    if wrong is None:
        return
    where = f"from two generators of one seed (`{generator}`)" if generator else "from one seed"
    raise fail(
        code,
        f"{case.op.name}: two calls with equal inputs, {where}, give other values: {wrong}",
        repro=_script(case, generator, other, wrong.name),
        picture=wrong.picture,
    )


def _call(case: Case, generator: str | None, other: int) -> Run:
    arguments = case.inputs()
    if generator is not None:
        made = torch.Generator(case.placement.device).manual_seed(case.seed)
        arguments = with_argument(arguments, generator, made)
    rng.seed(case.seed + other)
    try:
        return Run(arguments, arguments.call())
    except Exception as error:  # whatever an op raises
        reraise_bug(error)
        reason = f"the op raises {error_line(error)}"
        raise skip("nothing-to-check", reason, unjudged=False) from None


def _script(case: Case, generator: str | None, other: int, result: str) -> str:
    changed = ""
    if generator is not None:
        made = f"torch.Generator({case.placement.device!r}).manual_seed({case.seed})"
        changed = _place(case, generator, made)
    lines = call_lines(result).replace("manual_seed(seed)", "manual_seed(SEEDS.pop())", 1)
    again = f"args, kwargs = inputs()\nargs = list(args)\n{changed}"
    return (
        f"{lines}\nSEEDS = [seed + {other}, seed]\n{again}expected = call(args, kwargs)\n"
        f"{again}got = call(args, kwargs)\n{compare_lines(case, result)}"
    )


def _place(case: Case, name: str, value: Any) -> str:
    """The line that gives an argument another value."""
    names = [argument.name for argument in case.op.positional][: len(case.sample.args)]
    place = f"args[{names.index(name)}]" if name in names else f"kwargs[{name!r}]"
    return f"{place} = {value}\n"


FINDINGS = {
    "outputs-ignore-seed": Explanation(
        meaning=(
            "The op is tagged torch.Tag.nondeterministic_seeded, and two calls from one seed "
            "(torch.manual_seed, and those of numpy and Python) give other values."
        ),
        why=(
            "The tag says that the seed decides. Activation checkpointing restores the random state and "
            "calls the op again: it gets another mask, and wrong gradients. No run can be repeated."
        ),
        fix=(
            "Draw from torch's generator of the device, or seed one of your own from it. If the values "
            'come from hardware or time on purpose, write checks=["-relations.seed"].'
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
            "The op takes a torch.Generator, and two calls with generators of one seed give other values "
            "where the global random streams differ."
        ),
        why="The caller's generator does not decide: what it is given for cannot be repeated.",
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
        "Of an op tagged `nondeterministic_seeded`: other values for the same seed of torch, numpy and "
        "Python. Of one that also takes a `torch.Generator`: other values for generators of one seed, "
        "where the global streams differ."
    ),
    cannot_see="Random numbers of the backward, and differences that rounding explains.",
    cost="calls",
)
