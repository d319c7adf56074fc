"""`python -m tests.zoo [WORD ...]`: what opcheck alone and what every check says, specimen by specimen.

Words select the specimens whose names contain one of them. The last column marks a specimen on which
the checks say something else than it expects.
"""

import logging
import sys
import warnings
from collections.abc import Sequence

import torch

from pytest_customop import Sample, ops
from pytest_customop.draw import Placement, draw
from pytest_customop.report.terminal import aligned

from .registry import Specimen, specimens

HEADER = ("specimen", "expected", "opcheck alone", "found", "")


def main(words: Sequence[str]) -> int:
    """Print the table; the exit status says whether every specimen is told as it expects."""
    chosen = [one for one in specimens().values() if _chosen(one, words)]
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    rows = [list(HEADER)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows += [_row(one) for one in chosen]
    print("\n".join(aligned(rows)))
    return int(any(row[-1] for row in rows[1:]))


def _chosen(one: Specimen, words: Sequence[str]) -> bool:
    return not words or any(word in one.name for word in words)


def _row(one: Specimen) -> list[str]:
    found = {
        (result.check, result.finding or "error")
        for result in one.check()
        if result.outcome in ("failed", "error")
    }
    expected = one.findings()
    return [
        one.name,
        _told(expected),
        ", ".join(_opcheck(one)) or "-",
        "as expected" if found == expected else _told(found),
        "" if found == expected else "<--",
    ]


def _told(pairs: set[tuple[str, str]]) -> str:
    """`fake.forward, compile.static: code` for every code."""
    by_code: dict[str, list[str]] = {}
    for check, code in sorted(pairs):
        by_code.setdefault(code, []).append(check)
    return "; ".join(f"{', '.join(checks)}: {code}" for code, checks in by_code.items()) or "-"


def _opcheck(one: Specimen) -> list[str]:
    """The utilities of torch.library.opcheck that fail on any sample, as torch itself runs them."""
    op = ops.resolve(one.op())
    dtype = (one.options.get("dtypes") or [torch.float32])[0]
    where = Placement("cpu", dtype, op.has_formula, "contiguous")
    failed: dict[str, None] = {}
    for given in one.samples:
        sample = given if isinstance(given, Sample) else Sample(given)
        drawn = draw(op, sample, where, 0)
        told = torch.library.opcheck(
            op.overload, drawn.args, dict(drawn.kwargs), raise_exception=False
        )
        failed |= dict.fromkeys(name for name, verdict in told.items() if verdict != "SUCCESS")
    return list(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
