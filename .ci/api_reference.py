"""The page of the Python API: signatures and docstrings of the public names, as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest_customop

# What a reader needs first comes first; names that are not here follow.
_ORDER = (
    *("customop_cases", "tensor", "Sample", "ErrorSample", "GradOptions", "Known"),
    *("check_op", "CheckResult", "ConformanceError"),
    *("Check", "Case", "fail", "skip", "Finding", "Explanation"),
)
_SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields")


def page() -> str:
    """The whole page."""
    public = {name for name in pytest_customop.__all__ if not name.startswith("_")}
    names = [*_ORDER, *sorted(public - set(_ORDER))]
    parts = [
        "# Python API",
        "The names of `pytest_customop`, from their docstrings. Those for writing a check come last.",
        *(_of_name(name, getattr(pytest_customop, name)) for name in names),
    ]
    return "\n\n".join(parts) + "\n"


def _of_name(name: str, value: Any) -> str:
    parts = [f"## {name}", _signature(name, value), markdown(inspect.getdoc(value) or "")]
    if inspect.isclass(value):
        parts += [
            f"### {name}.{member}\n\n{text}" for member, text in sorted(_members(value).items())
        ]
    return "\n\n".join(part for part in parts if part)


def _members(of: type) -> dict[str, str]:
    """The methods and properties that a class defines, with their signatures and docstrings."""
    members = {}
    for name, member in vars(of).items():
        function = getattr(member, "fget", None) or getattr(member, "func", None) or member
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        signature = _signature(name, function) if function is member else ""
        text = markdown(inspect.getdoc(function) or "")
        members[name] = f"{signature}\n\n{text}" if signature else text
    return members


def _signature(name: str, value: Any) -> str:
    """A block of code with a parameter a line, or one line if it is short."""
    parameters = list(_parameters(inspect.signature(value)))
    line = f"{name}({', '.join(parameters)})"
    if len(line) > 88:
        line = f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + ")"
    return f"```python\n{line}\n```"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    keywords = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            yield "*"
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = stars + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {parameter.annotation}"
        if parameter.default is not parameter.empty:
            default = "..." if repr(parameter.default).startswith("<") else repr(parameter.default)
            text += f" = {default}"
        yield text


def markdown(docstring: str) -> str:
    """A docstring with sections (`Args:`), as paragraphs and lists."""
    heading = "|".join(_SECTIONS)
    parts = re.split(rf"^({heading}):\n", docstring, flags=re.MULTILINE)
    paragraphs = [parts[0].strip()]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        section = re.match(r"(?:(?:[ ]+.*)?\n|[ ]+.*$)*", body)
        indented = section[0] if section else ""
        text = textwrap.dedent(indented).strip("\n")
        entries = text if title in ("Returns", "Yields") else _entries(text)
        paragraphs += [f"**{title}**", entries, body[len(indented) :].strip()]
    return "\n\n".join(part for part in paragraphs if part)


def _entries(text: str) -> str:
    """`name: description`, with lines that continue indented, as a list."""
    items = re.split(r"\n(?=\S)", text)
    lines = []
    for item in items:
        names, _, description = " ".join(item.split()).partition(": ")
        lines.append(f"- `{names}`: {description}" if description else f"- {names}")
    return "\n".join(lines)
