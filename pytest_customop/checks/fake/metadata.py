"""Compare the metadata of fake and real outputs, field by field, and show them as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...cases.run import Run
from ...cases.tensors import output_leaves
from ...compat.fakes import is_fake
from ...compat.symbols import expression, substitute, value_range
from ...compat.tensors import storage_id
from ...core.tables import aligned
from ...core.wording import dtype_name, layout_name

# Codes of findings; the first of these that applies is reported.
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
        fake, real: the two values as text.
        code: of the finding if they differ; None if they agree.
    """

    field: str
    fake: str
    real: str
    code: str | None = None


@dataclass(frozen=True)
class OutputComparison:
    """One output: its fields, fake and real.

    Args:
        name: of the output.
        rows: its fields.
    """

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


class SizeReader:
    """Reads the sizes of fake tensors as numbers.

    Args:
        mode: the fake mode that they belong to.
        bindings: the numbers that symbols stand for. Those of data-dependent sizes are learned from
            the real outputs.
    """

    def __init__(self, mode: Any, bindings: Mapping[Any, int] | None = None) -> None:
        self._mode = mode
        self._bindings = dict(bindings or {})

    def number(self, size: Any) -> Any:
        """The size as a number; None if it depends on data and was not learned."""
        value = substitute(expression(size), self._bindings)
        return value if isinstance(value, (int, float)) else None

    def learn(self, size: Any, real: Any) -> None:
        """Bind a data-dependent fake size to the real one, if that is within its range."""
        symbol = expression(size)
        if not getattr(symbol, "is_Symbol", False) or symbol in self._bindings:
            return
        low, high = value_range(self._mode, symbol)
        if (low is None or low <= real) and (high is None or real <= high):
            self._bindings[symbol] = real

    def agrees(self, size: Any, real: Any) -> bool:
        """Whether the fake size can be the real one."""
        number = self.number(size)
        if number is not None:
            return bool(number == real or (number != number and real != real))
        symbol = expression(size)
        return not symbol.is_Symbol  # a plain symbol that was not learned is out of its range

    def text(self, size: Any) -> str:
        """The size as text: a number, or the symbol with its range."""
        number = self.number(size)
        if number is not None:
            return str(number)
        symbol = expression(size)
        if not symbol.is_Symbol:
            return str(symbol)
        low, high = value_range(self._mode, symbol)
        bounds = [f"at least {low}"] * bool(low) + [f"at most {high}"] * (high is not None)
        return f"{symbol} ({', '.join(bounds)})" if bounds else str(symbol)

    def texts(self, sizes: Sequence[Any]) -> str:
        """Several sizes, as a tuple."""
        inside = ", ".join(self.text(size) for size in sizes)
        return f"({inside},)" if len(sizes) == 1 else f"({inside})"


def compare_outputs(
    fake: Run, real: Run, reader: SizeReader, *, gradients: bool = True
) -> list[OutputComparison]:
    """Compare the outputs of a fake and a real call.

    Args:
        fake, real: the two calls, with their arguments.
        reader: reads the sizes of the fake call.
        gradients: whether requires_grad is compared.
    """
    fakes, reals = dict(output_leaves(fake.result)), dict(output_leaves(real.result))
    names = list({**reals, **fakes})
    common = [(name, fakes[name], reals[name]) for name in names if name in fakes and name in reals]
    for fake_size, real_size in _sizes([(left, right) for _, left, right in common]):
        reader.learn(fake_size, real_size)
    fakes_share, reals_share = _sharing(fake), _sharing(real)
    comparisons = []
    for name in names:
        rows = list(_rows(fakes.get(name, _ABSENT), reals.get(name, _ABSENT), reader, gradients))
        if _has_memory(fakes.get(name)) and _has_memory(reals.get(name)):
            memory = fakes_share[name], reals_share[name]
            rows.append(_row("memory", memory[0], memory[1], "fake-alias-mismatch"))
        comparisons.append(OutputComparison(name, rows))
    return comparisons


def worst_mismatch(comparisons: Sequence[OutputComparison]) -> tuple[str, str] | None:
    """The mismatch to report: its code, and one line that names the output; None if all agree."""
    wrong = [(output.name, row) for output in comparisons for row in output.wrong]
    if not wrong:
        return None
    name, row = min(wrong, key=lambda item: _SEVERITY.index(item[1].code or ""))
    field = {"stride": "strides", "value": "number"}.get(row.field, row.field.replace("_", " "))
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return row.code or "", f"{name}: fake {field} {row.fake}, real {row.real}{more}"


def table(comparisons: Sequence[OutputComparison], title: str = "") -> str:
    """The tables of all outputs, mismatched ones first; after eight tables, one line per output."""
    ordered = sorted(comparisons, key=lambda output: not output.wrong)
    lines = []
    for output in ordered[:_IN_FULL]:
        lines += [f"{title}{output.name}", *output.lines()]
    for output in ordered[_IN_FULL:]:
        fields = ", ".join(row.field for row in output.wrong)
        lines.append(f"{title}{output.name}: " + (f"{fields} disagree" if fields else "agrees"))
    return "\n".join(lines)


_ABSENT = object()


def _sizes(pairs: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """(fake, real) for every size or number that may depend on data."""
    for fake, real in pairs:
        if isinstance(fake, torch.Tensor) and isinstance(real, torch.Tensor):
            if fake.dim() == real.dim():
                yield from zip(fake.shape, real.shape, strict=True)
        elif isinstance(real, (int, float)) and not isinstance(fake, torch.Tensor):
            yield fake, real


def _rows(fake: Any, real: Any, reader: SizeReader, gradients: bool) -> Iterator[Row]:
    if isinstance(fake, torch.Tensor) and isinstance(real, torch.Tensor):
        yield from _tensor_rows(fake, real, reader, gradients)
    elif _is_number(fake) and _is_number(real):
        code = None if reader.agrees(fake, real) else "fake-metadata-mismatch"
        yield Row("value", reader.text(fake), str(real), code)
    else:
        code = None if fake is real or _equal(fake, real) else "fake-shape-mismatch"
        yield Row("kind", _kind(fake), _kind(real), code)


def _tensor_rows(
    fake: torch.Tensor, real: torch.Tensor, reader: SizeReader, gradients: bool
) -> Iterator[Row]:
    metadata = "fake-metadata-mismatch"
    if not is_fake(fake):
        yield Row("kind", "a real tensor", "a tensor", metadata)
    same_shape = _same_sizes(fake.shape, real.shape, reader)
    yield Row(
        "shape",
        reader.texts(fake.shape),
        str(tuple(real.shape)),
        None if same_shape else "fake-shape-mismatch",
    )
    strided = fake.layout == torch.strided and real.layout == torch.strided
    if strided:
        same = not same_shape or _same_strides(fake, real, reader)
        code = None if same else "fake-stride-mismatch"
        yield Row("stride", reader.texts(fake.stride()), str(tuple(real.stride())), code)
    yield _row("dtype", dtype_name(fake.dtype), dtype_name(real.dtype), "fake-dtype-mismatch")
    yield _row("device", str(fake.device), str(real.device), "fake-device-mismatch")
    yield _row("layout", layout_name(fake.layout), layout_name(real.layout), metadata)
    if strided:
        fake_offset, real_offset = fake.storage_offset(), real.storage_offset()
        same = real.numel() == 0 or reader.agrees(fake_offset, real_offset)
        code = None if same else metadata
        yield Row("storage_offset", reader.text(fake_offset), str(real_offset), code)
    if gradients:
        yield _row("requires_grad", str(fake.requires_grad), str(real.requires_grad), metadata)
    for field in ("is_conj", "is_neg"):
        fake_bit, real_bit = getattr(fake, field)(), getattr(real, field)()
        if fake_bit or real_bit:
            yield _row(field, str(fake_bit), str(real_bit), metadata)


def _row(field: str, fake: str, real: str, code: str) -> Row:
    return Row(field, fake, real, None if fake == real else code)


def _same_sizes(fake: Sequence[Any], real: Sequence[int], reader: SizeReader) -> bool:
    return len(fake) == len(real) and all(map(reader.agrees, fake, real))


def _same_strides(fake: torch.Tensor, real: torch.Tensor, reader: SizeReader) -> bool:
    """Whether the strides agree; as in torch, those of dims of size 0 and 1 do not count."""
    return real.numel() == 0 or all(
        size <= 1 or reader.agrees(fake_stride, real_stride)
        for size, fake_stride, real_stride in zip(
            real.shape, fake.stride(), real.stride(), strict=True
        )
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
        and (is_fake(value) or value.numel() > 0)
    )


def _sharing(run: Run) -> dict[str, str]:
    """For each output, text that names what it shares memory with."""
    arguments = [(f"argument {name}", tensor) for name, tensor in run.arguments.tensors()]
    spans = [
        (name, _span(tensor)) for name, tensor in [*arguments, *run.outputs] if _has_memory(tensor)
    ]
    names = [name for name, _ in spans]
    sharers: list[set[int]] = [set() for _ in spans]
    for first, second in _overlapping([span for _, span in spans]):
        sharers[first].add(second)
        sharers[second].add(first)
    return {
        name: _share_text([names[at] for at in sorted(positions) if names[at] != name])
        for name, positions in zip(names, sharers, strict=True)
    }


def _share_text(names: Sequence[str]) -> str:
    return f"shared with {', '.join(names)}" if names else "its own"


def _span(tensor: torch.Tensor) -> tuple[int | None, int, int]:
    """A tensor's storage: its identity and, for a real tensor, the addresses where it starts and ends.

    The addresses are needed because several storages may share one memory: `from_numpy(x.numpy())`.
    """
    identity = storage_id(tensor)
    if is_fake(tensor):
        return identity, 0, 0
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return identity, start, start + storage.nbytes()


def _overlapping(spans: Sequence[tuple[int | None, int, int]]) -> Iterator[tuple[int, int]]:
    """The positions of each pair of spans in one storage or memory; fast for thousands of outputs."""
    of_storage: dict[int | None, list[int]] = {}
    for at, (identity, _, _) in enumerate(spans):
        of_storage.setdefault(identity, []).append(at)
    for group in of_storage.values():
        yield from itertools.combinations(group, 2)
    order = sorted(range(len(spans)), key=lambda at: spans[at][1])
    for rank, first in enumerate(order):
        for second in itertools.islice(order, rank + 1, None):
            if spans[second][1] >= spans[first][2]:
                break
            yield first, second
