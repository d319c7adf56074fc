"""A mkdocs hook that generates a page for each finding, one that lists them, and that of the Python API."""

from collections.abc import Iterable

import api_reference
from mkdocs.structure.files import File

from pytest_customop.checks import catalogue, families
from pytest_customop.report.explain import as_markdown


def on_files(files, config):
    """Add the pages; they are not files of the docs folder."""
    files.append(File.generated(config, "findings/index.md", content=_index()))
    files.append(File.generated(config, "api.md", content=api_reference.page()))
    for code in catalogue():
        files.append(File.generated(config, f"findings/{code}.md", content=as_markdown(code)))
    return files


def _index() -> str:
    """The findings by the family that explains them; first those that any check may report."""
    in_families = {code for family in families() for code in family.findings}
    parts = [
        "# Findings",
        "`pytest --customop-explain=CODE` prints these pages.",
        _listed(code for code in catalogue() if code not in in_families),
    ]
    for family in families():
        if family.findings:
            parts += [f"## {family.name}", _listed(family.findings)]
    return "\n\n".join(parts) + "\n"


def _listed(codes: Iterable[str]) -> str:
    return "\n".join(
        f"- [{code}]({code}.md): {catalogue()[code].meaning}" for code in sorted(codes)
    )
