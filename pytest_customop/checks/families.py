"""Find the built-in checks: every module in a family's folder that declares one.

A family is a folder of `checks/`, and its name is the first part of its checks' names. Each module in
it, or each folder if a check is large, may declare a check as `CHECK`. Findings that several checks
report are in a module that declares `FINDINGS`, code to `Explanation`. Nothing else lists them, so one
new file is one new check.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

from ..findings import Explanation
from .check import Check


@dataclass(frozen=True)
class Family:
    """The checks of one folder.

    Args:
        name: of the folder.
        summary: what the family is about: the first line of the folder's docstring.
        introduction: the rest of that docstring, in Markdown.
        checks: in the order of their names.
        findings: the explanations in the folder, by code.
    """

    name: str
    summary: str
    introduction: str
    checks: tuple[Check, ...]
    findings: Mapping[str, Explanation]

    @property
    def shared(self) -> tuple[str, ...]:
        """The codes that several checks of the family report."""
        explained = {code for check in self.checks for code in check.findings}
        return tuple(code for code in self.findings if code not in explained)


def find_families(name: str) -> tuple[Family, ...]:
    """The families in the folders of a package, in the order of their names.

    Args:
        name: of the package.

    Raises:
        ValueError: if a check's name does not begin with its folder's name, or if two checks or two
            findings have the same name.
    """
    families = [_family(module) for module in _modules(name, folders=True)]
    codes: dict[str, str] = {}
    for family in families:
        for code in family.findings:
            if code in codes:
                raise ValueError(
                    f"the finding {code!r} is explained twice: in the families {codes[code]} and "
                    f"{family.name}"
                )
            codes[code] = family.name
    return tuple(families)


def _family(package: ModuleType) -> Family:
    name = package.__name__.rpartition(".")[2]
    summary, _, introduction = inspect.cleandoc(package.__doc__ or name).partition("\n")
    checks: dict[str, Check] = {}
    findings: dict[str, Explanation] = {}
    for module in _modules(package.__name__):
        check: Check | None = getattr(module, "CHECK", None)
        declared = dict(getattr(module, "FINDINGS", {}))
        if check is not None:
            _validate_name(check, module, checks)
            checks[check.name] = check
            declared |= check.findings
        for code, explanation in declared.items():
            if findings.setdefault(code, explanation) is not explanation:
                raise ValueError(
                    f"{module.__name__} explains the finding {code!r}, which is explained already"
                )
    in_order = tuple(checks[check] for check in sorted(checks))
    return Family(name, summary, introduction.strip(), in_order, findings)


def _modules(package: str, folders: bool = False) -> Iterator[ModuleType]:
    """The modules and folders of a package by name, or its folders alone."""
    path = importlib.import_module(package).__path__
    for module in sorted(pkgutil.iter_modules(path, f"{package}."), key=lambda info: info.name):
        if module.ispkg or not folders:
            yield importlib.import_module(module.name)


def _validate_name(check: Check, module: ModuleType, known: Mapping[str, Check]) -> None:
    family = module.__name__.split(".")[-2]
    if check.family != family:
        raise ValueError(
            f"{module.__name__} declares the check {check.name!r}: in the folder of the family "
            f"{family} write {family}.<check>"
        )
    if check.name in known:
        raise ValueError(
            f"{module.__name__} declares the check {check.name!r}, which is declared already"
        )
