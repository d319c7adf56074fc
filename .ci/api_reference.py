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
    found = {}
    for name, member in vars(of).items():
        function = getattr(member, "fget", None) or getattr(member, "func", None) or member
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        signature = _signature(name, function) if function is member else ""
        text = markdown(inspect.getdoc(function) or "")
        found[name] = f"{signature}\n\n{text}" if signature else text
    return found


def _signature(name: str, value: Any) -> str:
    """A block of code with a parameter a line, or one line if it is short."""
    parameters = list(_parameters(inspect.signature(value)))
    line = f"{name}({', '.join(parameters)})"
    if len(line) > 88:
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in parameters) + ")"
    return f"```python\n{line}\n```"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    keywords = False
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not keywords:
            keywords = True
            yield "*"
        if one.kind is one.VAR_POSITIONAL:
            keywords = True
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        text = stars + one.name
        if one.annotation is not one.empty:
            text += f": {one.annotation}"
        if one.default is not one.empty:
            default = "..." if repr(one.default).startswith("<") else repr(one.default)
            text += f" = {default}"
        yield text


def markdown(docstring: str) -> str:
    """A docstring with sections (`Args:`), as paragraphs and lists."""
    heading = "|".join(_SECTIONS)
    parts = re.split(rf"^({heading}):\n", docstring, flags=re.MULTILINE)
    made = [parts[0].strip()]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        section = re.match(r"(?:(?:[ ]+.*)?\n|[ ]+.*$)*", body)
        indented = section[0] if section else ""
        text = textwrap.dedent(indented).strip("\n")
        entries = text if title in ("Returns", "Yields") else _entries(text)
        made += [f"**{title}**", entries, body[len(indented) :].strip()]
    return "\n\n".join(part for part in made if part)


def _entries(text: str) -> str:
    """`name: description`, with lines that continue indented, as a list."""
    items = re.split(r"\n(?=\S)", text)
    made = []
    for item in items:
        names, _, description = " ".join(item.split()).partition(": ")
        made.append(f"- `{names}`: {description}" if description else f"- {names}")
    return "\n".join(made)
