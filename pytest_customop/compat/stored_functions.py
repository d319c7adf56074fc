"""Keep whole compiled functions on disk: a later session loads them, and traces nothing.

Private names, seen in torch 2.13 and 2.14 (where one is missing, functions are compiled as usual):

- `torch._dynamo.config.enable_aot_compile`: the switch of `torch.compile(...).aot_compile`, which, like
  `torch.compiler.load_compiled_function`, is public and experimental.
- `torch._higher_order_ops.triton_kernel_wrap.kernel_side_table`: the Triton kernels that torch has traced
  in this process. Public: none.
- `save_config_portable` of `torch._dynamo.config`, `torch._functorch.config`, `torch._inductor.config` and
  `torch.fx.experimental._config`: all that is set there. Public: the options one by one.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..core.tracebacks import reraise_bug
from .compiler import code_folder, note_backend
from .graph_caches import GRAPHS_ARE_STORED, compiling_flag_set, graphs_on_disk
from .late_imports import late_imports, no_choices_imported
from .patches import vector_instructions

_BACKEND = "inductor"  # others leave nothing that can be stored
_TRITON = "torch._higher_order_ops.triton_kernel_wrap"
_TRACERS = ("torch._dynamo.config", "torch._functorch.config", "torch.fx.experimental._config")


def functions_are_stored() -> bool:
    """Whether functions may be stored, and loaded, here."""
    if not GRAPHS_ARE_STORED or not hasattr(torch.compiler, "load_compiled_function"):
        return False
    return not torch.compiler.config.force_disable_caches and code_folder() is not None


def compiler_fingerprint() -> str:
    """Everything besides a function that decides how it is compiled: versions and settings."""
    with no_choices_imported():
        inductor = _configuration("torch._inductor.config")
    return repr((tracer_fingerprint(), vector_instructions(), inductor))


def tracer_fingerprint() -> str:
    """Everything besides a function that decides how it is traced: versions and settings."""
    settings = [_configuration(name) for name in _TRACERS]
    state = (
        *(torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()),
        torch.are_deterministic_algorithms_enabled(),
        *(torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        torch.get_float32_matmul_precision(),
    )
    versions = (torch.__version__, torch.version.git_version, sys.version, platform.machine())
    return repr((versions, state, settings))


def _configuration(name: str) -> list[tuple[str, Any]]:
    """The options of a configuration, in the same order in every process, also the elements of sets."""
    config: Any = importlib.import_module(name)
    options = config.save_config_portable(ignore_private_configs=False)
    return sorted(
        (option, sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else repr(value))
        for option, value in options.items()
    )


def load_function(key: str, function: Any) -> Any:
    """The stored function of this key; None if there is none that can be used.

    Args:
        key: of the function: a text that can be a file name.
        function: the same function, not compiled; the loaded one uses its globals.
    """
    path = _path(key)
    try:
        with path.open("rb") as file, late_imports():
            return torch.compiler.load_compiled_function(file, f_globals=function.__globals__)
    except FileNotFoundError:
        return None
    except Exception as error:  # of every kind: a file of another version, or half a file
        reraise_bug(error)
        discard_function(key)
        return None


def compile_and_store(key: str, function: Any, *arguments: Any, **options: Any) -> Any:
    """Compile a function for these arguments, and store it for `load_function`.

    Args:
        key: of the function.
        function: to compile.
        arguments: to trace it with; a tensor whose sizes may vary is marked.
        options: for `torch.compile`.

    Raises:
        Exception: if it cannot be compiled, or not stored.
    """
    with (
        graphs_on_disk(key),  # a stored function consists of what torch stores of graphs
        compiling_flag_set(),  # as it is while `torch.compile` compiles
        torch._dynamo.config.patch(enable_aot_compile=True),
    ):
        compiled: Any = torch.compile(function, fullgraph=True, backend=_BACKEND, **options)
        compiled = compiled.aot_compile((arguments, {}))
        note_backend(_BACKEND)
        _save(compiled, _path(key))
        return compiled


def _save(compiled: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    os.close(handle)
    try:
        with _no_triton_kernels():
            compiled.save_compiled_function(name)
        os.replace(name, path)  # in one step: other processes may read it
    finally:
        Path(name).unlink(missing_ok=True)


@contextlib.contextmanager
def _no_triton_kernels() -> Iterator[None]:
    """Let torch store no names of Triton kernels.

    It would store those of all kernels of the process. Loading the function would import their modules,
    which may be gone, and give their numbers to them, which other kernels may have by then. The function
    needs no names: Inductor has put the source of its kernels into it.
    """
    table: Any = importlib.import_module(_TRITON).kernel_side_table
    kernels, constants = table.id_to_kernel, table.constant_args
    table.id_to_kernel, table.constant_args = {}, {}
    try:
        yield
    finally:
        table.id_to_kernel, table.constant_args = kernels, constants


def discard_function(key: str) -> None:
    """Remove the stored function of this key."""
    _path(key).unlink(missing_ok=True)


def stored_folder() -> Path:
    """The folder of stored functions, and of what else is known of them."""
    folder = code_folder()
    assert folder is not None  # see `functions_are_stored`
    return Path(folder) / "pytest_customop"


def _path(key: str) -> Path:
    return stored_folder() / key
