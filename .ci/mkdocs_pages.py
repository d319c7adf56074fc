"""A mkdocs hook: a page for each finding of the catalogue, and one that lists them."""

from mkdocs.structure.files import File

from pytest_customop.checks import catalogue
from pytest_customop.report.explain import as_markdown


def on_files(files, config):
    """Add the pages; nothing of them lies in the docs folder."""
    files.append(File.generated(config, "findings/index.md", content=_index()))
    for code in catalogue():
        files.append(File.generated(config, f"findings/{code}.md", content=as_markdown(code)))
    return files


def _index() -> str:
    parts = ["# Findings\n\n`pytest --customop-explain CODE` prints these pages."]
    rows = [
        f"- [{code}]({code}.md): {entry.meaning}" for code, entry in sorted(catalogue().items())
    ]
    parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"
