"""The lines of a script that register an op: imports of modules, or the library that holds it."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ..compat.ops import defining_module, loaded_libraries, registering_files
from ..declare.ops import OpError, resolve

_UNKNOWN = "# Import here what registers the op."


def registers(op: str, module: ModuleType | None) -> str:
    """The lines that register an op.

    They import the modules that hold its Python kernels and registrations. An op in C++ with none of these
    is loaded from its library. Where neither is known, the module of the mark is imported.

    Args:
        op: `ns::name` or `ns::name.overload`.
        module: the module of the mark; None if that is not known.
    """
    op_module = sys.modules.get(defining_module(op.partition(".")[0]) or "")
    modules = [op_module] if op_module is not None else list(_registering_modules(op))
    lines = [_import_of(candidate) for candidate in modules if _is_importable(candidate)]
    library = None if lines else _library_of(op)
    if library is not None:
        return f"import torch\n\ntorch.ops.load_library({library!r})  # registers the op"
    if not lines and module is not None and _is_importable(module):
        lines = [_import_of(module)]
    return "\n".join(dict.fromkeys(lines)) or _UNKNOWN


def _registering_modules(op: str) -> Iterator[ModuleType]:
    """The modules in which Python code has registered an op, its kernels or its formula."""
    try:
        files = registering_files(resolve(op).overload)
    except OpError:  # it is gone, or its overload is not known
        return
    for module in [*sys.modules.values()]:
        if getattr(module, "__file__", None) in files:
            yield module


def _library_of(op: str) -> str | None:
    """The library that holds an op in C++; None if that is not known."""
    namespace, _, rest = op.partition("::")
    name = rest.partition(".")[0].encode()
    # The strings of TORCH_LIBRARY(namespace, m) and of m.def("name(...)"), or of m.def("name", ...).
    required = (namespace.encode() + b"\0",), (name + b"(", name + b".", name + b"\0")
    for path in _libraries():
        content = path.read_bytes() if path.is_file() else b""
        if all(any(text in content for text in texts) for texts in required):
            return str(path)
    return None


def _libraries() -> Iterator[Path]:
    """The libraries of `torch.ops.load_library`, and the extension modules that are not installed."""
    yield from (Path(path) for path in sorted(loaded_libraries()))
    endings = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    files = [getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]]
    for file in files:
        if file.endswith(endings) and not {"site-packages", "lib-dynload"} & {*Path(file).parts}:
            yield Path(file)


def _is_importable(module: ModuleType) -> bool:
    return module.__name__ != "__main__" and bool(getattr(module, "__file__", None))


def _import_of(module: ModuleType) -> str:
    path = Path(str(module.__file__)).resolve()
    names = module.__name__.split(".")
    root = path.parents[len(names) - (path.name != "__init__.py")]
    if "site-packages" in path.parts:
        return f"import {module.__name__}  # registers the op"
    if path.name != "__init__.py" and [*path.parts[-len(names) : -1], path.stem] != names:
        return (
            "import importlib.util\n\n"
            f"found = importlib.util.spec_from_file_location({names[-1]!r}, {str(path)!r})\n"
            "found.loader.exec_module(importlib.util.module_from_spec(found))  # registers the op"
        )
    return (
        f"import sys\n\nsys.path.insert(0, {str(root)!r})\n"
        f"import {module.__name__}  # registers the op"
    )
