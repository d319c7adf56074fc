"""Find out how the results of an op change when a small or a large number is added to integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from ....cases.arguments import Arguments
from ....cases.case import Case
from ....cases.tensors import is_differentiable
from ...values.memory.calls import Caller, Leaves, comparable, copied, results
from ..linear_rule import LinearRule, difference_text
from ..precision.randomness import may_be_random

_SMALL = (1, 2, 5)  # added to learn the rule
_MOST = 4  # a result may change by so many times what is added
_SPAN = 24  # different numbers, at most
_FAR = 2**33  # vanishes where a number is cut to 32 bits


class Kind(NamedTuple):
    """A dtype that integers may pass through.

    Args:
        dtype: its name.
        control: a number that it still holds when added to small ones.
        demanding: a number from which on it does not hold each integer.
    """

    dtype: str
    control: int
    demanding: int


KINDS = (
    Kind("float32", 2**23, 2**24 + 1),
    Kind("int32", 2**30, 2**31),
    Kind("float64", 2**52, 2**53 + 1),
)


class Verdict(NamedTuple):
    """The outcome of the calls.

    Args:
        reason: why nothing was compared; empty if something was.
        wrong: how a result differs from the expected one; empty if none does.
        result: its name.
        names: the arguments that a number was added to.
        kind: the dtype that they seem to pass through.
        added: the number.
        ordered: whether the numbers were sorted.
    """

    reason: str = ""
    wrong: str = ""
    result: str = ""
    names: tuple[str, ...] = ()
    kind: Kind = KINDS[0]
    added: int = 0
    ordered: bool = False


class Shifts:
    """The calls of an op with numbers added to some of its arguments.

    Args:
        case: of the op.
        lowest: by argument, the smallest number that it may have.
        highest: the largest number that all of them may have.
        fractions: whether floating-point results count. They may have float64 precision on purpose.
    """

    def __init__(
        self, case: Case, lowest: dict[str, int], highest: int, *, fractions: bool
    ) -> None:
        self._case = case
        self._calls = Caller(case)
        self._lowest = lowest
        self._highest = highest
        self._fractions = fractions

    def verdict(self) -> Verdict:
        """The first difference, for all arguments together and for each alone."""
        if may_be_random(self._case, lambda: self._calls(self._case.inputs())):
            return Verdict(reason="the op may draw random numbers")
        all_names = tuple(self._lowest)
        answers = []
        for names in dict.fromkeys([all_names, *((name,) for name in all_names)]):
            answers += [self._of(names, ordered) for ordered in (False, True)]
            if answers[-1].wrong or answers[-2].wrong:
                return next(answer for answer in answers[-2:] if answer.wrong)
        judged = [answer for answer in answers if not answer.reason]
        return judged[0] if judged else answers[0]

    def _of(self, names: tuple[str, ...], ordered: bool) -> Verdict:
        rules = self._learned(names, ordered, 1)
        if not rules:
            return Verdict(reason="no result follows a simple rule when a small number is added")
        for kind in KINDS:
            if kind.demanding + _FAR * (kind.dtype == "int32") + 2 * _SPAN > self._highest:
                continue
            if self._differs(rules, self._at(names, ordered, 1, kind.control), kind.control):
                continue
            judge = self._cut if kind.dtype == "int32" else self._rounded
            verdict = judge(rules, names, ordered, kind)
            if verdict is not None:
                return verdict
        return Verdict()

    def _cut(
        self, rules: dict[str, LinearRule], names: tuple[str, ...], ordered: bool, kind: Kind
    ) -> Verdict | None:
        """A result that is wrong beyond 2**31 as if numbers were cut to 32 bits."""
        middle = kind.demanding - _SPAN // 4
        across = self._at(names, ordered, 1, middle)
        far = self._at(names, ordered, 1, _FAR)
        for name, rule in rules.items():
            if across is None or far is None or name not in across or name not in far:
                continue
            if rule.moves:
                wrong = difference_text(far[name], rule.expected(_FAR))
                gap = far[name] - rule.expected(_FAR) if wrong and _alike(far[name], rule) else None
                if gap is not None and bool((gap % 2**32 == 0).all()):
                    return Verdict("", f"{name}: {wrong}", name, names, kind, _FAR, ordered)
            elif difference_text(far[name], rule.first) is None:
                wrong = difference_text(across[name], rule.first)
                if wrong:
                    return Verdict("", f"{name}: {wrong}", name, names, kind, middle, ordered)
        return None

    def _rounded(
        self, rules: dict[str, LinearRule], names: tuple[str, ...], ordered: bool, kind: Kind
    ) -> Verdict | None:
        """A result that is wrong where neighbours round to one number, but right for even numbers."""
        added = kind.demanding
        actual = self._at(names, ordered, 1, added)
        if actual is None or not self._differs(rules, actual, added):
            return None
        evens = self._learned(names, ordered, 2)
        even = self._at(names, ordered, 2, added - 1)
        for name, rule in rules.items():
            if name not in actual or name not in evens or even is None or name not in even:
                continue
            if is_differentiable(rule.first.dtype) and kind.dtype != "float64":
                continue
            wrong = difference_text(actual[name], rule.expected(added))
            if (
                wrong is None
                or difference_text(even[name], evens[name].expected(added - 1)) is not None
            ):
                continue
            if rule.moves:
                gap = actual[name] - rule.expected(added)
                if not bool((gap.abs() <= 2 * _MOST).all()):
                    continue
            return Verdict("", f"{name}: {wrong}", name, names, kind, added, ordered)
        return None

    def _learned(self, names: tuple[str, ...], ordered: bool, times: int) -> dict[str, LinearRule]:
        """The rule of each result that has one, by its name.

        Args:
            times: the factor of the small numbers, and of what is added to them.
        """
        first = self._at(names, ordered, times, 0)
        others = [self._at(names, ordered, times, times * added) for added in _SMALL]
        if first is None or any(output is None for output in others):
            return {}
        rules = {}
        for name, value in first.items():
            if is_differentiable(value.dtype) and not self._fractions:
                continue
            rule = _rule(value, [(output or {}).get(name) for output in others], times)
            if rule is not None:
                rules[name] = rule
        return rules

    def _differs(
        self, rules: dict[str, LinearRule], actual: dict[str, torch.Tensor] | None, added: int
    ) -> bool:
        """Whether a result does not follow its rule, or the op raises."""
        if actual is None:
            return True
        return any(
            name not in actual or difference_text(actual[name], rule.expected(added)) is not None
            for name, rule in rules.items()
        )

    def _at(
        self, names: tuple[str, ...], ordered: bool, times: int, added: int
    ) -> dict[str, torch.Tensor] | None:
        """The results by their names; None where the op raises."""
        run = self._calls(self._inputs(names, ordered, times, added))
        if run.error is not None:
            return None
        return _tensors(copied(results(run)))

    def _inputs(self, names: tuple[str, ...], ordered: bool, times: int, added: int) -> Arguments:
        def change(name: str, tensor: torch.Tensor) -> torch.Tensor:
            if name not in self._lowest:
                return tensor
            seed = list(self._lowest).index(name)
            more = added if name in names else 0
            start = self._lowest[name]
            return numbers(tensor, seed, ordered).mul_(times).add_(start + more)

        return self._case.inputs().map_distinct(change)


def numbers(like: torch.Tensor, seed: int, ordered: bool) -> torch.Tensor:
    """Consecutive integers from 0 on, some of them twice, in the sizes and strides of a tensor."""
    span = min(_SPAN, 1 + 2 * like.numel() // 3)
    step = next(number for number in (7, 5, 3, 2, 1) if math.gcd(number, span) == 1)
    values = (torch.arange(like.numel()) * step + 3 * seed) % span
    if ordered:
        values = values.sort().values
    return torch.empty_like(like).copy_(values.reshape(like.shape))


def _tensors(leaves: Leaves) -> dict[str, torch.Tensor]:
    """The results as tensors of real numbers."""
    tensors = {}
    for name, leaf in leaves:
        value = torch.as_tensor(leaf) if isinstance(leaf, (bool, int, float)) else leaf
        if isinstance(value, torch.Tensor) and comparable(value) and not value.is_complex():
            tensors[name] = value
    return tensors


def _rule(
    first: torch.Tensor, others: Sequence[torch.Tensor | None], times: int
) -> LinearRule | None:
    """How a result changes; None without a rule, or if it stays a single number throughout."""
    if any(
        value is None or value.shape != first.shape or value.dtype != first.dtype
        for value in others
    ):
        return None
    later = [value for value in others if value is not None]
    if first.dtype == torch.int64:
        step = (later[0] - first) // times
        rule = LinearRule(first, step)
        follows = bool((step.abs() <= _MOST).all()) and all(
            torch.equal(value, rule.expected(times * added))
            for value, added in zip(later, _SMALL, strict=True)
        )
    else:
        rule = LinearRule(first, torch.zeros(()))
        follows = all(difference_text(value, first) is None for value in later)
    varied = first.numel() > 1 and bool((first != first.flatten()[0]).any())
    return rule if follows and (varied or rule.moves) else None


def _alike(actual: torch.Tensor, rule: LinearRule) -> bool:
    return actual.shape == rule.first.shape and actual.dtype == rule.first.dtype
