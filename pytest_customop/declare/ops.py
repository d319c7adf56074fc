"""Resolve the op that an author names to one overload with its schema."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..compat.ops import (
    OpOverload,
    OpOverloadPacket,
    formula_in_python,
    has_autograd_formula,
    is_composite,
    is_custom_op_def,
    overload_name,
    overload_of,
    packet_name,
    registered_names,
    schema_of,
)
from ..core.namespaces import NOT_AUTHORS
from ..core.suggest import unknown
from ..core.wording import counted
from .inputs import Sample, TensorSpec


class OpError(Exception):
    """There is no such op, or its arguments do not fit; the message says why."""


@dataclass(frozen=True, eq=False)
class Op:
    """One overload of one op.

    Args:
        overload: the dispatcher's overload.
        name: `namespace::name`, followed by `.overload` unless that is `default`.
    """

    overload: OpOverload
    name: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op through the dispatcher."""
        return self.overload(*args, **kwargs)

    @property
    def own_name(self) -> str:
        """The name without the namespace."""
        return self.name.partition("::")[2]

    @functools.cached_property
    def schema(self) -> Any:
        """The parsed schema; `str` gives its text."""
        return schema_of(self.overload)

    @functools.cached_property
    def arguments(self) -> Sequence[Any]:
        """The schema's arguments, in order."""
        return self.schema.arguments  # type: ignore[no-any-return]  # a new list at each access

    @functools.cached_property
    def mutated(self) -> frozenset[str]:
        """The names of the arguments that the schema says are written to."""
        return frozenset(
            argument.name
            for argument in self.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        )

    @functools.cached_property
    def has_autograd(self) -> bool:
        """Whether an autograd formula is registered."""
        return has_autograd_formula(self.overload)

    @functools.cached_property
    def has_formula_in_python(self) -> bool:
        """Whether Python code registered a formula, or another kernel at an Autograd key."""
        return formula_in_python(self.overload)

    @property
    def is_composite(self) -> bool:
        """Whether the op is made of other ops, which autograd and compilers see instead of it."""
        return is_composite(self.overload)

    @property
    def may_take_two_tensors(self) -> bool:
        """Whether the schema has two tensors among its arguments, counting a list as two."""
        return _tensors(self.arguments) > 1

    @property
    def may_return_two_tensors(self) -> bool:
        """Whether the schema has two tensors among its returns, counting a list as two."""
        return _tensors(self.schema.returns) > 1

    def tagged(self, tag: str) -> bool:
        """Whether the op carries `torch.Tag.<tag>`; False where this torch has no such tag."""
        return getattr(torch.Tag, tag, None) in self.overload.tags

    @property
    def nondeterministic(self) -> bool:
        """Whether the op declares that equal inputs may give different outputs."""
        return self.tagged("nondeterministic_seeded") or self.tagged("nondeterministic_bitwise")

    def bind(self, sample: Sample) -> Iterator[tuple[Any, Any]]:
        """Pairs of (schema argument, value) for every argument that the sample gives."""
        for argument, value in zip(self.positional, sample.args, strict=False):
            yield argument, value
        by_name = {argument.name: argument for argument in self.arguments}
        for name, value in sample.kwargs.items():
            yield by_name[name], value

    @functools.cached_property
    def positional(self) -> Sequence[Any]:
        """The schema's arguments that may be given by position."""
        return [argument for argument in self.arguments if not argument.kwarg_only]

    @functools.cached_property
    def positional_names(self) -> Sequence[str]:
        """The names of these."""
        return [argument.name for argument in self.positional]

    def validate_arguments(self, sample: Sample) -> None:
        """Check a sample's arguments against the schema, without calling the op.

        Raises:
            OpError: for arguments that do not fit.
        """
        positional = self.positional
        if len(sample.args) > len(positional):
            raise OpError(
                f"{self.name} takes {counted(len(positional), 'positional argument')}, "
                f"{len(sample.args)} given; {self._schema()}"
            )
        names = [argument.name for argument in self.arguments]
        taken = {argument.name for argument in positional[: len(sample.args)]}
        for name in sample.kwargs:
            if name not in names:
                raise OpError(f"{unknown('argument', name, names)}; {self._schema()}")
            if name in taken:
                raise OpError(f"argument {name!r} is given twice; {self._schema()}")
        for argument in self.arguments:
            is_given = argument.name in taken or argument.name in sample.kwargs
            if not is_given and not argument.has_default_value():
                raise OpError(f"argument {argument.name!r} is missing; {self._schema()}")
        for argument, value in self.bind(sample):
            wrong = _why_unfit(str(argument.type), value)
            if wrong:
                raise OpError(f"argument {argument.name!r} {wrong}; {self._schema()}")

    def _schema(self) -> str:
        return f"the schema is {self.schema}"


def resolve(op: Any) -> Op:
    """The one overload that `op` names.

    Args:
        op: a CustomOpDef, OpOverload, OpOverloadPacket, `"ns::name"` or `"ns::name.overload"`,
            or a callable without arguments that returns one of these.

    Raises:
        OpError: if there is no such op, or it has several overloads and none is `default`.
    """
    if isinstance(op, Op):
        return op
    if isinstance(op, str):
        return _named(op)
    if isinstance(op, OpOverload):
        return Op(op, overload_name(op))
    if isinstance(op, OpOverloadPacket):
        return _only_overload(op)
    if is_custom_op_def(op):
        return resolve(overload_of(op))
    if callable(op) and not isinstance(op, (type, torch.nn.Module)):
        return _returned(op)
    raise OpError(f"op is {op!r}: {_ALLOWED}")


_ALLOWED = (
    'allowed are "ns::name", "ns::name.overload", torch.ops.ns.name, the object that '
    "torch.library.custom_op returned, or a function without arguments that returns one of these"
)


def _returned(make: Any) -> Op:
    try:
        returned = make()
    except Exception as error:  # whatever the author's function raises
        name = getattr(make, "__qualname__", repr(make))
        raise OpError(
            f"op is {name}, which was called for the op it returns and raised "
            f"{type(error).__name__}: {error}; {_ALLOWED}"
        ) from error
    is_op = isinstance(returned, (str, OpOverload, OpOverloadPacket))
    if not is_op and not is_custom_op_def(returned):
        raise OpError(f"op is a function that returned {returned!r}; {_ALLOWED}")
    return resolve(returned)


def _named(name: str) -> Op:
    namespace, separator, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    if not separator or not namespace or not base:
        raise OpError(f"op {name!r} is not a name; {_ALLOWED}")
    try:
        packet = getattr(getattr(torch.ops, namespace), base)
    except AttributeError:
        raise OpError(_no_such_op(namespace, base, registered_names())) from None
    if not overload:
        return _only_overload(packet)
    if overload not in packet.overloads():
        raise OpError(unknown(f"overload of {namespace}::{base}", overload, packet.overloads()))
    return resolve(getattr(packet, overload))


def _no_such_op(namespace: str, base: str, known: Mapping[str, None]) -> str:
    siblings = [name for name in known if name.startswith(f"{namespace}::")]
    name = f"{namespace}::{base}"
    if siblings and len(siblings) <= 40:
        return f"{unknown('op', name, siblings)}; is the module that registers it imported?"
    near = unknown("op", name, known).partition(" (known:")[0]
    return f"{near}; nothing of that name is registered: is the module that registers it imported?"


def _only_overload(packet: OpOverloadPacket) -> Op:
    overloads: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
    if len(overloads) == 1 or "default" in overloads:
        return resolve(getattr(packet, "default" if "default" in overloads else overloads[0]))
    name = packet_name(packet)
    choices = ", ".join(f'"{name}.{overload}"' for overload in sorted(overloads))
    raise OpError(f"{name} has several overloads and none is the default: name one of {choices}")


def _why_unfit(kind: str, value: Any) -> str | None:
    """Why a value cannot be an argument of this schema type; None if it can.

    The text follows the argument's name: "is an int, not 'two' (str)".
    """
    if kind.startswith("Optional["):
        return None if value is None else _why_unfit(kind[len("Optional[") : -1], value)
    if kind.startswith("List["):
        inner = kind[len("List[") : -1]
        if not isinstance(value, (list, tuple)):
            single = (
                inner in ("int", "float", "bool", "SymInt") and _why_unfit(inner, value) is None
            )
            return None if single else f"is a list of {inner}, not {_kind_of(value)}"
        for index, element in enumerate(value):
            wrong = _why_unfit(inner, element)
            if wrong:
                return f"[{index}] {wrong}"
        return None
    is_tensor = isinstance(value, (TensorSpec, torch.Tensor))
    if kind == "Tensor":
        return None if is_tensor else f"is a Tensor, not {_kind_of(value)}"
    accepted = _PLAIN.get(kind)
    if accepted is None or isinstance(value, accepted):
        return None
    if is_tensor and kind in ("number", "Scalar"):
        return None
    return f"is {_article(kind)}, not {_kind_of(value)}"


_INTEGRAL = (int, torch.SymInt, torch.dtype, torch.layout, torch.memory_format)
_PLAIN: dict[str, tuple[Any, ...]] = {
    "int": _INTEGRAL,
    "SymInt": _INTEGRAL,
    "float": (int, float),
    "bool": (bool, int),
    "str": (str,),
    "number": (int, float, complex),
    "Scalar": (int, float, complex),
    "Device": (str, torch.device, int),
}


def _tensors(values: Iterable[Any]) -> int:
    """How many tensors arguments or returns of a schema have, counting a list as two."""
    kinds = [str(value.type) for value in values]
    return sum(1 + ("List[" in kind) for kind in kinds if "Tensor" in kind)


def _kind_of(value: Any) -> str:
    if isinstance(value, (TensorSpec, torch.Tensor)):
        return "a tensor"
    return f"{value!r} ({type(value).__name__})" if value is not None else "None"


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def is_authors(func: Any) -> bool:
    """Whether a called object is an author's op: not torch's, not this package's."""
    return isinstance(func, OpOverload) and func.namespace not in NOT_AUTHORS
