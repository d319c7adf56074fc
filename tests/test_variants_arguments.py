"""The variants of plain arguments: numbers, strings, dtypes, lists, and optional tensors."""

import enum
from typing import Any, List, Optional

import pytest
import torch

from pytest_customop import Sample, check_op, tensor
from pytest_customop.cases.arguments import Placement, draw
from pytest_customop.cases.compared_constants import compared_constants
from pytest_customop.declare.ops import resolve
from pytest_customop.declare.variant import Variant
from pytest_customop.plan.variants import sample_view
from pytest_customop.plan.variants.arguments import words_given
from pytest_customop.plan.variants.ranking import ranked_variants

FLOAT = Placement("cpu", torch.float32, True, "contiguous")
TABLE = {"plain": 0, "fancy": 1}
MODES = ("nearest", "linear")
LIMIT = 64


class Padding(enum.Enum):
    ZEROS = "zeros"
    EDGE = "edge"


def _is_known(word: str) -> bool:
    return word in TABLE


# torch 2.4 does not infer the schema of an op that has a str with a default.
MANY = """(
    Tensor x, int count=3, float rate=0.5, float small=1e-5, str style="plain", str mode="nearest",
    str padding="zeros", int? taps=None, ScalarType? dtype=None
) -> Tensor"""


@torch.library.custom_op("t_variants_arguments::many", mutates_args=(), schema=MANY)
def many(
    x: torch.Tensor,
    count: int = 3,
    rate: float = 0.5,
    small: float = 1e-5,
    style: str = "plain",
    mode: str = "nearest",
    padding: str = "zeros",
    taps: Optional[int] = None,
    dtype: Optional[torch.dtype] = None,
) -> torch.Tensor:
    if not _is_known(style) or mode not in MODES or padding == Padding.EDGE.value:
        raise ValueError("known words, please")
    if count > LIMIT or dtype == torch.int16:
        return x * 2
    return x * {7: 1, 9: 2}.get(count, 3)


@torch.library.custom_op("t_variants_arguments::several", mutates_args=())
def several(
    xs: List[torch.Tensor], ys: List[torch.Tensor], ns: List[int], w: torch.Tensor
) -> torch.Tensor:
    return w.clone()


@torch.library.custom_op("t_variants_arguments::lists", mutates_args=())
def lists(x: torch.Tensor, dims: List[int], sizes: List[int]) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("t_variants_arguments::between", mutates_args=())
def between(x: torch.Tensor, old: List[float], new: List[float]) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("t_variants_arguments::averaged", mutates_args=())
def averaged(
    means: List[torch.Tensor], maxima: List[torch.Tensor], track: bool = False
) -> torch.Tensor:
    return means[0].clone()


@torch.library.custom_op("t_variants_arguments::rows", mutates_args=())
def rows(x: torch.Tensor, target: torch.Tensor, ignore_index: int = -100) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("t_variants_arguments::spans", mutates_args=())
def spans(offsets: torch.Tensor, end: int, total: Optional[int] = None) -> torch.Tensor:
    return offsets.clone()


@torch.library.custom_op("t_variants_arguments::options", mutates_args=())
def options(
    x: torch.Tensor, mask: Optional[torch.Tensor] = None, bias: Optional[torch.Tensor] = None
) -> torch.Tensor:
    return x.clone()


def near(op: Any, *samples: Sample) -> dict[str, Variant]:
    """The variants of the arguments of the first sample, by the names of their steps."""
    resolved = resolve(op)
    variants = ranked_variants(
        resolved,
        samples[0],
        FLOAT,
        kinds=["arguments", "positions"],
        declared_dtypes=False,
        seed=0,
        seen=set(),
        words=words_given(resolved, samples),
    )
    return {variant.step: variant for variant in variants}


X = Sample((tensor(4, 6),), id="a")


def test_a_whole_number_becomes_others_and_stays_positive_within_the_sample() -> None:
    variants = near(many, X)
    values = {
        step: variant.sample.kwargs["count"]
        for step, variant in variants.items()
        if step.startswith("count.")
    }
    assert values == {
        "count.more": 4,
        "count.less": 2,
        "count.doubled": 6,
        "count.half": 1,
        "count.0": 0,
        "count.-1": -1,
        "count.7": 7,
        "count.9": 9,
        "count.64": 64,
        "count.65": 65,  # what the code compares it with, and above
    }
    beyond = {step for step in values if variants[step].beyond}
    assert beyond == {"count.-1"}


@pytest.mark.parametrize("size", [4, 24])
def test_a_number_that_could_be_a_size_changes_alone_beyond_the_sample_of_a_native_kernel(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tied, free = (Sample((tensor(4, 6), count), id="a") for count in (size, 5))
    assert near(many, tied)["count.more"].beyond is None
    monkeypatch.setattr(sample_view, "crash_risk", lambda op, device: "compiled code")
    assert "sizes" in (near(many, tied)["count.more"].beyond or "")
    assert near(many, free)["count.more"].beyond is None


def test_a_number_that_positions_lie_below_changes_beyond_the_sample() -> None:
    variants = near(spans, Sample((tensor(values=[0, 3, 7, 2]), 20), id="a"))
    beyond = {
        step for step, variant in variants.items() if step.startswith("end.") and variant.beyond
    }
    assert beyond == {"end.1", "end.0", "end.-1", "end.size_4"}
    assert "positions" in (variants["end.1"].beyond or "")
    assert variants["total.1"].beyond
    assert near(many, X)["taps.1"].beyond is None


def test_a_fraction_becomes_others() -> None:
    variants = near(many, X)
    rates = {
        s: variant.sample.kwargs["rate"] for s, variant in variants.items() if s.startswith("rate.")
    }
    others = {"rate.doubled": 1.0, "rate.half": 0.25, "rate.0.0": 0.0, "rate.negative": -0.5}
    assert rates == others | {"rate.uneven": 0.45}
    assert variants["rate.negative"].beyond
    assert variants["rate.0.0"].beyond is None
    small = {
        s: variant.sample.kwargs["small"]
        for s, variant in variants.items()
        if s.startswith("small.")
    }
    assert small["small.0.1"] == 0.1


def test_a_fraction_by_which_sizes_become_more_than_half_above_a_whole_number() -> None:
    variant = near(many, Sample((tensor(5, 7),), id="a"))["rate.uneven"]
    rate = variant.sample.kwargs["rate"]
    assert 0.55 < rate * 7 % 1 < 1
    assert variant.likely
    assert variant.beyond is None


def test_no_number_becomes_one() -> None:
    variants = near(many, X)
    assert variants["taps.1"].sample.kwargs["taps"] == 1


def test_the_words_are_those_of_the_code() -> None:
    variants = near(many, X)
    assert variants["style.fancy"].sample.kwargs == {"style": "fancy"}
    assert {s for s in variants if s.startswith(("style", "mode", "padding"))} == {
        *("style.fancy", "mode.linear", "padding.edge")
    }


def test_the_words_of_other_samples_are_tried_too() -> None:
    cubic = Sample((tensor(4),), {"mode": "cubic"}, id="b")
    assert near(many, X, cubic)["mode.cubic"].sample.kwargs == {"mode": "cubic"}


def test_the_dtypes_are_those_of_the_tensors_of_the_code_and_the_usual_ones() -> None:
    steps = {s for s in near(many, X) if s.startswith("dtype.")}
    assert steps == {"dtype.float32", "dtype.float64", "dtype.float16", "dtype.int16"}


def _matched(x: Any, mode: str) -> int:
    match mode:
        case "first":
            return 1
        case "second" | "third":
            return 2
    return x.attribute if x.mode != "fourth" else 0


def test_constants_are_read_from_match_and_from_attributes() -> None:
    op = torch.library.custom_op("t_variants_arguments::matched", mutates_args=())(_clone_by_mode)
    op.register_fake(_matched)
    constants = compared_constants(resolve(op), "mode")
    assert constants == ["fifth", "first", "second", "third", "fourth"]


def _clone_by_mode(x: torch.Tensor, mode: str) -> torch.Tensor:
    return x.clone() if mode == "fifth" else x * 2


def test_constants_of_code_without_source_are_left_out() -> None:
    namespace: dict[str, Any] = {"torch": torch}
    code = 'def unread(x: torch.Tensor, mode: str) -> torch.Tensor:\n    return x * (mode == "a")'
    exec(compile(code, "<nowhere>", "exec"), namespace)
    op = torch.library.custom_op("t_variants_arguments::unread", mutates_args=())(
        namespace["unread"]
    )
    assert compared_constants(resolve(op), "mode") == []


def test_lists_of_dims_are_counted_the_other_way_and_of_numbers_change_together() -> None:
    variants = near(lists, Sample((tensor(4, 6), [0], [3, 3]), id="a"))
    assert variants["dims.negated"].sample.args[1] == [-2]
    assert variants["dims.all"].sample.args[1] == [0, 1]
    assert variants["sizes.more"].sample.args[2] == [4, 4]
    assert variants["sizes.less"].sample.args[2] == [2, 2]
    assert variants["sizes.more"].beyond is None
    assert variants["sizes.as_x"].sample.args[2] == [4, 6]
    assert variants["sizes.ones"].sample.args[2] == [1, 1]
    assert variants["sizes.zeros"].sample.args[2] == [0, 0]
    tied = near(lists, Sample((tensor(4, 6), [0], [4, 6]), id="a"))
    assert tied["sizes.more"].beyond


def test_the_first_of_numbers_that_add_up_to_a_size_becomes_two() -> None:
    variants = near(lists, Sample((tensor(6, 5), [0], [4, 1, 1]), id="a"))
    assert variants["sizes.split"].sample.args[2] == [1, 3, 1, 1]
    assert variants["sizes.split"].beyond is None
    counted = near(lists, Sample((tensor(6, 3), [0], [4, 1, 1]), id="a"))
    assert counted["sizes.split"].beyond
    assert "sizes.split" not in near(lists, Sample((tensor(7, 6), [0], [4, 1]), id="a"))


def test_a_list_of_numbers_is_that_of_an_earlier_argument() -> None:
    pairs = (torch.ones(3), torch.ones(3))  # no tensors are compared
    variants = near(several, Sample((pairs, [tensor(2)], [4, 6], tensor(3)), id="a"))
    assert not [step for step in variants if ".is." in step]
    other = near(between, Sample((tensor(4, 6), [2.0, 3.0], [1.0, 1.5]), id="a"))
    assert other["new.is.old"].sample.args[2] == [2.0, 3.0]
    assert "new.is.old" not in near(between, Sample((tensor(4, 6), [2.0], [2.0]), id="a"))


def test_an_empty_list_of_tensors_is_given_alone_and_with_each_flag() -> None:
    variants = near(averaged, Sample(([tensor(3), tensor(4)], []), id="a"))
    given = variants["maxima.as_means"].sample
    assert [spec.shape for spec in given.args[1]] == [(3,), (4,)]
    assert variants["maxima.as_means_with_track"].sample.kwargs["track"] is True
    assert not [step for step in near(averaged, Sample(([], []), id="a")) if ".as_" in step]


def test_lists_of_the_same_length_are_reversed_together_where_the_tensors_of_one_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    xs = [tensor(3), tensor(4), tensor(5)]
    sample = Sample((xs, [tensor(2)] * 3, [1, 2, 3], tensor(3)), id="a")
    variants = near(several, sample)
    assert [step for step in variants if step.endswith(".reversed")] == ["xs.reversed"]
    assert variants["xs.reversed"].sample.args[0] == xs[::-1]
    assert variants["xs.reversed"].sample.args[2] == [3, 2, 1]
    assert variants["xs.reversed"].beyond is None
    monkeypatch.setattr(sample_view, "crash_risk", lambda op, device: "compiled code")
    assert "order" in (near(several, sample)["xs.reversed"].beyond or "")


def test_an_optional_tensor_is_given_in_several_sizes() -> None:
    variants = near(options, X)
    drawn = {
        step: dict(draw(resolve(options), variant.sample, FLOAT, 0).tensors())
        for step, variant in variants.items()
    }
    assert {
        step: tuple(by_name["bias"].shape) for step, by_name in drawn.items() if "bias" in by_name
    } == {
        "bias.given": (4, 6),
        "bias.row": (6,),
        "bias.number": (),
    }
    assert drawn["mask.mask"]["mask"].dtype == torch.bool
    assert variants["bias.number"].beyond
    assert variants["bias.row"].beyond is None


def test_an_optional_list_is_given_in_several_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch.library.custom_op("t_variants_arguments::lists", mutates_args=())
    def lists(
        x: torch.Tensor,
        spacing: Optional[List[float]] = None,
        dims: Optional[List[int]] = None,
    ) -> torch.Tensor:
        return x.clone()

    def given(name: str) -> dict[Any, Any]:
        variants = near(lists, Sample((tensor(2, 3, 4, 5),), id="a")).values()
        calls = [(variant.sample.kwargs.get(name), variant.beyond) for variant in variants]
        return {tuple(value): beyond for value, beyond in calls if value is not None}

    assert {len(spacing) for spacing in given("spacing")} == {1, 2, 3, 4}
    assert given("dims").keys() == {(-1,), (0,), (0, 1, 2, 3)}
    assert not any(given("spacing").values())
    monkeypatch.setattr(sample_view, "crash_risk", lambda op, device: "compiled code")
    assert all(given("spacing").values())
    assert not any(given("dims").values())


@pytest.mark.parametrize(
    ("size", "is_given"), [((2, 3, 5), True), ((2, 1, 5), False), ((2, 5, 5), False)]
)
def test_an_optional_tensor_is_given_with_a_number_a_channel(
    size: tuple[int, ...], is_given: bool
) -> None:
    variants = near(options, Sample((tensor(*size),), id="a"))
    assert ("bias.channels" in variants) == is_given
    if is_given:
        variant = variants["bias.channels"]
        drawn = dict(draw(resolve(options), variant.sample, FLOAT, 0).tensors())
        assert tuple(drawn["bias"].shape) == (3,)
        assert variant.beyond is None


@pytest.mark.parametrize(
    ("target", "elements"),
    [
        (tensor(values=[3, 0, 3, 1]), [3, -100, 3, -100]),
        (tensor(4, dtype=torch.int64, low=2, high=4), [2, -100, 2, -100]),
        (tensor(values=[2]), [-100]),
    ],
)
def test_some_elements_are_ignored(target: Any, elements: list[int]) -> None:
    variants = near(rows, Sample((tensor(4, 6), target), id="a"))
    drawn = draw(resolve(rows), variants["target.has.ignore_index"].sample, FLOAT, 0)
    assert drawn.args[1].tolist() == elements
    assert drawn.args[1].dtype == torch.int64


def test_elements_that_are_padding_are_beyond_the_sample() -> None:
    @torch.library.custom_op("t_variants_arguments::embedding", mutates_args=())
    def embedding(x: torch.Tensor, index: torch.Tensor, padding_idx: int = 0) -> torch.Tensor:
        return x[index]

    target = tensor(values=[3, 1, 3, 1])
    variants = near(embedding, Sample((tensor(4, 6), target), id="a"))
    assert variants["index.has.padding_idx"].beyond
    assert (
        near(rows, Sample((tensor(4, 6), target), id="a"))["target.has.ignore_index"].beyond is None
    )


def _documented(name: str, argument: str, text: str) -> Any:
    """An op of a tensor and of positions or lengths, with a docstring."""

    def kernel(x: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        return x.clone()

    kernel.__doc__ = text
    return torch.library.custom_op(
        f"t_variants_arguments::{name}",
        kernel,
        mutates_args=(),
        schema=f"(Tensor x, Tensor {argument}) -> Tensor",
    )


@pytest.mark.parametrize(
    ("text", "is_within"),
    [
        ("Rows. Negative slots are padding and give nothing.", True),
        ("Rows; slots of -1 are skipped.", True),
        ("Rows, which may be negative. Slots are in range, without padding.", False),
        ("Rows.", False),
    ],
)
def test_positions_of_minus_one_are_beyond_the_sample_unless_the_op_names_them(
    text: str, is_within: bool
) -> None:
    taken = _documented(f"taken_{len(text)}", "slots", text)
    variants = near(taken, Sample((tensor(4, 6), tensor(values=[3, 1, 3, 0])), id="a"))
    padded = variants["slots.has.-1"]
    assert draw(resolve(taken), padded.sample, FLOAT, 0).args[1].tolist() == [3, -1, 3, -1]
    assert (padded.beyond is None) == is_within


def test_native_code_may_take_whole_numbers_below_a_size_for_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marked = _documented("marked", "tags", "Rows.")
    sample = Sample((tensor(4, 6), tensor(values=[3, 1, 3, 0])), id="a")
    counted = Sample((tensor(4, 6), tensor(values=[9, 1, 3, 0])), id="a")
    assert "tags.has.-1" not in near(marked, sample)
    monkeypatch.setattr(sample_view, "crash_risk", lambda op, device: "compiled code")
    assert near(marked, sample)["tags.has.-1"].beyond
    assert "tags.has.-1" not in near(marked, counted)


@pytest.mark.parametrize(
    ("text", "is_within"),
    [
        ("Means. The lengths are from 0 to the number of steps.", True),
        ("Means. An empty sequence gives 0.", True),
        ("Means over 10 steps, of sequences of any length.", False),
        ("Means of 0.5. Lengths are positive.", False),
    ],
)
def test_a_length_of_0_is_beyond_the_sample_unless_the_op_names_it(
    text: str, is_within: bool
) -> None:
    pooled = _documented(f"pooled_{len(text)}", "lengths", text)
    variants = near(pooled, Sample((tensor(3, 6), tensor(values=[5, 2, 4])), id="a"))
    empty = variants["lengths.has.0"]
    assert draw(resolve(pooled), empty.sample, FLOAT, 0).args[1].tolist() == [5, 0, 4]
    assert (empty.beyond is None) == is_within


@pytest.mark.parametrize("lengths", [[5, 0, 4], [2, 3, 1]])  # has one; adds up to a size
def test_other_lengths_stay_above_0(lengths: list[int]) -> None:
    pooled = _documented(f"others_{lengths[0]}", "lengths", "")
    variants = near(pooled, Sample((tensor(3, 6), tensor(values=lengths)), id="a"))
    assert "lengths.has.0" not in variants


def test_permutations_offsets_and_narrow_dtypes_ignore_nothing() -> None:
    for target in (
        tensor(values=[1, 0, 3, 2]),
        tensor(values=[0, 1, 1, 4]),
        tensor(4, dtype=torch.uint8, low=0, high=6),
    ):
        variants = near(rows, Sample((tensor(4, 6), target), id="a"))
        assert not {"target.has.ignore_index", "target.has.-1"} & variants.keys()


def test_a_string_that_the_op_rejects_is_no_finding() -> None:
    results = check_op(many, [(tensor(4, 6),)], checks="fake.forward", variants="quick,arguments")
    rejected = [result for result in results if result.place.variant == "padding.edge"]
    assert [result.skip_code for result in rejected] == ["rejected"]
