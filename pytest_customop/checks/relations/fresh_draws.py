"""`relations.fresh_draws`: a random op draws other numbers at each call."""

from __future__ import annotations

import re

from ...cases.argument_names import names_seed
from ...cases.case import Case
from ...cases.documented import sentences
from ...core import rng
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail
from ..check import Check
from ..values.memory.calls import Leaves, copied, results, skip_if_no_results
from ..values.memory.limited_copy import answer_if_taken
from .compare import disagreement
from .scripts import call_lines, position
from .unseeded import call_unseeded

_OTHER = 1_276_019_553  # added to the seed
# In a sentence: that calls repeat each other on purpose.
_ON_PURPOSE = re.compile(
    r"\b(same|equal|identical|fixed)\b[^.;]*\b(each|every|all|repeated|both) (calls?|time)\b"
    r"|\b(each|every|all|repeated) (calls?|time)\b[^.;]*\b(same|equal|identical|fixed)\b"
    r"|\binitial_seed\b|\bonce (per|for each|for all)\b",
    re.I,
)


def check_fresh_draws(case: Case) -> None:
    """Call the op twice in a row, and once more from another seed."""
    skip_if_no_results(case)
    name = answer_if_taken(case, _answer, "the op gives the same from another seed")
    if name is not None:
        raise fail(
            "same-draw-at-each-call",
            f"{case.op.name}: two calls in a row give the same {name}, though from another "
            "torch.manual_seed it is something else: each call begins with the seed",
            repro=_script(case, name),
        )


def _draws_from_torch(op: Op) -> bool:
    """Whether an op is tagged as random, gets no seed, and is not said to repeat its numbers."""
    if not op.tagged("nondeterministic_seeded"):
        return False
    arguments = [(item.name, str(item.type)) for item in op.arguments]
    if any(names_seed(name) or "Generator" in kind for name, kind in arguments):
        return False
    return not any(map(_ON_PURPOSE.search, sentences(op, of_op=True)))


def _answer(case: Case) -> tuple[bool, str | None]:
    """Whether a result depends on the seed, and the name of one that two calls in a row do not change."""

    def found() -> Leaves:
        return copied(results(call_unseeded(case.inputs())))

    rng.seed(case.seed)
    first, second = found(), found()
    rng.seed(case.seed + _OTHER)
    other = found()
    wrong = disagreement(case, other, first)
    if wrong is None:
        return False, None
    return True, wrong.name if disagreement(case, second, first) is None else None


def _script(case: Case, name: str) -> str:
    lines = call_lines(name).replace("    torch.manual_seed(seed)\n", "", 1)
    at = position(case, name)
    return (
        f"{lines}\n\ndef drawn():\n    args, kwargs = inputs()\n    return call(args, kwargs)[{at}]\n\n\n"
        f"torch.manual_seed(seed)\nfirst, second = drawn(), drawn()\n"
        f"torch.manual_seed(seed + {_OTHER})\nother = drawn()\n"
        "assert torch.equal(other, first) or not torch.equal(second, first), 'the same numbers again'\n"
    )


FINDINGS = {
    "same-draw-at-each-call": Explanation(
        meaning=(
            "The op is tagged torch.Tag.nondeterministic_seeded and depends on torch.manual_seed, but two "
            "calls in a row draw the same numbers."
        ),
        why=(
            "A generator that is made at each call, from torch.initial_seed() or a fixed number, begins "
            "anew each time. Each step of a training drops the same elements, and the mean of many samples "
            "is that of one."
        ),
        fix=(
            "Draw from torch's generator, which goes on from call to call, or seed your own from it: "
            "torch.randint(2**63 - 1, ()).item(). If each call is meant to draw the same, say so in the "
            "docstring, or give the op a seed as an argument."
        ),
        before="""
generator = numpy.random.default_rng(torch.initial_seed())
""",
        after="""
generator = numpy.random.default_rng(int(torch.randint(2**63 - 1, ())))
""",
        docs=(doc_links.RANDOM, doc_links.RANDOMNESS),
        follows=("outputs-ignore-seed",),
    ),
}

CHECK = Check(
    name="relations.fresh_draws",
    summary="a random op draws other numbers at each call",
    run=check_fresh_draws,
    gradients=False,
    needs=_draws_from_torch,
    variants=(),
    findings=FINDINGS,
    catches=(
        "An op tagged as random that depends on torch's seed and draws the same numbers at each call, as "
        "with a generator that is made from `torch.initial_seed()`."
    ),
    cannot_see=(
        "Ops without the tag, ops that take a seed or a generator, and ops whose docstrings say that calls "
        "give the same."
    ),
    cost="calls",
)
