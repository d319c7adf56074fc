"""What `values.*` needs of torch's private parts, one test a function."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_customop import compat

LIBRARY = torch.library.Library("t_compat_values", "DEF")
LIBRARY.define("cpu(Tensor x) -> Tensor")
LIBRARY.define("none(Tensor x) -> Tensor")
LIBRARY.define("overloaded.one(Tensor x) -> Tensor")


def double(x: Any) -> Any:
    return x * 2


LIBRARY.impl("cpu", double, "CPU")
LIBRARY.impl("overloaded.one", double, "CPU")
torch.library.register_fake("t_compat_values::cpu", double, lib=LIBRARY)


@torch.library.custom_op("t_compat_values::custom", mutates_args=())
def custom(x: Tensor) -> Tensor:
    return x * 2


@custom.register_fake
def fake(x):
    return torch.empty_like(x)


@custom.register_kernel("cuda")
def cuda(x):
    return x + x


def overload(name: str) -> Any:
    return getattr(torch.ops.t_compat_values, name).default


def test_kernel_in_python() -> None:
    one = torch.ops.t_compat_values.overloaded.one
    assert compat.kernel_in_python(overload("custom"), "cpu")
    assert compat.kernel_in_python(overload("cpu"), "cpu")
    assert compat.kernel_in_python(one, "cpu")
    assert not compat.kernel_in_python(overload("cpu"), "cuda")
    assert not compat.kernel_in_python(overload("none"), "cpu")
    assert not compat.kernel_in_python(torch.ops.aten.relu.default, "cpu")


def test_python_kernels() -> None:
    found = dict(compat.python_kernels(overload("custom")))
    assert found == {
        "the kernel": custom._init_fn,
        "the kernel for cuda": cuda,
        "the fake kernel": fake,
    }
    assert compat.python_kernels(overload("cpu")) == [("the fake kernel", double)]
    assert compat.python_kernels(overload("none")) == []


def test_is_alias_error() -> None:
    @torch.library.custom_op("t_compat_values::itself", mutates_args=())
    def itself(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError) as caught:
        itself(torch.ones(2))
    assert compat.is_alias_error(caught.value)
    assert not compat.is_alias_error(RuntimeError("shapes differ"))
