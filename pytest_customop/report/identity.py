"""The identity and the name of a result of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

Result = Mapping[str, Any]

# Together with the node id, or a part of it, these identify a result.
_FIELDS = (
    "op",
    "check",
    "device",
    "dtype",
    "requires_grad",
    "layout",
    "sample",
    "variant",
)


def place_key(result: Result) -> tuple[Hashable, ...]:
    """The op, the check and the case, without the name of the test."""
    return (*(result[name] for name in _FIELDS), _parameters(result["nodeid"]))


def result_key(result: Result) -> tuple[Hashable, ...]:
    """The test, the op, the check and the case."""
    return (result["nodeid"], *place_key(result))


def numbered(results: Iterable[Result]) -> Iterator[tuple[tuple[Hashable, ...], Result]]:
    """Each result with a key of its own: a test may run a check by hand several times."""
    counts: Counter[tuple[Hashable, ...]] = Counter()
    for result in results:
        key = result_key(result)
        yield (*key, counts[key]), result
        counts[key] += 1


def case_name(result: Result) -> str:
    """The case as it reads in node ids: `cpu-float32-withgrad-wide~empty0`."""
    gradients = {True: "withgrad", False: "nograd", None: ""}[result["requires_grad"]]
    layout = "" if result["layout"] == "contiguous" else result["layout"]
    sample = "~".join(filter(None, (result["sample"], result["variant"])))
    parts = (result["device"], result["dtype"], gradients, layout, sample)
    return "-".join(filter(None, parts)) or str(result["nodeid"])


def _parameters(nodeid: str) -> str:
    """The parameters of a node id: `cpu-float32-nograd-0-fake.forward`."""
    name = nodeid.partition("::")[2]
    return name.partition("[")[2].removesuffix("]")
