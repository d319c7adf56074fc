"""`python -m tests.zoo [WORD ...]`: what opcheck, a loop written by hand and the plugin each say.

Words select the specimens whose names contain one of them. The last column marks a specimen on which
the checks say something else than it expects. The totals follow the table. Ops whose samples show
nothing, and their twins, are the matter of `python -m tests.zoo.plain`.
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence

import torch

from pytest_customop import Sample
from pytest_customop.cases.arguments import Arguments, Placement, draw
from pytest_customop.core.tables import aligned
from pytest_customop.declare import ops
from pytest_customop.declare.ops import Op
from pytest_customop.global_state.preserve import preserved_state

from .by_hand import by_hand, opcheck_alone
from .registry import Specimen, specimens

HEADER = ("specimen", "opcheck alone", "loop by hand", "pytest-customop", "")


def main(parts: Sequence[str]) -> int:
    """Print the table; the exit status says whether every specimen is told as it expects."""
    chosen = [specimen for specimen in specimens().values() if _chosen(specimen, parts)]
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [_row(specimen) for specimen in chosen]
    broken = [row for specimen, row in zip(chosen, rows, strict=True) if specimen.expected]
    correct = [row for specimen, row in zip(chosen, rows, strict=True) if not specimen.expected]
    print("\n".join(aligned([list(HEADER), *broken, *correct])))
    print()
    totals = [["", *HEADER[1:4]]]
    for title, group in (("broken ops found", broken), ("correct ops failed", correct)):
        counts = [sum(row[column] != "-" for row in group) for column in (1, 2, 3)]
        totals.append([f"{title}, of {len(group)}", *map(str, counts)])
    print("\n".join(aligned(totals)))
    return int(any(row[-1] for row in rows))


def _chosen(specimen: Specimen, parts: Sequence[str]) -> bool:
    for_variants = specimen.shown_by_variants or any(
        specimens()[name].shown_by_variants for name in specimen.twin_of
    )
    return not for_variants and (not parts or any(part in specimen.name for part in parts))


def _row(specimen: Specimen) -> list[str]:
    findings = {
        (result.check, result.finding or "error")
        for result in specimen.check()
        if result.outcome in ("failed", "error")
    }
    alone: dict[str, None] = {}
    loop: dict[str, None] = {}
    op = ops.resolve(specimen.op())
    for drawn in _inputs(specimen, op):
        with preserved_state():
            alone |= dict.fromkeys(opcheck_alone(op.overload, drawn.args, dict(drawn.kwargs)))
    for drawn in _inputs(specimen, op):
        kwargs = dict(drawn.kwargs)
        with preserved_state():
            loop |= dict.fromkeys(
                by_hand(op.overload, drawn.args, kwargs, specimen.backend, op.has_autograd)
            )
    return [
        specimen.name,
        ", ".join(alone) or "-",
        ", ".join(loop) or "-",
        _told(findings),
        "" if findings == specimen.findings() else "<--",
    ]


def _told(pairs: set[tuple[str, str]]) -> str:
    """`fake.forward, compile.static: code` for every code."""
    by_code: dict[str, list[str]] = {}
    for check, code in sorted(pairs):
        by_code.setdefault(code, []).append(check)
    return "; ".join(f"{', '.join(checks)}: {code}" for code, checks in by_code.items()) or "-"


def _inputs(specimen: Specimen, op: Op) -> Iterator[Arguments]:
    """What an author would try: each sample, in one dtype, with gradients if the op has a formula."""
    dtype = (specimen.options.get("dtypes") or [torch.float32])[0]
    where = Placement("cpu", dtype, op.has_autograd, "contiguous")
    for sample in specimen.samples:
        yield draw(op, sample if isinstance(sample, Sample) else Sample(sample), where, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
