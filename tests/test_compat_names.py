"""Every private name that `compat` uses is explained in the docstring of its module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_customop.core.paths import PACKAGE_ROOT

MODULES = [
    path
    for path in sorted((PACKAGE_ROOT / "compat").glob("*.py"))
    # Each function of `pytest_private` says what it stands on.
    if path.stem not in ("__init__", "pytest_private")
]


def private_names(tree: ast.Module) -> Iterator[str]:
    """Attributes with an underscore, of anything but `self`, and what comes from private modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and not node.level:
            foreign = (node.module or "").startswith(("torch", "_pytest"))
            for alias in node.names if foreign else ():
                private = any(map(_is_private, [*(node.module or "").split("."), alias.name]))
                if private or "experimental" in (node.module or ""):
                    yield alias.name


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_private_names_are_explained(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    explained = ast.get_docstring(tree) or ""
    used = set(private_names(tree)) - {"_C", "_dynamo", "_library"}  # the modules, without a name
    assert sorted(name for name in used if name not in explained) == []


def test_no_other_package_imports_private_modules() -> None:
    imports = []
    for path in PACKAGE_ROOT.rglob("*.py"):
        if "compat" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            private = [module for module in modules if module.startswith(("torch._", "_pytest"))]
            imports += [f"{path.relative_to(PACKAGE_ROOT)}: {module}" for module in private]
    assert imports == []
