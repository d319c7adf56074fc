"""What a specimen is, and the list of all of them."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

import torch

from pytest_customop import CheckResult, check_op
from pytest_customop.checks import builtin_checks

TORCH = tuple(int(number) for number in torch.__version__.split(".")[:2])


@dataclass(frozen=True)
class Since:
    """A code that depends on the version of torch: None means that the check finds nothing."""

    version: tuple[int, ...]
    code: Optional[str]
    before: Optional[str]

    def here(self) -> Optional[str]:
        """The code on the torch that runs."""
        return self.code if self.version <= TORCH else self.before


def since(version: str, code: Optional[str], before: Optional[str] = None) -> Since:
    """`code` from this version of torch on, `before` on older ones."""
    return Since(tuple(int(number) for number in version.split(".")), code, before)


Codes = Mapping[str, Union[str, Since, tuple[str, ...], None]]


@dataclass(frozen=True, eq=False)
class Specimen:
    """One op, its samples, and what the checks say about it.

    Args:
        name: also the op's name, in the namespace `zoo`.
        make: registers the op and returns it; use `op()`, which does so once.
        samples: as `check_op` takes them.
        expected: check -> the code that it reports on at least one case; a tuple where cases differ.
            Checks that are not named pass or are skipped. Empty for a correct op, and for one whose
            samples do not show what is wrong with it.
        skips: check -> the code with which it says that it could not judge.
        twin_of: the broken specimens that this one does right.
        options: what else the mark has to say.
        backend: of `compile.*`.
        also: checks that run beside the default ones, because they run only when asked for by name.
        notes: the same as `expected` for findings that are noted, and fail nothing.
        variant_findings: the same as `expected` for the variants of the samples, of an op whose
            samples show nothing.
        variant_notes: the same for findings on variants that are noted.
        shown_by: names of variants that show it; there may be others.
        variant_set: the smallest value of `--customop-variants` that has those variants.
        plain: the samples of the author who writes a single simple example; None derives it from
            the first sample (`tests.zoo.plain`).
    """

    name: str
    make: Callable[[], Any]
    samples: Sequence[Any]
    expected: Codes = field(default_factory=dict)
    skips: Codes = field(default_factory=dict)
    twin_of: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "inductor"
    also: tuple[str, ...] = ()
    notes: Codes = field(default_factory=dict)
    variant_findings: Codes = field(default_factory=dict)
    variant_notes: Codes = field(default_factory=dict)
    shown_by: tuple[str, ...] = ()
    variant_set: str = "quick"
    plain: Optional[Sequence[Any]] = None

    @property
    def broken(self) -> bool:
        """Whether anything is wrong with it."""
        return bool(self.expected or self.shown_by_variants)

    @property
    def shown_by_variants(self) -> bool:
        """Whether variants of the samples show what is wrong with it, and the samples do not."""
        return bool(self.variant_findings or self.variant_notes)

    @property
    def about(self) -> str:
        """What is wrong with it, or what makes it easy to misjudge."""
        return " ".join((self.make.__doc__ or "").split())

    def op(self) -> Any:
        """The op, registered at the first call."""
        return _made(self.make)

    def checks(self) -> list[str]:
        """The checks that run by default, and those of `also`."""
        return [*(check.name for check in builtin_checks() if check.default), *self.also]

    def check(self, checks: Optional[Collection[str]] = None) -> list[CheckResult]:
        """Run checks on the samples, without variants.

        Args:
            checks: names of checks; None for all of `checks()`. Those that are not in `checks()` are
                left out.
        """
        chosen = [name for name in self.checks() if checks is None or name in checks]
        options = {"variants": False, **self.options, "checks": chosen}
        return check_op(self.op(), self.samples, backend=self.backend, **options)

    def check_with_variants(
        self, amount: str, checks: Optional[Sequence[str]] = None
    ) -> list[CheckResult]:
        """Run checks on the samples and on their variants.

        Args:
            amount: as in `--customop-variants`.
            checks: names of checks; None for those that run by default.
        """
        options = {**self.options, "checks": checks} if checks else dict(self.options)
        return check_op(self.op(), self.samples, backend=self.backend, variants=amount, **options)

    def findings(self) -> set[tuple[str, str]]:
        """The (check, code) pairs expected on the torch that runs."""
        return _pairs(self.expected)

    def every_finding(self) -> set[tuple[str, str]]:
        """The (check, code) pairs expected on any torch, and those noted on variants."""
        return _pairs(self.expected, everywhere=True) | _pairs(self.variant_notes, everywhere=True)

    def variants_show(self) -> set[tuple[str, str]]:
        """The (check, code) pairs expected of the variants, on the torch that runs."""
        return _pairs(self.variant_findings)

    def noted(self) -> set[tuple[str, str]]:
        """The (check, code) pairs that are noted on the samples, on the torch that runs."""
        return _pairs(self.notes)

    def variants_note(self) -> set[tuple[str, str]]:
        """The (check, code) pairs that are noted on the variants, on the torch that runs."""
        return _pairs(self.variant_notes)

    def limits(self) -> set[tuple[str, str]]:
        """The (check, skip code) pairs expected on the torch that runs."""
        return _pairs(self.skips)


@functools.cache
def _made(make: Callable[[], Any]) -> Any:
    return make()


def _pairs(codes: Codes, everywhere: bool = False) -> set[tuple[str, str]]:
    pairs = set()
    for check, value in codes.items():
        for item in value if isinstance(value, tuple) else (value,):
            known = (item,)
            if isinstance(item, Since):
                known = (item.code, item.before) if everywhere else (item.here(),)
            pairs |= {(check, code) for code in known if code is not None}
    return pairs


_specimens: dict[str, Specimen] = {}


def specimen(*samples: Any, **declared: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Declare the function below to be a specimen: it registers `zoo::<its name>` and returns it.

    Args:
        samples: of the specimen.
        declared: `expected`, `skips`, `twin_of`, `backend`, `also`, `notes`, `variant_findings`,
            `variant_notes`, `shown_by`, `variant_set`, `plain`; everything else goes into the mark.
    """
    fields = (
        *("expected", "skips", "twin_of", "backend", "also", "notes"),
        *("variant_findings", "variant_notes", "shown_by", "variant_set", "plain"),
    )
    attributes = {key: declared.pop(key) for key in fields if key in declared}
    for key in ("twin_of", "shown_by"):
        if isinstance(attributes.get(key), str):
            attributes[key] = (attributes[key],)

    def declare(make: Callable[[], Any]) -> Callable[[], Any]:
        name = make.__name__
        if name in _specimens:
            raise ValueError(f"two specimens are named {name}")
        if not make.__doc__:
            raise ValueError(f"specimen {name} does not say what is wrong with it")
        _specimens[name] = Specimen(name, make, samples, options=declared, **attributes)
        return make

    return declare


def specimens() -> dict[str, Specimen]:
    """Every specimen by name; no op is registered yet."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name != "__main__":
            importlib.import_module(f".{module.name}", __package__)
    return _specimens


@functools.cache
def library() -> torch.library.Library:
    """The one library of the zoo, for ops that `torch.library.custom_op` would not let through."""
    return torch.library.Library("zoo", "FRAGMENT")
