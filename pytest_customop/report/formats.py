"""The formats of a report by the ending of its file, each rendered from the report's dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

# The module of each, which has a function `render`. It is imported when it is needed.
_MODULES = {".json": "json_file", ".html": "page", ".md": "markdown"}


def render(report: Mapping[str, Any], ending: str) -> str:
    """The text of the file.

    Args:
        report: as `json_file.as_report` makes it, or as a JSON report has it.
        ending: `.json`, `.html` or `.md`.
    """
    text: str = import_module(f".{_MODULES[ending]}", __package__).render(_encodable(report))
    return text


def _encodable(value: Any) -> Any:
    """The value without lone surrogates, as in a file name that is not UTF-8: no file can hold them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(item) for item in value]
    return value
