"""`relations.bucket_range`: numbers that an op maps to the places of a table stay inside of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from ...cases.argument_names import names_large_numbers, names_positions, names_table_size
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.crash_risk import may_crash
from ...cases.documented_integers import Range, integer_range
from ...cases.tensors import base_name, is_plain
from ...declare.inputs import TensorSpec
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import Caller, expression, results, skip_if_incomparable
from ..values.memory.limited_copy import answer_safely
from .random_integers import random_integer_lines, with_random_integers
from .scripts import call_lines, position

_EXPONENTS = (31, 40, 62)  # of the largest number
_SEED = 0


class _Table(NamedTuple):
    """A result that has a place of a table for each number.

    Args:
        result: its name.
        size: the name of the argument that says how many places there are.
        places: how many.
    """

    result: str
    size: str
    places: int


class _Broken(NamedTuple):
    """Numbers that get places outside of a table.

    Args:
        table: the table.
        exponent: the numbers are below 2 to this power.
        outside: some of the places.
    """

    table: _Table
    exponent: int
    outside: list[int]


def check_bucket_range(case: Case) -> None:
    """Call the op with larger integers, whose places must stay in the range of the sample's."""
    skip_if_incomparable(case)
    tables = _tables(case)
    limits = _limits(case) if tables else {}
    if not limits:
        reason = "no integer argument is mapped to places of a table whose size is an argument"
        raise skip("nothing-to-check", reason, unjudged=False)
    broken = answer_safely(case, lambda plain: _broken(plain, tables, limits))
    if broken is not None:
        table = broken.table
        raise fail(
            "bucket-out-of-range",
            f"{case.op.name}: for numbers {_named(limits, broken.exponent)} in {', '.join(limits)}, "
            f"{table.result} holds {', '.join(map(str, broken.outside))}; for those of the sample it is "
            f"from 0 to {table.size} - 1 = {table.places - 1}",
            repro=_script(case, broken, limits),
        )


def _tables(case: Case) -> list[_Table]:
    """The integer results whose numbers, several different ones, are all below such an argument."""
    sizes = [
        (argument.name, value)
        for argument, value in case.op.bind(case.sample)
        if type(value) is int and value > 1 and names_table_size(argument.name)
    ]
    tables = []
    for name, result in results(case.eager):
        if not isinstance(result, torch.Tensor) or result.dtype not in (torch.int32, torch.int64):
            continue
        if not result.numel() or int(result.min()) < 0:
            continue
        if int(result.min()) < int(result.max()):
            tables += [
                _Table(name, size, places) for size, places in sizes if int(result.max()) < places
            ]
    return tables


def _limits(case: Case) -> dict[str, Range]:
    """The int64 arguments that stand for numbers of any size, each with those that it may hold."""
    is_native = may_crash(case)
    specs = dict(case.sample_tensors())
    limits = {}
    for name, tensor in case.inputs().tensors():
        base = base_name(name)
        if tensor.dtype != torch.int64 or not is_plain(tensor) or name not in specs:
            continue
        documented = integer_range(case.op, base)
        if documented is not None and documented.high > int(tensor.max()):
            limits[name] = documented
            continue
        if not names_large_numbers(base) and (is_native or names_positions(base)):
            continue
        spec = specs[name]
        high = spec.high if isinstance(spec, TensorSpec) and spec.values is None else None
        if high is None or names_large_numbers(base):
            limits[name] = Range(0, 2**63 - 1 if high is None else int(high) - 1)
    return limits


def _within(limits: Mapping[str, Range], exponent: int) -> dict[str, Range]:
    """By argument, the numbers that it may hold whose magnitude is below 2 to a power."""
    most = 2**exponent
    return {name: Range(max(low, -most), min(high, most)) for name, (low, high) in limits.items()}


def _named(limits: Mapping[str, Range], exponent: int) -> str:
    signed = any(each.low < 0 for each in limits.values())
    return f"of both signs, nearer to 0 than 2**{exponent}," if signed else f"below 2**{exponent}"


def _broken(case: Case, tables: list[_Table], limits: Mapping[str, Range]) -> _Broken | None:
    calls = Caller(case)
    for exponent in _EXPONENTS:
        run = calls(_filled(case.inputs(), _within(limits, exponent)))
        if run.error is not None:
            return None
        found = dict(results(run))
        for table in tables:
            result = found.get(table.result)
            if not isinstance(result, torch.Tensor):
                continue
            outside = torch.unique(result[(result < 0) | (result >= table.places)])
            if outside.numel() > 1:  # one number may stand for those that are in no table
                return _Broken(table, exponent, outside[:3].tolist())
    return None


def _filled(arguments: Arguments, limits: Mapping[str, Range]) -> Arguments:
    def filled(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name not in limits:
            return tensor
        low, high = limits[name]
        return with_random_integers(tensor, high, _SEED, low)

    return arguments.map_distinct(filled)


def _script(case: Case, broken: _Broken, limits: Mapping[str, Range]) -> str:
    table = broken.table
    lines = "".join(
        random_integer_lines(expression(case, name), high, _SEED, low)
        for name, (low, high) in _within(limits, broken.exponent).items()
    )
    return (
        call_lines(table.result)
        + f"\nargs, kwargs = inputs()\nargs = list(args)\n{lines}"
        + f"places = call(args, kwargs)[{position(case, table.result)}]\n"
        + f"outside = places[(places < 0) | (places >= {table.places})]\n"
        + "assert outside.unique().numel() <= 1, outside\n"
    )


FINDINGS = {
    "bucket-out-of-range": Explanation(
        meaning=(
            "On the sample, all numbers of a result are from 0 to an argument such as num_buckets less "
            "one. For larger integers, several of them are not."
        ),
        why=(
            "A product in a hash wraps and becomes negative, and the remainder of a negative number is "
            "negative in C++, numpy's fmod and torch.fmod. Whoever looks up a table at these places reads "
            "outside of it."
        ),
        fix=(
            "Compute hashes in unsigned integers (uint64_t), or take the remainder as Python does: "
            "torch.remainder, or ((h % n) + n) % n. If the op is made for small numbers, declare that with "
            'tensor(high=) in the sample, or write checks=["-relations.bucket_range"].'
        ),
        before="""
return torch.fmod(ids * 2654435761, num_buckets)   # negative where the product wraps
""",
        after="""
return torch.remainder(ids * 2654435761, num_buckets)
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.bucket_range",
    summary="numbers that an op maps to the places of a table stay inside of the table",
    run=check_bucket_range,
    gradients=False,
    integer_tensors=True,
    variants=(),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Places outside of a table: a hash that becomes negative for large ids, a key that overflows. If "
        "an integer result of the sample is always below an argument such as num_buckets, it must be so "
        "for ids up to 2**31, 2**40 and 2**62 too, within tensor(high=) or a range that a docstring gives, "
        "and for ids below 0 if that has such. One number outside may stand for missing places; several "
        "are a finding."
    ),
    cannot_see=(
        "Ops whose table size is not an argument, and integers below 0 that no docstring allows. Native "
        "kernels get larger numbers only in arguments that are named like ids, keys, hashes or times, or "
        "whose range a docstring gives."
    ),
    cost="calls",
)
