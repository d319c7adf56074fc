"""`relations.position_range`: positions in a range that a number gives may be as far apart as it says."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import torch

from ...cases.argument_names import names_counts_of_places, names_offsets, names_positions
from ...cases.arguments import Arguments
from ...cases.case import Case
from ...cases.tensors import base_name, is_plain
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    Caller,
    copied,
    expression,
    plain_arguments,
    results,
    skip_if_incomparable,
    with_argument,
)
from ..values.memory.limited_copy import answer_of_copy
from .linear_rule import LinearRule, difference_text
from .scripts import call_lines, position

_SMALL = (2, 3, 5)  # the factors to learn from
_CONTROL = 30_000  # places, whose square fits in 32 bits
_MANY = 100_000  # places, whose square does not


class _Ranges(NamedTuple):
    """What is multiplied.

    Args:
        positions: the names of the tensors.
        counts: how many places there are, by the names of the numbers.
    """

    positions: tuple[str, ...]
    counts: dict[str, int]


class _Wrong(NamedTuple):
    """A result that follows its rule for small factors, and not for a large one.

    Args:
        result: its name.
        text: how it differs.
        factor: the large one.
    """

    result: str
    text: str
    factor: int


def check_position_range(case: Case) -> None:
    """Multiply positions, and the number of places, by a small and by a large factor.

    If results stay the same for small ones, or grow with the factor, they must do so for a large one.
    """
    skip_if_incomparable(case)
    ranges = _ranges(case)
    if not ranges.counts:
        reason = "no number says how many places there are for positions"
        raise skip("nothing-to-check", reason, unjudged=False)
    is_judged, wrong = answer_of_copy(case, lambda plain: _wrong(plain, ranges))
    if not is_judged:
        reason = "no result follows a simple rule where positions and the number of places grow"
        raise skip("nothing-to-check", reason, unjudged=False)
    if wrong is not None:
        counts = ", ".join(
            f"{name}={count * wrong.factor}" for name, count in ranges.counts.items()
        )
        raise fail(
            "position-overflow",
            f"{case.op.name}: with {' and '.join(ranges.positions)} times {wrong.factor} and {counts} it "
            f"breaks the rule that it follows for fewer places: {wrong.text}",
            "Products of a position and the number of places exceed 32 bits here.",
            repro=_script(case, ranges, wrong),
        )


def _ranges(case: Case) -> _Ranges:
    """Positions that are all below numbers, which are no sizes of tensors."""
    arguments = case.inputs()
    sizes = {size for _, tensor in arguments.tensors() for size in tensor.shape}
    counts = {
        name: value
        for name, value in plain_arguments(arguments)
        if type(value) is int and value > 1 and value not in sizes and names_counts_of_places(name)
    }
    least = min(counts.values(), default=0)
    positions = tuple(
        name
        for name, tensor in arguments.tensors()
        if names_positions(base_name(name)) and _are_positions(base_name(name), tensor, least)
    )
    return _Ranges(positions, counts if positions else {})


def _are_positions(name: str, tensor: torch.Tensor, places: int) -> bool:
    if tensor.dtype not in (torch.int32, torch.int64) or not is_plain(tensor):
        return False
    if names_offsets(name) or not tensor.numel():
        return False
    return int(tensor.min()) >= 0 and int(tensor.max()) < places


def _wrong(case: Case, ranges: _Ranges) -> tuple[bool, _Wrong | None]:
    """Whether a result follows a rule for small factors; the first one that breaks it for a large one."""
    calls = Caller(case)

    def call(factor: int) -> dict[str, torch.Tensor] | None:
        run = calls(_multiplied(case.inputs(), ranges, factor))
        if run.error is not None:
            return None
        return {name: leaf for name, leaf in copied(results(run)) if isinstance(leaf, torch.Tensor)}

    first, *others = [call(factor) for factor in (1, *_SMALL)]
    rules = {}
    for name, value in (first or {}).items():
        rule = _rule(value, [(other or {}).get(name) for other in others])
        if rule is not None:
            rules[name] = rule
    if not rules:
        return False, None
    most = max(ranges.counts.values())
    few, many = (ceil(places / most) for places in (_CONTROL, _MANY))
    control, large = call(few), call(many)
    if control is None or large is None:
        return False, None
    for name, rule in rules.items():
        if name not in control or difference_text(control[name], rule.expected(few - 1)):
            continue
        expected = rule.expected(many - 1)
        text = difference_text(large[name], expected) if name in large else "it is missing"
        if text is not None:
            return True, _Wrong(name, f"{name}: {text}", many)
    return True, None


def _multiplied(arguments: Arguments, ranges: _Ranges, factor: int) -> Arguments:
    def multiply(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.mul_(factor) if name in ranges.positions else tensor

    multiplied = arguments.map_distinct(multiply)
    for name, count in ranges.counts.items():
        multiplied = with_argument(multiplied, name, count * factor)
    return multiplied


def _rule(first: torch.Tensor, others: list[torch.Tensor | None]) -> LinearRule | None:
    """How a result changes; None without a rule, or if all of its elements are one number throughout."""
    later = [value for value in others if value is not None and value.shape == first.shape]
    if len(later) < len(others):
        return None
    integers = first.dtype in (torch.int32, torch.int64)
    rule = LinearRule(first, later[0] - first if integers else torch.zeros(()))
    pairs = zip(later, _SMALL, strict=True)
    follows = all(
        difference_text(value, rule.expected(factor - 1)) is None for value, factor in pairs
    )
    varied = first.numel() > 1 and bool((first != first.flatten()[0]).any())
    return rule if follows and varied else None


def _script(case: Case, ranges: _Ranges, wrong: _Wrong) -> str:
    tensors = "".join(f"    {expression(case, name)}.mul_(factor)\n" for name in ranges.positions)
    numbers = "".join(f"    {expression(case, name)} *= factor\n" for name in ranges.counts)
    return (
        call_lines(wrong.result)
        + "\ndef result(factor):\n    args, kwargs = inputs()\n    args = list(args)\n"
        + f"{tensors}{numbers}    return call(args, kwargs)[{position(case, wrong.result)}]\n\n\n"
        + "first = result(1)\n"
        + "integers = first.dtype in (torch.int32, torch.int64)\n"
        + "step = result(2) - first if integers else torch.zeros(())\n"
        + f"expected = first + step * ({wrong.factor} - 1) if step.any() else first\n"
        + "rtol = 1e-4 if first.is_floating_point() else 0.0\n"
        + f"torch.testing.assert_close(result({wrong.factor}), expected, rtol=rtol, atol=0.0)\n"
    )


FINDINGS = {
    "position-overflow": Explanation(
        meaning=(
            "With positions and the number of places multiplied by 2, 3 and 5, and with 30,000 places, the "
            "results stay the same, or grow with the factor. With 100,000 places they do not, as if "
            "products of a position and that number were cut to 32 bits."
        ),
        why=(
            "Pairs of positions are often sorted, compared or looked up by one key, row * num_nodes + col. "
            "In 32 bits it overflows from 46,341 places on: different pairs become equal, and pairs appear "
            "that are not there."
        ),
        fix=(
            "Compute keys in int64_t, and in torch.int64: convert the positions before the product. If the "
            "op is made for few places, have it raise an exception for more, or write "
            'checks=["-relations.position_range"].'
        ),
        before="""
keys = row.numpy().astype(numpy.int32) * num_nodes + col.numpy()   # in C++: an int
""",
        after="""
keys = row.numpy().astype(numpy.int64) * num_nodes + col.numpy()   # in C++: an int64_t
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_ATTRIBUTES),
        follows=("stale-result", "uninitialized-output", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.position_range",
    summary="positions may be as large as a number allows: products of both do not overflow",
    run=check_position_range,
    gradients=False,
    integer_tensors=True,
    variants=(),
    cheap=True,
    in_copies=lambda case: bool(_ranges(case).counts),
    findings=FINDINGS,
    catches=(
        "Keys such as `row * num_nodes + col` in 32 bits, in native kernels and numpy. Positions and the "
        "number of places are multiplied by 2, 3 and 5, and by factors that lead to 30,000 and 100,000 "
        "places. Results that stay the same, or grow with the factor, for the small ones and for 30,000 "
        "must do so for 100,000."
    ),
    cannot_see=(
        "Ops in which the number of places is the size of a tensor. Results whose shape depends on it. "
        "Numbers that are not named like a count of places (`num_nodes`, `n_cols`, `size`)."
    ),
    cost="calls",
)
