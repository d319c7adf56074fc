"""The pytest plugin: the hooks that run in every session.

They register the options, the fixtures (`fixtures.py`) and the mark, and notice the first use of the
plugin, which registers the hooks in `runtime.py`. A session that does not use the plugin still imports
this module, so each hook imports what else it needs. Loading it imports no torch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from .. import hookspecs
from ..declare.marked import NAME, carries_mark, names_mark
from . import fixtures
from .fixture_names import CELL, DEVICE, DTYPE
from .options import BY_DEFAULT, add_options, any_given

if TYPE_CHECKING:
    from ..checks import Check

_MARKER = (
    f"{NAME}(op, samples, *, devices=None, dtypes=None, requires_grad=None, "
    "layouts=('contiguous',), axes=None, skip_if=None, checks=None, tolerances=None, "
    "gradcheck=None, reference=None, errors=(), variants=None, id=None): check a PyTorch custom "
    "operator on these samples, spread over devices, dtypes, requires_grad and layouts; every check "
    "on every case is an item. Use pytest_customop.customop_cases(...), which is typed."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)
    # Not with `pytest_plugins`: for a name there, pytest reads the metadata of all installed packages.
    pluginmanager.register(fixtures, "customop-fixtures")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if any_given(config):
        from .runtime import apply_options

        apply_options(config)


def pytest_customop_register_checks() -> Iterable[Check]:
    from ..checks import builtin_checks

    return builtin_checks()


def pytest_report_header(config: pytest.Config) -> str:
    if not any_given(config):
        return BY_DEFAULT
    from .read_options import header
    from .runtime import session_of

    return header(session_of(config).settings)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if config.getoption("customop_explain") is None and not config.getoption(
        "customop_list_checks"
    ):
        return None
    from .info_options import print_instead

    return print_instead(config)


# Collection


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    if not isinstance(collector, pytest.Module) or not names_mark(collector.path):
        return (yield)
    from .seeded_import import torch_seeded

    with torch_seeded(collector):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item | pytest.Collector] | None:
    if not carries_mark(collector, obj):
        return None
    from .collection import items_of
    from .parametrize import mistakes_in_one_line

    with mistakes_in_one_line():
        return items_of(collector, name, obj)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not {CELL, DEVICE, DTYPE}.isdisjoint(metafunc.fixturenames):
        from .parametrize import parametrize

        parametrize(metafunc)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    from .runtime import session_of
    from .session import xdist

    xdist.to_worker(node, session_of(node.config))
