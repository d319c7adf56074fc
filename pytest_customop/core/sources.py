"""A digest of the Python files that decide what a function does: its own, and those that they import."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import os
import sys
import time
import types
from collections.abc import Collection, Iterator
from typing import NamedTuple

from .paths import PACKAGE_PREFIX

# Imported modules were read from their files earlier: a file that changes while the process runs does not
# show what the process does.
_STARTED = time.time() - time.process_time()  # before this module was imported
_INSTALLED = frozenset({"site-packages", "dist-packages"})
# Modules that their versions identify; the versions of torch and of this package are in every key.
_KNOWN = frozenset({*sys.stdlib_module_names, "torch", __name__.partition(".")[0]})


_MOST_BYTES = 2**20  # of all files together: reading that many takes about a second


class Sources(NamedTuple):
    """What is known of some files together.

    Args:
        digest: of their contents, and of the versions of installed packages that they import.
        asks_for_compiler: whether one of them has a name by which code tests whether it is being compiled.
    """

    digest: str
    asks_for_compiler: bool


class _File(NamedTuple):
    size: int
    digest: str
    imports: tuple[tuple[int, str], ...]  # level as in `from ..x import y`, and name
    asks_for_compiler: bool


def sources_of(files: Collection[str]) -> Sources | None:
    """What is known of the files and of all loaded modules that they import; None if that is uncertain.

    It is uncertain if a file has changed since this process was started, or if the files are too large.
    """
    return _sources(frozenset(files), len(sys.modules))


@functools.lru_cache(maxsize=64)
def _sources(files: frozenset[str], loaded: int) -> Sources | None:
    """As `sources_of`.

    Args:
        files: to begin with.
        loaded: how many modules are loaded: with more, more imports may be found.
    """
    modules = {
        file: module
        for module in [*sys.modules.values()]
        if isinstance(file := getattr(module, "__file__", None), str)
    }
    own_packages = {modules[file].__name__.partition(".")[0] for file in files if file in modules}
    contents: dict[str, _File] = {}
    versions: set[str] = set()
    rest = [*files]
    while rest:
        path = rest.pop()
        if path in contents:
            continue
        read = _read(path)
        if read is None:
            return None
        contents[path] = read
        if sum(content.size for content in contents.values()) > _MOST_BYTES:
            return None
        module = modules.get(path)
        for imported in _imported(module, read) if module is not None else ():
            top = imported.__name__.partition(".")[0]
            file = getattr(imported, "__file__", None)
            if top in _KNOWN or not isinstance(file, str) or file.startswith(PACKAGE_PREFIX):
                continue
            if top not in own_packages and not _INSTALLED.isdisjoint(file.split(os.sep)):
                versions.add(f"{top} {getattr(sys.modules.get(top), '__version__', None)}")
            else:
                rest.append(file)
    parts = [*sorted({content.digest for content in contents.values()}), *sorted(versions)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return Sources(digest, any(content.asks_for_compiler for content in contents.values()))


def _read(path: str) -> _File | None:
    try:
        changed = os.stat(path).st_mtime
        return None if changed >= _STARTED else _parsed(path, changed)
    except (OSError, SyntaxError, ValueError):  # not a Python file: a cell of a notebook, a library
        return None


@functools.lru_cache(maxsize=1024)
def _parsed(path: str, changed: float) -> _File:
    """Read what a file contains.

    Raises:
        OSError, SyntaxError, ValueError: if it is not a file, or not Python.
    """
    with open(path, "rb") as file:
        content = file.read()
    imports: set[tuple[int, str]] = set()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            imports |= {(0, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            imports.add((node.level, module))
            dot = "." if module else ""
            imports |= {(node.level, f"{module}{dot}{alias.name}") for alias in node.names}
    digest = hashlib.sha256(content).hexdigest()
    asks = b"compiling" in content or b"exporting" in content
    return _File(len(content), digest, tuple(sorted(imports)), asks)


def _imported(module: types.ModuleType, file: _File) -> Iterator[types.ModuleType]:
    """The loaded modules that a file imports, and the packages that contain them."""
    package = module.__package__ or ""
    for level, name in file.imports:
        try:
            full = importlib.util.resolve_name("." * level + name, package)
        except ImportError:  # beyond the top of the package
            continue
        parts = full.split(".")
        for count in range(1, len(parts) + 1):
            imported = sys.modules.get(".".join(parts[:count]))
            if imported is not None:
                yield imported
