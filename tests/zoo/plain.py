"""What one plain example shows: `python -m tests.zoo.plain [--amounts off quick full] [WORD ...]`.

Every specimen gets one simple example and no more: its first sample, made plain, with none of the
options by which an author tells what to look at. The amounts of variants run one after the other for
each specimen, in an order that rotates, so that the times of one run can be compared; they are of the
processor, that of compilers included. Words select the specimens whose names contain one of them.
"""

import argparse
import logging
import os
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional

import torch
import torch._dynamo
import torch._inductor.config

from pytest_customop import CheckResult, Sample, check_op
from pytest_customop.cases.arguments import Placement, draw
from pytest_customop.core.tables import aligned
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import TensorSpec
from pytest_customop.declare.ops import Op
from pytest_customop.global_state.preserve import preserved_state
from pytest_customop.settings import AMOUNTS

from .registry import Specimen, specimens

_KEPT = ("gradcheck", "reference", "tolerances")  # options that are not about examples


def main(arguments: Sequence[str]) -> int:
    """Print a line a specimen and the totals; the exit status is 1 if a correct op is failed or noted."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.plain")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--amounts", nargs="+", choices=AMOUNTS, default=AMOUNTS)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth specimen only")
    parser.add_argument("--backend", help="of compile.*, in place of each specimen's own")
    args = parser.parse_args(arguments)
    chosen = [
        specimen
        for specimen in specimens().values()
        if not args.words or any(word in specimen.name for word in args.words)
    ][:: args.every]
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    # Otherwise the second amount would find the compiled code of the first.
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.compile_threads = 1  # no processes that outlive a measurement
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[tuple[bool, str, str], int] = defaultdict(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(_measured(chosen[0], ["off"], args.backend))  # what torch does once
        for number, specimen in enumerate(chosen):
            for amount, spent, failed, noted in _measured(
                specimen, _rotated(args.amounts, number), args.backend
            ):
                seconds[amount] += spent
                counts[specimen.broken, "failed", amount] += bool(failed)
                counts[specimen.broken, "noted", amount] += bool(noted and not failed)
                kind = "broken" if specimen.broken else "correct"
                line = f"{_line(failed)}; noted: {_line(noted)}" if noted else _line(failed)
                print(f"{specimen.name} ({kind}) {amount} {spent:.1f} s: {line}", flush=True)
    broken = sum(specimen.broken for specimen in chosen)
    rows = [["", *args.amounts]]
    for title, which, outcome in (
        (f"broken ops failed, of {broken}", True, "failed"),
        ("  only noted", True, "noted"),
        (f"correct ops failed, of {len(chosen) - broken}", False, "failed"),
        ("  only noted", False, "noted"),
    ):
        rows.append([title, *(str(counts[which, outcome, amount]) for amount in args.amounts)])
    rows.append(["seconds", *(f"{seconds[amount]:.0f}" for amount in args.amounts)])
    first = seconds[args.amounts[0]] or 1.0
    rows.append(["ratio", *(f"{seconds[amount] / first:.2f}" for amount in args.amounts)])
    print("\n".join(aligned(rows)))
    return int(any(count for (which, _, _), count in counts.items() if not which))


def _rotated(amounts: Sequence[str], by: int) -> list[str]:
    by %= len(amounts)
    return [*amounts[by:], *amounts[:by]]


def _line(pairs: set[tuple[str, str]]) -> str:
    return ", ".join(f"{check} {code}" for check, code in sorted(pairs)) or "-"


def _measured(
    specimen: Specimen, amounts: Sequence[str], backend: Optional[str]
) -> Iterator[tuple[str, float, set[tuple[str, str]], set[tuple[str, str]]]]:
    """(amount, seconds, what fails, what is noted) of each amount."""
    samples, options = plain_mark(specimen)
    if specimen.also:
        options["checks"] = specimen.checks()
    for amount in amounts:
        torch._dynamo.reset()
        start = _spent()
        with preserved_state():
            results = check_op(
                specimen.op(),
                samples,
                backend=backend or specimen.backend,
                variants=amount,
                **options,
            )
        spent = _spent() - start
        yield amount, spent, _found(results, "failed", "error"), _found(results, "noted")


def _spent() -> float:
    """Seconds of the processor in this process and in those that it waited for."""
    return sum(os.times()[:4])


def _found(results: Sequence[CheckResult], *outcomes: str) -> set[tuple[str, str]]:
    return {
        (result.check, result.finding or "error")
        for result in results
        if result.outcome in outcomes
    }


def plain_mark(specimen: Specimen) -> tuple[Sequence[Any], dict[str, Any]]:
    """The simple example of an op, and the other keywords of its mark."""
    samples, dtypes = _plain(specimen)
    options = {name: specimen.options[name] for name in _KEPT if name in specimen.options}
    return samples, options | ({"dtypes": dtypes} if dtypes else {})


def _plain(specimen: Specimen) -> tuple[Sequence[Any], list[torch.dtype]]:
    """One simple example of an op, and the dtypes that it needs; none where it takes float32.

    Contiguous, of even sizes from 2 on, its flags at their defaults. What the op refuses of this is
    left as it is in the specimen's first sample.
    """
    if specimen.plain is not None:
        return specimen.plain, []
    op = ops.resolve(specimen.op())
    first = specimen.samples[0]
    first = (
        first if isinstance(first, Sample) else Sample(first if type(first) is tuple else (first,))
    )
    declared = list(specimen.options.get("dtypes") or [])[:1]
    sets = [declared] if declared and declared[0].is_complex else [[], declared]
    for dtypes in sets:
        for even in (True, False):
            sample = _simple(op, first, even)
            if _runs(op, sample, (dtypes or [torch.float32])[0]):
                return [sample], dtypes
    return [first], declared


def _runs(op: Op, sample: Sample, dtype: torch.dtype) -> bool:
    try:
        with preserved_state():
            drawn = draw(op, sample, Placement("cpu", dtype, False, "contiguous"), 0)
            op.overload(*drawn.args, **drawn.kwargs)
    except Exception:  # whatever it refuses the arguments with
        return False
    return True


def _simple(op: Op, first: Sample, even: bool) -> Sample:
    """The sample with contiguous tensors of free dtypes, and without flags that have defaults."""
    bound = [(argument, value) for argument, value in op.bind(first)]
    leaves = [leaf for _, value in bound for leaf in (value if _listed(value) else [value])]
    sizes = _even_sizes(leaves) if even else {}
    flags = {
        argument.name
        for argument, value in bound
        if isinstance(value, bool) and argument.has_default_value()
    }
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for position, (argument, value) in enumerate(bound):
        if argument.name in flags:
            continue
        new = _simplified(value, sizes)
        by_place = position < len(first.args) and len(args) == position
        args.append(new) if by_place else kwargs.update({argument.name: new})
    return Sample(tuple(args), kwargs, "plain")


def _listed(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _simplified(value: Any, sizes: Mapping[int, int]) -> Any:
    if _listed(value):
        return type(value)(_simplified(item, sizes) for item in value)
    if not isinstance(value, TensorSpec):
        return value
    shape = tuple(sizes.get(size, size) for size in value.shape)
    free = value.dtype is not None and value.dtype.is_floating_point
    return replace(
        value,
        shape=shape if value.values is None else value.shape,
        dtype=None if free else value.dtype,
        layout=None,
        requires_grad=False if value.requires_grad is False else None,  # a fact about the op
    )


def _even_sizes(leaves: Sequence[Any]) -> dict[int, int]:
    """Each size -> an even one from 2 on, another one for each; sizes of listed values stay."""
    specs = [leaf for leaf in leaves if isinstance(leaf, TensorSpec)]
    fixed = {size for spec in specs if spec.values is not None for size in spec.shape}
    all_sizes = {size for spec in specs for size in spec.shape}
    kept = {size for size in all_sizes if size in fixed or (size >= 2 and size % 2 == 0)}
    sizes = {size: size for size in kept}
    for size in sorted(all_sizes - kept):
        even = max(2, size + size % 2)
        while even in sizes.values():
            even += 2
        sizes[size] = even
    return sizes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
