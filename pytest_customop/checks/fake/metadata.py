"""What is known of a tensor without its values: fake beside real, field by field, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ... import compat
from ...cases.case import Run
from ...cases.tensors import output_leaves
from ...core.tables import aligned
from ...core.wording import dtype_name, layout_name

# The codes of findings, the one to report first in front.
_SEVERITY = (
    "fake-shape-mismatch",
    "fake-dtype-mismatch",
    "fake-device-mismatch",
    "fake-stride-mismatch",
    "fake-metadata-mismatch",
    "fake-alias-mismatch",
)
_IN_FULL = 8  # tables in the evidence; the rest of the outputs get a line each


@dataclass(frozen=True)
class Row:
    """One field of one output.

    Args:
        field: its name.
        fake, real: its value on either side, in words.
        code: of the finding that the two make; None if they agree.
    """

    field: str
    fake: str
    real: str
    code: str | None = None


@dataclass(frozen=True)
class Compared:
    """One output, fake beside real."""

    name: str
    rows: Sequence[Row]

    @property
    def wrong(self) -> list[Row]:
        """The rows on which the two disagree."""
        return [row for row in self.rows if row.code is not None]

    def lines(self) -> list[str]:
        """The table, mismatched rows marked with `>`."""
        cells = [
            (f"{'>' if row.code else ' '} {row.field}", row.fake, row.real) for row in self.rows
        ]
        return aligned([("", "fake", "real"), *cells])


class Reading:
    """Reads the sizes of fake tensors as numbers.

    Args:
        mode: the fake mode they belong to.
        bindings: the numbers that symbols stand for. Those of data-dependent sizes are learnt from
            the real outputs.
    """

    def __init__(self, mode: Any, bindings: Mapping[Any, int] | None = None) -> None:
        self._mode = mode
        self._bindings = dict(bindings or {})

    def number(self, size: Any) -> Any:
        """The size as a number; None if it depends on data that nothing is known of."""
        found = compat.substitute(compat.expression(size), self._bindings)
        return found if isinstance(found, (int, float)) else None

    def learn(self, size: Any, real: Any) -> None:
        """Take the real size for that of a data-dependent one, unless it is out of its range."""
        symbol = compat.expression(size)
        if not getattr(symbol, "is_Symbol", False) or symbol in self._bindings:
            return
        low, high = compat.value_range(self._mode, symbol)
        if (low is None or low <= real) and (high is None or real <= high):
            self._bindings[symbol] = real

    def agrees(self, size: Any, real: Any) -> bool:
        """Whether the fake size can be the real one."""
        number = self.number(size)
        if number is not None:
            return bool(number == real or (number != number and real != real))
        symbol = compat.expression(size)
        return not symbol.is_Symbol  # a bare one was learnt, or is out of its range

    def text(self, size: Any) -> str:
        """The size in words."""
        number = self.number(size)
        if number is not None:
            return str(number)
        symbol = compat.expression(size)
        if not symbol.is_Symbol:
            return str(symbol)
        low, high = compat.value_range(self._mode, symbol)
        bounds = [f"at least {low}"] * bool(low) + [f"at most {high}"] * (high is not None)
        return f"{symbol} ({', '.join(bounds)})" if bounds else str(symbol)

    def texts(self, sizes: Sequence[Any]) -> str:
        """Several sizes, as a tuple."""
        inside = ", ".join(self.text(size) for size in sizes)
        return f"({inside},)" if len(sizes) == 1 else f"({inside})"


def compare(fake: Run, real: Run, reading: Reading, *, gradients: bool = True) -> list[Compared]:
    """Compare what a fake kernel returned with what the real one did.

    Args:
        fake, real: the two calls, with the arguments they were given.
        reading: how to read the sizes of the fake one.
        gradients: whether requires_grad is compared.
    """
    fakes, reals = dict(output_leaves(fake.result)), dict(output_leaves(real.result))
    names = list({**reals, **fakes})
    both = [(name, fakes[name], reals[name]) for name in names if name in fakes and name in reals]
    for mine, theirs in _sizes([(left, right) for _, left, right in both]):
        reading.learn(mine, theirs)
    fakes_share, reals_share = _sharing(fake), _sharing(real)
    compared = []
    for name in names:
        rows = list(_rows(fakes.get(name, _ABSENT), reals.get(name, _ABSENT), reading, gradients))
        if _has_memory(fakes.get(name)) and _has_memory(reals.get(name)):
            memory = fakes_share[name], reals_share[name]
            rows.append(_row("memory", memory[0], memory[1], "fake-alias-mismatch"))
        compared.append(Compared(name, rows))
    return compared


def worst(compared: Sequence[Compared]) -> tuple[str, str] | None:
    """The mismatch to report: its code, and one line that names the output; None without any."""
    wrong = [(output.name, row) for output in compared for row in output.wrong]
    if not wrong:
        return None
    name, row = min(wrong, key=lambda one: _SEVERITY.index(one[1].code or ""))
    field = {"stride": "strides", "value": "number"}.get(row.field, row.field.replace("_", " "))
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return row.code or "", f"{name}: fake {field} {row.fake}, real {row.real}{more}"


def table(compared: Sequence[Compared], title: str = "") -> str:
    """The tables of all outputs, those that disagree first; beyond eight, a line an output."""
    ordered = sorted(compared, key=lambda output: not output.wrong)
    lines = []
    for output in ordered[:_IN_FULL]:
        lines += [f"{title}{output.name}", *output.lines()]
    for output in ordered[_IN_FULL:]:
        fields = ", ".join(row.field for row in output.wrong)
        lines.append(f"{title}{output.name}: " + (f"{fields} disagree" if fields else "agrees"))
    return "\n".join(lines)


_ABSENT = object()


def _sizes(pairs: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Pairs of (fake, real) of every size that could be one that depends on data."""
    for fake, real in pairs:
        if isinstance(fake, torch.Tensor) and isinstance(real, torch.Tensor):
            if fake.dim() == real.dim():
                yield from zip(fake.shape, real.shape, strict=True)
        elif isinstance(real, (int, float)) and not isinstance(fake, torch.Tensor):
            yield fake, real


def _rows(fake: Any, real: Any, reading: Reading, gradients: bool) -> Iterator[Row]:
    if isinstance(fake, torch.Tensor) and isinstance(real, torch.Tensor):
        yield from _tensor_rows(fake, real, reading, gradients)
    elif _is_number(fake) and _is_number(real):
        code = None if reading.agrees(fake, real) else "fake-metadata-mismatch"
        yield Row("value", reading.text(fake), str(real), code)
    else:
        code = None if fake is real or _equal(fake, real) else "fake-shape-mismatch"
        yield Row("kind", _kind(fake), _kind(real), code)


def _tensor_rows(
    fake: torch.Tensor, real: torch.Tensor, reading: Reading, gradients: bool
) -> Iterator[Row]:
    metadata = "fake-metadata-mismatch"
    if not compat.is_fake(fake):
        yield Row("kind", "a real tensor", "a tensor", metadata)
    same_shape = _same_sizes(fake.shape, real.shape, reading)
    yield Row(
        "shape",
        reading.texts(fake.shape),
        str(tuple(real.shape)),
        None if same_shape else "fake-shape-mismatch",
    )
    strided = fake.layout == torch.strided and real.layout == torch.strided
    if strided:
        same = not same_shape or _same_strides(fake, real, reading)
        code = None if same else "fake-stride-mismatch"
        yield Row("stride", reading.texts(fake.stride()), str(tuple(real.stride())), code)
    yield _row("dtype", dtype_name(fake.dtype), dtype_name(real.dtype), "fake-dtype-mismatch")
    yield _row("device", str(fake.device), str(real.device), "fake-device-mismatch")
    yield _row("layout", layout_name(fake.layout), layout_name(real.layout), metadata)
    if strided:
        mine, theirs = fake.storage_offset(), real.storage_offset()
        same = real.numel() == 0 or reading.agrees(mine, theirs)
        code = None if same else metadata
        yield Row("storage_offset", reading.text(mine), str(theirs), code)
    if gradients:
        yield _row("requires_grad", str(fake.requires_grad), str(real.requires_grad), metadata)
    for field in ("is_conj", "is_neg"):
        mine, theirs = getattr(fake, field)(), getattr(real, field)()
        if mine or theirs:
            yield _row(field, str(mine), str(theirs), metadata)


def _row(field: str, fake: str, real: str, code: str) -> Row:
    return Row(field, fake, real, None if fake == real else code)


def _same_sizes(fake: Sequence[Any], real: Sequence[int], reading: Reading) -> bool:
    return len(fake) == len(real) and all(map(reading.agrees, fake, real))


def _same_strides(fake: torch.Tensor, real: torch.Tensor, reading: Reading) -> bool:
    """As torch sees it: strides of dims of size 0 and 1, and of empty tensors, mean nothing."""
    return real.numel() == 0 or all(
        size <= 1 or reading.agrees(mine, theirs)
        for size, mine, theirs in zip(real.shape, fake.stride(), real.stride(), strict=True)
    )


def _is_number(value: Any) -> bool:
    plain = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
    return isinstance(value, plain)


def _equal(fake: Any, real: Any) -> bool:
    return type(fake) is type(real) and not isinstance(fake, torch.Tensor) and bool(fake == real)


def _kind(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    if isinstance(value, torch.Tensor):
        return f"a tensor {dtype_name(value.dtype)}({', '.join(str(size) for size in value.shape)})"
    return repr(value)


def _has_memory(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout == torch.strided
        and (compat.is_fake(value) or value.numel() > 0)
    )


def _sharing(run: Run) -> dict[str, str]:
    """Of each output, what it shares memory with, in words."""
    arguments = [(f"argument {name}", tensor) for name, tensor in run.arguments.tensors()]
    spans = [
        (name, _span(tensor)) for name, tensor in [*arguments, *run.outputs] if _has_memory(tensor)
    ]
    return {
        name: _share_text([other for other, its in spans if other != name and _meet(span, its)])
        for name, span in spans
    }


def _share_text(others: Sequence[str]) -> str:
    return f"shared with {', '.join(others)}" if others else "its own"


def _span(tensor: torch.Tensor) -> tuple[int | None, int, int]:
    """Where a tensor's storage lies: what identifies it, and for a real one its first and last byte.

    The addresses are needed because one memory may have several storages: `from_numpy(x.numpy())`.
    """
    identity = compat.storage_id(tensor)
    if compat.is_fake(tensor):
        return identity, 0, 0
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return identity, start, start + storage.nbytes()


def _meet(one: tuple[int | None, int, int], other: tuple[int | None, int, int]) -> bool:
    return one[0] == other[0] or max(one[1], other[1]) < min(one[2], other[2])
