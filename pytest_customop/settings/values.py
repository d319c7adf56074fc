"""Read the values of settings from text, and validate them.

Every function takes one value, as text or as names, and raises `ValueError` with one line that says what
is wrong and what is allowed. The caller adds where the value was given (`plugin/read_options.py`).
Importing this module imports no torch.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.namespaces import OF_TORCH
from ..core.suggest import did_you_mean, unknown
from ..core.wording import dtype_name
from ..declare.variant import KINDS, STRICT
from . import AMOUNTS, COMPILE_CELLS, GITHUB, Settings, Shard, Variants

if TYPE_CHECKING:
    import torch

REPORT_FORMATS = (".json", ".html", ".md")
ISOLATE = ("auto", "on", "off")
# Devices that torch knows once the package for them is imported.
DEVICE_PACKAGES = {"npu": "torch_npu", "mlu": "torch_mlu", "musa": "torch_musa"}
_LEFT_OUT = re.compile(r"-\w+::\S+")
_DEVICE_SYNONYMS = {"gpu": "cuda", "nvidia": "cuda", "rocm": "cuda", "amd": "cuda", "metal": "mps"}
_FORMAT_SYNONYMS = {".htm": ".html", ".xhtml": ".html", ".markdown": ".md", ".jsonl": ".json"}
_DTYPE_SYNONYMS = {"fp16": "float16", "fp32": "float32", "fp64": "float64"}


def read_seed(text: str) -> int:
    """An integer."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("give an integer") from None


def read_count(text: str) -> int:
    """An integer of 1 or more."""
    if not (text.isdecimal() and int(text) > 0):
        raise ValueError("give an integer of 1 or more")
    return int(text)


def read_seconds(text: str) -> float:
    """A number of seconds, 0 or more."""
    return _number(text, "seconds")


def read_gigabytes(text: str) -> float:
    """A number of gigabytes, 0 or more."""
    return _number(text, "gigabytes")


def _number(text: str, unit: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"give a number of {unit}")
    return value


def read_isolate(text: str) -> str:
    """One of `ISOLATE`, or what an ini file calls true or false."""
    word = {"true": "on", "false": "off"}.get(text.lower(), text.lower())
    if word not in ISOLATE:
        raise ValueError(f"give {', '.join(ISOLATE[:-1])} or {ISOLATE[-1]}")
    return word


def read_compile_cells(text: str) -> str:
    """One of `COMPILE_CELLS`."""
    if text not in COMPILE_CELLS:
        raise ValueError(f"give {' or '.join(COMPILE_CELLS)}")
    return text


def read_shard(text: str) -> Shard:
    """The shard that `2/5` means."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text, re.ASCII)
    if match and 1 <= int(match[1]) <= int(match[2]):
        return Shard(int(match[1]), int(match[2]))
    raise ValueError("give i/n with 1 <= i <= n, as 2/5")


def read_namespaces(values: Iterable[str]) -> tuple[str, ...]:
    """The names of namespaces of ops."""
    names = tuple(values)
    for name in names:
        if not name.isidentifier():
            raise ValueError(
                f"{name!r} is not a namespace: give the part of ns::name before the colons"
            )
    return names


def read_packages(values: Iterable[str]) -> tuple[str, ...]:
    """The names of modules."""
    names = tuple(values)
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"{name!r} is not a module: give what follows `import`, as mylib.ops")
    return names


def read_variants(choices: Iterable[str | int]) -> Variants:
    """The variants that some words select: amounts (`off`, `quick`, `full`, a number), kinds, `strict`.

    The default amount is `quick`, and all kinds are selected by default.
    """
    amounts: dict[str | int, None] = {}
    kinds: set[str] = set()
    strict = False
    for choice in choices:
        amount = _amount(choice)
        if amount is not None:
            amounts[amount] = None
        elif choice == STRICT:
            strict = True
        elif choice in KINDS:
            kinds.add(str(choice))
        else:
            hint = did_you_mean(str(choice), [*AMOUNTS, *KINDS, STRICT])
            raise ValueError(
                f"unknown amount or kind of variants {choice!r}{hint} (amounts: "
                f"{', '.join(AMOUNTS)}, or a number per sample; kinds: {', '.join(KINDS)}; "
                f"{STRICT}: notes count as failures)"
            )
    if len(amounts) > 1:
        raise ValueError(f"{' and '.join(map(str, amounts))} are {len(amounts)} amounts: give one")
    if "off" in amounts and (kinds or strict):
        raise ValueError("'off' leaves out every kind of variants: give it alone")
    amount = next(iter(amounts), "quick")
    return Variants(amount, tuple(k for k in KINDS if k in kinds) or KINDS, strict)


def read_required_coverage(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Namespaces, and `-ns::name` for ops that need no case; the name may have `*` in it."""
    for entry in entries:
        if entry.startswith("-"):
            if not _LEFT_OUT.fullmatch(entry):
                raise ValueError(f"{entry!r} leaves out no op: give -namespace::name")
            continue
        if not entry.isidentifier():
            namespace = entry.partition("::")[0]
            hint = f": give {namespace}" if namespace.isidentifier() else ""
            raise ValueError(f"{entry!r} is not a namespace{hint}")
        if entry in OF_TORCH:
            raise ValueError(
                f"the namespace {entry} is not an author's: torch tests its ops itself"
            )
    if all(entry.startswith("-") for entry in entries):
        raise ValueError("give a namespace, as mylib")
    return entries


def _amount(word: str | int) -> str | int | None:
    """The amount of variants that a word names; None for a word that names none."""
    if word in AMOUNTS:
        return word
    return (int(word) or "off") if str(word).isdecimal() else None


# Values from files


def read_durations(path: Path) -> dict[str, float]:
    """Seconds by node id, from the report of an earlier session."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
        seconds: dict[str, float] = defaultdict(float)
        for result in results:
            seconds[str(result["nodeid"])] += float(result["duration"] or 0)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError("is not a report of --customop-report") from None
    return dict(seconds)


def report_file(path: Path) -> Path:
    """The path, if a report can be written there."""
    from ..core.files import why_unwritable

    if path.suffix not in REPORT_FORMATS:
        known = [*REPORT_FORMATS, GITHUB]
        hint = "; JUnit is pytest's own --junitxml" * (path.suffix == ".xml")
        hint = hint or did_you_mean(path.suffix or path.name, known, _FORMAT_SYNONYMS)
        raise ValueError(f"the ending says the format; known: {', '.join(known)}{hint}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}")
    why = why_unwritable(path)
    if why:
        raise ValueError(f"cannot be written: {why}")
    return path


def new_test_file(path: Path) -> Path:
    """The path, if no file is there yet and a Python file can be written."""
    from ..core.files import why_unwritable

    if path.suffix != ".py":
        raise ValueError("give a Python file, as test_customops.py")
    if path.exists():
        raise ValueError("the file exists already and is not overwritten: give another name")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}")
    why = why_unwritable(path)
    if why:
        raise ValueError(f"cannot be written: {why}")
    return path


def python_file(path: Path) -> Path:
    """The path, if there is such a file."""
    if not path.is_file():
        raise ValueError("there is no such file")
    return path


def script_folder(path: Path) -> Path:
    """The path, if it is or can become a folder that scripts can be written into."""
    from ..core.files import why_unusable

    if path.exists() and not path.is_dir():
        raise ValueError("this is a file")
    why = why_unusable(path)
    if why:
        raise ValueError(f"cannot be written into: {why}")
    return path


# Names that torch must know; these functions import it


def validate_devices(devices: Iterable[str]) -> None:
    """Raise `ValueError` for a device type that neither torch nor a package for it knows."""
    import torch

    from ..compat.ops import device_types

    for device in devices:
        try:
            known = torch.device(device)
        except RuntimeError:
            types = device_types()
            name = device.partition(":")[0]
            if name in DEVICE_PACKAGES and re.fullmatch(r"\w+(:\d+)?", device):
                continue
            wrong = device if name in types else name
            message = unknown("device", wrong, types, _DEVICE_SYNONYMS)
            if not did_you_mean(wrong, types, _DEVICE_SYNONYMS):
                message += "; one of your own has to be registered first (docs/hooks.md)"
            raise ValueError(message) from None
        if known.type == "meta":
            raise ValueError("device 'meta' holds no values: there is nothing to check on it")


def validate_dtypes(names: Iterable[str]) -> None:
    """Raise `ValueError` for a dtype that torch does not know."""
    for name in names:
        dtype_named(name)


def dtype_named(name: str) -> torch.dtype:
    """The dtype of that name; raises `ValueError` for one that torch does not know."""
    import torch

    known = {key: value for key, value in vars(torch).items() if isinstance(value, torch.dtype)}
    if name.removeprefix("torch.") not in known:
        names = {dtype_name(dtype) for dtype in known.values()}
        raise ValueError(unknown("dtype", name, names, _DTYPE_SYNONYMS))
    return known[name.removeprefix("torch.")]


def validate_backend(backend: str) -> None:
    """Raise `ValueError` for a `torch.compile` backend that is not registered; imports dynamo."""
    if backend == Settings().backend:
        return
    import torch

    known = torch.compiler.list_backends(exclude_tags=())
    if backend not in known:
        raise ValueError(unknown("backend", backend, known))
