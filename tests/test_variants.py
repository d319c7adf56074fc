"""The variants that are derived from one sample: which, in which order, and what is left alone."""

import ctypes
import math
import sys
import types
from types import SimpleNamespace
from typing import Any, List, Optional
from unittest.mock import ANY

import pytest
import torch

from pytest_customop import Sample, tensor
from pytest_customop.cases import template
from pytest_customop.cases.arguments import Placement, draw
from pytest_customop.cases.crash_risk import crash_risk
from pytest_customop.declare.inputs import SameAs
from pytest_customop.declare.ops import Op, resolve
from pytest_customop.declare.variant import KINDS, Variant
from pytest_customop.plan.variants.ranking import call_signature, ranked_variants

FLOAT = Placement("cpu", torch.float32, True, "contiguous")


@torch.library.custom_op("t_variants::mix", mutates_args=())
def mix(
    x: torch.Tensor,
    w: torch.Tensor,
    dim: int,
    flag: bool,
    bias: Optional[torch.Tensor] = None,
    dtype: Optional[torch.dtype] = None,
    scale: float = 1.0,
) -> torch.Tensor:
    return x * w


@torch.library.custom_op("t_variants::pick", mutates_args=())
def pick(xs: List[torch.Tensor], index: torch.Tensor) -> torch.Tensor:
    return xs[0][index]


@torch.library.custom_op("t_variants::pair", mutates_args=())
def pair(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    return x[rows, columns]


@torch.library.custom_op("t_variants::put", mutates_args=("x",))
def put(x: torch.Tensor, y: torch.Tensor) -> None:
    x.copy_(y)


@torch.library.custom_op("t_variants::pad", mutates_args=())
def pad(x: torch.Tensor, offsets: torch.Tensor, longest: int = 3) -> torch.Tensor:
    return x.new_zeros(len(offsets) - 1, longest)


MIX, PICK, PAIR, PUT, PAD = (resolve(op) for op in (mix, pick, pair, put, pad))


def near(op: Op, sample: Sample, where: Placement = FLOAT, **settings: Any) -> dict[str, Variant]:
    """The variants by the names of their steps, in order."""
    options: dict[str, Any] = {
        "kinds": KINDS,
        "declared_dtypes": False,
        "seed": 0,
        "seen": set(),
    }
    variants = [*ranked_variants(op, sample, where, **{**options, **settings})]
    named = {variant.step: variant for variant in variants}
    assert len(named) == len(variants)  # a name is what a rerun asks for
    return named


def shapes(op: Op, variant: Variant, where: Placement = FLOAT) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for _, tensor in draw(op, variant.sample, where, 0).tensors()]


SQUARE = Sample((tensor(4, 4), tensor(4, 4), 1, False), id="a")


def test_every_kind_has_its_steps() -> None:
    steps: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for variant in near(MIX, SQUARE).values():
        steps[variant.kind].append(variant.step)
        assert variant.sample.id == f"a~{variant.step}"
    assert {kind: sorted(names) for kind, names in steps.items()} == {
        "layout": sorted(
            [
                *("transposed", "offset", "strided", "expanded", "row_padded"),
                *(
                    f"{name}.{layout}"
                    for name in "xw"
                    for layout in ("transposed", "offset", "strided", "expanded", "row_padded")
                ),
            ]
        ),
        "shape": sorted(
            [
                *("odd", "doubled", "distinct", "distinct_product", "empty0", "one0"),
                *("batch", "x.batch", "w.batch", "no_dims"),
                *("x.one0", "x.one1", "w.one0", "w.one1"),
                *("x.odd0", "x.odd1", "w.odd0", "w.odd1"),
            ]
        ),
        "large": ["hundreds0", "large0"],
        "long": [],  # two tensors of 4409 times 4409 would be too many elements
        "dtype": ["bfloat16", "float64", "w.float64", "x.float64"],
        "complex": [],
        "values": ["equal", "equal_rows", "negative", "spread", "tails", "zeros"],
        "magnitudes": ["magnitudes", "shifted", "wide"],
        "positions": [],
        "special": ["inf", "large", "nan"],
        "arguments": sorted(
            [
                *("bias.given", "bias.row", "bias.number", "dim.0", "dim.-2", "dim.negated"),
                *("dtype.float16", "dtype.float32", "dtype.float64", "flag.true"),
                *("scale.0.0", "scale.doubled", "scale.fraction", "scale.half", "scale.negative"),
                "scale.uneven",
            ]
        ),
        "pairs": ANY,  # tests/test_variants_pairs.py
        "gradients": ["grad.w", "grad.x"],
        "alias": ["w.is.x"],
    }


def test_sizes_that_are_equal_change_together_first() -> None:
    variants = near(MIX, SQUARE, kinds=["shape"])
    assert shapes(MIX, variants["odd"]) == [(5, 5), (5, 5)]
    assert shapes(MIX, variants["doubled"]) == [(8, 8), (8, 8)]
    assert shapes(MIX, variants["empty0"]) == [(0, 0), (0, 0)]
    assert shapes(MIX, variants["one0"]) == [(1, 1), (1, 1)]
    assert shapes(MIX, variants["batch"]) == [(2, 4, 4), (2, 4, 4)]
    assert shapes(MIX, variants["w.one1"]) == [(4, 4), (4, 1)]
    assert shapes(MIX, variants["x.odd0"]) == [(5, 4), (4, 4)]
    assert [*variants].index("odd") < [*variants].index("w.one1")


def test_a_square_example_becomes_distinct() -> None:
    variants = near(MIX, SQUARE, kinds=["shape"])
    assert shapes(MIX, variants["distinct"]) == [(6, 4), (6, 4)]
    (rows, inner), (inner_too, columns) = shapes(MIX, variants["distinct_product"])
    assert inner == inner_too
    assert len({rows, inner, columns}) == 3


def test_different_sizes_change_apart() -> None:
    sample = Sample((tensor(4, 6), tensor(6), 1, False), id="a")
    variants = near(MIX, sample, kinds=["shape"])
    assert shapes(MIX, variants["empty0"]) == [(0, 6), (6,)]
    assert shapes(MIX, variants["empty1"]) == [(4, 0), (0,)]
    assert shapes(MIX, variants["odd"]) == [(5, 7), (7,)]
    assert shapes(MIX, variants["x.one1"]) == [(4, 1), (6,)]
    assert "distinct" not in variants


def test_sizes_that_the_first_tensor_lacks_change_together_under_another_name() -> None:
    variants = near(MIX, Sample((tensor(4), tensor(6, 6), 1, False), id="a"), kinds=["shape"])
    assert shapes(MIX, variants["w.tied_one0"]) == [(4,), (1, 1)]
    assert shapes(MIX, variants["w.one0"]) == [(4,), (1, 6)]


def test_the_number_of_rows_that_offsets_bound_stays() -> None:
    def sizes(offsets: list[int]) -> set[str]:
        sample = Sample(([tensor(9, 6), tensor(3, 5)], tensor(values=offsets)), id="a")
        return {*near(PICK, sample, kinds=["shape"])}

    assert "xs[1].empty0" not in sizes([0, 1, 4, 7])
    assert "xs[1].empty0" in sizes([0, 4, 1, 7])


def test_positions_keep_their_range_and_other_sizes_take_them_again() -> None:
    index = tensor(values=[0, 3, 1])
    sample = Sample(([tensor(5, 6)], index), id="a")
    variants = near(PICK, sample)
    for step, values in (
        ("index.empty0", []),
        ("index.one0", [0]),
        ("odd", [0, 3, 1, 0, 3]),
        ("index.batch", [[0, 3, 1], [0, 3, 1]]),
    ):
        assert draw(PICK, variants[step].sample, FLOAT, 0).args[1].tolist() == values
    for step in ("index.empty0", "index.one0", "odd"):
        assert variants[step].beyond is None
    for step, value in (("index.lowest", 0), ("index.highest", 3)):
        drawn = draw(PICK, variants[step].sample, FLOAT, 0)
        assert drawn.args[1].tolist() == [value] * 3
        assert drawn.args[1].dtype == torch.int64
    assert shapes(PICK, variants["odd"]) == [(7, 9), (5,)]


@pytest.mark.parametrize(
    ("given", "repeated"),
    [
        ([0, 3, 1], {"repeated": [0, 0, 1]}),
        ([-1, 3, 1], {"repeated": [-1, 3, 3]}),
        ([0, 3, 3], {}),
        ([2, 0, 1], {}),  # a permutation
        ([[0, 1, 2, 0, 4], [3, 4, 5, 5, 0]], {"repeated": [[0, 0, 2, 0, 4], [3, 3, 5, 5, 0]]}),
        (
            [[0, 1, 2], [3, 4, 8]],
            {"repeated": [[0, 0, 2], [3, 3, 8]], "repeated_rows": [[0, 1, 2], [0, 1, 2]]},
        ),
        ([[0, 5], [2, 1], [4, 6]], {"repeated": [[0, 5], [0, 5], [4, 6]]}),
        ([[0, 5], [0, 5], [4, 6]], {}),
        (
            [[1, 7, 3, 9, 5], [0, 6, 2, 8, 4], [11, 13, 15, 17, 19]],
            {"repeated": [[1, 1, 3, 9, 5], [1, 1, 3, 9, 5], [11, 11, 15, 17, 19]]},
        ),
    ],
)
def test_an_entry_comes_twice(given: list[Any], repeated: dict[str, list[Any]]) -> None:
    variants = near(
        PICK, Sample(([tensor(20, 6)], tensor(values=given)), id="a"), kinds=["positions"]
    )
    steps = {step: variant for step, variant in variants.items() if ".repeated" in step}
    assert {step: variant.sample.args[1].values.tolist() for step, variant in steps.items()} == {
        f"index.{step}": values for step, values in repeated.items()
    }
    assert all(variant.beyond is None for variant in steps.values())


def test_drawn_positions_come_twice_where_the_range_has_more_of_them() -> None:
    def values(*shape: int, high: int) -> Any:
        index = tensor(*shape, dtype=torch.int64, low=0, high=high)
        variants = near(PICK, Sample(([tensor(20, 6)], index), id="a"), kinds=["positions"])
        step = variants.get("index.repeated")
        return None if step is None else step.sample.args[1].values.tolist()

    assert values(4, high=20) == [0, 0, 2, 3]
    assert values(4, high=3) is None
    assert values(2, 5, high=6) == [[0, 0, 2, 3, 4], [5, 5, 1, 2, 3]]


def test_what_belongs_together_keeps_its_size() -> None:
    boxes = tensor(values=[[0, 0, 4, 3], [2, 1, 8, 6], [1, 1, 2, 2]])
    edges = tensor(values=[[0, 3, 1, 1, 4], [2, 1, 0, 4, 1]])
    for index, record in ((boxes, 4), (edges, 2)):
        variants = near(PICK, Sample(([tensor(11, 6)], index), id="a"))
        grown = {shapes(PICK, variant)[1] for variant in variants.values()} - {index.shape}
        assert {len(shape) for shape in grown} == {2, 3}
        assert all(record in shape for shape in grown)


def test_positions_of_several_tensors_are_not_repeated_within_the_sample() -> None:
    rows, columns = tensor(values=[0, 7, 1, 1]), tensor(values=[2, 1, 0, 5])
    variants = near(PAIR, Sample((tensor(12, 10), rows, columns), id="a"))
    assert "repeated" in (variants["odd"].beyond or "")
    assert variants["rows.tied_empty0"].beyond is None


@pytest.mark.parametrize(("rows", "is_within"), [([1, 7, 1], True), ([0, 7, 1], False)])
def test_one_of_several_tensors_grows_alone_where_its_numbers_come_twice(
    rows: list[int], is_within: bool
) -> None:
    columns = tensor(values=[2, 1, 1, 0, 5])
    variants = near(PAIR, Sample((tensor(12, 10), tensor(values=rows), columns), id="a"))
    assert (variants["rows.large0"].beyond is None) == is_within
    assert "repeated" in (variants["odd"].beyond or "")


def test_a_permutation_stays_one() -> None:
    for values in ([0, 2, 1], [3, 1, 2]):
        sample = Sample(([tensor(5, 4)], tensor(values=values)), id="a")
        (variant,) = near(PICK, sample, kinds=["positions"]).values()
        assert variant.step == "index.counting"
        assert variant.sample.args[1].values.tolist() == sorted(values)
    flags = Sample(([tensor(2, 4)], tensor(values=[True, False])), id="a")
    assert {*near(PICK, flags, kinds=["positions"])} == {"index.lowest", "index.highest"}


@pytest.mark.parametrize(
    ("given", "columns", "changed", "beyond"),
    [
        ([0, 2, 3, 6], 3, [0, 0, 3, 6], None),  # lengths 2, 1, 3: the longest stays
        ([0, 2, 4, 6], 3, [0, 0, 4, 6], "a part longer than all of the sample"),
        ([0, 2, 4, 6], 8, [0, 0, 4, 6], None),  # neither 6 nor 8 says how long a part may be
        ([2, 1, 3], 8, [0, 3, 3], None),
    ],
)
def test_an_empty_part_leaves_no_longer_one_where_there_is_room(
    given: list[int], columns: int, changed: list[int], beyond: str | None
) -> None:
    sample = Sample(([tensor(6, columns)], tensor(values=given)), id="a")
    variant = near(PICK, sample, kinds=["positions"])["index.empty_first"]
    assert variant.sample.args[1].values.tolist() == changed
    assert variant.beyond == beyond


@pytest.mark.parametrize(("given", "is_limit"), [((), True), ((2,), True), ((4,), False)])
def test_a_number_may_be_how_long_a_part_can_be(given: tuple[int, ...], is_limit: bool) -> None:
    sample = Sample((tensor(6, 8), tensor(values=[0, 2, 4, 6]), *given), id="a")
    variant = near(PAD, sample, kinds=["positions"])["offsets.empty_first"]
    assert (variant.beyond is not None) == is_limit


def test_sizes_that_listed_numbers_stand_for_stay() -> None:
    offsets = Sample(([tensor(6, 8)], tensor(values=[0, 1, 4, 6])), id="a")
    lengths = Sample(([tensor(6, 8)], tensor(values=[1, 3, 2])), id="a")
    for sample in (offsets, lengths):
        variants = near(PICK, sample)
        assert shapes(PICK, variants["odd"])[0] == (6, 9)
        assert {"empty0", "one0", "xs[0].odd0", "index.expanded", "index.highest"}.isdisjoint(
            variants
        )


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ([0, 1, 4, 6], {(1,), (0, 8)}),  # offsets: the one before the first part stays
        ([1, 3, 2], {(0,), (0, 8)}),  # lengths
        ([5, 0, 0, 2, 1, 5], {(0,), (0, 8)}),  # a number for each row
        ([5, 0, 7, 2], {(0,), (6, 8)}),  # positions
    ],
)
def test_nothing_is_listed_for_no_entries(given: list[int], sizes: set[tuple[int, ...]]) -> None:
    sample = Sample(([tensor(6, 8)], tensor(values=given)), id="a")
    variants = near(PICK, sample, kinds=["shape"])
    step = "index.none" if "index.none" in variants else "index.empty0"
    assert {*shapes(PICK, variants[step])} == sizes


def test_integers_that_stay_do_not_count_entries_that_are_left_out() -> None:
    rows, columns = tensor(values=[0, 1, 1, 3]), tensor(values=[2, 5, 3])
    variants = near(PAIR, Sample((tensor(5, 4), rows, columns), id="a"), kinds=["shape"])
    assert "columns.none" not in variants
    assert shapes(PAIR, variants["rows.none"]) == [(5, 4), (1,), (0,)]


def test_no_edges_are_no_pairs() -> None:
    edges = tensor(values=[[0, 3, 1, 1, 4], [2, 1, 0, 4, 1]])
    sample = Sample((tensor(5, 4), edges, tensor(6)), id="a")
    variants = near(PAIR, sample, kinds=["shape"])
    assert shapes(PAIR, variants["rows.none"]) == [(0, 4), (2, 0), (6,)]


def test_a_size_that_fixed_positions_have_stays() -> None:
    sample = Sample(([tensor(3, 4)], tensor(values=[0, 2, 1])), id="a")
    assert shapes(PICK, near(PICK, sample)["odd"]) == [(3, 5), (3,)]


def test_a_range_is_kept_to() -> None:
    sample = Sample((tensor(4, low=0.5, high=1), tensor(4, low=0.5, high=1), 0, False), id="a")
    variants = near(MIX, sample)
    assert not {"zeros", "negative", "large", "nan", "inf"} & {*variants}
    for step in ("odd", "empty0", "transposed"):
        if step in variants:
            x = draw(MIX, variants[step].sample, FLOAT, 0).args[0].detach()
            assert bool(((x >= 0.5) & (x < 1)).all())


def test_a_dim_is_counted_the_other_way() -> None:
    dims = {
        step: variant.sample.args[2]
        for step, variant in near(MIX, SQUARE, kinds=["arguments"]).items()
    }
    assert dims["dim.negated"] == -1
    assert dims["dim.0"] == 0


def test_an_argument_at_its_default_is_left_out() -> None:
    sample = Sample(
        (tensor(4), tensor(4), 0, True, tensor(4), torch.float32), {"scale": 2.0}, id="a"
    )
    variants = near(MIX, sample, kinds=["arguments"])
    assert variants["scale.default"].sample.kwargs == {}
    assert variants["bias.absent"].sample.args[4] is None
    assert variants["dtype.float64"].sample.args[5] is torch.float64
    assert variants["flag.false"].sample.args[3] is False


def test_what_follows_a_left_out_argument_is_given_by_name() -> None:
    @torch.library.custom_op("t_variants::numbers", mutates_args=())
    def numbers(x: torch.Tensor, n: int = 1, m: int = 2) -> torch.Tensor:
        return x * n * m

    variants = near(resolve(numbers), Sample((tensor(4), 5, 6), id="a"), kinds=["arguments"])
    assert len(variants["n.default"].sample.args) == 1
    assert variants["n.default"].sample.kwargs == {"m": 6}
    assert variants["m.default"].sample.args[1:] == (5,)


def test_a_list_of_several_becomes_one_of_one() -> None:
    sample = Sample(([tensor(4), tensor(4)], tensor(values=[0])), id="a")
    variant = near(PICK, sample, kinds=["arguments"])["xs.single"]
    assert len(variant.sample.args[0]) == 1


def test_elements_of_a_list_change_one_by_one() -> None:
    sample = Sample(([tensor(4, 4), tensor(4, 4)], tensor(values=[0])), id="a")
    moved = near(PICK, sample, kinds=["layout"])["xs[1].transposed"]
    first, second = draw(PICK, moved.sample, FLOAT, 0).args[0]
    assert first.is_contiguous()
    assert not second.is_contiguous()


def test_what_the_op_writes_to_is_not_expanded_and_given_twice_beyond_the_sample() -> None:
    variants = near(PUT, Sample((tensor(4, 4), tensor(4, 4)), id="a"))
    assert {"y.expanded", "x.transposed"} <= {*variants}
    assert not {"x.expanded", "grad.x"} & {*variants}
    assert variants["y.is.x"].beyond == "a tensor that is written to, given twice"
    assert not variants["y.is.x"].likely


def test_the_same_tensor_has_values_that_both_arguments_may_have() -> None:
    sample = Sample((tensor(9, low=-5, high=5), tensor(9, low=0, high=1)), id="a")
    x, w = draw(MIX, near(MIX, sample, kinds=["alias"])["w.is.x"].sample, FLOAT, 0).args
    assert x is w
    assert bool(((x >= 0) & (x < 1)).all())


def test_the_same_tensor_is_given_twice() -> None:
    variant = near(MIX, SQUARE, kinds=["alias"])["w.is.x"]
    assert isinstance(variant.sample.args[1], SameAs)
    drawn = draw(MIX, variant.sample, FLOAT, 0)
    assert drawn.args[0] is drawn.args[1]
    copy = drawn.copy()
    assert copy.args[0] is copy.args[1]
    assert copy.args[0] is not drawn.args[0]


def test_a_tensor_without_gradients_is_not_given_for_one_with_them() -> None:
    sample = Sample((tensor(4, 4), tensor(4, 4, requires_grad=False), 1, False), id="a")
    assert not near(MIX, sample, kinds=["alias"])


def test_declared_dtypes_leave_only_mixed_ones() -> None:
    variants = near(MIX, SQUARE, kinds=["dtype"], declared_dtypes=True)
    assert {*variants} == {"x.float64", "w.float64"}


def test_a_real_tensor_keeps_its_values_where_its_size_stays() -> None:
    x = torch.arange(16.0).reshape(4, 4).requires_grad_()
    sample = Sample((x, torch.ones(4, 4), 0, False), id="a")
    variants = near(MIX, sample)
    moved = draw(MIX, variants["transposed"].sample, FLOAT, 0).args[0]
    assert torch.equal(moved.detach(), x.detach())
    assert moved.stride() == (1, 4)
    assert moved.requires_grad
    odd = draw(MIX, variants["odd"].sample, FLOAT, 0).args[0].detach()
    assert odd.shape == (5, 5)
    assert 0 <= float(odd.min()) <= float(odd.max()) <= 15
    assert x.is_contiguous()
    assert {"grad.x", "grad.w"}.isdisjoint(variants)  # only x came so


def test_whole_numbers_alone_are_many_too() -> None:
    labels = tensor(7, dtype=torch.int64, low=0, high=3)
    variants = near(PUT, Sample((labels, labels), id="a"), kinds=["large"])
    assert shapes(PUT, variants["large0"]) == [(2**16 + 2**13 + 1,)] * 2


def test_nothing_is_larger_than_the_example_allows() -> None:
    sample = Sample((tensor(2048, 2048), tensor(2048, 2048), 0, False), id="a")
    for variant in near(MIX, sample, kinds=["shape"]).values():
        elements = sum(math.prod(spec.shape) for spec in variant.sample.specs())
        assert elements <= 4 * 2 * 2048 * 2048


def test_what_is_tried_already_is_not_tried_again() -> None:
    seen = {call_signature(Sample((tensor(5, 5), tensor(5, 5), 1, False)))}
    assert "odd" not in near(MIX, SQUARE, seen=seen)
    variants = near(MIX, SQUARE)
    assert len({call_signature(variant.sample) for variant in variants.values()}) == len(variants)


def test_the_order_is_that_of_likelihood_then_of_the_seed() -> None:
    first, again = near(MIX, SQUARE), near(MIX, SQUARE)
    assert [*first] == [*again]
    reordered = near(MIX, SQUARE, seed=1)
    assert {*first} == {*reordered}
    assert [*first] != [*reordered]
    likely = {"transposed", "empty0", "dim.negated"}
    assert likely <= {*[*first][:6]}
    assert likely <= {*[*reordered][:6]}


def test_the_quick_set_begins_the_full_one() -> None:
    likely = [variant.likely for variant in near(MIX, SQUARE).values()]
    assert likely == sorted(likely, reverse=True)
    assert 10 < sum(likely) < len(likely)


def test_an_op_without_tensors_has_few() -> None:
    @torch.library.custom_op("t_variants::no_tensors", mutates_args=())
    def no_tensors(n: int, wide: bool = False) -> torch.Tensor:
        return torch.zeros(n)

    variants = near(resolve(no_tensors), Sample((3,), id="a"))
    alone = {step for step in variants if "+" not in step}
    assert alone == {"wide.true", "n.more", "n.less", "n.doubled", "n.half", "n.0", "n.-1"}
    assert {*variants} - alone == {"n.more+wide.true", "n.less+wide.true"}


# Which ones could take the process down


def _foreign(x: torch.Tensor) -> torch.Tensor:
    import ctypes

    return x.clone() if ctypes else x


def _hidden(x: torch.Tensor) -> torch.Tensor:
    return _foreign(x)


@pytest.mark.parametrize(("kernel", "reported"), [(_foreign, "ctypes"), (_hidden, "ctypes")])
def test_a_kernel_that_hands_out_addresses_runs_apart(kernel: Any, reported: str) -> None:
    op = torch.library.custom_op(f"t_variants::{kernel.__name__}", mutates_args=())(kernel)
    assert reported in (crash_risk(resolve(op), "cpu") or "")


@pytest.mark.parametrize(("held", "apart"), [(ctypes.CDLL(None), True), (ctypes, False)])
def test_a_kernel_of_a_package_with_a_native_library_runs_apart(
    held: Any, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = types.ModuleType("t_with_library")
    package.native = SimpleNamespace(held=held)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    lib = torch.library.Library("t_variants_native", "FRAGMENT")
    name = f"taken_{apart}"
    lib.define(f"{name}(Tensor x) -> Tensor")
    lib.impl(name, lambda x: x.clone(), "CPU")

    def fake(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    fake.__module__ = f"{package.__name__}.ops"
    torch.library.register_fake(f"t_variants_native::{name}", fake, lib=lib)
    risk = crash_risk(resolve(f"t_variants_native::{name}"), "cpu")
    assert ("native library" in (risk or "")) is apart


def test_a_kernel_that_calls_compiled_ops_runs_apart() -> None:
    pytest.importorskip("torchvision")

    @torch.library.custom_op("t_variants::calls_compiled", mutates_args=())
    def calls_compiled(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchvision.nms(boxes, scores, 0.5).clone()

    assert "ops of torchvision" in (crash_risk(resolve(calls_compiled), "cpu") or "")


def test_an_unknown_kernel_among_compiled_ones_runs_apart() -> None:
    pytest.importorskip("torchvision")
    with torch.library._scoped_library("torchvision", "FRAGMENT") as lib:
        lib.define("t_variants_unknown(Tensor x) -> Tensor")
        lib.impl("t_variants_unknown", lambda x: x.clone(), "CPU")
        risk = crash_risk(resolve("torchvision::t_variants_unknown"), "cpu")
    assert "ops of torchvision" in (risk or "")


def test_a_kernel_in_python_runs_here() -> None:
    assert crash_risk(MIX, "cpu") is None
    assert "cuda" in (crash_risk(MIX, "cuda") or "")


def test_a_kernel_in_compiled_code_runs_apart() -> None:
    assert "compiled code" in (crash_risk(resolve("aten::mul.Tensor"), "cpu") or "")


class OnDevice(torch.Tensor):
    """A tensor as on an accelerator: it says what it is, and computes nothing until it is moved."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cpu:
            with torch._C.DisableTorchFunctionSubclass():
                return args[0].as_subclass(torch.Tensor)
        if func.__name__ in ("__get__", "detach", "data_ptr"):
            return super().__torch_function__(func, types, args, kwargs or {})
        raise RuntimeError(f"{func.__name__}: expected all tensors to be on the same device")


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([0, 2, 1], {"index.counting"}),
        ([0, 3, 3], {"index.lowest", "index.highest", "index.counting", "index.has.-1"}),
        ([0, 1, 5], {"index.empty_first", "index.empty_last"}),
    ],
)
def test_positions_on_a_device_are_read_on_the_cpu(
    values: list[int], steps: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "is_plain", lambda tensor: True)
    index = torch.tensor(values).as_subclass(OnDevice)
    sample = Sample(([tensor(5, 4)], index), id="a")
    assert {*near(PICK, sample, kinds=["positions"])} == steps
    assert "index.odd0" not in near(PICK, sample)


def test_another_dtype_that_the_values_do_not_fit_is_no_variant() -> None:
    sample = Sample(([tensor(5, 4)], tensor(3, dtype=torch.int64, low=2**40, high=2**41)), id="a")
    assert "index.int32" not in near(PICK, sample)
    fits = Sample(([tensor(5, 4)], tensor(3, dtype=torch.int64, low=0, high=4)), id="a")
    assert "index.int32" in near(PICK, fits)


@torch.library.custom_op("t_variants::ranks", mutates_args=())
def ranks(x: torch.Tensor) -> torch.Tensor:
    if x.dtype not in (torch.float32, torch.int32, torch.int64):
        raise TypeError("unsupported")
    return x.argsort()


def test_numbers_that_are_not_finite_become_whole_ones_in_the_range_of_the_others() -> None:
    whole = {"int32", "int64"}
    assert whole <= near(resolve(ranks), Sample((torch.tensor([2.0, 1.0, 5.0]),), id="a")).keys()
    found = near(resolve(ranks), Sample((torch.tensor([2.0, float("nan"), 5.0]),), id="a"))
    assert whole <= found.keys()
    (drawn,) = found["int32"].sample.args
    assert (drawn.values, drawn.low, drawn.high, drawn.dtype) == (None, 2, 6, torch.int32)
    unknown = near(resolve(ranks), Sample((torch.full((3,), float("nan")),), id="a"))
    (zeros,) = unknown["int32"].sample.args
    assert (zeros.low, zeros.high) == (0, 1)
