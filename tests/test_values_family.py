"""The family `values`: messages, edge cases, and correct ops that are easy to misjudge."""

import functools
import itertools
import warnings
from typing import Any, Callable, List, Optional, Sequence, Tuple

import pytest
import torch
import torch.nn.functional as F
import verdicts
from torch import Tensor

from pytest_customop import check_op
from pytest_customop.cases.arguments import Placement
from pytest_customop.cases.case import Case
from pytest_customop.cases.tensors import same_bits
from pytest_customop.checks.values import repeat
from pytest_customop.compat.ops import compiled_code_shares_no_storage
from pytest_customop.declare import ops
from pytest_customop.declare.inputs import Sample, tensor
from pytest_customop.findings import CheckSkipped, Finding

CHECKS = verdicts.family("values")
NEEDS_STORAGES = pytest.mark.skipif(
    not compiled_code_shares_no_storage(), reason="torch looks at storages from 2.13 on"
)
MATRIX = tensor(4, 3)
_numbers = itertools.count()
_library = torch.library.Library("t_values", "DEF")


def define(kernel: Callable[..., Any], schema: str = "(Tensor x) -> Tensor", **options: Any) -> str:
    """Register an op that torch does not look over, unlike one of custom_op."""
    name = f"op_{next(_numbers)}"
    _library.define(name + schema, **options)
    _library.impl(name, torch.no_grad()(kernel), "CompositeExplicitAutograd")
    return f"t_values::{name}"


def case(op: Any, *args: Any, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Case:
    placement = Placement("cpu", dtype, False, kwargs.pop("layout", "contiguous"))
    return Case(ops.resolve(op), Sample(args, kwargs), placement)


def verdict(check: str, op_case: Case) -> Optional[str]:
    """The code of a skip; None if the check passes."""
    assert op_case.eager.error is None
    try:
        CHECKS[check](op_case)
    except CheckSkipped as skipped:
        return skipped.code
    return None


def finding(check: str, op_case: Case) -> Finding:
    return verdicts.finding(CHECKS[check], op_case)


# ------------------------------------------------------------------------------- correct ops


@torch.library.custom_op("t_values::embed", mutates_args=())
def embed(table: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
    return F.embedding_bag(indices, table, offsets)


@torch.library.custom_op("t_values::compressed", mutates_args=())
def compressed(x: Tensor) -> Tuple[Tensor, Tensor]:
    return x.max().clone(), (x * 20).round().to(torch.int8)


@torch.library.custom_op("t_values::counted", mutates_args={"counts"})
def counted(x: Tensor, counts: List[Tensor], step: int = 1) -> List[Tensor]:
    for count in counts:
        count.add_(step)
    return [x[x > 0], x[x <= 0]]


@torch.library.custom_op("t_values::in_order", mutates_args=())
def in_order(xs: Sequence[Tensor], by: Optional[Tensor], *, largest: bool = True) -> Tensor:
    stacked = torch.cat([x.flatten() for x in xs])
    order = stacked if by is None else by
    return stacked[order.argsort(descending=largest, stable=True)]


IN_PLACE = define(lambda x: x.mul_(2), "(Tensor(a!) x) -> Tensor(a!)")
VIEW = define(lambda x: x[1:], "(Tensor(a) x) -> Tensor(a)")
PARTS = define(lambda x: [*x.unbind()], "(Tensor(a -> *) x) -> Tensor(a)[]")
OFFSET_OUTPUT = define(lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:])
DROPOUT = define(lambda x: F.dropout(x, 0.5), tags=(torch.Tag.nondeterministic_seeded,))
DOUBLE = define(lambda x: x + x)
SQUARE = define(lambda x: x @ x.mT)
MANTISSA = define(lambda x: torch.frexp(x), "(Tensor x) -> (Tensor, Tensor)")
TOTAL = define(lambda x: float(x.sum()), "(Tensor x) -> float")
NOTHING = define(lambda x: None, "(Tensor x) -> ()")
STRICT = define(
    lambda x: (x if x.is_contiguous() else 1 / 0) * 2,
)
SAMPLER = define(
    lambda x, generator: torch.rand(x.shape, generator=generator) + x,
    "(Tensor x, Generator generator) -> Tensor",
)
RUNNING = define(
    lambda x, mean: x - (x if mean is None else mean.mul_(0.9).add_(x.mean(0))),
    "(Tensor x, Tensor(a!)? mean) -> Tensor",
)
NORM = define(lambda x: x.softmax(-1).to(x.dtype))


def _quantised() -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantised tensors are on their way out
        return torch.quantize_per_tensor(torch.randn(3, 2), 0.1, 0, torch.qint8)


SHARED = torch.randn(6, 4)
CORRECT = {
    "embedding bag with offsets": lambda: case(
        embed, tensor(10, 4), tensor(values=[1, 2, 9, 0, 3]), tensor(values=[0, 2, 2])
    ),
    "integers and floats": lambda: case(compressed, tensor(32, 64)),
    "mutated list, sizes that depend on data": lambda: case(
        counted, MATRIX, [tensor(3), tensor(2, fill=0)]
    ),
    "list, optional and flag": lambda: case(in_order, [MATRIX, tensor(2)], None),
    "returns what it mutates": lambda: case(IN_PLACE, MATRIX),
    "returns what it mutates, channels last": lambda: case(
        IN_PLACE, tensor(2, 3, 4, 4), layout="channels_last"
    ),
    "declared view": lambda: case(VIEW, MATRIX),
    "declared views in a list": lambda: case(PARTS, MATRIX),
    "output at an offset": lambda: case(OFFSET_OUTPUT, MATRIX),
    "tagged as random": lambda: case(DROPOUT, tensor(16, 16)),
    "generator": lambda: case(SAMPLER, MATRIX, torch.Generator()),
    "no elements": lambda: case(DOUBLE, tensor(0, 3)),
    "no dims": lambda: case(DOUBLE, tensor()),
    "one element": lambda: case(DOUBLE, tensor(1, 1)),
    "softmax in half precision": lambda: case(NORM, MATRIX, dtype=torch.float16),
    "booleans": lambda: case(define(lambda x: ~x), tensor(values=[True, False])),
    "complex": lambda: case(DOUBLE, MATRIX, dtype=torch.complex64),
    "complex with its bit": lambda: case(DOUBLE, torch.randn(3, 2, dtype=torch.cfloat).conj()),
    "expanded": lambda: case(DOUBLE, MATRIX, layout="expanded"),
    "two outputs": lambda: case(MANTISSA, MATRIX),
    "a number": lambda: case(TOTAL, MATRIX),
    "nothing": lambda: case(NOTHING, MATRIX),
    "contiguous only": lambda: case(STRICT, MATRIX),
    "rounding of long sums": lambda: case(SQUARE, tensor(64, 512)),
    "views of one storage": lambda: case(
        in_order, [SHARED[:3], SHARED.t()[1:]], SHARED[:, 1:].flatten()
    ),
    "optional mutable, given": lambda: case(RUNNING, MATRIX, tensor(3)),
    "optional mutable, None": lambda: case(RUNNING, MATRIX, None),
    "sparse": lambda: case("aten::mul.Tensor", torch.eye(3).to_sparse(), 2.0 * torch.eye(3)),
    "quantised": lambda: case("aten::relu", _quantised()),
    "eight bits": lambda: case(
        define(lambda x: (x.float() * 2).to(x.dtype)), MATRIX, dtype=torch.float8_e5m2
    ),
    "half precision": lambda: case(SQUARE, tensor(8, 256), dtype=torch.bfloat16),
    "order of equal elements": lambda: case("aten::sort", tensor(4000)),
    "convolution": lambda: case(
        "aten::conv2d", tensor(2, 16, 9, 9), tensor(8, 16, 3, 3), tensor(8)
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("make", CORRECT.values(), ids=[*CORRECT])
def test_a_correct_op_passes(make: Callable[[], Case], check: str) -> None:
    assert verdict(check, make()) in (None, "nothing-to-check", "nondeterministic")


def test_a_tensor_on_the_meta_device_is_not_judged() -> None:
    op_case = case(DOUBLE, torch.empty(3, device="meta"))
    op_case = Case(
        op_case.op, op_case.sample, Placement("meta", torch.float32, False, "contiguous")
    )
    for check in CHECKS:
        if check not in ("aliasing", "defaults"):
            assert verdict(check, op_case) == "nothing-to-check"


@pytest.mark.filterwarnings("ignore:.*quant")  # torch deprecates quantized tensors, once
def test_a_result_that_torch_cannot_read_is_not_judged() -> None:
    name = f"t_values_family::unread_{next(_numbers)}"

    @torch.library.custom_op(name, mutates_args=())
    def unread(x: Tensor) -> Tensor:
        return torch.empty(4, dtype=torch.quint8)  # quantized, without a scale

    for check in ("repeat", "uninitialized"):
        assert verdict(check, case(unread, tensor(3))) == "nothing-to-check"


# ------------------------------------------------------------------------------------ repeat


def test_a_difference_beyond_reseeding_is_a_skip_for_a_tagged_op() -> None:
    generator = torch.Generator()
    tags = (torch.Tag.nondeterministic_seeded,)
    op_case = case(
        define(lambda x: x + torch.rand(x.shape, generator=generator), tags=tags), MATRIX
    )
    with pytest.raises(CheckSkipped) as caught:
        CHECKS["repeat"](op_case)
    assert (caught.value.code, caught.value.unjudged) == ("nondeterministic", True)


def test_an_op_that_raises_at_a_further_call_is_a_skip() -> None:
    calls = itertools.count()

    def once(x):
        if next(calls):
            raise ValueError("once only")
        return x * 2

    with pytest.raises(CheckSkipped, match="ValueError: once only"):
        CHECKS["repeat"](case(define(once), MATRIX))


def test_an_output_kept_and_rewritten_later_is_found_by_its_values() -> None:
    outputs: List[Tensor] = []

    def kernel(x):
        for output in outputs:
            output.fill_(float(x.flatten()[0]))
        outputs.append(x * 2)
        return outputs[-1]

    failure = finding("repeat", case(define(kernel), MATRIX))
    assert failure.code in ("output-memory-reused", "outputs-not-repeatable")


def test_memory_that_nothing_was_written_to_is_no_stale_result() -> None:
    calls, after_a_change = itertools.count(), 5

    def kernel(x):
        out = torch.empty_like(x)
        if not torch.are_deterministic_algorithms_enabled():  # then the check has filled it
            # What lies in memory is alike but once.
            out[-1] = 7.0 if next(calls) == after_a_change else 5.0
        out[:-1] = x[:-1]
        return out

    op_case = case(define(kernel), MATRIX)
    assert verdict("repeat", op_case) == "nothing-to-check"


def any_order(accepts: Tuple[torch.dtype, ...], inside: Optional[torch.dtype] = None) -> Any:
    """Sums of columns that begin with another row at each call, computed in the dtype `inside`."""
    turns = itertools.count()

    def kernel(x):
        if x.dtype not in accepts:
            raise TypeError(f"no kernel for {x.dtype}")
        rows = x.to(inside or x.dtype).roll(next(turns), 0)
        total = torch.zeros_like(rows[0])
        for row in rows:
            total += row
        return total.to(x.dtype)

    return kernel


TALL = tensor(60, 5)
BITWISE = {"tags": (torch.Tag.nondeterministic_bitwise,)}


@pytest.mark.parametrize(
    ("dtype", "accepts", "inside"),
    [
        (torch.float32, (torch.float32, torch.float64), None),
        (torch.float32, (torch.float32,), None),
        (torch.float32, (torch.float32, torch.float64), torch.float32),
        (torch.bfloat16, (torch.bfloat16, torch.float64), None),
        (torch.float16, (torch.float16,), None),
        (torch.float64, (torch.float64,), torch.float32),
    ],
)
def test_another_order_of_additions_is_noted(dtype: Any, accepts: Any, inside: Any) -> None:
    kernel = any_order(accepts, inside)
    failure = finding("repeat", case(define(kernel), TALL, dtype=dtype))
    assert (failure.code, failure.note) == ("outputs-not-repeatable", "within-rounding")
    assert "torch.Tag.nondeterministic_bitwise" in str(failure.fix)
    tagged = case(define(any_order(accepts, inside), **BITWISE), TALL, dtype=dtype)
    assert verdict("repeat", tagged) is None


def test_noise_as_small_as_rounding_is_none_in_double_precision() -> None:
    noise = itertools.cycle([4e-7, 0.0, -4e-7])
    failure = finding("repeat", case(define(lambda x: x * (1 + next(noise))), MATRIX))
    assert failure.note is None


def test_whole_numbers_do_not_differ_by_rounding() -> None:
    turns = itertools.count()
    failure = finding("repeat", case(define(lambda x: x.long() + next(turns)), MATRIX))
    assert failure.note is None


def test_the_order_of_additions_is_no_uninitialized_memory() -> None:
    for start in range(8):
        turns = itertools.cycle([0, 0, 1, 0, 1, 0, 0, 1][start:] + [0, 0, 1][:start])

        def kernel(x):
            rows = x.roll(7 * next(turns), 0)  # noqa: B023 -- called in this turn of the loop
            total = torch.zeros_like(rows[0])
            for row in rows:
                total += row
            return total

        assert verdict("uninitialized", case(define(kernel), TALL)) in (None, "nondeterministic")


def test_other_values_that_the_op_rejects_are_left() -> None:
    def kernel(x):
        if x.min() < 0 or x.max() < 1:
            raise ValueError("out of range")
        return x * 2

    assert verdict("repeat", case(define(kernel), tensor(4, low=1, high=2))) is None


# --------------------------------------------------------------------------------- aliasing


def test_the_message_names_output_argument_and_dtype() -> None:
    kernel = define(
        lambda x, y: (y * 1, x.to(torch.float64)), "(Tensor x, Tensor y) -> (Tensor, Tensor)"
    )
    failure = finding("aliasing", case(kernel, MATRIX, MATRIX))
    assert failure.code == "undeclared-alias"
    assert "in float64: output 1 is argument x" in failure.message


def _parts(count: int, finish: Callable[[Tensor], Any] = lambda part: part) -> Callable[..., Any]:
    return lambda x: [finish(part) for part in torch.stack([x] * count).unbind()]


@NEEDS_STORAGES
def test_outputs_in_one_storage_are_named() -> None:
    failure = finding("aliasing", case(define(_parts(2), "(Tensor x) -> Tensor[]"), MATRIX))
    assert failure.code == "outputs-share-storage"
    assert failure.message.endswith(
        "output[0] and output[1] are views of one storage, without an element in common"
    )
    failure = finding("aliasing", case(define(_parts(9), "(Tensor x) -> Tensor[]"), MATRIX))
    assert "output[0], output[1], output[2] and 6 more are views" in failure.message


@NEEDS_STORAGES
def test_an_overlap_in_another_layout_comes_before_a_common_storage() -> None:
    def kernel(x):
        parts = torch.stack([x, x])
        return [parts[0], parts[1] if x.is_contiguous() else parts[0]]

    failure = finding("aliasing", case(define(kernel, "(Tensor x) -> Tensor[]"), MATRIX))
    assert failure.code == "outputs-share-memory"


@pytest.mark.parametrize(
    ("kernel", "schema"),
    [
        (_parts(2, torch.clone), "(Tensor x) -> Tensor[]"),
        (_parts(2, lambda part: part[:0]), "(Tensor x) -> Tensor[]"),
        (lambda x: [x.new_empty(0), x.new_empty(0)], "(Tensor x) -> Tensor[]"),
        (lambda x: list(x.unbind()), "(Tensor(a) x) -> Tensor(a)[]"),
        (lambda x: torch.stack([x, x])[1], "(Tensor x) -> Tensor"),
    ],
    ids=["copies", "no elements", "no memory", "declared", "a single view"],
)
def test_outputs_that_are_no_parts_of_one_storage(kernel: Any, schema: str) -> None:
    assert verdict("aliasing", case(define(kernel, schema), MATRIX)) is None


def test_a_composite_op_may_return_parts_of_one_storage() -> None:
    _library.define("composite(Tensor x) -> Tensor[]")
    _library.impl("composite", _parts(2), "CompositeImplicitAutograd")
    assert verdict("aliasing", case("t_values::composite", MATRIX)) is None


def test_numpy_memory_is_memory() -> None:
    failure = finding("aliasing", case(define(lambda x: torch.from_numpy(x.numpy())[1:]), MATRIX))
    assert failure.message.endswith("output shares memory with argument x")


def test_native_code_is_not_called_in_a_narrower_dtype() -> None:
    from pytest_customop.checks.values.aliasing import _in_other_dtypes

    descriptions = [tried.description for tried in _in_other_dtypes(case("aten::relu", MATRIX))]
    assert descriptions == [", in float64"]
    descriptions = [tried.description for tried in _in_other_dtypes(case(DOUBLE, MATRIX))]
    assert descriptions == [", in float64", ", in float16", ", in bfloat16"]


# --------------------------------------------------------------------------------- mutation


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x: x.add_(1) * 1, "x, which the schema does not declare as written to, is changed"),
        (lambda x: (x.t_() * 1).clone(), "it became float32[3, 4] strides (1, 3)"),
        (lambda x: x.neg_().neg_() * 1, "was written to and put back (its version counter moved)"),
    ],
)
def test_what_is_written_is_reported(kernel: Callable[..., Any], message: str) -> None:
    failure = finding("mutation", case(define(kernel), MATRIX))
    assert failure.code == "undeclared-mutation"
    assert message in failure.message


@pytest.mark.parametrize(
    ("start", "words"), [(-1, "before its first element"), (12, "after its last element")]
)
def test_writes_beyond_the_elements_are_placed(start: int, words: str) -> None:
    def kernel(x):
        offset, size = x.storage_offset() + start, x.untyped_storage().nbytes() // 4
        if 0 <= offset < size:
            x.as_strided((1,), (1,), offset).fill_(7.0)
        return x.clone(memory_format=torch.contiguous_format)

    failure = finding("mutation", case(define(kernel, "(Tensor(a!) x) -> Tensor"), MATRIX))
    assert failure.code == "write-outside-elements"
    assert f"4 bytes {words}" in failure.message


def test_writes_between_rows_are_placed() -> None:
    def kernel(x):
        if x.dim() == 2 and x.stride() == (x.shape[1] + 3, 1):
            x.as_strided((1,), (1,), x.storage_offset() + x.shape[1]).fill_(7.0)
        return x * 1

    failure = finding("mutation", case(define(kernel), MATRIX))
    assert "with x with padded rows: it writes outside" in failure.message
    assert "between its rows" in failure.message


def test_a_declared_write_may_change_what_shares_its_memory() -> None:
    kernel = define(
        lambda x, out: [None, out.copy_(x * 0 + 1)][0], "(Tensor x, Tensor(a!) out) -> ()"
    )
    shared = torch.randn(4)
    assert verdict("mutation", case(kernel, shared[1:], shared[:3])) is None


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        ("(Tensor(a!) x) -> Tensor", (tensor(3, fill=0),)),  # a lock is put back to zero
        ("(Tensor(a!) x, Tensor indices) -> Tensor", (tensor(3), tensor(0, dtype=torch.int64))),
        ("(Tensor(a!) x, str mode) -> Tensor", (tensor(3), "evaluate")),
        ("(Tensor(a!) x, int step) -> Tensor", (tensor(3), 3)),
        ("(Tensor(a!) x, Tensor? bias) -> Tensor", (tensor(3), None)),
        ("(Tensor(a!) x, int times=1) -> ()", (tensor(3),)),
        ("(Tensor(a!) x, int shift) -> ()", (tensor(3), 0)),
        ("(Tensor(a!) x, Tensor mask) -> ()", (tensor(3), tensor(values=[False] * 3))),
    ],
)
def test_a_write_that_may_be_conditional_is_not_missed(schema: str, args: tuple) -> None:
    result = None if schema.endswith("()") else 1
    kernel = define(lambda x, *rest, **named: result and x.clone(), schema)
    assert verdict("mutation", case(kernel, *args)) is None


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        ("(Tensor(a!) x) -> Tensor", (tensor(3),)),
        ("(Tensor(a!) x, bool training) -> Tensor", (tensor(3), False)),
        ("(Tensor(a!) x, float momentum) -> Tensor", (tensor(3), 0.0)),
        ("(Tensor(a!) x, int shift) -> ()", (tensor(3), 2)),
    ],
)
def test_a_write_that_never_happens_is_missed(schema: str, args: tuple) -> None:
    result = None if schema.endswith("()") else 1
    kernel = define(lambda x, *rest: result and x.clone(), schema)
    assert finding("mutation", case(kernel, *args)).code == "mutation-missing"


def test_a_workspace_that_the_kernel_for_another_device_may_need() -> None:
    def unwritten(argument: str, *kernels: str) -> Finding:
        name = f"op_{next(_numbers)}"
        _library.define(f"{name}(Tensor x, Tensor(a!) {argument}) -> Tensor")
        for key in kernels:
            _library.impl(name, lambda x, _: x.clone(), key)
        return finding("mutation", case(f"t_values::{name}", tensor(3), tensor(3)))

    assert unwritten("workspace", "CPU", "CUDA").note == "not-asked"
    assert unwritten("workspace", "CPU").note is None
    assert unwritten("out", "CPU", "CUDA").note is None


# ---------------------------------------------------------------------------------- layouts


def test_the_layout_is_named() -> None:
    def kernel(x, y):
        return x + y.as_strided(y.shape, x.stride())

    failure = finding(
        "layouts", case(define(kernel, "(Tensor x, Tensor y) -> Tensor"), MATRIX, MATRIX)
    )
    assert failure.code == "layout-dependent-result"
    assert "with x transposed in memory it gives other values" in failure.message


def test_the_layout_that_a_sample_comes_in_is_tried() -> None:
    def kernel(x):
        return x.as_strided(x.shape, (3, 1)) * 2 if x.stride() == (2, 8) else x * 2

    strange = torch.randn(3, 8).t()[::2]
    assert strange.stride() == (2, 8)
    failure = finding("layouts", case(define(kernel), strange))
    assert "with x as the sample has it" in failure.message


def test_an_integer_that_rounding_moves_is_no_finding() -> None:
    def kernel(x):
        out = (x.contiguous().flatten() * 8).round().to(torch.int8)
        if not x.is_contiguous():
            out[0] += 1  # one of many
        return out

    assert verdict("layouts", case(define(kernel), tensor(32, 32))) is None
    assert finding("layouts", case(define(kernel), tensor(2, 2))).code == "layout-dependent-result"


def test_native_code_gets_aligned_rows() -> None:
    from pytest_customop.checks.values.memory.placement import placements

    op_case = case("aten::relu", MATRIX)
    for moved in placements(op_case.inputs, alone=False):
        x = moved.arguments.args[0]
        assert x.storage_offset() * 4 % 64 == 0
        if "rows" in moved.description:
            assert x.stride(0) * 4 % 4 == 0
            assert x.stride() == (3 + 16, 1)
    python = case(DOUBLE, MATRIX)
    offsets = [
        moved.arguments.args[0].storage_offset() for moved in placements(python.inputs, alone=False)
    ]
    assert any(offset * 4 % 64 for offset in offsets)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e5m2])
def test_which_changes_keep_the_range_of_a_tensor(dtype: torch.dtype) -> None:
    from pytest_customop.checks.values.memory.perturb import EXTREMES, OTHERS

    drawn = case(DOUBLE, tensor(4, 3, low=1.0, high=2.0), dtype=dtype).inputs()
    kept = [change.description for change in (*OTHERS, *EXTREMES) if change.keeps_range(drawn)]
    assert kept == ["rolled by one"]


def test_every_layout_has_the_values_and_room_for_a_dense_reader() -> None:
    from pytest_customop.checks.values.memory.placement import contiguous, placements

    for spec in (MATRIX, tensor(2, 3, 4, 5), tensor(5), tensor(), tensor(1, 4)):
        for dtype in (torch.float32, torch.bool, torch.int64, torch.complex64, torch.float8_e5m2):
            op_case = case(DOUBLE, spec, dtype=dtype)
            plain = op_case.inputs().args[0]
            for moved in placements(op_case.inputs, alone=True):
                x = moved.arguments.args[0]
                if not moved.other_values:
                    assert same_bits(x, plain), moved.description
                dense = contiguous(moved.arguments).args[0]
                assert dense.is_contiguous()
                assert same_bits(dense, x)
                room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
                assert room >= x.numel()


# ---------------------------------------------------------------------------- uninitialised


def test_the_switches_of_determinism_are_put_back() -> None:
    import torch.utils.deterministic as switch

    CHECKS["uninitialized"](case(DOUBLE, MATRIX))
    assert not torch.are_deterministic_algorithms_enabled()
    assert switch.fill_uninitialized_memory


def test_an_op_that_rejects_deterministic_algorithms_is_a_limit() -> None:
    def kernel(x):
        if torch.are_deterministic_algorithms_enabled():
            raise RuntimeError("not deterministic")
        return x * 2

    assert verdict("uninitialized", case(define(kernel), MATRIX)) == "checker-limit"


def test_an_op_that_alternates_is_not_called_uninitialized() -> None:
    signs = itertools.cycle([1, -1])
    op_case = case(define(lambda x: x * next(signs)), MATRIX)
    assert verdict("uninitialized", op_case) == "nondeterministic"


# ------------------------------------------------------------------ same tensor, defaults


def test_only_floating_arguments_of_one_shape_are_made_one() -> None:
    schema = "(Tensor x, Tensor y) -> Tensor"
    kernel = define(lambda x, y: x * 1, schema)
    integers = tensor(4, 3, dtype=torch.int64, low=0, high=3)
    for args in (
        (MATRIX, tensor(3)),
        (integers, integers),
        (MATRIX, tensor(4, 3, dtype=torch.float64)),
    ):
        assert verdict("same_tensor", case(kernel, *args)) == "nothing-to-check"
    in_place = define(lambda x, y: [None, x.add_(y)][0], "(Tensor(a!) x, Tensor y) -> ()")
    assert verdict("same_tensor", case(in_place, MATRIX, MATRIX)) == "nothing-to-check"


def _scaled(
    kernel: Callable[..., Any], schema: str, fake: Optional[Callable[..., Any]] = None
) -> Any:
    name = f"t_values::default_{next(_numbers)}"
    op = torch.library.custom_op(name, kernel, mutates_args=(), schema=schema)
    if fake is not None:
        op.register_fake(fake)
    return op


SCALE = "(Tensor x, float by=0.5, int[] dims=[0, 1], str? mode=None) -> Tensor"


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda x, by=0.5, dims=(0, 1), mode=None: x * by, None),
        (lambda x, *rest: x * 1, None),
        (lambda image, factor=0.5, axes=(0, 1), kind=None: image * factor, None),
        (lambda x, by=1, dims=(0, 1), mode=None: x * by, "the kernel has the default 1 for by"),
        (lambda x, by=0.5, dims=(0,), mode=None: x * by, "the default (0,) for dims"),
        (lambda x, by=0.5, dims=(0, 1), mode="": x * by, "the default '' for mode"),
        (lambda x, by, dims, mode: x * by, "the kernel has no default for by"),
        (lambda image, factor=0.25, axes=(0, 1), kind=None: image * 1, "0.25 for factor"),
    ],
)
def test_defaults_of_kernels(kernel: Callable[..., Any], words: Optional[str]) -> None:
    op_case = case(_scaled(kernel, SCALE), MATRIX, 2.0, [1], "a")
    if words is None:
        assert verdict("defaults", op_case) is None
    else:
        failure = finding("defaults", op_case)
        assert failure.code == "default-differs"
        assert words in failure.message


def test_defaults_of_kernels_for_a_device_and_of_fake_kernels() -> None:
    schema = "(Tensor x, float by=0.5) -> Tensor"
    op = _scaled(lambda x, by=0.5: x * by, schema, lambda x, by=0.5: torch.empty_like(x))
    assert verdict("defaults", case(op, MATRIX)) is None
    op.register_kernel("cuda")(lambda x, by=2.0: x * by)
    assert (
        "the kernel for cuda has the default 2.0" in finding("defaults", case(op, MATRIX)).message
    )
    op = _scaled(lambda x, by=0.5: x * by, schema, lambda x, by: torch.empty_like(x))
    assert "the fake kernel has no default for by" in finding("defaults", case(op, MATRIX)).message


def test_a_wrapped_kernel_is_looked_through() -> None:
    @functools.wraps(lambda x, by=0.25: x)
    def wrapped(*args, **kwargs):
        return args[0] * 1

    op_case = case(_scaled(wrapped, "(Tensor x, float by=0.5) -> Tensor"), MATRIX)
    assert "the default 0.25" in finding("defaults", op_case).message


@pytest.mark.parametrize(
    ("fake", "lost"),
    [
        (lambda x: torch.empty_like(x), "by, dims, mode"),
        (lambda x, by=0.5: torch.empty_like(x), "dims, mode"),
        (lambda x, by=0.5, dims=(0, 1), *, mode=None: torch.empty_like(x), "mode"),
    ],
)
def test_a_fake_kernel_that_does_not_take_every_argument(
    fake: Callable[..., Any], lost: str
) -> None:
    op = _scaled(lambda x, by=0.5, dims=(0, 1), mode=None: x * by, SCALE, fake)
    failure = finding("defaults", case(op, MATRIX))
    assert failure.code == "signature-differs"
    assert f"the fake kernel does not take {lost}, which the schema has" in failure.message
    assert "float by=0.5" in failure.evidence


def test_a_kernel_that_does_not_take_a_keyword() -> None:
    schema = "(Tensor x, *, float by=0.5) -> Tensor"
    op = _scaled(lambda x, by=0.5: x * by, schema, lambda x, **options: torch.empty_like(x))
    assert verdict("defaults", case(op, MATRIX)) is None
    failure = finding("defaults", case(_scaled(lambda x: x * 0.5, schema), MATRIX))
    assert failure.code == "signature-differs"
    assert ": the kernel does not take by, which the schema has" in failure.message


class _Fake:
    """A callable object as a fake kernel."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.empty_like(x)

    def method(self, x: Tensor, by: float = 0.5) -> Tensor:
        return torch.empty_like(x)


def _ignoring(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(x, *rest, **options):
        return function(x)

    return called


@pytest.mark.parametrize(
    "fake",
    [
        lambda x, *rest: torch.empty_like(x),
        functools.partial(lambda y, x: torch.empty_like(x), None),
        _Fake(),
        _Fake().method,
        _ignoring(lambda x: torch.empty_like(x)),
        torch.no_grad()(lambda x, by=0.5: torch.empty_like(x)),
        torch.empty_like,
    ],
    ids=["rest", "partial", "object", "method", "decorated", "no_grad", "builtin"],
)
def test_a_fake_kernel_that_does_not_show_what_it_takes(fake: Any) -> None:
    schema = "(Tensor x, float by=0.5) -> Tensor"
    op = _scaled(lambda x, by=0.5: x * by, schema, fake)
    assert verdict("defaults", case(op, MATRIX)) is None


def test_a_walk_that_never_ends_on_equal_numbers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeat, "_SECONDS", 0.3)
    walked: list[int] = []

    @torch.library.custom_op("t_values_family::depths", mutates_args=())
    def depths(parents: torch.Tensor) -> torch.Tensor:
        walked.append(0)
        lengths = torch.zeros_like(parents)
        for start in range(parents.numel()):
            at = start
            while (at := int(parents[at])) >= 0:
                lengths[start] += 1
                walked[-1] += 1
        return lengths

    depths.register_fake(torch.empty_like)
    parents = torch.tensor([1, 3, 3, -1])
    (result,) = check_op(depths, [(parents,)], checks="values.repeat", variants=False)
    assert result.outcome == "passed"
    assert walked[-1] > 100  # all parents were 1


@pytest.mark.parametrize(
    ("integers", "changed"),
    [
        ([0, 4, 4, 9], [0, 4, 4, 9]),  # offsets: another last one leaves elements unread
        ([2, 0, 3], [2, 2, 2]),
        ([0, 1, 2], [0, 0, 0]),
        ([5, 7], [5, 5]),
    ],
)
def test_integers_are_made_equal_but_for_offsets(integers: list[int], changed: list[int]) -> None:
    from pytest_customop.checks.values.memory.perturb import OTHER_INTEGERS

    assert OTHER_INTEGERS[0].values(torch.tensor(integers)).tolist() == changed
