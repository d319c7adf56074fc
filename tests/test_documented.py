"""What docstrings say that an op takes and gives, and what they do not say."""

import math
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from pytest_customop.cases import (
    documented,
    documented_batches,
    documented_dtypes,
    documented_empties,
    documented_gradients,
    documented_integers,
    documented_numbers,
    documented_orders,
    documented_ranges,
    documented_shapes,
    documented_ties,
)
from pytest_customop.declare.ops import Op, resolve

_made: list[Op] = []


def op_with(text: str) -> Op:
    """An op of two tensors with a docstring."""

    def kernel(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return boxes * scores

    kernel.__doc__ = text
    op: Any = torch.library.custom_op(f"t_documented::op{len(_made)}", kernel, mutates_args=())
    _made.append(resolve(op))
    return _made[-1]


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("boxes: (N, 4), may be empty", True),
        ("boxes  float32 (N, 4), N >= 0", True),
        ("boxes (N, 4);\n    N = 0 gives no scores", True),
        ("boxes: (N, 4), an empty tensor is fine", True),
        ("boxes: (N, 4)", False),
        ("boxes: (N, 4); K = 0 keeps all", False),
        ("boxes: (N, 4), may be empty\n    along dim 0, and has at least one column", False),
        ("boxes: (N, 4), must not be empty", False),
        ("scores: (N,), may be empty\nboxes: (N, 4)", False),
        ("boxes: (N, 4)\nReturns a tensor that may be empty", False),
    ],
)
def test_an_argument_that_may_be_empty(text: str, allowed: bool) -> None:
    assert documented_empties.allows_empty(op_with(text), "boxes") is allowed


@pytest.mark.parametrize(
    ("text", "promoted"),
    [
        ("The result has the promoted dtype.", True),
        ("Dtypes are promoted as torch does.", True),
        ("Dtypes are not promoted.", False),
        ("The dtype of boxes.", False),
    ],
)
def test_dtypes_that_are_promoted(text: str, promoted: bool) -> None:
    assert documented_dtypes.promotes_dtypes(op_with(text)) is promoted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Differentiable with respect to boxes and scores.", True),
        ("Differentiable by both.", True),
        ("Differentiable in every argument.", True),
        ("Differentiable.", False),
        ("Differentiable, and all dtypes are taken.", False),
        ("Differentiable with respect to scores.", False),
        ("Not differentiable with respect to boxes.", False),
        ("Differentiable in all but boxes.", False),
        ("Gradients flow to boxes through both outputs.", True),
    ],
)
def test_an_argument_by_which_an_op_is_differentiable(text: str, said: bool) -> None:
    assert documented_gradients.is_differentiable_by(op_with(text), "boxes") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Safe in half and bfloat16, also with a float32 boxes.", True),
        ("boxes: often float32 when the scores are in bfloat16", True),
        ("boxes: float32 or bfloat16", False),
        ("boxes: float32", False),
    ],
)
def test_an_argument_wider_than_the_others(text: str, said: bool) -> None:
    assert documented_dtypes.may_be_wider(op_with(text), "boxes") is said


@pytest.mark.parametrize(
    ("number", "text", "said"),
    [
        ("nan", "boxes: NaN marks a step without a box", True),
        ("nan", "boxes: must not be NaN", False),
        ("nan", "boxes: (N, 4)\nReturns NaN for no boxes", False),
        ("nan", "scores: NaN where missing", False),
        ("-inf", "scores (N,): numbers; boxes (N, 4): -inf where there is none", True),
        ("-inf", "boxes: inf where there is none", False),
        ("-inf", "boxes: finite or ``-inf``", True),
        ("-inf", "Their entries are finite or -inf.", True),
        ("-inf", "scores: finite or -inf", False),
        ("-inf", "Returns:\n    Areas that are finite or -inf.", False),
    ],
)
def test_numbers_that_mean_something(number: str, text: str, said: bool) -> None:
    assert documented_numbers.gives_meaning_to(number, op_with(text), "boxes") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The standard deviation of each box.", True),
        ("Mean and variance.", True),
        ("Layer norm over the last dimension.", True),
        ("RMS norm over the last dimension.", False),
        ("A variant of boxes.", False),
    ],
)
def test_an_op_that_gives_a_variance(text: str, said: bool) -> None:
    assert documented.gives_variance(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Boxes in any unit and about any origin.", True),
        ("The ratio, accurate to a relative 1e-4 in float32.", True),
        ("A numerically stable log-sum-exp.", True),
        ("The accuracy of the predictions.", False),
        ("Boxes of any size.", False),
    ],
)
def test_an_op_that_promises_digits(text: str, said: bool) -> None:
    assert documented.promises_digits(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boxes and scores are alike; boxes >= 0.", True),
        ("boxes: positive", True),
        ("boxes: non-negative, at most 1", False),
        ("boxes: positive or negative", False),
        ("boxes: > 0.5", False),
        ("scores: positive", False),
    ],
)
def test_numbers_that_are_not_negative(text: str, said: bool) -> None:
    assert documented_numbers.at_least_zero(op_with(text), "boxes") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boxes: learnable offsets", True),
        ("boxes: (H,), fixed or trained", True),
        ("boxes: routing weights", True),
        ("boxes: not learned", False),
        ("boxes: weights of a trained model", False),
        ("scores: learned", False),
    ],
)
def test_an_argument_that_training_changes(text: str, said: bool) -> None:
    assert documented_gradients.is_learned(op_with(text), "boxes") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boxes: at most 40", True),
        ("Keys are unique for boxes below 2**20.", True),
        ("boxes: (N, 4)", False),
        ("scores: at most 1", False),
        ("Columns, each less than boxes.", False),
        ("Labels in [0, boxes), positions in [0, boxes - 1].", False),
    ],
)
def test_an_argument_with_a_largest_value(text: str, said: bool) -> None:
    assert documented_numbers.limits_argument(op_with(text), "boxes") is said


@pytest.mark.parametrize(
    ("text", "floats", "integers"),
    [
        ("boxes: floating point", True, False),
        ("boxes: any float tensor", True, False),
        ("boxes: float or integer", True, True),
        ("boxes: float32", False, False),
        ("boxes: floating point, double is faster", False, False),
        ("boxes: (N, 4)", False, False),
    ],
)
def test_an_argument_of_any_dtype(text: str, floats: bool, integers: bool) -> None:
    op = op_with(text)
    assert documented_dtypes.takes_any_floats(op, "boxes") is floats
    assert documented_dtypes.may_be_integer(op, "boxes") is integers


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("boxes: float32 or float64", True),
        ("Takes double tensors.", True),
        ("boxes: in float32 or float64", True),
        ("boxes: float32", False),
        ("float64 is taken, and computed in float32.", False),
        ("float64 is taken; single precision inside.", False),
        ("boxes: float16 or float64 (half-precision inputs are computed in float32)", True),
        ("boxes: float16 or float64, computed in float32", False),
    ],
)
def test_float64_that_is_named(text: str, named: bool) -> None:
    assert documented_dtypes.names_float64(op_with(text)) is named


def test_a_short_name_may_begin_any_line() -> None:
    def kernel(a: torch.Tensor) -> torch.Tensor:
        return a.clone()

    def allowed(text: str) -> bool:
        kernel.__doc__ = text
        name = f"t_documented::short{len(_made)}"
        _made.append(resolve(torch.library.custom_op(name, kernel, mutates_args=())))
        return documented_empties.allows_empty(_made[-1], "a")

    assert allowed("a: may be empty")
    assert allowed("a  (N, 4), may be empty")
    assert not allowed("Gives\na tensor that may be empty")


def test_booleans_that_may_be_bytes() -> None:
    boxes = documented_dtypes.may_be_bytes_for_booleans
    assert boxes(
        op_with("Where boxes is set. boxes is as long as scores; bool, or uint8."), "boxes"
    )
    assert boxes(op_with("Where boxes is set (uint8 or bool)."), "boxes")
    assert not boxes(op_with("boxes is bool. The result is bool or uint8."), "boxes")
    two = op_with("boxes is bool, scores uint8 or bool.")
    assert not boxes(two, "boxes", {"scores"})
    assert boxes(two, "scores", {"boxes"})


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [
        ("boxes: (N, 4), in degrees; float32, or int16 for whole ones", ["float32", "int16"]),
        ("boxes: (N, 4), in degrees; sums are kept in float64", []),
        ("boxes: corners (N, 4).\nscores: float32 or int16.", []),
        ("boxes: shape and dtype as scores\nscores: float32 or int16.", ["float32", "int16"]),
        ("boxes: dtype as scores\nscores: dtype as boxes", []),
        ("boxes: dtype as in scores\nscores: float32", []),
        ("Counts. If `boxes` (N,) int64 is given, it is used; scores is float32.", ["int64"]),
        ("Counts. If `boxes` (N,) is given, int64 sums are returned.", []),
    ],
)
def test_the_dtypes_of_an_argument_in_a_later_clause(text: str, dtypes: list[str]) -> None:
    found = documented_dtypes.dtypes_of(op_with(text), "boxes")
    assert found == [getattr(torch, name) for name in dtypes]


def test_the_dtypes_of_an_argument() -> None:
    op = op_with("boxes: float32, or counts in int16\nscores: float64\nReturns int64")
    assert documented_dtypes.dtypes_of(op, "boxes") == [torch.float32, torch.int16]
    assert documented_dtypes.dtypes_of(op, "scores") == [torch.float64]
    together = op_with("boxes, scores: planes of one dtype: uint8, float32 or float64.")
    for name in ("boxes", "scores"):
        assert documented_dtypes.dtypes_of(together, name)[0] == torch.uint8
    for text in (
        "boxes: float32 (N, 4), scores int64",
        "boxes: float32 (N, 4). As int64 (N,)",
        "boxes: float32, returns int64",
    ):
        assert documented_dtypes.dtypes_of(op_with(text), "boxes") == [torch.float32]


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("t_documented_warp: float64", True),
        ("warp(boxes, scores): float64", True),
        ("Warps.\n\n  warp(boxes, scores)\n\nIn float64", True),
        ("As other.warp(boxes), in float64", False),
        ("A warp in float64", False),
        ("arp(boxes, scores): float64", False),
        ("warp_back(boxes): float64", False),
        ("Moves boxes.\n\nboxes  (N, 4) float64\nscores  (N,)", True),
        ("Moves boxes.\n\nboxes  (N, 4) float64", False),
    ],
)
def test_a_module_that_names_the_op_or_shows_a_call(
    text: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "__doc__", text)
    assert documented_dtypes.names_float64(replace(WARP)) is is_named  # texts are read once an op


@torch.library.custom_op("t_documented::t_documented_warp", mutates_args=())
def warp(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return boxes * scores


WARP = resolve(warp)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: any number that is not negative", False),
        ("scores: 0 <= scores < 2**63", False),
        ("scores: None draws from torch's generator", False),
        ("scores: 0 or None draws from torch's generator", True),
        ("scores: None for none. A number >= 0 decides alone, whatever the default is", False),
        ("scores: drawn at random if 0", True),
        ("scores: a positive number", True),
        ("boxes: 0 for no boxes\nscores: of the noise", False),
    ],
)
def test_a_seed_of_which_zero_is_none(text: str, said: bool) -> None:
    assert documented.zero_is_no_seed(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: so many at a time; it has no influence on the result", True),
        ("scores: a cost. From 2 on, the result is the same for all such costs", False),
        ("scores: so many at a time. The result does not depend on it", True),
        ("scores: does not change the result", True),
        ("scores: the results are the same for any number", True),
        ("scores: so many have a scale in common", False),
        ("scores: has no default", False),
        ("boxes: has no influence on the result\nscores: so many at a time", False),
    ],
)
def test_a_number_without_influence(text: str, said: bool) -> None:
    assert documented.says_no_influence(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Repeats are merged; each utterance is decoded on its own.", True),
        ("Rows are independent. Differentiable.", True),
        ("Traces are treated independently.", True),
        ("Applied independently to every row.", True),
        ("The bands are independent of each other.", False),
        ("The result has a size of its own.", False),
        ("Rows are sorted.", False),
    ],
)
def test_independent_entries(text: str, said: bool) -> None:
    assert bool(documented_batches.sentence_of_independence(op_with(text))) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x: (B, T, C), or unbatched (T, C)", True),
        ("Without a batch dim it gives what a batch of one gives.", True),
        ("x: (B, T, C)", False),
        ("Batched rows.", False),
    ],
)
def test_unbatched(text: str, said: bool) -> None:
    assert documented_batches.takes_unbatched(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: a row may come more than once", True),
        ("scores: rows may be repeated", True),
        ("scores: each in any number of bags", True),
        ("scores: rows, without duplicates", False),
        ("scores: distinct rows; those of several bags are not repeated", False),
        ("boxes: may be repeated\nscores: rows", False),
    ],
)
def test_numbers_that_may_repeat(text: str, said: bool) -> None:
    assert documented.may_repeat(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A matrix; values at the same place are added.", True),
        ("Coalesces a matrix in COO format.", True),
        ("Adds rows. Duplicate indices accumulate.", True),
        ("Adds rows. Without duplicate indices.", False),
        ("A matrix of unique entries: none are at the same place.", False),
        ("A matrix of the same size.", False),
    ],
)
def test_entries_at_one_place(text: str, said: bool) -> None:
    assert documented.adds_up_repeated(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: (H, W) images, uint8 or float", True),
        ("scores: an image, floating-point or uint8", True),
        ("scores: an image, `uint8` or `float32`", True),
        ("scores: uint8 codes", False),
        ("scores: images; the result is uint8 or float", False),
    ],
)
def test_bytes_or_floats(text: str, said: bool) -> None:
    assert documented_dtypes.may_be_bytes(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: rows; they are not checked", True),
        ("Looks rows up. No bounds checks.", True),
        ("scores: must lie in [0, rows)", True),
        ("scores: valid indices of rows", True),
        ("scores: rows of boxes", False),
        ("Looks rows up; the result must have the dtype of boxes.", False),
    ],
)
def test_positions_that_are_not_checked(text: str, said: bool) -> None:
    assert documented.trusts_positions(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: uint8 images give the same costs as the same grey levels in float32", True),
        (
            "An int16 recording gives the same numbers as the same recording converted to float.",
            True,
        ),
        ("scores: int16 or float32, all of the same dtype", False),
        ("scores: int16; the result has the same shape as scores, float32", False),
        ("scores: float32, the same as boxes", False),
    ],
)
def test_whole_numbers_that_count_as_floats(text: str, said: bool) -> None:
    assert documented_dtypes.whole_numbers_count_as_floats(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "bits", "said"),
    [
        ("scores: 16-bit PCM, or float32", 16, True),
        ("scores: 8-bit grey levels", 8, True),
        ("scores: uint8, from 0 to 255", 8, True),
        ("scores: 16-bit PCM, or float32", 8, False),
        ("scores: int16", 16, False),
        ("scores: at most 12 bits each", 16, False),
        ("boxes: 16-bit numbers\nscores: int16", 16, False),
    ],
)
def test_how_many_bits_numbers_have(text: str, bits: int, said: bool) -> None:
    assert documented_dtypes.has_all_numbers(op_with(text), "scores", bits) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: 0 to N - 1, or -1 where there are fewer", True),
        ("scores: -1 is missing", True),
        ("scores: 0 to N - 1. Zeros for other rows", False),
        ("boxes: -1 where missing\nscores: 0 to N - 1", False),
    ],
)
def test_minus_one_for_what_is_missing(text: str, said: bool) -> None:
    assert documented.marks_missing(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: valid steps. What is behind them is ignored.", True),
        ("Frames beyond the length have no influence.", True),
        ("Padding is never read.", True),
        ("scores: number of valid steps of each sequence", True),
        ("Only the scores 0 .. length - 1 take part.", True),
        ("Only the first lengths[b] scores are used.", True),
        ("scores: any content behind the lengths", True),
        ("Only scores above 0 contribute.", False),
        ("scores: padding counts as zeros.", False),
        ("Ignored labels are -1.", False),
    ],
)
def test_padding_that_is_ignored(text: str, said: bool) -> None:
    assert bool(documented_batches.sentence_of_padding(op_with(text))) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: (N,), 0 .. L", True),
        ("boxes and scores are from 0 to L.", True),
        ("scores: (N,), each in [0, L]", True),
        ("An empty sequence gives zeros.", True),
        ("A query that sees no key gives zeros.", True),
        ("scores: (N,), 1 .. L", False),
        ("scores: (N,), from 1 on. An empty sequence is not known.", False),
        ("boxes: (N,), 10 to 20. scores: (N,)", False),
        ("No keys are changed.", False),
    ],
)
def test_sequences_that_may_be_empty(text: str, said: bool) -> None:
    assert documented_batches.allows_empty_sequences(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores is a constant: it gets no gradient.", True),
        ("scores: not differentiable", True),
        ("Gradients of scores are always None.", True),
        ("boxes gets no gradient. The gradient of scores is that of the product.", False),
        ("scores: (N,)", False),
    ],
)
def test_an_argument_that_gets_no_gradient(text: str, said: bool) -> None:
    assert documented_gradients.gets_no_gradient(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boxes is twice differentiable.", True),
        ("The gradient gives forces, its gradient the Hessian.", True),
        ("Has no second derivative.", False),
        ("Double backward is not supported.", False),
        ("Differentiable in boxes.", False),
    ],
)
def test_a_second_order_that_is_promised(text: str, said: bool) -> None:
    assert documented_gradients.promises_second_order(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: in the closed range [0, 1]", True),
        ("scores: in [0, 1], inclusive", True),
        ("scores: in [0, 1]; fully transparent and fully opaque ones are allowed", True),
        ("scores: in [0, 1]; 0 and 1 are allowed", True),
        ("scores: in [0, 1]", False),
        ("boxes: in [0, 1], inclusive.\nscores: in [0, 1]", False),
    ],
)
def test_ends_that_belong_to_a_range(text: str, said: bool) -> None:
    assert documented_ranges.closed_ranges(op_with(text), "scores") == ((0.0, 1.0),)
    assert documented_ranges.includes_ends(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("scores: any numbers; they repeat with period 1", 1.0),
        ("scores: periodic, with a period of 2.5", 2.5),
        ("scores: an angle whose period is 2 * pi", 2 * math.pi),
        ("scores: the wave repeats every 24 hours", 24.0),
        ("scores: over a period of time", None),
        ("scores: the sampling period `dt`", None),
        ("boxes: of period 3\nscores: (N,)", None),
    ],
)
def test_a_period_that_is_given(text: str, period: float | None) -> None:
    assert documented_numbers.period_of(op_with(text), "scores") == period


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: rows with a negative id are left out", True),
        ("scores: any number below 0 is ignored", True),
        ("scores: -1 is padding", False),
        ("scores: never negative; padding is 0", False),
        ("scores: a negative one counts from the end; 0 is padding", False),
        ("boxes: negative ones are padding\nscores: (N,)", False),
    ],
)
def test_numbers_below_0_that_are_missing(text: str, said: bool) -> None:
    assert documented.marks_negative_missing(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scores: (N,), N >= 1", True),
        ("boxes and scores: at least one of each", True),
        ("boxes, scores: at least one of each", True),
        ("boxes: N >= 1. scores: (N,)", False),
    ],
)
def test_an_argument_that_needs_entries(text: str, said: bool) -> None:
    assert documented_empties.needs_entries(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Row 0 is frozen.", True),
        ("As in nn.Embedding, the row of the padding never receives a gradient.", True),
        ("No gradient flows to scores that are masked.", True),
        ("boxes get no gradient. scores: (N,)", False),
        ("The gradient of scores is that of the product.", False),
    ],
)
def test_a_part_that_gets_no_gradient(text: str, said: bool) -> None:
    assert documented_gradients.has_part_without_gradient(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Has a generator of its own.", True),
        ("torch.manual_seed has no effect.", True),
        ("Two calls on the same frame differ, and torch.manual_seed has no say in it.", True),
        ("Two calls with different seeds give different boxes.", False),
        ("Draws from a generator of this module, not from torch's global one.", True),
        ("Draws from numpy's global random state.", True),
        ("The same torch.manual_seed gives the same boxes.", False),
        ("Its own boxes are left out.", False),
    ],
)
def test_a_generator_of_its_own(text: str, said: bool) -> None:
    assert documented.has_own_generator(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("What is longer than scores is cut.", True),
        ("Truncated to scores.", True),
        ("scores: at most 8.", False),
        ("What is longer than boxes is cut. scores: (N,)", False),
    ],
)
def test_what_is_cut_off(text: str, said: bool) -> None:
    assert documented.cuts_off(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [
        ("Gradients (fp32, bf16 or fp16, may be mixed).", ["float32", "bfloat16", "float16"]),
        ("boxes and scores are `float64` or `float32`", ["float64", "float32"]),
        (
            "Takes torch.float16, torch.bfloat16, or torch.float32.",
            ["float16", "bfloat16", "float32"],
        ),
        ("half/float/double", ["float16", "float32", "float64"]),
        ("fp16 boxes and fp32 scores", []),
        ("Accumulates in float32.", []),
        ("not float16 or bfloat16", []),
    ],
)
def test_floating_point_dtypes_that_are_listed(text: str, dtypes: list[str]) -> None:
    named = [getattr(torch, dtype) for dtype in dtypes]
    assert documented_dtypes.listed_dtypes(op_with(text)) == named


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boxes and scores, both real or both complex", True),
        ("boxes: real or complex", True),
        ("Floating point and complex tensors.", True),
        ("boxes: complex or real", True),
        ("Of one dtype: float32, float64, complex64 or complex128.", True),
        ("float32 becomes complex64.", False),
        ("boxes: real, the scores are complex", False),
        ("Takes real numbers and gives complex ones.", False),
        ("Takes no real or complex numbers.", False),
        ("The real and complex conjugate parts.", False),
    ],
)
def test_numbers_that_may_be_complex(text: str, said: bool) -> None:
    assert documented_dtypes.takes_complex(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("Ranked by descending score, equal scores in the order in which they are listed.", -1),
        ("Sorted by rising scores; of equal scores the first comes first.", 1),
        ("Sorted by rising scores; of equal scores the last comes first.", 0),
        ("Sorted by rising scores. Of equal scores the first comes first.", 0),
        ("Sorted by falling area; of equal areas the first comes first.", 0),
        ("Sorted by falling scores; the order of equal scores is not specified.", 0),
    ],
)
def test_in_which_direction_equal_elements_come(text: str, direction: int) -> None:
    assert documented_ties.direction_of(op_with(text), "scores") == direction


def test_an_argument_behind_another_in_one_line() -> None:
    op = op_with("boxes: (N, 4). scores: from 1 to 31. The rest of the text.")
    assert documented.lines_about(op, "scores") == "scores: from 1 to 31"
    assert documented.lines_about(op, "boxes").startswith("boxes: (N, 4).")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A signal shorter than a frame, even an empty one, gives one frame.", True),
        ("Empty lists give 0.", True),
        ("The list must not be empty.", False),
        ("Takes non-empty lists.", False),
        ("Takes lists.", False),
    ],
)
def test_what_is_said_of_something_empty(text: str, said: bool) -> None:
    assert documented_empties.speaks_of_empty(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boxes: complex64\nscores: a real mask (ratios) or a complex one", True),
        ("boxes: complex64\nscores: complex, or float32", True),
        ("boxes: complex64\nscores: float32", False),
        ("boxes: real or complex\nscores: float32", False),
        ("boxes: complex64\nscores: real; complex ones are rejected", False),
    ],
)
def test_an_argument_that_may_be_complex(text: str, said: bool) -> None:
    assert documented_dtypes.may_be_complex(op_with(text), "scores") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Groups without rows are zero.", True),
        ("Empty bags give zeros", True),
        ("The mean of each bag; an empty bag yields 0.", True),
        ("Rows that are fully masked get 0", True),
        ("Nodes with no neighbours have zero features.", True),
        ("Zero vectors stay zero.", False),
        ("Empty bags are allowed.", False),
        ("Bags must not be empty.", False),
        ("Padding is zero.", False),
        ("Empty bags are ignored, and 0 is padding", False),
    ],
)
def test_zero_for_what_is_empty(text: str, said: bool) -> None:
    assert documented.gives_zero_for_nothing(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Only the first entries are set; the others are uninitialised memory.", True),
        ("Rows beyond the count are undefined.", True),
        ("The rest of the buffer is not written.", True),
        ("The remaining rows are zero.", False),
        ("There is no uninitialized memory.", False),
        ("Other shapes are undefined behaviour of the caller.", False),
        ("An unset size means all rows.", False),
        ("Entries beyond the length are unspecified and ignored.", False),
    ],
)
def test_memory_that_nothing_is_written_to(text: str, said: bool) -> None:
    assert documented.leaves_memory_unset(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [
        ("boxes, of the same integer dtype as scores", ["int32", "int64"]),
        ("boxes: any integer dtype", ["int32", "int64"]),
        ("boxes: `int32` or `int64`", ["int32", "int64"]),
        ("uint8, int16 and int32 boxes", ["uint8", "int16", "int32"]),
        ("boxes: int64, the scores int32", []),
        ("boxes: an integer tensor", []),
    ],
)
def test_dtypes_of_whole_numbers_that_are_listed(text: str, dtypes: list[str]) -> None:
    named = [getattr(torch, dtype) for dtype in dtypes]
    assert documented_dtypes.listed_integers(op_with(text)) == named


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("boxes: uint8 or floating point\nscores: int64", True),
        ("boxes: whole numbers, or floats", True),
        ("boxes: uint8\nscores: floating point", False),
        ("boxes: int64, any shape\nreturns float32", False),
        ("boxes: int64, converted to float32", False),
        ("boxes: int64, not float", False),
    ],
)
def test_whole_numbers_that_may_be_floating(text: str, said: bool) -> None:
    assert documented_dtypes.may_be_floating(op_with(text), "boxes") is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Zero vectors stay zero.", True),
        ("A row that is all zeros gives 0", True),
        ("Constant windows give a score of 0.", True),
        ("Empty bags are zero.", False),
        ("Zero vectors are rejected.", False),
    ],
)
def test_zero_for_zeros(text: str, said: bool) -> None:
    assert documented.gives_zero_for_zeros(op_with(text)) is said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Boxes of different classes never suppress each other.", True),
        ("Never suppresses boxes of another class.", True),
        ("Suppression, independently for each image.", True),
        ("The classes of the boxes that are kept.", False),
    ],
)
def test_an_op_that_treats_groups_apart(text: str, said: bool) -> None:
    assert documented.keeps_groups_apart(op_with(text)) is said


def test_a_namespace_says_nothing_about_an_op() -> None:
    assert documented.is_softmax(Op(None, "ns::row_softmax"))
    assert not documented.is_softmax(Op(None, "softmax_ops::scale"))


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("boxes: (N, 4)\nscores: (N,)", {"boxes": ("N", "4"), "scores": ("N",)}),
        (
            "Scales ``boxes`` ``[N, 4]`` by ``scores`` of shape ``[N]``.",
            {"boxes": ("N", "4"), "scores": ("N",)},
        ),
        (
            "boxes and scores: float32 (rows, columns)",
            dict.fromkeys(("boxes", "scores"), ("rows", "columns")),
        ),
        ("boxes: [R + 1, 2 * D]", {"boxes": ("R+1", "2*D")}),
        ("scores: (N) of them", {"scores": ("N",)}),
        ("boxes (float32): of any shape\nscores (optional)", {}),
        ("the result is boxes[i, j] * scores[j], as f(x, y)", {}),
        ("boxes: (..., 4)", {}),
        ("boxes: (N, 4), or (4, N)\nscores: (N,)", {"scores": ("N",)}),
        (
            "boxes: (N, 4)\nscores: (N,)\n\nReturns means (M, 4) like boxes, (M, 4) too",
            {"boxes": ("N", "4"), "scores": ("N",)},
        ),
        ("boxes: of any shape. The result has the shape (N, 4).", {}),
    ],
)
def test_shapes_of_arguments(text: str, shapes: dict[str, tuple[str, ...]]) -> None:
    assert documented_shapes.documented_shapes(op_with(text)) == shapes


@pytest.mark.parametrize(
    ("text", "dims", "entries"),
    [
        ("boxes: (..., H, W), leading dims are images", 2, False),
        ("boxes: (..., H, W), leading dims are images", 3, True),
        ("boxes: ``[*, 4]``", 1, False),
        ("boxes: (N, 4)", 2, True),
        ("scores: (..., H, W)", 2, True),
    ],
)
def test_first_dims_of_entries(text: str, dims: int, entries: bool) -> None:
    assert documented_shapes.may_have_entries(op_with(text), "boxes", dims) is entries


def test_sizes_are_named_where_a_call_agrees_with_the_text() -> None:
    op = op_with("boxes: (N, 4)\nscores: (M, N)")
    names = documented_shapes.names_of_sizes
    assert names(op, {"boxes": (3, 4), "scores": (2, 3)}) == {
        ("boxes", 0): "N",
        ("boxes", 1): "4",
        ("scores", 0): "M",
        ("scores", 1): "N",
    }
    assert names(op, {"boxes": (3, 4), "scores": (3, 2)}) is None, "N would be two sizes"
    assert names(op, {"boxes": (3, 5), "scores": (2, 3)}) is None, "the number is another"
    assert names(op, {"boxes": (3, 4), "scores": (3,)}) is None, "other dims"
    assert names(op_with("boxes: (N, 4)"), {"boxes": (3, 4), "scores": (3,)}) is None
    assert documented_shapes.documented_shape(op, "scores", {"boxes": (3, 4)}) is None
    both = op_with("boxes: (N, 4)\nscores: (N,)")
    assert documented_shapes.documented_shape(both, "scores", {"boxes": (3, 4)}) == (3,)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("boxes: (N + 1,)\nscores: (N,)", 2),
        ("boxes: (N,)\nscores: (N + 1,)", 4),
        ("boxes: (2 * N,)\nscores: (N,)", None),
        ("boxes: (N,)\nscores: (M + 1,)", None),
    ],
)
def test_a_size_is_one_more_than_another(text: str, size: int | None) -> None:
    shape = documented_shapes.documented_shape(op_with(text), "scores", {"boxes": (3,)})
    assert shape == (None if size is None else (size,))


@pytest.mark.parametrize(
    ("text", "zero"),
    [
        ("Rounds. The derivative is zero.", True),
        ("Gradients are always 0.", True),
        ("The gradient is zero for masked elements.", False),
        ("The gradient is 0.5.", False),
        ("The derivative is zero where x < 0.", False),
    ],
)
def test_a_derivative_that_is_zero(text: str, zero: bool) -> None:
    assert documented_gradients.has_zero_derivative(op_with(text)) is zero


@pytest.mark.parametrize(
    ("text", "hashes"),
    [
        ("The hash of each box, over its 4 or 8 bytes.", True),
        ("Hashes the memory of boxes.", True),
        ("The hash of each box.", False),
        ("The bytes of boxes.", False),
    ],
)
def test_a_hash_of_bytes(text: str, hashes: bool) -> None:
    assert documented.hashes_bytes(op_with(text)) is hashes


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("boxes / scores, and 0 wherever ``scores`` is zero.", True),
        ("Skips a box if scores == 0.", True),
        ("scores must not be zero.", False),
        ("Raises where scores is 0.", False),
        ("boxes where scores is 0.5", False),
        ("boxes is zero", False),
    ],
)
def test_elements_that_may_be_zero(text: str, allowed: bool) -> None:
    assert documented_numbers.may_be_zero(op_with(text), "scores") is allowed


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("scores: (N,), broadcast over rows", True),
        ("scores are shared by all boxes", True),
        ("scores: one for all boxes, or one each", True),
        ("boxes broadcast", False),
        ("scores: (N,)", False),
    ],
)
def test_an_argument_that_entries_share(text: str, shared: bool) -> None:
    assert documented.may_be_shared(op_with(text), "scores") is shared


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("boxes: (N, 4), -inf where there is none", True),
        ("A box with -inf in boxes is left out.", True),
        ("Returns:\n    lse: (N,), -inf for such a row of boxes", False),
        ("Returns\n-------\nTensor\n    -inf for such a row of boxes\n\nNotes: nothing", False),
        ("Returns:\n    lse: (N,)\n\nThe rows of boxes may hold -inf.", True),
    ],
)
def test_an_argument_in_which_infinity_has_a_meaning(text: str, meant: bool) -> None:
    assert documented_numbers.gives_meaning_to("-inf", op_with(text), "boxes") is meant


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("boxes: >= 0", True),
        ("boxes: non-negative", True),
        ("boxes: in [0, 1)", True),
        ("boxes: ``0 <= boxes <= 1``", True),
        ("boxes: 0 turns it off", True),
        ("boxes: may be 0", True),
        ("boxes: the edge of the box", False),
        ("boxes: positive", False),
        ("boxes: > 0", False),
        ("boxes: >= 0.5", False),
        ("boxes: in (0, 1]", False),
        ("scores: may be 0", False),
    ],
)
def test_numbers_that_may_be_zero(text: str, allowed: bool) -> None:
    assert documented_numbers.allows_zero(op_with(text), "boxes") is allowed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("boxes: (N, 3) int32, ``x, y, z`` from 0 to 2**21 - 1; N may be zero.", (0, 2**21 - 1)),
        ("boxes: int64; every int64 value is a valid id", (-(2**63), 2**63 - 1)),
        ("boxes: the full 16-bit range", (-(2**15), 2**15 - 1)),
        ("boxes: between 1 and 31", (1, 31)),
        ("boxes: values in [0, 2^20)", (0, 2**20 - 1)),
        ("boxes: ``0 <= boxes[i] < 65,536``", (0, 65_535)),
        ("boxes: 0 <= each <= 1_000_000", (0, 1_000_000)),
        ("boxes: 0..255", (0, 255)),
        ("boxes: -5 to 5", (-5, 5)),
        ("boxes: int64 (N, K), K from 1 to 64", None),
        ("boxes: the length, 1 to 20; windows end then", (1, 20)),
        ("boxes: from 1 to 4 elements", None),
        ("boxes: 1 to 8 bits each", None),
        ("boxes: int64 (3, 4)", None),
        ("boxes: any int64 tensor", None),
        ("boxes: 1-D, int64", None),
        ("boxes: from 0 to N - 1", None),
        ("boxes: 0.5 to 3.5", None),
        ("boxes: 0.2 to 3", None),
        ("boxes: 9 to 1", None),
        ("scores: from 0 to 9", None),
    ],
)
def test_ranges_of_integers(text: str, found: tuple[int, int] | None) -> None:
    assert documented_integers.integer_range(op_with(text), "boxes") == found


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("boxes: (P, 2) pairs, in any order", "in any order"),
        (
            "boxes: pairs. The order of the pairs carries no meaning",
            "The order of the pairs carries no",
        ),
        ("boxes: (E,) int64, unsorted; may repeat", "unsorted"),
        ("boxes: need not be sorted", "need not be sorted"),
        ("boxes: columns, in any order within a row", ""),
        ("boxes: The columns of a row may come in any order", ""),
        ("boxes: in any order, but sorted by row", ""),
        ("boxes: differentiable to any order", ""),
        ("boxes: memory in any order", ""),
        ("boxes: the results come in any order", ""),
        ("The loss does not depend on the order of the boxes.", "does not depend on the order of"),
        ("The area is invariant under permutations of boxes", "is invariant under permutations"),
        ("It is independent of the order of boxes within a group.", ""),
        ("It does not depend on the order of samples.", ""),
        ("It does not depend on the order of the scores.", ""),
        ("boxes: sorted", ""),
        ("scores: in any order", ""),
    ],
)
def test_an_order_that_does_not_matter(text: str, clause: str) -> None:
    found = documented_orders.clause_of_any_order(op_with(text), "boxes")
    assert found.startswith(clause)
    assert bool(found) == bool(clause)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Rows with fewer elements than `boxes` stay as they are.", True),
        ("If there are less rows than boxes, all are taken.", True),
        ("boxes: larger than a row, it takes all of it", True),
        ("Raises where there are fewer rows than boxes.", False),
        ("boxes: larger values are smoother", False),
        ("The rows are larger than the columns; boxes counts them.", False),
    ],
)
def test_a_number_above_the_sizes(text: str, said: bool) -> None:
    assert documented_numbers.may_exceed_sizes(op_with(text), "boxes") is said


def test_a_range_counts_where_the_sample_is_inside() -> None:
    assert documented_integers.allows(documented_integers.Range(0, 9), torch.tensor([0, 9]))
    assert not documented_integers.allows(documented_integers.Range(0, 9), torch.tensor([0, 10]))
    assert not documented_integers.allows(
        documented_integers.Range(0, 9), torch.tensor([], dtype=torch.int64)
    )
    assert not documented_integers.allows(None, torch.tensor([1]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Boxes by scores (inference).", True),
        ("For inference.", True),
        ("Not differentiable.", True),
        ("Not differentiable with respect to scores.", False),
        ("Infers the scores of boxes.", False),
    ],
)
def test_ops_that_are_not_made_for_gradients(text: str, said: bool) -> None:
    assert documented_gradients.is_not_differentiable(op_with(text)) is said
