"""pytest's hooks, nothing else; the fixtures are in `fixtures.py`. Loading it imports no torch.

Sessions without marked tests load it too, so that what only those need is imported where it is used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from . import hookspecs
from .marks import CELL, NAME, concerns
from .options import add_options
from .session import ATTRIBUTE, PLANNED, RESULTS, SESSION, Session

if TYPE_CHECKING:
    from .checks import Check
    from .planned import Planned

_MARKER = (
    f"{NAME}(op, samples, *, devices=None, dtypes=None, requires_grad=None, "
    "layouts=('contiguous',), axes=None, skip_if=None, checks=None, tolerances=None, "
    "gradcheck=None, reference=None, errors=(), variants=None, id=None): check a PyTorch custom "
    "operator on these samples, spread over devices, dtypes, requires_grad and layouts; every check "
    "on every case is an item. Use pytest_customop.customop_cases(...), which is typed."
)
pytest_plugins = ("pytest_customop.fixtures",)
NOTHING = "not-selected"


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    session = config.stash[SESSION] = Session(config)
    config.pluginmanager.register(session, "customop-session")
    session.validate_command_line()
    if session.settings.timeout:
        from .timeouts import refuse_without_timer

        refuse_without_timer(config, session)
    if session.settings.isolate:
        from .child import isolate

        isolate(config, session)
    if config.getoption("customop_checks") and not _is_worker(config):
        _refuse_near_misses(session)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@contextlib.contextmanager
def _as_usage_error() -> Iterator[None]:
    """Tell a wrong registration of checks in one line, before anything is collected."""
    try:
        yield
    except ValueError as error:
        raise pytest.UsageError(f"customop: {error}") from None


def _refuse_near_misses(session: Session) -> None:
    """Refuse a misspelt check at once; any other unknown name may come from a later conftest."""
    from .suggest import misspelt

    with _as_usage_error():
        registry = session.registry(session.config.hook)
        session.note_unknown_checks(registry)
    for name, wrong in session.unknown_checks.items():
        if wrong and misspelt(name.removeprefix("-"), registry.names()):
            raise pytest.UsageError(f"customop: {wrong}")


def pytest_customop_register_checks() -> Iterable[Check]:
    from .checks import builtin_checks

    return builtin_checks()


def pytest_report_header(config: pytest.Config) -> str:
    return config.stash[SESSION].settings.header()


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if config.getoption("customop_explain"):
        return _explain(config.getoption("customop_explain"))
    if not config.getoption("customop_list_checks"):
        return None
    from .report.terminal import aligned
    from .selection import registry_from

    with _as_usage_error():
        checks = registry_from(config.hook)
    rows = [[one.name, one.summary + ("" if one.default else " (opt-in)")] for one in checks]
    print("\n".join(aligned(rows)))
    return 0


def _explain(code: str) -> int:
    from .findings import page
    from .suggest import unknown

    if code not in page.CATALOGUE:
        raise pytest.UsageError(
            f"--customop-explain: {unknown('finding', code, list(page.CATALOGUE))}"
        )
    print(page.as_text(code))
    return 0


# Collection


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item | pytest.Collector] | None:
    if not concerns(collector, obj):
        return None
    from .collection import items_of

    with mistakes_told():
        return items_of(collector, name, obj)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = metafunc.fixturenames
    if CELL in names:
        _parametrize_cells(metafunc)
    if "customop_device" in names:
        _parametrize_devices(metafunc)
    if "customop_dtype" in names:
        _parametrize_dtypes(metafunc)


def _parametrize_cells(metafunc: pytest.Metafunc) -> None:
    from .collection import plan_for

    session = metafunc.config.stash[SESSION]
    hook = metafunc.definition.ihook
    with mistakes_told():
        session.validate_ini()
        registry = session.registry(hook)
        session.note_unknown_checks(registry)
        planned = plan_for(
            metafunc, session.settings, registry, session.why_absent, session.notes.mark
        )
        hook.pytest_customop_modify_cases(definition=metafunc.definition, planned=planned)
    params = [pytest.param(one, id=one.id, marks=_marks(one, session)) for one in planned]
    # Not an empty set: what pytest makes of one is up to its configuration.
    metafunc.parametrize(
        CELL, params or [pytest.param(None, id=NOTHING)], indirect=True, scope="function"
    )


@contextlib.contextmanager
def mistakes_told() -> Iterator[None]:
    """Tell an author's mistake as one collection error, without a traceback of the plugin."""
    from .samples import MarkError

    try:
        yield
    except (MarkError, ValueError) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _marks(planned: Planned, session: Session) -> tuple[pytest.MarkDecorator, ...]:
    if planned.skip is None or (planned.missing_device and session.settings.require_devices):
        return ()
    return (pytest.mark.skip(reason=planned.skip),)


def _parametrize_devices(metafunc: pytest.Metafunc) -> None:
    session = metafunc.config.stash[SESSION]
    with mistakes_told():
        session.validate_ini()
    params = []
    for device in session.settings.devices or ("cpu",):
        absent = session.why_absent(device)
        skip = absent and not session.settings.require_devices
        marks = [pytest.mark.skip(reason=absent or "")] if skip else []
        params.append(pytest.param(device, id=device, marks=marks))
    metafunc.parametrize("customop_device", params, indirect=True, scope="function")


def _parametrize_dtypes(metafunc: pytest.Metafunc) -> None:
    import torch

    from .cells import dtype_name
    from .settings import dtype_named

    session = metafunc.config.stash[SESSION]
    with mistakes_told():
        session.validate_ini()
    named = [dtype_named(name) for name in session.settings.dtypes or ()]
    dtypes = named or [torch.get_default_dtype()]
    params = [pytest.param(dtype, id=dtype_name(dtype)) for dtype in dtypes]
    metafunc.parametrize("customop_dtype", params, indirect=True, scope="function")


def pytest_itemcollected(item: pytest.Item) -> None:
    callspec = getattr(item, "callspec", None)
    planned: Any = callspec.params.get(CELL) if callspec is not None else None
    if planned is None:
        return
    item.stash[PLANNED] = planned
    if item.config.stash[SESSION].settings.timeout:
        from .timeouts import limit

        limit(item, item.config.stash[SESSION])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _deselect_empty(config, items)
    wrong = config.stash[SESSION].wrong_checks()
    if not wrong:
        others = config.stash[SESSION].keep_shard(items)
        if others:
            config.hook.pytest_deselected(items=others)
        return
    if not _is_worker(config):
        raise pytest.UsageError(f"customop: {wrong[0]}")
    # A usage error inside a worker would read as an internal one: the controller tells it.
    items.clear()


def _deselect_empty(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the items that stand for nothing: a body, or checks, that are not selected."""
    empty = [
        item
        for item in items
        if item.stash.get(PLANNED, None) is None and CELL in getattr(item, "fixturenames", ())
    ]
    if empty:
        items[:] = [item for item in items if item not in empty]
        config.hook.pytest_deselected(items=empty)


# Running


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    planned = pyfuncitem.stash.get(PLANNED, None)
    if planned is None:
        return None
    entering = pyfuncitem.config.stash[SESSION].entering
    if planned.is_body:
        entering("body")
        return None
    if planned.check is None or planned.case is None:
        pytest.fail(f"{planned.skip} (--customop-require-devices)", pytrace=False)
    from .rerun import failure_text
    from .timeouts import run_in_time

    result = run_in_time(planned, entering, pyfuncitem.config.stash[SESSION].hung)
    pyfuncitem.stash[RESULTS] = [result]
    if result.outcome == "skipped":
        pytest.skip(f"{result.skip_code}: {result.message}")
    if result.outcome != "passed":
        pytest.fail(failure_text(pyfuncitem, result), pytrace=False)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    planned = item.stash.get(PLANNED, None)
    if planned is None and RESULTS not in item.stash:
        return report
    from .records import carried_by

    if call.when == "call" and planned is not None:
        _hold_to_its_check(item, planned, report)
    carried = carried_by(item, report)
    if carried:
        setattr(report, ATTRIBUTE, carried)
    return report


def _hold_to_its_check(item: pytest.Item, planned: Planned, report: pytest.TestReport) -> None:
    """A check item whose check did not run is an error; a skip is placed at the test."""
    if planned.check is not None and report.passed and RESULTS not in item.stash:
        report.outcome = "failed"
        report.longrepr = (
            f"{planned.check.name} did not run: another plugin took this item's call. "
            "Nothing was checked."
        )
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, _ = item.reportinfo()
        report.longrepr = (str(path), (line or 0) + 1, report.longrepr[2])


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    planned = item.stash.get(PLANNED, None)
    if planned is None or planned.case is None:
        return
    following = nextitem.stash.get(PLANNED, None) if nextitem is not None else None
    if following is None or following.case is not planned.case:
        planned.case.release()


# Reporting


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    state = session.config.stash[SESSION]
    if _is_worker(session.config):
        from . import workers

        workers.to_controller(state)
        return
    state.unfinished()
    _tell_once(session.config)
    if state.settings.reports:
        from .report.written import write_reports

        write_reports(state)
    session.exitstatus = state.exit_status(session.exitstatus)


def _tell_once(config: pytest.Config) -> None:
    """Shorten, before the terminal prints them, the failures that follow from others."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    failed = terminal.stats.get("failed") if terminal is not None else None
    records = config.stash[SESSION].records
    if failed and records:
        from .report.failures import tell_once

        tell_once(failed, list(records.values()))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    from . import workers

    workers.from_worker(node, node.config.stash[SESSION])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    from . import workers

    workers.to_worker(node, node.config.stash[SESSION])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    state = config.stash[SESSION]
    for wrong in sorted(state.told_by_workers):
        terminalreporter.write_line(f"ERROR: customop: {wrong}", red=True)
    if not state.records and not state.has_notes:
        return
    notes = state.notes.lines(state.settings.max_samples)
    if state.records or notes:
        from .report.terminal import summary_lines

        counts = state.notes.neighbours.values()
        terminalreporter.section("customop")
        for line in [*summary_lines(list(state.records.values()), counts), *notes]:
            terminalreporter.write_line(line)
        for path in state.settings.reports:
            if str(path) not in state.notes.unwritten:
                terminalreporter.write_line(f"report: {path}")
    for name, why in state.notes.unwritten.items():
        terminalreporter.write_line(f"ERROR: customop: {name} was not written: {why}", red=True)
