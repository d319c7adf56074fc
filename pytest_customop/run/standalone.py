"""Check an op without pytest: `check_op`, and the hooks of plugins outside of pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pluggy
import torch

from .. import hookspecs
from ..cases.case import Case
from ..checks import Check, builtin_checks
from ..core.hooks import call_hook
from ..declare.declaration import Declaration, declare_call
from ..declare.inputs import ErrorSample, GradOptions
from ..declare.mistakes import MarkError, raised_at_call
from ..plan.items import PlannedItem, place_of
from ..plan.matrix import plan
from ..plan.selection import registry_from, select_checks
from ..settings import Settings, Variants
from ..settings.values import read_variants, validate_backend
from .devices import why_absent
from .engine import run_check
from .fresh import fresh_process_for
from .known import not_run
from .prepare import prepare_checks
from .results import CheckResult


class BuiltinChecks:
    """A plugin that registers the built-in checks, as any other plugin registers its own."""

    @hookspecs.hookimpl
    def pytest_customop_register_checks(self) -> Iterable[Check]:
        """Every built-in check."""
        return builtin_checks()


class _PluginManager(pluggy.PluginManager):
    """Treats functions with a hook's name as hooks, as pytest does, so that a conftest can be a plugin."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        marked = super().parse_hookimpl_opts(plugin, name)
        is_hook = name.startswith("pytest_customop_") and callable(getattr(plugin, name, None))
        return {} if marked is None and is_hook else marked


def standalone_hook(plugins: Iterable[object] = ()) -> Any:
    """A hook caller without pytest: the package's checks, and the hooks of the plugins given."""
    manager = _PluginManager("pytest")
    manager.add_hookspecs(hookspecs)
    manager.register(BuiltinChecks())
    for plugin in plugins:
        manager.register(plugin)
    return manager.hook


@raised_at_call
def check_op(
    op: Any,
    samples: Iterable[Any] | Callable[..., Iterable[Any]],
    *,
    devices: str | Sequence[str] | None = None,
    dtypes: torch.dtype | Sequence[torch.dtype] | None = None,
    requires_grad: bool | Sequence[bool] | None = None,
    layouts: str | Sequence[str] = ("contiguous",),
    axes: Mapping[str, Sequence[Any]] | None = None,
    skip_if: Callable[[Any], str | None] | None = None,
    checks: str | Sequence[str] | None = None,
    tolerances: Mapping[torch.dtype, tuple[float, float]] | tuple[float, float] | None = None,
    gradcheck: GradOptions | str | None = None,
    reference: Callable[..., Any] | None = None,
    errors: Sequence[ErrorSample] = (),
    variants: bool | str | int | Callable[[Any], str | None] | Sequence[Any] | None = None,
    backend: str = "inductor",
    seed: int = 0,
    max_samples: int | None = None,
    plugins: Iterable[object] = (),
) -> list[CheckResult]:
    """Check an op without pytest: in a notebook, a script, or another test framework.

    Args:
        op, samples, devices, dtypes, requires_grad, layouts, axes, skip_if, checks, tolerances,
            gradcheck, reference, errors: as in `customop_cases`.
        variants: the variants of the samples that are tried too, with the words of
            `--customop-variants`: an amount (`"off"`, `"quick"`, `"full"`, a number per sample), kinds
            (`"shape"`, ...), or both: `("quick", "shape")`. False: none; None: `"quick"`. `"strict"`
            turns notes into failures. A function `(variant) -> reason or None`, alone or among the words,
            leaves out variants that the op does not support.
        backend: the name of a `torch.compile` backend.
        seed: the seed of every drawn value.
        max_samples: the most samples to use, chosen by the seed; None: all.
        plugins: objects with hooks of `pytest_customop.hookspecs`: further checks, devices.

    Returns:
        One result per check and case, in the order in which they ran. `print(result)` shows its full text.

    Raises:
        MarkError: for invalid arguments.
        HookError: for a mistake in a hook of the plugins.
    """
    try:
        selection, unsupported = read_variants_and_predicate(variants)
        settings = _read_settings(backend, seed, max_samples)._replace(variants=selection)
    except ValueError as error:
        raise MarkError(f"check_op: {error}") from None
    declaration = declare_call(
        {
            "op": op,
            "samples": samples,
            "devices": devices,
            "dtypes": dtypes,
            "requires_grad": requires_grad,
            "layouts": layouts,
            "axes": axes,
            "skip_if": skip_if,
            "checks": checks,
            "tolerances": tolerances,
            "gradcheck": gradcheck,
            "reference": reference,
            "errors": errors,
            "variants": unsupported,
        },
        "check_op",
    )
    results = run_declaration(declaration, settings, standalone_hook(plugins))
    return _shorten_repeated_errors(results)


def _read_settings(backend: Any, seed: Any, max_samples: Any) -> Settings:
    """The settings of a call; raises `ValueError` for a value that is not allowed."""
    if not isinstance(backend, str):
        raise ValueError(f"backend is {backend!r}: give the name of a torch.compile backend")
    validate_backend(backend)
    if type(seed) is not int:
        raise ValueError(f"seed is {seed!r}: give an integer")
    if max_samples is not None and (type(max_samples) is not int or max_samples < 1):
        raise ValueError(f"max_samples is {max_samples!r}: give an integer of 1 or more")
    return Settings(backend=backend, seed=seed, max_samples=max_samples)


def read_variants_and_predicate(value: Any) -> tuple[Variants, Callable[[Any], str | None] | None]:
    """The amount and the kinds of variants, and the function that leaves out unsupported ones.

    Raises:
        ValueError: for any other value.
    """
    if value is None or isinstance(value, bool):
        return Variants("off" if value is False else "quick"), None
    listed = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    functions = [item for item in listed if callable(item)]
    choices = [
        choice.strip() if isinstance(choice, str) else choice
        for item in listed
        if not callable(item)
        for choice in (item.split(",") if isinstance(item, str) else [item])
    ]
    if not listed or len(functions) > 1:
        raise ValueError(
            f"variants is {value!r}: give amounts and kinds, and at most one function of a variant"
        )
    try:
        return read_variants(choices), next(iter(functions), None)
    except ValueError as error:
        raise ValueError(f"variants: {error}") from None


def run_declaration(declaration: Declaration, settings: Settings, hook: Any) -> list[CheckResult]:
    """Plan and run the checks of one declaration, releasing each case when it is done."""
    registry = registry_from(hook)

    def select(declared: Declaration) -> list[Check]:
        return select_checks(registry, declared, settings)

    items = plan([declaration], settings, select, lambda device: why_absent(device, hook))
    planned = [item for item in items if not item.is_body]
    call_hook(hook.pytest_customop_modify_cases, definition=None, planned=planned)
    prepare_checks([(item, None) for item in planned])
    with fresh_process_for(planned):
        return _run_all(planned)


def _run_all(planned: Iterable[PlannedItem]) -> list[CheckResult]:
    """The results of the items, in order."""
    results: list[CheckResult] = []
    last: tuple[Case, ...] = ()
    for item in planned:
        for case in last:
            if case not in item.cases:
                case.release()
        last = item.cases
        if item.skip is not None:
            results += _not_run(item)
        elif item.check is not None:
            results += _run(item, item.check)
    return results


def _run(planned: PlannedItem, check: Check) -> Iterator[CheckResult]:
    """The result on the item's case, or on each of its variants."""
    for case in planned.checked_cases:
        if not_run(planned.known, case.variant) is None:
            yield run_check(check, case)
        else:
            place = place_of(case)
            yield CheckResult(
                planned.op, check.name, case.id, "xfailed", message="not run", place=place
            )
        if planned.variants:
            case.release_if_large()


def _shorten_repeated_errors(results: Iterable[CheckResult]) -> list[CheckResult]:
    """The results, with a failing eager call in full only for the first check of a case."""
    first: dict[tuple[str, str], str] = {}
    shortened = []
    for result in results:
        if (
            result.finding == "eager-raises"
            and first.setdefault((result.op, result.case), result.check) != result.check
        ):
            result = replace(result, reported_above=True, evidence="", arguments=(), reproduce=None)
        shortened.append(result)
    return shortened


def _not_run(item: PlannedItem) -> Iterator[CheckResult]:
    """The skipped results of an item that does not run: one per variant, if it has any."""
    skipped = CheckResult(
        item.op, "", item.id, "skipped", message=item.skip or "", place=item.place
    )
    if not item.variants:
        yield skipped
    for variant in item.variants:
        case = variant.case
        yield replace(skipped, case=case.id, message=variant.skip or "", place=place_of(case))
