"""`ops`: each test fails when torch moves what it uses."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload

from pytest_customop.compat.compiler import compile_session
from pytest_customop.compat.kernel_functions import (
    functions_by_name,
    kernels_by_call,
    kernels_by_decorator,
)
from pytest_customop.compat.ops import (
    alias_error_text,
    compiled_code_shares_no_storage,
    defining_module,
    device_types,
    formula_in_python,
    has_autocast_rule,
    has_autograd_formula,
    has_side_effect,
    has_vmap_rule,
    is_alias_error,
    is_composite,
    is_custom_op_def,
    kernel_in_python,
    overload_name,
    overload_of,
    packet_name,
    python_kernels,
    registered_names,
    schema_of,
)
from pytest_customop.compat.registry import has_native_kernel

LIBRARY = torch.library.Library("t_compat_ops", "DEF")
LIBRARY.define("cpu(Tensor x) -> Tensor")
LIBRARY.define("none(Tensor x) -> Tensor")
LIBRARY.define("overloaded.one(Tensor x) -> Tensor")


def double(x: Any) -> Any:
    return x * 2


LIBRARY.impl("cpu", double, "CPU")
LIBRARY.impl("overloaded.one", double, "CPU")
torch.library.register_fake("t_compat_ops::cpu", double, lib=LIBRARY)


OTHER = torch.library.Library("t_compat_ops_2", "DEF")
OTHER.define("scaled(Tensor x, float factor=2.0) -> Tensor")
LIBRARY.define("scaled(Tensor x, float factor=0.5, *, float shift=0.0) -> Tensor")
TWO = 2.0


def shifted(x, factor=0.5, *, shift=0.0):
    return x * factor + shift


LIBRARY.impl("scaled", shifted, "CUDA")


@torch.library.impl("t_compat_ops::scaled", "CPU")
def unnamed(x, factor=0.5, *, shift=0.0):
    return x * factor + shift


@torch.library.impl(OTHER, "scaled", "CPU")
def named(x, factor=TWO):
    return x * factor


@torch.library.impl("t_compat_ops_2::scaled", "CUDA")
def unnamed_with_a_name_as_default(x, factor=TWO):
    return x * factor


torch.library.register_fake("t_compat_ops::scaled", lambda x, factor, shift: x, lib=LIBRARY)
torch.library.register_fake("t_compat_ops_2::scaled", named, lib=OTHER)


@torch.library.custom_op("t_compat_ops::custom", mutates_args=())
def custom(x: Tensor) -> Tensor:
    return x * 2


@custom.register_fake
def fake(x):
    return torch.empty_like(x)


@custom.register_kernel("cuda")
def cuda(x):
    return x + x


def overload(name: str) -> Any:
    return getattr(torch.ops.t_compat_ops, name).default


def test_a_namespace_has_native_kernels_or_none() -> None:
    assert not has_native_kernel("t_compat_ops")
    pytest.importorskip("torchvision")
    assert has_native_kernel("torchvision")


def test_kernel_in_python() -> None:
    op = torch.ops.t_compat_ops.overloaded.one
    assert kernel_in_python(overload("custom"), "cpu")
    assert kernel_in_python(overload("cpu"), "cpu")
    assert kernel_in_python(op, "cpu")
    assert not kernel_in_python(overload("cpu"), "cuda")
    assert not kernel_in_python(overload("none"), "cpu")
    assert not kernel_in_python(torch.ops.aten.relu.default, "cpu")


def test_python_kernels() -> None:
    kernels = dict(python_kernels(overload("custom")))
    assert kernels == {
        "the kernel": custom._init_fn,
        "the kernel for cuda": cuda,
        "the fake kernel": fake,
    }
    assert python_kernels(overload("cpu")) == [("the fake kernel", double)]
    assert python_kernels(overload("none")) == []


def test_kernels_that_a_decorator_registers() -> None:
    assert unnamed is None  # otherwise torch has changed, and the kernel can be found by its name
    (kernel,) = kernels_by_decorator(overload("scaled"))
    assert kernel(torch.ones(1)).item() == 0.5
    assert kernel.__kwdefaults__ == {"shift": 0.0}
    of_other = kernels_by_decorator(torch.ops.t_compat_ops_2.scaled.default)
    assert of_other[0] is named
    assert of_other[1].__name__ == "unnamed_with_a_name_as_default"
    assert not isinstance(of_other[1].__defaults__[0], float)  # its value is not known
    assert kernels_by_decorator(overload("custom")) == []
    assert kernels_by_decorator(overload("none")) == []


def test_kernels_that_a_call_registers() -> None:
    assert kernels_by_call(overload("cpu")) == [double]
    assert kernels_by_call(overload("scaled")) == [shifted]
    assert kernels_by_call(torch.ops.t_compat_ops_2.scaled.default) == []  # of another library
    assert kernels_by_call(overload("custom")) == []


def test_functions_with_the_names_of_the_arguments() -> None:
    assert double in functions_by_name(overload("cpu"))
    assert functions_by_name(overload("custom")) == []


def test_is_alias_error() -> None:
    @torch.library.custom_op("t_compat_ops::itself", mutates_args=())
    def itself(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError) as caught:
        itself(torch.ones(2))
    assert is_alias_error(caught.value)
    texts = (
        "The output of this custom operator (1) must",
        "Tensors returned from custom ops (1) must",
    )
    assert alias_error_text(caught.value).startswith(texts)
    assert not is_alias_error(RuntimeError("shapes differ"))
    assert not is_alias_error(Unspeakable())


class Unspeakable(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("nothing to say")


def op_named(name: str) -> OpOverload:
    op = torch.library.custom_op(
        f"t_compat_ops_rules::{name}", torch.sin, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    return overload_of(op)


@pytest.mark.skipif(not hasattr(torch.library, "register_vmap"), reason="from torch 2.5 on")
def test_a_vmap_rule_is_seen() -> None:
    op = op_named("batched")
    assert not has_vmap_rule(op)
    torch.library.register_vmap(op, lambda info, in_dims, x: (x.sin(), in_dims[0]))
    assert has_vmap_rule(op)


@pytest.mark.skipif(not hasattr(torch.library, "register_autocast"), reason="from torch 2.6 on")
def test_an_autocast_rule_is_seen_on_its_device() -> None:
    op = op_named("lowered")
    assert not has_autocast_rule(op, "cpu")
    torch.library.register_autocast(op, "cpu", torch.bfloat16)
    assert has_autocast_rule(op, "cpu")
    assert not has_autocast_rule(op, "cuda")
    assert not has_autocast_rule(op, "meta")


def test_an_op_without_rules_has_none() -> None:
    op = op_named("plain")
    assert not has_vmap_rule(op)
    assert not has_autocast_rule(op, "cpu")


def test_a_custom_op_def_and_its_overload() -> None:
    assert is_custom_op_def(custom)
    assert not is_custom_op_def(overload("custom"))
    assert overload_of(custom) is overload("custom")


def test_names_and_schemas() -> None:
    packet = torch.ops.t_compat_ops.overloaded
    assert overload_name(packet.one) == "t_compat_ops::overloaded.one"
    assert overload_name(overload("cpu")) == "t_compat_ops::cpu"
    assert packet_name(packet) == "t_compat_ops::overloaded"
    assert {"t_compat_ops::overloaded", "t_compat_ops::none"} <= {*registered_names()}
    schema = schema_of(overload("cpu"))
    assert str(schema) == "t_compat_ops::cpu(Tensor x) -> Tensor"
    assert [argument.name for argument in schema.arguments] == ["x"]


def test_has_autograd_formula() -> None:
    LIBRARY.define("formula(Tensor x) -> Tensor")
    LIBRARY.impl("formula", double, "Autograd")
    with_one = op_named("formula")
    assert not has_autograd_formula(with_one)
    torch.library.register_autograd(with_one, lambda ctx, grad: grad)
    assert has_autograd_formula(with_one)
    assert has_autograd_formula(overload("formula"))
    assert not has_autograd_formula(overload("cpu"))
    assert has_autograd_formula(torch.ops.aten.relu.default)


def test_defining_module() -> None:
    @torch.library.custom_op("t_compat_ops::nested", mutates_args=())
    def nested(x: Tensor) -> Tensor:
        return x * 2

    assert defining_module("t_compat_ops::custom") == __name__
    assert defining_module("t_compat_ops::nested") is None
    assert defining_module("t_compat_ops::cpu") is None


def test_device_types() -> None:
    assert {"cpu", "cuda", "xpu", "mps", "meta"} <= {*device_types()}


def test_a_formula_in_python() -> None:
    for name, kernel in (("below", double), ("through", torch.library.fallthrough_kernel)):
        LIBRARY.define(f"{name}(Tensor x) -> Tensor")
        LIBRARY.impl(name, kernel, "Autograd")
    op = op_named("python_formula")
    assert not formula_in_python(op)
    torch.library.register_autograd(op, lambda ctx, grad: grad)
    assert formula_in_python(op)
    assert formula_in_python(overload("below"))
    assert not formula_in_python(overload("through"))
    assert not formula_in_python(overload("cpu"))
    assert not formula_in_python(torch.ops.aten.relu.default)


def test_is_composite() -> None:
    LIBRARY.define("composite(Tensor x) -> Tensor")
    LIBRARY.impl("composite", double, "CompositeImplicitAutograd")
    assert is_composite(overload("composite"))
    assert not is_composite(overload("cpu"))


def returning_nothing(name: str, arguments: str = "Tensor x") -> OpOverload:
    LIBRARY.define(f"{name}({arguments}) -> ()")
    LIBRARY.impl(name, lambda x: None, "CPU")
    torch.library.register_fake(f"t_compat_ops::{name}", lambda x: None, lib=LIBRARY)
    return overload(name)


def keeps_calls(op: OpOverload) -> bool:
    """Whether a graph keeps a call whose result is not used."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: (op(x), x + 1)[1])(torch.ones(3)).graph
    graph.eliminate_dead_code()
    return any(node.target is op for node in graph.nodes)


def test_side_effects() -> None:
    silent = returning_nothing("silent")
    assert not has_side_effect(silent)
    assert not keeps_calls(silent)
    declared = returning_nothing("declared")
    torch.fx.node.has_side_effect(declared)
    assert has_side_effect(declared)
    assert keeps_calls(declared)
    writes = returning_nothing("writes", "Tensor(a!) x")
    assert has_side_effect(writes)
    of_2_4 = torch.__version__.startswith("2.4.")  # it looks at no schema
    assert keeps_calls(writes) is not of_2_4


@pytest.mark.skipif(
    not hasattr(torch.library, "_register_effectful_op"), reason="from torch 2.10 on"
)
def test_an_effect_is_a_side_effect() -> None:
    from torch._library.effects import EffectType

    effectful = returning_nothing("effectful")
    torch.library._register_effectful_op(effectful, EffectType.ORDERED, lib=LIBRARY)
    assert has_side_effect(effectful)


@pytest.mark.skipif(not compiled_code_shares_no_storage(), reason="from torch 2.13 on")
def test_compiled_code_looks_at_the_storages_of_outputs() -> None:
    def halves(x: Tensor) -> list[Tensor]:
        return list(torch.cat([x, x]).chunk(2))

    LIBRARY.define("halves(Tensor x) -> Tensor[]")
    LIBRARY.impl("halves", halves, "CPU")
    torch.library.register_fake("t_compat_ops::halves", halves, lib=LIBRARY)

    def call(x: Tensor) -> Any:
        return torch.ops.t_compat_ops.halves(x)

    with compile_session(), pytest.warns(UserWarning, match="may not alias any inputs"):
        torch.compile(call, backend="aot_eager", fullgraph=True)(torch.ones(3))
    torch._dynamo.reset()
