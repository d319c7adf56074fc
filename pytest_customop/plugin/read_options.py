"""Read the command line and the ini file into `Settings`, and say in errors where a value was given."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ..settings import Settings
from .options import OPTIONS, Option, ini_value, overridden

POSIX = os.name == "posix"  # there are child processes that may crash
# Where an xdist worker finds the values that its controller sends, by field of `Settings`.
SENT = "customop_settings"
_TRUTH = {
    **dict.fromkeys(("1", "y", "yes", "t", "true", "on"), True),
    **dict.fromkeys(("0", "n", "no", "f", "false", "off"), False),
}


class _RawValue(NamedTuple):
    """An option that was given.

    Args:
        value: as the command line or the file has it.
        on_command_line: False for a value of an ini key.
        place: the option, or the ini file and the key.
        no_path: a word that is allowed in place of a path.
    """

    value: Any
    on_command_line: bool
    place: str
    no_path: str = ""

    def where(self, value: Any = None) -> str:
        """The place and the given value, for the beginning of an error message.

        Args:
            value: the wrong one of several values; None for all of them.
        """
        if self.on_command_line and self.value is True:
            return self.place  # a flag
        text = ", ".join(_lines(self.value if value is None else value))
        equals = "=" if self.place.startswith("-") else " = "
        return f"{self.place}{equals}{text}"

    @contextlib.contextmanager
    def named(self, value: Any = None) -> Iterator[None]:
        """Let a `ValueError` begin with the place and the value; as in `where`."""
        try:
            yield
        except ValueError as error:
            raise ValueError(f"{self.where(value)}: {error}") from None


def read_settings(config: pytest.Config) -> Settings:
    """The settings of a session.

    Raises:
        pytest.UsageError: for an invalid value, as far as this is known without torch.
    """
    worker = hasattr(config, "workerinput")
    values = dict(getattr(config, "workerinput", {}).get(SENT, {}))
    for option in OPTIONS:
        raw = _raw_value(config, option)
        if raw is None or (worker and option.in_worker in ("sent", "unused")):
            continue
        parse = None if worker and option.in_worker == "unchecked" else option.parse
        try:
            value = _READERS[option.kind](raw, parse or _as_it_is, _folder(config, raw))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        if value is not None:
            values[option.setting] = value
    settings = Settings(**values)
    return settings._replace(without_child=_without_child(config, settings.isolate))


def _without_child(config: pytest.Config, isolate: str) -> str | None:
    """How variants that could crash the process could be run; None if a child process runs them."""
    if not POSIX:
        return "a child process runs them on Linux and macOS"
    if isolate == "off":
        return "--customop-isolate=auto runs them in a child process"
    if config.getoption("usepdb", False) or config.getoption("trace", False):
        return "a child process runs them without the debugger"
    return None


def validate_settings(config: pytest.Config, settings: Settings, on_command_line: bool) -> None:
    """Raise `ValueError` for a value that torch does not know. Imports torch if there is one to validate.

    Args:
        on_command_line: whether the values of the command line or those of the ini file are validated.
    """
    for option in OPTIONS:
        if option.validate is None:
            continue
        raw = _raw_value(config, option)
        value = getattr(settings, option.setting)
        if value and raw is not None and raw.on_command_line == on_command_line:
            with raw.named():
                option.validate(value)


def where_given(config: pytest.Config, name: str) -> str:
    """The place and the value of an option, for the beginning of an error message: `--customop-seed=x`.

    For a value of an ini file this names the file and the key.
    """
    option = next(option for option in OPTIONS if option.name == name)
    raw = _raw_value(config, option)
    return option.flag if raw is None else raw.where()


def header(settings: Settings) -> str:
    """The line of the report header."""
    shown, default = {}, Settings()
    for option in OPTIONS:
        value = getattr(settings, option.setting)
        is_given = value != getattr(default, option.setting)
        if option.header is not None and (option.header or is_given):
            shown[option.name] = option.header if value is None else value_text(value)
    return "customop: " + " ".join(f"{name}={text}" for name, text in shown.items())


def rerun_flags(settings: Settings) -> list[str]:
    """The options that a command needs to run an item again as these settings do."""
    default = Settings()
    flags = []
    for option in OPTIONS:
        value = getattr(settings, option.setting)
        if option.rerun and value != getattr(default, option.setting):
            text = "" if option.kind == "flag" else f"={value_text(value)}"
            flags.append(option.flag + text)
    return flags


def value_text(value: Any) -> str:
    """A value of a setting as the command line has it."""
    if type(value) is tuple:
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def sent_to_workers(settings: Settings) -> dict[str, Any]:
    """The values that a controller sends its workers under `SENT`."""
    return {
        option.setting: getattr(settings, option.setting)
        for option in OPTIONS
        if option.in_worker == "sent"
    }


def _raw_value(config: pytest.Config, option: Option) -> _RawValue | None:
    """The value given on the command line, or else in the ini file."""
    value = config.getoption(option.key)
    if value is not None:
        return _RawValue(value, True, option.flag, option.no_path)
    value = ini_value(config, option.key)
    if value is None:
        return None
    if overridden(config, option.key) is not None:
        return _RawValue(value, False, f"-o {option.key}", option.no_path)
    return _RawValue(value, False, f"{_ini_file(config)}: {option.key}", option.no_path)


def _folder(config: pytest.Config, raw: _RawValue) -> Path:
    """The folder that a path is relative to: for a path in an ini file, the folder of that file."""
    in_file = not raw.on_command_line and not raw.place.startswith("-o ")
    return config.inipath.parent if in_file and config.inipath else config.invocation_params.dir


def _ini_file(config: pytest.Config) -> str:
    """The ini file, as seen from where pytest was started."""
    if config.inipath is None:
        return "ini file"
    with contextlib.suppress(ValueError):  # on another drive
        return Path(os.path.relpath(config.inipath, config.invocation_params.dir)).as_posix()
    return str(config.inipath)


# Readers, one per kind of option: from the given value to the setting; None if it is empty.
# Each raises `ValueError` with the place and the value.

_Parse = Callable[[Any], Any]


def _as_it_is(value: Any) -> Any:
    return value


def _read_flag(raw: _RawValue, parse: _Parse, folder: Path) -> bool:
    del parse, folder
    with raw.named():
        word = str(raw.value).strip().lower()
        if word not in _TRUTH:
            raise ValueError("give true or false")
        return _TRUTH[word]


def _read_text(raw: _RawValue, parse: _Parse, folder: Path) -> Any:
    del folder
    with raw.named():
        text = _one_text(raw)
        return parse(text) if text else None


def _read_words(raw: _RawValue, parse: _Parse, folder: Path) -> Any:
    del folder
    names = (word.strip() for line in _lines(raw.value) for word in line.split(","))
    unique = tuple(dict.fromkeys(word for word in names if word))
    with raw.named():
        return parse(unique) if unique else None


def _read_path(raw: _RawValue, parse: _Parse, folder: Path) -> Any:
    with raw.named():
        text = _one_text(raw)
        return parse(folder / text) if text else None


def _read_paths(raw: _RawValue, parse: _Parse, folder: Path) -> tuple[Any, ...]:
    paths = []
    for line in _lines(raw.value):
        if not line and not raw.on_command_line:
            continue  # an empty line
        for text in map(str.strip, line.split(",")):
            if text and text == raw.no_path:
                paths.append(text)
                continue
            with raw.named(text):
                paths.append(parse(folder / text))
    return tuple(dict.fromkeys(paths)) if raw.no_path else tuple(paths)


_READERS: Mapping[str, Callable[[_RawValue, _Parse, Path], Any]] = {
    "flag": _read_flag,
    "text": _read_text,
    "words": _read_words,
    "path": _read_path,
    "paths": _read_paths,
}


def _one_text(raw: _RawValue) -> str:
    if isinstance(raw.value, list):
        raise ValueError("give one value, not a list")
    return str(raw.value).strip()


def _lines(value: Any) -> list[str]:
    """The elements of a list, or the lines of a text."""
    if isinstance(value, bool):
        return [str(value).lower()]
    texts = value if isinstance(value, list) else str(value).strip().split("\n")
    return [str(text).strip() for text in texts]
