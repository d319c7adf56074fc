"""Judge the coverage of the namespaces that a session touched, or requires, at its end."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ...report.coverage import NamespaceCoverage, Scope, coverage_of
from .coverage_facts import namespaces_of, required_of

if TYPE_CHECKING:
    from .state import Session


def judge(session: Session, ended: pytest.Session) -> list[NamespaceCoverage]:
    """The coverage of the namespaces that the session touched, or requires.

    Args:
        ended: pytest's session, with its exit status.
    """
    facts = session.coverage_facts
    facts.look_up(session)
    required, left_out = required_of(session)
    records = list(session.records.values())
    judged = namespaces_of(records) | set(required)
    part = _part_of_suite(session.config)
    in_ini = session.config.getoption("customop_require_coverage") is None
    scope = Scope(
        required=required,
        left_out=left_out,
        not_judged=_why_partial(session, ended) or (part if in_ini else None),
        not_judged_unless_required=part,
        deselected=frozenset(facts.deselected),
        absent=frozenset(facts.absent),
        namespaces=frozenset(facts.namespaces),
        devices_required=session.settings.require_devices,
    )
    registered = [op for op in facts.registered.values() if op.namespace in judged]
    return coverage_of(registered, records, scope)


def _why_partial(session: Session, ended: pytest.Session) -> str | None:
    """Why the session cannot judge which ops have no case; None if it can."""
    settings, option = session.settings, session.config.option
    if _has_collection_errors(session.config):
        return "not every test could be collected"
    if ended.shouldfail or ended.shouldstop or ended.exitstatus == pytest.ExitCode.INTERRUPTED:
        return "the run was stopped early"
    if ended.exitstatus in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        return "the run ended with an error"
    if any("::" in argument for argument in session.config.args):
        return "single tests were selected"
    for name, flag in (("keyword", "-k"), ("lf", "--last-failed"), ("stepwise", "--stepwise")):
        if getattr(option, name, None):
            return f"{flag} selects a part of the tests"
    if settings.shard is not None and settings.shard.count > 1:
        return f"this is shard {settings.shard}"
    if settings.variant_steps is not None:
        return "--customop-variant selects single variants"
    if session.coverage_facts.deselected_by_hand:
        return "tests that request customop_check were deselected"
    if settings.harvest and session.coverage_facts.deselected_others:
        return "--customop-harvest did not see the calls of tests that were deselected"
    return None


def _has_collection_errors(config: pytest.Config) -> bool:
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    errors = terminal.stats.get("error", ()) if terminal is not None else ()
    return any(isinstance(error, pytest.CollectReport) for error in errors)


def _part_of_suite(config: pytest.Config) -> str | None:
    """Why the command line selects only a part of the tests; None if it selects all of them.

    Files are a part, and so are folders without all of pytest's `testpaths`.
    """
    if config.args_source is not config.ArgsSource.ARGS:
        return None
    folder = config.invocation_params.dir
    selected = [Path(os.path.normpath(folder / argument)) for argument in config.args]
    if any(path.is_file() for path in selected):
        return "single files were selected"
    patterns = [str(config.rootpath / path) for path in config.getini("testpaths")]
    test_paths = [Path(path) for pattern in patterns for path in glob.glob(pattern)]
    if all(
        any(path.is_relative_to(selected_path) for selected_path in selected) for path in test_paths
    ):
        return None
    return "a part of pytest's testpaths was selected"
