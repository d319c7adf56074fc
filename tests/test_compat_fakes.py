"""`fakes`, `symbols` and `tensors`: each test fails when torch moves what they use."""

import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_customop.compat.fakes import (
    enter_fake_mode,
    fake_cause,
    fake_mode,
    is_data_dependent,
    is_fake,
    missing_fake_kernel,
    to_fake,
)
from pytest_customop.compat.ops import overload_name
from pytest_customop.compat.symbols import (
    expression,
    guards,
    is_constant_size,
    substitute,
    value_range,
)
from pytest_customop.compat.tensors import observe_calls, storage_id


def symbolic(*shape: int) -> tuple:
    mode = fake_mode()
    return mode, to_fake(mode, torch.zeros(shape), "x")


@torch.library.custom_op("t_compat_fake::count", mutates_args=())
def count(x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(2)


@count.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(min=2, max=9))


@torch.library.custom_op("t_compat_fake::unfaked", mutates_args=())
def unfaked(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


LIBRARY = torch.library.Library("t_compat_fake_lib", "DEF")
LIBRARY.define("unfaked(Tensor x) -> Tensor")
LIBRARY.impl("unfaked", lambda x: x.clone(), "CPU")


def test_fake_mode_and_enter_fake_mode_run_ops_on_fake_tensors() -> None:
    mode = fake_mode()
    fake = to_fake(mode, torch.zeros(3, 4))
    assert is_fake(fake)
    assert not is_fake(torch.zeros(3))
    with enter_fake_mode(mode):
        assert is_fake(fake * 2)
    assert tuple(fake.shape) == (3, 4)
    assert all(type(size) is int for size in fake.shape)


def test_scalar_outputs_give_symbols_or_raise() -> None:
    for allowed in (True, False):
        mode = fake_mode(scalar_outputs=allowed)
        fake = to_fake(mode, torch.ones(()))
        with enter_fake_mode(mode):
            if allowed:
                assert isinstance(fake.item(), torch.SymFloat)
            else:
                with pytest.raises(Exception, match="local_scalar_dense"):
                    fake.item()


def test_enter_fake_mode_keeps_torch_quiet(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    mode = fake_mode()
    fake = to_fake(mode, torch.ones(()))
    with pytest.raises(Exception, match="data-dependent") as caught, enter_fake_mode(mode):
        bool(fake > 0)
    assert is_data_dependent(caught.value)
    assert not is_data_dependent(ValueError())
    assert "failed while" not in capfd.readouterr().err
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


def test_to_fake_makes_every_size_a_symbol_of_its_own() -> None:
    _, fake = symbolic(3, 3, 1)
    first, second = (expression(size) for size in fake.shape[:2])
    assert first.is_Symbol
    assert second.is_Symbol
    assert first != second
    assert expression(fake.shape[2]) == 1
    assert expression(7) == 7


def test_to_fake_keeps_shared_storage() -> None:
    base, mode = torch.zeros(6), fake_mode()
    first, second = to_fake(mode, base[:3]), to_fake(mode, base[2:])
    separate = to_fake(mode, torch.zeros(3))
    assert storage_id(first) == storage_id(second) is not None
    assert storage_id(first) != storage_id(separate)
    assert storage_id(base) == storage_id(base[1:])


def test_storage_id_of_a_sparse_tensor() -> None:
    assert storage_id(torch.eye(3).to_sparse()) is None


def test_substitute() -> None:
    _, fake = symbolic(3, 4)
    rows, columns = (expression(size) for size in fake.shape)
    area = expression(fake.shape[0] * fake.shape[1] // 2)
    assert substitute(area, {rows: 5, columns: 7}) == 17
    assert substitute(area, {rows: 5}).free_symbols == {columns}
    assert substitute(12, {}) == 12


def test_guards_and_constants_name_the_line() -> None:
    mode, fake = symbolic(3, 4)
    with enter_fake_mode(mode):
        int(fake.shape[0])
        assert fake.shape[1] <= 9
    assert [is_constant_size(size) for size in fake.shape] == [True, False]
    pinned, bounded = guards(mode)
    assert pinned[0].rel_op == "=="
    assert "test_compat_fakes.py" in pinned[1]
    assert pinned[1].endswith("int(fake.shape[0])")
    symbol = next(iter(bounded[0].free_symbols))
    assert substitute(bounded[0], {symbol: 9}) is True
    assert substitute(bounded[0], {symbol: 10}) is False


def test_value_range_of_a_data_dependent_size() -> None:
    mode = fake_mode()
    with enter_fake_mode(mode):
        size = expression(count(to_fake(mode, torch.zeros(3))).shape[0])
    assert value_range(mode, size) == (2, 9)
    mode, fake = symbolic(3)
    assert value_range(mode, expression(fake.shape[0])) == (2, None)


def raised(op: object) -> Exception:
    mode = fake_mode()
    fake = to_fake(mode, torch.zeros(3))
    with pytest.raises(Exception, match="unfaked") as caught, enter_fake_mode(mode):
        op(fake)  # type: ignore[operator]
    return caught.value


def test_missing_fake_kernel() -> None:
    assert missing_fake_kernel(raised(unfaked)) == "t_compat_fake::unfaked"
    error = raised(torch.ops.t_compat_fake_lib.unfaked)
    assert missing_fake_kernel(error) == "t_compat_fake_lib::unfaked"
    assert missing_fake_kernel(ValueError("no")) is None


def test_fake_cause_is_what_a_meta_kernel_raised() -> None:
    lib = torch.library.Library("t_compat_fake_lib", "FRAGMENT")
    lib.define("unfaked_meta(Tensor x) -> Tensor")

    def meta(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("from the meta kernel")

    lib.impl("unfaked_meta", meta, "Meta")
    error = raised(torch.ops.t_compat_fake_lib.unfaked_meta)
    assert missing_fake_kernel(error) is None
    assert str(fake_cause(error)) == "from the meta kernel"
    value_error = ValueError("no")
    assert fake_cause(value_error) is value_error


def test_observe_calls_sees_what_autograd_calls() -> None:
    seen = []

    def observer(func: object, args: tuple, kwargs: dict) -> object:
        seen.append(overload_name(func))  # type: ignore[arg-type]
        return func(*args, **kwargs)  # type: ignore[operator]

    def gradient(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        return unfaked(grad)

    op = torch.library.custom_op(
        "t_compat_fake::outer", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    op.register_autograd(gradient)
    x = torch.zeros(3, requires_grad=True)
    y = op(x)
    with observe_calls(observer) as mode:
        assert isinstance(mode, TorchDispatchMode)
        torch.autograd.grad([y], [x], [torch.ones(3)])
    assert "t_compat_fake::unfaked" in seen
    assert "aten::clone" not in seen  # inside the kernel


def test_a_mode_for_symbolic_sizes_keeps_no_results_and_gives_the_same() -> None:
    shapes = []
    for kept in (False, True):
        mode = fake_mode(symbolic=not kept)
        assert mode.cache_enabled == kept
        fake = to_fake(mode, torch.zeros(3, 4), "x")
        with enter_fake_mode(mode):
            shapes.append(str((fake * 2).t().shape))
    assert shapes[0] == shapes[1]
    assert fake_mode().cache_enabled


def test_a_mode_does_not_write_down_from_where_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(fake_mode()._stack_trace) == 0
    assert not hasattr(sys, "tracebacklimit")
    monkeypatch.setattr(sys, "tracebacklimit", 7, raising=False)
    fake_mode()
    assert sys.tracebacklimit == 7
