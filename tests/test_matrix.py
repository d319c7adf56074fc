"""Only meaningful cells exist, with the dtypes and gradients that make sense for each sample."""

import random
from typing import Any, List, Optional

import pytest
import torch

from pytest_customop import Check, Sample, tensor
from pytest_customop.declare.declaration import declare_call
from pytest_customop.declare.mistakes import MarkError
from pytest_customop.plan.matrix import PlannedItem, plan
from pytest_customop.settings import Settings


@torch.library.custom_op("t_matrix::scale", mutates_args=())
def scale(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


scale.register_autograd(
    lambda ctx, grad: (grad * ctx.n, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[1]),
)


@torch.library.custom_op("t_matrix::plain", mutates_args=())
def plain(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.library.custom_op("t_matrix::fill", mutates_args={"out"})
def fill(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x)


@torch.library.custom_op("t_matrix::pick", mutates_args=())
def pick(x: torch.Tensor, index: torch.Tensor, w: Optional[torch.Tensor] = None) -> torch.Tensor:
    return x[index] if w is None else x[index] * w


pick.register_autograd(lambda ctx, grad: (grad, None, None))


@torch.library.custom_op("t_matrix::joined", mutates_args=())
def joined(xs: List[torch.Tensor]) -> torch.Tensor:
    return torch.cat(xs)


joined.register_autograd(lambda ctx, grad: ([grad],))


LIBRARY = torch.library.Library("t_matrix", "FRAGMENT")


def nothing(case: Any) -> None:
    """A check that is never run here."""


CHECKS = [
    Check("t.always", "on every case", nothing),
    Check("t.nograd", "without gradients", nothing, gradients=False),
    Check("t.registration", "also without a formula", nothing, runs_without_autograd=True),
    Check("t.widest", "on the widest dtype", nothing, widest_dtype=True),
    Check("t.once", "once for a sample", nothing, once_per_sample=True),
    Check(
        "t.withgrad", "with gradients and a formula", nothing, gradients=True, needs_autograd=True
    ),
]


def planned(
    op: Any, samples: Any, check: str = "t.always", settings: Any = None, **options: Any
) -> list[PlannedItem]:
    """The plan of one mark, for one check."""
    declaration = declare_call({"op": op, "samples": samples, **options}, "here")
    selected = [candidate for candidate in CHECKS if candidate.name == check]
    items = plan([declaration], settings or Settings(), lambda _: selected, lambda device: None)
    return [item for item in items if not item.is_body]


def ids(op: Any, samples: Any, check: str = "t.always", **options: Any) -> list[str]:
    """The ids of that plan, less the check."""
    return [item.id.removesuffix(f"-{check}") for item in planned(op, samples, check, **options)]


X = [(tensor(3, 4), 2)]


def test_with_and_without_gradients_where_there_is_a_formula() -> None:
    assert ids(scale, X) == ["cpu-float32-nograd-0", "cpu-float32-withgrad-0"]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_integer_tensors_have_no_gradients(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    assert ids(scale, X, dtypes=[dtype]) == [f"cpu-{name}-nograd-0"]
    assert ids(scale, [(tensor(3, dtype=dtype), 2)]) == [f"cpu-{name}-nograd-0"]


def test_complex_tensors_have_gradients() -> None:
    assert len(ids(scale, X, dtypes=[torch.complex64])) == 2


def test_an_op_without_a_formula_has_one_cell_with_gradients_for_registration_alone() -> None:
    samples = [(tensor(3),)]
    assert ids(plain, samples) == ["cpu-float32-nograd-0"]
    assert ids(plain, samples, "t.registration") == [
        "cpu-float32-nograd-0",
        "cpu-float32-withgrad-0",
    ]


def test_gradients_that_are_asked_for_get_every_check() -> None:
    samples = [(tensor(3),)]
    assert ids(plain, samples, requires_grad=True) == ["cpu-float32-withgrad-0"]
    assert ids(plain, samples, requires_grad=[False, True]) == [
        "cpu-float32-nograd-0",
        "cpu-float32-withgrad-0",
    ]
    assert ids(plain, samples, "t.withgrad", requires_grad=True) == []


def test_gradients_can_be_left_out() -> None:
    assert ids(scale, X, requires_grad=False) == ["cpu-float32-nograd-0"]


def test_checks_on_one_side_of_the_gradients_only() -> None:
    assert ids(scale, X, "t.nograd") == ["cpu-float32-nograd-0"]
    assert ids(scale, X, "t.withgrad") == ["cpu-float32-withgrad-0"]


def test_an_argument_that_is_written_to_needs_no_gradients() -> None:
    written = [(tensor(3, dtype=torch.int64), tensor(3))]
    assert ids(fill, written, "t.registration") == ["cpu-float32-nograd-0"]
    read = [(tensor(3), tensor(3))]
    assert len(ids(fill, read, "t.registration")) == 2


def test_a_described_tensor_can_stay_out_of_the_gradients() -> None:
    samples = [(tensor(3, requires_grad=False), 2)]
    assert ids(scale, samples) == ["cpu-float32-nograd-0"]


def test_an_index_keeps_its_dtype_and_the_other_takes_the_case_s() -> None:
    samples = [(tensor(5, 2), tensor(values=[0, 1]))]
    items = planned(pick, samples, dtypes=[torch.float64])
    inputs = [item.case.inputs() for item in items if item.case]
    assert [tuple(t.dtype for t in sample.args) for sample in inputs] == [
        (torch.float64, torch.int64),
        (torch.float64, torch.int64),
    ]
    assert [sample.args[1].requires_grad for sample in inputs] == [False, False]


def test_dtypes_make_no_cells_where_no_tensor_follows_them() -> None:
    samples = [(tensor(3, dtype=torch.int32), 2)]
    assert ids(scale, samples, dtypes=[torch.float32, torch.float64]) == ["cpu-int32-nograd-0"]


def test_real_tensors_keep_their_dtype_and_run_with_gradients_too() -> None:
    samples = [
        (torch.ones(3, dtype=torch.float64), 2),
        (torch.ones(3, requires_grad=True), 2),
    ]
    items = planned(scale, samples, settings=Settings(dtypes=("float16",)))
    values = {item.id: item.case.inputs().args[0] for item in items if item.case}
    assert {name: (value.dtype, value.requires_grad) for name, value in values.items()} == {
        "cpu-float32-nograd-1-t.always": (torch.float32, False),
        "cpu-float32-withgrad-1-t.always": (torch.float32, True),
        "cpu-float64-nograd-0-t.always": (torch.float64, False),
        "cpu-float64-withgrad-0-t.always": (torch.float64, True),
    }


def test_a_real_tensor_that_requires_gradients_says_which_do() -> None:
    sample = (torch.ones(5), torch.tensor([0, 1]), torch.ones(2, requires_grad=True))
    with_gradients = next(item for item in planned(pick, [sample]) if "withgrad" in item.id)
    assert with_gradients.case is not None
    assert [name for name, _ in with_gradients.case.inputs().differentiable()] == ["w"]


def test_what_a_samples_function_returns_is_what_the_op_gets() -> None:
    def make(device: str, dtype: torch.dtype, requires_grad: bool) -> Any:
        del device
        x = torch.ones(5, dtype=dtype, requires_grad=requires_grad)
        return [(x, torch.tensor([0, 1]), torch.ones(2))]

    items = planned(pick, make, dtypes=[torch.float64], requires_grad=[False, True])
    drawn = {item.id: item.case.inputs().args for item in items if item.case}
    assert {
        name: [(value.dtype, value.requires_grad) for value in (x, w)]
        for name, (x, _, w) in drawn.items()
    } == {
        "cpu-float64-nograd-0-t.always": [(torch.float64, False), (torch.float32, False)],
        "cpu-float64-withgrad-0-t.always": [(torch.float64, True), (torch.float32, False)],
    }


def test_the_mark_s_dtypes_and_requires_grad_override_those_of_real_tensors() -> None:
    samples = [(torch.ones(3), 2)]
    options = {"dtypes": [torch.float64], "requires_grad": True}
    (item,) = planned(scale, samples, **options)
    assert item.case is not None
    value = item.case.inputs().args[0]
    assert (value.dtype, value.requires_grad) == (torch.float64, True)


def test_real_tensors_and_described_ones_together() -> None:
    samples = [(torch.ones(5, 2), tensor(values=[0, 1]), tensor(2))]
    items = planned(pick, samples, requires_grad=True)
    assert [item.id for item in items] == ["cpu-float32-withgrad-0-t.always"]


def test_a_list_of_tensors_has_gradients() -> None:
    assert len(ids(joined, [([tensor(3), tensor(2)],)])) == 2


@pytest.mark.parametrize(
    ("shape", "layouts"),
    [
        ((3, 4), ["expanded", "offset", "row_padded", "strided", "transposed"]),
        ((2, 3, 4, 5), ["channels_last", "expanded", "offset", "row_padded", "strided"]),
        ((3, 1), ["expanded", "offset", "row_padded", "strided"]),
        ((1,), ["offset"]),
        ((), ["offset"]),
        ((0, 4), []),
    ],
)
def test_a_layout_that_changes_nothing_makes_no_cell(shape: Any, layouts: list[str]) -> None:
    names = ["channels_last", "expanded", "offset", "row_padded", "strided", "transposed"]
    case_ids = ids(plain, [(tensor(shape),)], layouts=["contiguous", *names])
    expected = ["cpu-float32-nograd-0", *(f"cpu-float32-nograd-{name}-0" for name in layouts)]
    if len(shape) == 4:
        expected.append("cpu-float32-nograd-transposed-0")
    assert case_ids == expected


def test_a_tensor_s_own_layout_is_left_alone() -> None:
    samples = [(tensor(3, 4, layout="strided"),)]
    assert ids(plain, samples, layouts=["contiguous", "transposed"]) == ["cpu-float32-nograd-0"]
    (item,) = planned(plain, samples)
    assert item.case is not None
    assert item.case.inputs().args[0].stride() == (8, 2)


def test_the_widest_dtype_of_each_kind() -> None:
    dtypes = [torch.float32, torch.float64, torch.float16, torch.int64, torch.complex64]
    case_ids = ids(scale, X, "t.widest", dtypes=dtypes, requires_grad=False)
    assert case_ids == ["cpu-complex64-nograd-0", "cpu-float64-nograd-0", "cpu-int64-nograd-0"]


def test_once_per_sample() -> None:
    options = {"dtypes": [torch.float64, torch.float32], "layouts": ["contiguous", "transposed"]}
    samples = [*X, (tensor(2, 2), 3)]
    assert ids(scale, samples, "t.once", **options) == [
        "cpu-float64-withgrad-0",
        "cpu-float64-withgrad-1",
    ]
    without = ids(scale, X, "t.once", **options, requires_grad=False)
    assert without == ["cpu-float64-nograd-0"]
    assert ids(plain, [(tensor(3, 2),)], "t.once", **options) == ["cpu-float64-nograd-0"]


def test_a_skipped_cell_is_not_the_widest() -> None:
    def skip_if(cell: Any) -> Optional[str]:
        return "no float64" if cell.dtype == torch.float64 else None

    items = planned(
        scale,
        X,
        "t.widest",
        dtypes=[torch.float32, torch.float64],
        requires_grad=False,
        skip_if=skip_if,
    )
    assert [(item.id, item.skip) for item in items] == [
        ("cpu-float32-nograd-0-t.widest", None),
        ("cpu-float64-nograd-0", "no float64"),
    ]


def test_skip_if_sees_the_whole_cell() -> None:
    seen = []

    def make(device: str, dtype: torch.dtype, requires_grad: bool, n: int) -> Any:
        return [Sample((tensor(n), 2), id="wide")]

    def skip_if(cell: Any) -> None:
        place = (cell.device, cell.dtype, cell.requires_grad, cell.layout)
        seen.append((*place, cell.sample_id, cell.axes))

    planned(scale, make, requires_grad=True, axes={"n": [4]}, layouts="strided", skip_if=skip_if)
    assert seen == [("cpu", torch.float32, True, "strided", "wide", {"n": 4})]


def test_a_samples_function_sees_device_dtype_gradients_and_axes() -> None:
    seen = []

    def make(device: str, dtype: torch.dtype, requires_grad: bool, n: int) -> Any:
        seen.append((device, dtype, requires_grad, n))
        yield (tensor(n), 2)

    case_ids = ids(scale, make, dtypes=[torch.float32, torch.int32], axes={"n": [2, 3]})
    assert seen == [
        ("cpu", dtype, flag, n)
        for n in (2, 3)
        for dtype, flag in (
            (torch.float32, False),
            (torch.float32, True),
            (torch.int32, False),
        )
    ]
    assert case_ids == [
        "cpu-float32-nograd-n2-0",
        "cpu-float32-nograd-n3-0",
        "cpu-float32-withgrad-n2-0",
        "cpu-float32-withgrad-n3-0",
        "cpu-int32-nograd-n2-0",
        "cpu-int32-nograd-n3-0",
    ]


def test_a_samples_function_that_draws_gives_the_same_values_each_time() -> None:
    def make(device: str, dtype: torch.dtype, requires_grad: bool) -> Any:
        return [(torch.randn(3, dtype=dtype, requires_grad=requires_grad), 2)]

    state = torch.get_rng_state()
    first, second = ([item.case for item in planned(scale, make)] for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for left, right in zip(first, second, strict=True):
        assert left is not None
        assert right is not None
        assert torch.equal(left.inputs().args[0], right.inputs().args[0])


def test_the_session_narrows_the_mark_s_devices_and_dtypes() -> None:
    options = {"dtypes": [torch.float32, torch.float64], "devices": ["cpu", "cuda"]}
    session = Settings(devices=("cpu",), dtypes=("float64", "int8"))
    assert ids(scale, X, settings=session, requires_grad=False, **options) == [
        "cpu-float64-nograd-0"
    ]


@pytest.mark.parametrize(
    ("session", "given", "reason"),
    [
        (Settings(devices=("cpu",)), {"devices": "cuda"}, "the mark is for cuda, the session"),
        (Settings(dtypes=("int8",)), {"dtypes": torch.float32}, "the mark's dtypes are float32"),
    ],
)
def test_what_the_mark_and_the_session_do_not_share_is_one_skip(
    session: Settings, given: Any, reason: str
) -> None:
    (item,) = planned(scale, X, settings=session, **given)
    assert item.skip is not None
    assert reason in item.skip


def test_an_indexed_device_belongs_to_its_type() -> None:
    case_ids = ids(scale, X, settings=Settings(devices=("cuda:1", "cpu")), devices="cuda")
    assert case_ids == ["cuda:1-float32-nograd-0", "cuda:1-float32-withgrad-0"]


def test_no_case_at_all_is_an_error() -> None:
    with pytest.raises(MarkError, match="leaves no case"):
        planned(scale, [(tensor(3, dtype=torch.int8), 2)], requires_grad=True)


def test_a_samples_function_draws_by_the_session_s_seed_and_puts_every_stream_back() -> None:
    numpy = pytest.importorskip("numpy")

    def make(device: str, dtype: torch.dtype, requires_grad: bool) -> Any:
        drawn = [torch.rand(1).item(), random.random(), float(numpy.random.rand())]
        yield (tensor(values=drawn, dtype=torch.float64), 2)

    def values(seed: int) -> list[Any]:
        return [item.case.sample.args[0].values for item in planned_by(seed) if item.case]

    def planned_by(seed: int) -> list[PlannedItem]:
        return planned(scale, make, settings=Settings(seed=seed))

    def states() -> list[Any]:
        kind, keys, *rest = numpy.random.get_state()
        return [torch.get_rng_state().tolist(), random.getstate(), (kind, keys.tolist(), *rest)]

    before = states()
    first = values(0)
    assert states() == before
    torch.rand(1), random.random(), numpy.random.rand()
    assert values(0) == first
    assert first[0] == first[1]  # without gradients and with them
    others = values(1)
    assert all(left != right for left, right in zip(first[0], others[0], strict=True))


def test_a_samples_function_for_cuda_draws_by_the_seed_from_its_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: calls.append("init"))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: "init" in calls)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: ["the state before"])
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: calls.append("seed"))
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", calls.append)

    def make(device: str, dtype: torch.dtype, requires_grad: bool) -> Any:
        calls.append("make")
        return [(tensor(3), 2)]

    planned(scale, make, devices="cuda", requires_grad=False)
    assert calls == ["init", "seed", "make", ["the state before"]]


@pytest.mark.parametrize(
    ("mark", "session", "expected"),
    [
        ("cuda", "cuda", ["cuda"]),
        ("cuda:0", "cuda", ["cuda:0"]),
        ("cuda", "cuda:1", ["cuda:1"]),
        ("cuda:0", "cuda:0", ["cuda:0"]),
        ("cuda:0", "cuda:1", []),
        (["cpu", "cuda:0", "cuda:1"], ["cuda", "cpu"], ["cpu", "cuda:0", "cuda:1"]),
        (["cpu", "cuda"], ["cuda:1", "xpu"], ["cuda:1"]),
    ],
)
def test_a_device_with_an_index_meets_one_without(mark: Any, session: Any, expected: Any) -> None:
    settings = Settings(devices=(session,) if isinstance(session, str) else tuple(session))
    items = planned(scale, X, settings=settings, devices=mark, requires_grad=False)
    assert [item.case.placement.device for item in items if item.case] == expected


def test_an_op_without_a_kernel_for_a_device_is_one_skip_there() -> None:
    op = torch.library.custom_op(
        "t_matrix::for_cuda",
        lambda x: x.clone(),
        mutates_args=(),
        device_types="cuda",
        schema="(Tensor x) -> Tensor",
    )
    (item,) = planned(op, [(tensor(3),)])
    assert item.skip == "the op has no kernel for cpu, only for cuda"
    assert not item.missing_device  # it fails nothing under --customop-require-devices
    both = planned(op, [(tensor(3),)], settings=Settings(devices=("cpu", "cuda")))
    assert {item.place.device for item in both if item.case is not None} == {"cuda"}
    # A mark that names the device says that there is a kernel.
    assert all(item.case for item in planned(op, [(tensor(3),)], devices="cpu"))


@pytest.mark.parametrize("key", ["CompositeExplicitAutograd", "CompositeImplicitAutograd", None])
def test_an_op_for_every_device_or_none_has_cases_everywhere(key: str | None) -> None:
    name = f"for_{key}".lower()
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    if key:
        LIBRARY.impl(name, lambda x: x.clone(), key)
    settings = Settings(devices=("cpu", "cuda"))
    devices = {
        item.place.device
        for item in planned(f"t_matrix::{name}", [(tensor(3),)], settings=settings)
    }
    assert devices == {"cpu", "cuda"}
