"""Compare the outputs of real kernels with what their fake kernels promise about memory.

Compiled code relies on that promise. If an output is smaller or has another dtype, the code reads and
writes past its end, which can kill the process. So outputs are compared before compiled code runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ..compat.fakes import enter_fake_mode, fake_mode, to_fake
from ..compat.ops import overload_name
from ..compat.tensors import observe_calls, storage_id
from ..core.tracebacks import reraise_bug
from ..core.wording import dtype_name
from ..declare.ops import is_authors
from .arguments import Arguments
from .case import Case
from .tensors import is_plain, leaves, map_tensors, once_each, output_leaves


@dataclass(frozen=True)
class Violation:
    """An output that breaks the fake kernel's promise.

    Args:
        op: the name of the op.
        code: of the finding.
        text: one sentence, without the op.
        in_backward: whether a backward called the op.
    """

    op: str
    code: str
    text: str
    in_backward: bool


@dataclass
class FakeContract:
    """Where the fake kernels of the ops that ran broke their promise.

    Args:
        violations: one for each call with an output that is not as promised.
        errors: by op, the first exception of its fake kernel.
        shares_memory: whether an output shares memory with an argument or with another output.
        calls_in_backward: whether a backward called an author's op.
    """

    violations: list[Violation] = field(default_factory=list)
    errors: dict[str, Exception] = field(default_factory=dict)
    shares_memory: bool = False
    calls_in_backward: bool = False

    @contextmanager
    def recording(self, *, backward: bool = False) -> Iterator[None]:
        """Record every author's op that is called in the block, which may be a backward."""

        def call(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = overload(*args, **kwargs)
            if is_authors(overload):
                self.calls_in_backward |= backward
                self._compare(overload, args, kwargs, result, backward)
                self.shares_memory |= _shares_memory([*args, *kwargs.values()], result)
            return result

        with observe_calls(call):
            yield

    def _compare(self, overload: Any, args: Any, kwargs: Any, result: Any, backward: bool) -> None:
        name = overload_name(overload)
        try:
            promised = _fake_result(overload, args, kwargs)
        except Exception as error:  # whatever a fake kernel raises
            reraise_bug(error)
            self.errors.setdefault(name, error)
            return
        wrong = _violation(output_leaves(promised), output_leaves(result))
        if wrong:
            self.violations.append(Violation(name, *wrong, backward))


_sized: weakref.WeakKeyDictionary[Case, frozenset[int] | None] = weakref.WeakKeyDictionary()


def sized_by_data(case: Case) -> frozenset[int] | None:
    """The positions of the returned tensors whose sizes are not known before the op has run.

    Returns:
        None if the op raises on fake tensors. It is called on them once per case.
    """
    if case not in _sized:
        _sized[case] = data_dependent(case.inputs())
    return _sized[case]


def data_dependent(arguments: Arguments) -> frozenset[int] | None:
    """As `sized_by_data`, for a call with these arguments."""
    try:
        promised = _fake_result(arguments.op.overload, arguments.args, dict(arguments.kwargs))
    except Exception as error:  # whatever a fake kernel raises
        reraise_bug(error)
        return None
    tensors = [leaf for _, leaf in output_leaves(promised) if isinstance(leaf, torch.Tensor)]
    return frozenset(
        index
        for index, tensor in enumerate(tensors)
        if any(isinstance(size, torch.SymInt) for size in tensor.shape)
    )


def _fake_result(overload: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    mode = fake_mode()
    fake = once_each(lambda tensor: to_fake(mode, _without_history(tensor)))
    fake_args = map_tensors(args, fake)
    fake_kwargs = {name: map_tensors(value, fake) for name, value in kwargs.items()}
    with enter_fake_mode(mode):
        return overload(*fake_args, **fake_kwargs)


def _without_history(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as a leaf of autograd's graph: faking a tensor with history takes three times as long."""
    if tensor.is_leaf or tensor._is_view() or not is_plain(tensor):
        return tensor
    return tensor.data.requires_grad_(tensor.requires_grad)


def _shares_memory(arguments: Any, result: Any) -> bool:
    """Whether a returned tensor shares memory with an argument or with another returned tensor."""
    inputs, outputs = (
        [storage_id(leaf) for _, leaf in leaves(value, "") if isinstance(leaf, torch.Tensor)]
        for value in (arguments, result)
    )
    return len({*outputs}) < len(outputs) or not {*inputs}.isdisjoint(outputs)


def _violation(
    promised: list[tuple[str, Any]], real: list[tuple[str, Any]]
) -> tuple[str, str] | None:
    """The first output that is not as promised: (code, one sentence); None if there is none."""
    if len(promised) != len(real):
        text = f"the fake kernel promises {len(promised)} outputs, the op returns {len(real)}"
        return "fake-shape-mismatch", text
    for (name, fake), (_, leaf) in zip(promised, real, strict=True):
        if isinstance(fake, torch.Tensor) != isinstance(leaf, torch.Tensor):
            kinds = [
                "a tensor" if isinstance(value, torch.Tensor) else "none" for value in (fake, leaf)
            ]
            text = f"{name}: the fake kernel promises {kinds[0]}, the op returns {kinds[1]}"
            return "fake-shape-mismatch", text
        if isinstance(leaf, torch.Tensor) and is_plain(leaf):
            wrong = _tensor_violation(fake, leaf)
            if wrong:
                code, text = wrong
                return code, f"{name}: {text}"
    return None


def _tensor_violation(fake: torch.Tensor, real: torch.Tensor) -> tuple[str, str] | None:
    promise = f"the fake kernel promises {_summary(fake)}, the op returns {_summary(real)}"
    if fake.dim() != real.dim() or not all(
        isinstance(fake_size, torch.SymInt) or fake_size == real_size
        for fake_size, real_size in zip(fake.shape, real.shape, strict=True)
    ):
        return "fake-shape-mismatch", promise
    if fake.dtype != real.dtype:
        return "fake-dtype-mismatch", promise
    if fake.device.type != real.device.type:
        return "fake-device-mismatch", promise
    needed, there = _elements(fake), real.untyped_storage().nbytes() // real.element_size()
    if needed is not None and needed > there:
        return "fake-stride-mismatch", (
            f"the fake kernel's strides {tuple(fake.stride())} reach over {needed} elements, the op "
            f"returns memory of {there}"
        )
    return None


def _summary(tensor: torch.Tensor) -> str:
    sizes = ", ".join(str(size) for size in tensor.shape)
    where = "" if tensor.device.type == "cpu" else f" on {tensor.device.type}"
    return f"{dtype_name(tensor.dtype)}[{sizes}]{where}"


def _elements(tensor: torch.Tensor) -> int | None:
    """How many elements of memory a tensor spans; None if that depends on data."""
    parts = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    if any(isinstance(part, torch.SymInt) for part in parts):
        return None
    if 0 in tensor.shape:
        return 0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return int(tensor.storage_offset()) + 1 + sum((size - 1) * stride for size, stride in pairs)
