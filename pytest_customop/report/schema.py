"""Validate a report against the JSON Schema of the package, and add the fields that older reports lack.

`schema_2.json` is the contract; this module implements the keywords of JSON Schema that it uses.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.paths import PACKAGE_ROOT

SCHEMA = 2

PATH = PACKAGE_ROOT / "report" / "schema_2.json"

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_SHOWN = 40  # characters of a wrong value


@functools.cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of reports."""
    loaded: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return loaded


def first_problem(report: object) -> str | None:
    """Where a report violates the schema, and how; None if it is valid."""
    return next(_problems(report, schema(), ""), None)


def fill_defaults(report: dict[str, Any]) -> None:
    """Add the properties that have a default and are missing, in place, at every depth."""
    _fill(report, schema())


def _fill(value: object, rule: Mapping[str, Any]) -> None:
    if isinstance(value, list):
        for item in value:
            _fill(item, rule.get("items", {}))
    elif isinstance(value, dict):
        properties = rule.get("properties", {})
        for name, of_property in properties.items():
            if "default" in of_property and name not in value:
                value[name] = copy.copy(of_property["default"])
        for name, item in value.items():
            _fill(item, properties.get(name, rule.get("additionalProperties", {})))


def _problems(value: object, rule: Mapping[str, Any], where: str) -> Iterator[str]:
    allowed = rule.get("type", [])
    names = [allowed] if isinstance(allowed, str) else allowed
    if names and not any(_is(value, name) for name in names):
        yield f"{where or 'it'} is {_shown(value)}, not {_with_article(names[0])}"
        return
    choices = rule.get("enum", [rule["const"]] if "const" in rule else None)
    if choices is not None and not any(
        value == choice and _same_kind(value, choice) for choice in choices
    ):
        yield f"{where} is {_shown(value)}, not {' or '.join(map(json.dumps, choices))}"
    if isinstance(value, (int, float)) and value < rule.get("minimum", value):
        yield f"{where} is {_shown(value)}, less than {rule['minimum']}"
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _problems(item, rule.get("items", {}), f"{where}[{at}]")
    if isinstance(value, dict):
        for name in rule.get("required", ()):
            if name not in value:
                yield f"{where or 'it'} has no {json.dumps(name)}"
        properties = rule.get("properties", {})
        for name, item in value.items():
            inner = properties.get(name, rule.get("additionalProperties", {}))
            yield from _problems(item, inner, f"{where}.{name}" if where else str(name))


def _is(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _same_kind(first: object, second: object) -> bool:
    return isinstance(first, bool) == isinstance(second, bool)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
