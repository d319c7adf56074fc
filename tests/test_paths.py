"""The package knows where it is, wherever its modules stand."""

from pathlib import Path

import pytest_customop
from pytest_customop.core.paths import PACKAGE_PREFIX, PACKAGE_ROOT


def test_the_root_is_the_package_s_own_folder() -> None:
    assert Path(pytest_customop.__file__).parent == PACKAGE_ROOT
    assert pytest_customop.__file__.startswith(PACKAGE_PREFIX)


def test_no_other_module_looks_for_it() -> None:
    """`Path(__file__).parent` is wrong as soon as a module moves."""
    for path in PACKAGE_ROOT.rglob("*.py"):
        if path != PACKAGE_ROOT / "core" / "paths.py":
            text = path.read_text(encoding="utf-8")
            assert "(__file__)" not in text.replace("Path(__file__).with_suffix", ""), path
