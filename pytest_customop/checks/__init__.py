"""The built-in checks, and the catalogue of all findings. A family of checks is a folder here.

Checks and findings are found in the families' folders (`families.py`); no list names them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from ..findings import Explanation, Finding, general, registrations
from .check import BODY, Check, Registry, selects_body
from .families import Family, find_families

__all__ = [
    "BODY",
    "Check",
    "Family",
    "Registry",
    "builtin_checks",
    "catalogue",
    "families",
    "fix_for",
    "report_order",
    "selects_body",
]


@functools.cache
def families() -> tuple[Family, ...]:
    """The families of built-in checks, in the order of their names.

    Raises:
        ValueError: if two checks or two findings have the same name.
    """
    return find_families(__name__)


def builtin_checks() -> list[Check]:
    """The checks that come with the package, in the order of their names."""
    return [check for family in families() for check in family.checks]


@functools.cache
def catalogue() -> Mapping[str, Explanation]:
    """The explanation of every finding that the package reports, by code.

    In `Explanation.follows`, `family.*` is replaced by the codes of that family.

    Raises:
        ValueError: if two findings have the same name, or one follows from an unknown finding.
    """
    merged = {**general.FINDINGS, **registrations.FINDINGS}
    for family in families():
        twice = merged.keys() & family.findings.keys()
        if twice:
            raise ValueError(f"the finding {min(twice)!r} is explained twice")
        merged |= family.findings
    return {
        code: replace(explanation, follows=_codes(code, explanation, merged))
        for code, explanation in merged.items()
    }


def _codes(
    code: str, explanation: Explanation, known: Mapping[str, Explanation]
) -> tuple[str, ...]:
    """The codes that a finding follows from, each once."""
    by_family = {f"{family.name}.*": tuple(family.findings) for family in families()}
    codes: list[str] = []
    for name in explanation.follows:
        if name not in known and name not in by_family:
            raise ValueError(f"the finding {code!r} follows from {name!r}, which is not known")
        codes += by_family.get(name, (name,))
    return tuple(dict.fromkeys(codes))


@functools.cache
def report_order(check: str, code: str) -> tuple[bool, bool, str]:
    """A sort key for checks that report the same code on a case; the first is printed in full.

    Checks of the family that explains the code come first, then cheap checks, then by name.
    """
    explained = {family.name: family.findings for family in families()}.get(
        check.partition(".")[0], {}
    )
    cheap = {builtin.name for builtin in builtin_checks() if builtin.cheap}
    return code not in explained, check not in cheap, check


def fix_for(finding: Finding, check: Check | None = None) -> str:
    """The fix: from the finding itself, from the check that found it, or from the catalogue.

    Raises:
        ValueError: if none of them explains the code.
    """
    if finding.fix is not None:
        return finding.fix
    findings = check.findings if check is not None else {}
    explanation = findings.get(finding.code) or catalogue().get(finding.code)
    if explanation is None:
        raise ValueError(
            f"the finding {finding.code!r} is not explained: give it a fix, or explain it in "
            "Check.findings"
        )
    return explanation.fix
