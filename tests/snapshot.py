"""The wording of findings, failures and summaries: a text file for each test module.

A test asserts behaviour, and hands the text over: `snapshot(finding.message)`. The text has to be the one
in `tests/snapshots/<module>.txt`, under the name of the test. `pytest --rewrite-snapshots` writes these
files, with the texts as they are; what has changed is seen in the version control's diff.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("snapshots")
HEADING = "== {} =="
_SPLIT = re.compile(r"^== (.*) ==$", re.MULTILINE)
_FIRST = "Written by `pytest --rewrite-snapshots`.\n"

# What differs from run to run, and what is torch's to word.
_REPLACED = (
    (re.compile(r"0x[0-9a-f]+"), "0x..."),
    (re.compile(r"(\w\.py\"?)(:|, line )\d+"), r"\1\2N"),
    (re.compile(r"\d+\.\d+ ?s\b"), "N s"),
)
_VALUE = re.compile(r"-?\b\d+(\.\d+(e[-+]?\d+)?|e[-+]?\d+)")
_RAISED = re.compile(r"\braises\b.*", re.DOTALL)


def plain(text: str, names: Mapping[str, str]) -> str:
    """A text without what differs from run to run.

    Args:
        text: of any number of lines.
        names: what to put in place of words, such as the path of a folder.
    """
    for name, replacement in names.items():
        text = text.replace(name, replacement)
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


class Snapshots:
    """The texts of a session, and of the files.

    Args:
        rewrite: whether the files get the texts of this session.
    """

    def __init__(self, rewrite: bool) -> None:
        self.rewrite = rewrite
        self._files: dict[str, dict[str, str]] = {}
        self._seen: dict[str, dict[str, str]] = {}

    def expected(self, module: str) -> dict[str, str]:
        """The texts of a module's file, by name."""
        if module not in self._files:
            path = FOLDER / f"{module}.txt"
            parts = _SPLIT.split(path.read_text(encoding="utf-8")) if path.exists() else [""]
            texts = (part.strip("\n") for part in parts[2::2])
            self._files[module] = dict(zip(parts[1::2], texts, strict=True))
        return self._files[module]

    def take(self, module: str, name: str, text: str) -> None:
        """Note a text of this session."""
        self._seen.setdefault(module, {})[name] = text

    def write(self, whole: bool) -> list[Path]:
        """Write the files of the modules that ran.

        Args:
            whole: whether these modules ran all of their tests, so that other names are of no use.
        """
        written = []
        for module, seen in self._seen.items():
            texts = seen if whole else {**self.expected(module), **seen}
            path = FOLDER / f"{module}.txt"
            sections = (f"\n{HEADING.format(name)}\n{texts[name]}\n" for name in sorted(texts))
            path.parent.mkdir(exist_ok=True)
            path.write_text(_FIRST + "".join(sections), encoding="utf-8")
            written.append(path)
        return written


class Snapshot:
    """The texts of one test.

    Args:
        snapshots: of the session.
        module: of the test.
        test: its name, with its parameters.
        names: what to put in place of words in every text.
    """

    def __init__(
        self, snapshots: Snapshots, module: str, test: str, names: Mapping[str, str]
    ) -> None:
        self._snapshots = snapshots
        self._module = module
        self._test = test
        self._names = names

    def __call__(self, text: str | Iterable[str], name: str = "") -> None:
        """Assert that a text is the one in the file.

        Args:
            text: a text or its lines.
            name: for a test with several texts, what to add to the test's name.
        """
        __tracebackhide__ = True
        text = text if isinstance(text, str) else "\n".join(text)
        actual = plain(text, self._names)
        where = f"{self._test} {name}".strip()
        if self._snapshots.rewrite:
            self._snapshots.take(self._module, where, actual)
            return
        expected = self._snapshots.expected(self._module).get(where)
        path = FOLDER / f"{self._module}.txt"
        if expected is None:
            pytest.fail(f"{path} has no {where!r}: run pytest --rewrite-snapshots")
        assert actual == expected, f"if this is meant, run pytest --rewrite-snapshots ({path})"

    def message(self, text: str, name: str = "") -> None:
        """The same for the message of a finding, without values and the exception that it ends in."""
        __tracebackhide__ = True
        self(_RAISED.sub("raises ...", _VALUE.sub("#", text)), name)
