"""Import the packages of a scan, first in a process that may crash, and find the ops they register."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass

from ..compat.ops import defining_module, registered_names
from ..compat.registry import overloads_in
from ..core.forked import AVAILABLE, ForkedError, ForkFailed, run_forked
from ..core.namespaces import OF_TORCH
from ..core.suggest import did_you_mean
from ..core.wording import listed_briefly
from ..declare.ops import Op, resolve

_SECONDS = 120.0  # the limit for an import


class ScanError(Exception):
    """The packages cannot be scanned; the message says why."""


@dataclass(frozen=True)
class Registered:
    """The ops that some packages register.

    Args:
        namespaces: the namespaces of the ops.
        ops: every overload that takes or returns a tensor, by name.
    """

    namespaces: tuple[str, ...]
    ops: tuple[Op, ...]


def import_packages(packages: Sequence[str], namespaces: Sequence[str] | None) -> Registered:
    """Import packages and find the ops that this registers.

    Args:
        packages: names of modules, as in an import.
        namespaces: the namespaces to scan; None: those in which ops appeared.

    Raises:
        ScanError: if a package cannot be imported, or no op is found.
    """
    before = set(registered_names())
    for package in packages:
        _validate_import(package)
    for package in packages:
        importlib.import_module(package)
    new = [name for name in registered_names() if name not in before]
    names = new or [name for name in before if _is_of(name, packages)]
    scanned = {name.partition("::")[0] for name in names} - OF_TORCH
    if namespaces is not None:
        scanned = set(namespaces)
        names = list(registered_names())
    selected = {name for name in names if name.partition("::")[0] in scanned}
    overloads = overloads_in(scanned) if scanned else ()
    ops = {op.name: op for op in map(resolve, overloads) if op.name.partition(".")[0] in selected}
    if not ops:
        raise ScanError(_no_ops(packages, namespaces))
    kept = sorted({name.partition("::")[0] for name in ops})
    return Registered(tuple(kept), tuple(ops[name] for name in sorted(ops)))


def _validate_import(package: str) -> None:
    """Import a package in a copy of this process, which may crash or hang."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise ScanError(f"there is no package {package!r} here{_hint(package)}")
    if not AVAILABLE:
        return
    try:
        ended = run_forked(lambda send: send(bool(importlib.import_module(package))), _SECONDS)
    except ForkFailed:
        return
    except ForkedError as error:
        raise ScanError(f"importing {package} raises {error}") from None
    if ended.hung:
        raise ScanError(f"importing {package} did not finish within {_SECONDS:.0f} seconds")
    if ended.died or not ended.messages:
        how = f"by signal {ended.signal}" if ended.died else "before the import had"
        raise ScanError("\n".join([f"importing {package} ended the process {how}", ended.crash]))


def _hint(package: str) -> str:
    installed = set(importlib.metadata.packages_distributions())
    installed |= {module.name for module in pkgutil.iter_modules()}
    return did_you_mean(package, [name for name in installed if not name.startswith("_")])


def _is_of(name: str, packages: Sequence[str]) -> bool:
    """Whether an op that was registered before belongs to one of the packages, as far as is known."""
    namespace = name.partition("::")[0]
    module = f"{defining_module(name)}."
    return namespace not in OF_TORCH and any(
        module.startswith(f"{package}.") or namespace == package.replace(".", "_")
        for package in packages
    )


def _no_ops(packages: Sequence[str], namespaces: Sequence[str] | None) -> str:
    known = {name.partition("::")[0] for name in registered_names()} - OF_TORCH
    listed = f" (namespaces with ops: {listed_briefly(sorted(known))})" if known else ""
    if namespaces is not None:
        wrong = [namespace for namespace in namespaces if namespace not in known]
        hint = did_you_mean(wrong[0], known) if wrong else ""
        return (
            f"no op of the namespace {', '.join(wrong or namespaces)} is registered{hint}{listed}"
        )
    return (
        f"importing {', '.join(packages)} registers no op with tensors{listed}: name the module that "
        "registers them, such as mylib.ops, or give --customop-scan-namespace"
    )
