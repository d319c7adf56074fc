"""What fails and what is noted: on samples, within what they show, beyond it, and with `strict`."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Optional

import pytest
import torch
from kit import Suite, assert_one_error

from pytest_customop import Case, Check, CheckResult, Sample, check_op, fail, tensor
from pytest_customop.cases.arguments import Placement
from pytest_customop.declare.ops import Op, resolve
from pytest_customop.declare.variant import KINDS
from pytest_customop.findings import WITHIN_ROUNDING
from pytest_customop.plan.variants.ranking import ranked_variants
from pytest_customop.plan.variants.shown_sizes import SEVERAL
from pytest_customop.run.judgement import note_for
from pytest_customop.settings import Variants
from pytest_customop.settings.values import read_variants
from tests.zoo import specimens


@torch.library.custom_op("t_judgement::mix", mutates_args=())
def mix(x: torch.Tensor, y: torch.Tensor, n: int = 0) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("t_judgement::three", mutates_args=())
def three(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("t_judgement::edges", mutates_args=())
def edges(x: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    return x[dst] - x[src]


@torch.library.custom_op("t_judgement::summed", mutates_args=())
def summed(value: torch.Tensor, row: torch.Tensor, col: torch.Tensor) -> torch.Tensor:
    """A matrix of the values; those at the same place are added."""
    return value.clone()


MIX, THREE, EDGES, SUMMED = (resolve(op) for op in (mix, three, edges, summed))


def beyond(op: Op, *args: Any, **kwargs: Any) -> dict[str, Optional[str]]:
    """Why each variant of a sample leaves what it shows, by step."""
    variants = ranked_variants(
        op,
        Sample(args, kwargs, "a"),
        Placement("cpu", torch.float32, True, "contiguous"),
        kinds=KINDS,
        declared_dtypes=False,
        seed=0,
        seen=set(),
    )
    return {variant.step: variant.beyond for variant in variants}


INDEX = tensor(3, dtype=torch.int64, low=0, high=4)


def test_what_stays_within() -> None:
    reasons = beyond(MIX, tensor(4, 4), tensor(4, 4))
    alone = {step: why for step, why in reasons.items() if "+" not in step}
    within = {step for step, why in alone.items() if why is None}
    assert within == {
        *("transposed", "offset", "strided", "expanded", "row_padded"),
        *(f"{x}.{step}" for x in "xy" for step in ("transposed", "offset", "strided")),
        *(f"{x}.{step}" for x in "xy" for step in ("expanded", "row_padded")),
        *("odd", "doubled", "empty0", "one0"),
        *("float64", "bfloat16", "zeros", "negative", "grad.x", "grad.y", "y.is.x"),
        *(
            "large0",
            "hundreds0",
            "magnitudes",
            "wide",
            "shifted",
            "spread",
            "tails",
            "equal",
            "equal_rows",
        ),
        *("n.more", "n.size_4"),
    }


def test_equal_sizes_that_differ_are_beyond() -> None:
    reasons = beyond(MIX, tensor(4, 4), tensor(4, 4))
    for step in ("distinct", "distinct_product", "x.one0", "y.odd1"):
        assert reasons[step] == "sizes that are equal in the sample differ"


def test_a_size_that_is_there_once_may_change() -> None:
    reasons = beyond(MIX, tensor(4, 6), tensor(5))
    assert reasons["one0"] is None
    assert reasons["y.one0"] is None
    assert reasons["odd"] is None


def test_one_of_several_tensors_empty_is_beyond() -> None:
    reasons = beyond(MIX, tensor(4, 6), tensor(5))
    assert reasons["empty0"] == reasons["y.empty0"] == "one of several tensors empty"
    shared_size = beyond(MIX, tensor(4, 6), tensor(6))
    assert shared_size["empty0"] == "one of several tensors empty"
    assert shared_size["empty1"] is None


@pytest.mark.parametrize("scale", [tensor(), tensor(1), tensor(0, 3)])
def test_a_number_beside_an_empty_tensor_is_within(scale: Any) -> None:
    assert beyond(MIX, tensor(4, 6), scale)["empty0"] is None


def test_a_size_that_an_argument_repeats_stays() -> None:
    reasons = beyond(MIX, tensor(4, 6), tensor(6), n=4)
    assert reasons["one0"] == "a size that an argument gives as a number differs from it"
    assert reasons["one1"] is None


def test_a_size_that_positions_need_stays() -> None:
    reasons = beyond(MIX, tensor(4, 6), INDEX)
    assert "positions" in str(reasons["one0"])
    assert "positions" in str(reasons["empty0"])
    assert reasons["y.one0"] is None
    assert reasons["odd"] is None
    assert beyond(MIX, tensor(16, 6), tensor(3, dtype=torch.int64))["one0"] is None


def test_one_dim_more_is_beyond() -> None:
    reasons = beyond(MIX, tensor(4, 6), tensor(6))
    assert {reasons[step] for step in ("batch", "x.batch", "y.batch")} == {"one dim more"}


def test_one_dtype_alone_is_beyond() -> None:
    reasons = beyond(MIX, tensor(4), tensor(4))
    assert reasons["x.float64"] == "one tensor in another dtype"
    mixed = beyond(MIX, tensor(4), tensor(4, dtype=torch.bfloat16))
    assert mixed["float64"] == "dtypes that differ in the sample made equal"


def test_values_that_no_sample_has_are_beyond() -> None:
    reasons = beyond(MIX, tensor(4), tensor(4))
    assert {reasons[step] for step in ("nan", "inf", "large")} == {"values that no sample has"}


def test_one_index_may_repeat_and_several_may_not() -> None:
    assert beyond(MIX, tensor(4), INDEX)["y.lowest"] is None
    assert beyond(MIX, tensor(4), tensor(values=[3, 0, 5]))["y.highest"] is None
    pairs = beyond(THREE, tensor(4), INDEX, INDEX)
    assert pairs["i.lowest"] == "values of one of several integer tensors"
    assert pairs["j.is.i"] == "integers of two tensors made equal"
    offsets = beyond(MIX, tensor(9), tensor(values=[0, 2, 2, 3]))
    assert offsets["y.lowest"] == "integers that are sorted in the sample"


def test_the_ends_of_edges_may_repeat() -> None:
    ends = (tensor(values=[0, 1, 2]), tensor(values=[1, 2, 3]))
    reasons = beyond(EDGES, tensor(4), *ends)
    assert reasons["src.repeated"] is reasons["dst.repeated"] is None
    assert reasons["src.repeated_in_all"] == SEVERAL
    assert not {"i.repeated", "j.repeated"} & beyond(THREE, tensor(4), *ends).keys()


def test_entries_at_one_place_may_come_if_a_docstring_says_what_becomes_of_them() -> None:
    rows, columns = tensor(values=[0, 3, 1]), tensor(values=[2, 0, 0])
    assert beyond(SUMMED, tensor(3), rows, columns)["row.repeated_in_all"] is None
    assert beyond(THREE, tensor(3), rows, columns)["i.repeated_in_all"] == SEVERAL


def test_two_ranges_of_values_are_not_one_tensor() -> None:
    angle, length = tensor(4, low=-9, high=9), tensor(4, low=0, high=9)
    assert beyond(MIX, angle, length)["y.is.x"] is None
    assert beyond(MIX, length, angle)["y.is.x"] is None
    apart = beyond(MIX, tensor(4, low=-1, high=1), length)
    assert apart["y.is.x"] == "one tensor for two with values in different ranges"


def test_a_mask_may_have_one_value() -> None:
    masks = tensor(4, dtype=torch.bool)
    reasons = beyond(THREE, tensor(4), masks, masks)
    assert reasons["i.lowest"] is None
    assert reasons["j.is.i"] is None


# Outcomes


def odd_one_out(case: Case) -> None:
    """Fails on two variants, one within what the sample shows."""
    if case.variant in ("odd", "batch"):
        raise fail("own-finding", "it is wrong", fix="change it")


def rounds(case: Case) -> None:
    """Differs within rounding on the sample, and by more on one variant."""
    raise fail(
        "own-finding",
        "it differs",
        fix="change it",
        note=None if case.variant == "odd" else WITHIN_ROUNDING,
    )


def run(check: Any, **options: Any) -> dict[str, CheckResult]:
    """The results by step; that of the sample itself has none."""
    own_check = Check("own.check", "is right", check, cheap=True)
    plugin = SimpleNamespace(pytest_customop_register_checks=lambda: [own_check])
    more = {"checks": "own", "requires_grad": False, **options}
    results = check_op(mix, [(tensor(4, 6), tensor(6))], plugins=[plugin], **more)
    return {result.place.variant or "": result for result in results}


def test_a_finding_fails_within_the_sample_and_is_noted_beyond() -> None:
    results = run(odd_one_out)
    assert {step for step, result in results.items() if result.outcome == "failed"} == {"odd"}
    assert {step for step, result in results.items() if result.outcome == "noted"} == {"batch"}
    note = results["batch"]
    assert (note.skip_code, note.why_noted) == ("beyond-sample", "one dim more")
    assert note.reason == "beyond-sample (one dim more): own-finding: it is wrong"
    assert str(note).splitlines()[:3] == [
        "own-finding: it is wrong",
        "",
        "note   beyond-sample: one dim more",
    ]
    assert note.arguments
    assert note.fix == "change it"


def test_strict_makes_notes_failures() -> None:
    results = run(odd_one_out, variants="strict")
    assert {step for step, result in results.items() if result.outcome == "failed"} == {
        "odd",
        "batch",
    }
    assert run(rounds, variants=("strict", "shape"))[""].outcome == "failed"


def test_a_difference_within_rounding_is_noted_on_a_sample_too() -> None:
    results = run(rounds)
    assert (results[""].outcome, results[""].skip_code) == ("noted", "within-rounding")
    assert results["odd"].outcome == "failed"
    assert results["one0"].skip_code == "as-sample"


def test_a_check_runs_once_on_the_sample_of_failing_variants() -> None:
    calls = []

    def counts(case: Case) -> None:
        calls.append(case.variant)
        raise fail("own-finding", "it is wrong", fix="change it")

    results = run(counts)
    assert calls.count(None) == 1
    assert len(calls) == len(results)


def test_the_words_of_variants() -> None:
    strict = Variants("full", ("shape",), True)
    assert read_variants(["strict", "full", "shape"]) == strict
    assert read_variants(str(strict).split(",")) == strict
    assert read_variants(["strict"]) == Variants(strict=True)


# In a suite

OPS = """
import ctypes
import torch
from pytest_customop import customop_cases, tensor

@torch.library.custom_op("NS::rows", mutates_args=())
def rows(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1).contiguous()

@rows.register_fake
def _(x):
    return x.new_empty(x.shape[0])

@torch.library.custom_op("NS::crashes", mutates_args=())
def crashes(x: torch.Tensor) -> torch.Tensor:
    if x.dim() > 2:
        ctypes.string_at(0)
    return x.clone()

crashes.register_fake(lambda x: torch.empty_like(x))
"""
ROWS = '@customop_cases("NS::rows", [(tensor(4, 6),)]{more})\ndef test(): ...\n'
REPORT = "--customop-report=report.json"


def results(suite: Suite) -> dict[str, dict[str, Any]]:
    return {
        record["variant"]: record for record in suite.results() if record["variant"] is not None
    }


def test_a_note_is_a_skip_that_names_the_finding(suite: Suite) -> None:
    suite.test(ROWS.format(more=""), ops=OPS)
    result = suite.run("--customop-variants=quick", REPORT, "-rs", checks="fake.forward")
    assert result.ret == 0
    batch = results(suite)["batch"]
    assert (batch["outcome"], batch["finding"]) == ("noted", "fake-shape-mismatch")
    assert batch["message"].startswith("beyond-sample (one dim more): fake-shape-mismatch: ")
    result.stdout.fnmatch_lines(["SKIPPED*beyond-sample: fake-shape-mismatch (batch)"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "quick,strict"),
        (', variants="strict"', "quick"),
        (', variants=["shape", "strict"]', "quick"),
        (', variants=["strict", lambda variant: None]', "quick"),
    ],
)
def test_strict_in_the_mark_or_the_session(suite: Suite, more: str, words: str) -> None:
    suite.test(ROWS.format(more=more), ops=OPS)
    result = suite.run(f"--customop-variants={words}", REPORT, checks="fake.forward")
    assert result.ret == 1
    assert results(suite)["batch"]["outcome"] == "failed"
    if "strict" in words:
        result.stdout.fnmatch_lines(["rerun  pytest *--customop-variants=strict*"])


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ('"strickt"', "unknown kind of variants 'strickt'; did you mean 'strict'?"),
        ('["shape", lambda variant: None]', "'strict' goes with either"),
    ],
)
def test_wrong_words_in_the_mark(suite: Suite, given: str, reported: str) -> None:
    suite.test(ROWS.format(more=f", variants={given}"), ops=OPS)
    assert_one_error(suite.run(checks="fake.forward"), reported)


@pytest.mark.parametrize(("words", "outcome"), [("quick", "noted"), ("quick,strict", "failed")])
def test_a_crash_beyond_the_sample_is_a_note(suite: Suite, words: str, outcome: str) -> None:
    suite.test('@customop_cases("NS::crashes", [(tensor(4, 6),)])\ndef test(): ...\n', ops=OPS)
    result = suite.run_apart(
        "--customop-isolate", f"--customop-variants={words}", REPORT, checks="fake.forward"
    )
    batch = results(suite)["batch"]
    assert (batch["outcome"], batch["finding"]) == (outcome, "crash")
    assert result.ret == (outcome == "failed")
    assert results(suite)["odd"]["outcome"] == "passed"


@torch.library.custom_op("t_judgement::half", mutates_args=())
def half(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    return x * buffer


@half.register_fake
def _(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


half.register_autograd(
    lambda ctx, grad: (grad * ctx.saved_tensors[0], None),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]),
)


class _Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


LIBRARY = torch.library.Library("t_judgement", "FRAGMENT")
LIBRARY.define("no_buffer(Tensor x, Tensor buffer) -> Tensor")
LIBRARY.impl("no_buffer", lambda x, buffer: x.clone(), "CPU")


@torch.library.impl(LIBRARY, "no_buffer", "Autograd")
def _(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    if buffer.requires_grad:
        raise ValueError("buffer has no gradient")
    return _Identity.apply(x)


def gradients_of(op: Any, *args: Any, **options: Any) -> tuple[str, Optional[str]]:
    (result,) = check_op(op, [args], checks="gradcheck.backward", variants=False, **options)
    return result.outcome, result.finding


def scaled(name: str, doc: str, backward: Any) -> Any:
    """An op that multiplies by a weight, whose formula is `backward`."""

    def kernel(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * weight

    kernel.__doc__ = doc
    op = torch.library.custom_op(f"t_judgement::{name}", kernel, mutates_args=())
    op.register_fake(lambda x, weight: torch.empty_like(x))
    op.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return op


def _without(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    return grad * ctx.saved_tensors[1], None


def _if_needed(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    of_weight = None
    if len(ctx.needs_input_grad) > 2 and ctx.needs_input_grad[2]:
        of_weight = grad * x
    return grad * weight, of_weight


def _if_needed_in_place(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    return grad * weight, grad * x if ctx.needs_input_grad[2:] else None


def _if_asked(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    of_weight = None
    if getattr(ctx, "learns", False) and ctx.needs_input_grad[1]:
        of_weight = grad * x
    return grad * weight, of_weight


@pytest.mark.parametrize(
    ("doc", "backward", "outcome"),
    [
        ("weight: factors.", _without, "noted"),
        ("weight: learnable factors.", _without, "failed"),
        ("", _if_needed, "failed"),
        ("", _if_needed_in_place, "failed"),
        ("", _if_asked, "noted"),
        ("weight: gets no gradient.", _if_needed, "noted"),
    ],
)
def test_a_docstring_or_the_formula_may_mean_a_gradient(
    doc: str, backward: Any, outcome: str
) -> None:
    op = scaled(f"scaled{backward.__name__}_{outcome}", doc, backward)
    x, weight = torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    assert gradients_of(op, x, weight) == (outcome, "gradient-missing")


def _of_first(ctx: Any, first: Any, second: Any) -> torch.Tensor:
    return first * 2


def _of_none(ctx: Any, first: Any, second: Any) -> None:
    return None


@pytest.mark.parametrize(("backward", "outcome"), [(_of_first, "failed"), (_of_none, "noted")])
def test_a_gradient_of_one_output_means_one_of_the_other_too(backward: Any, outcome: str) -> None:
    @torch.library.custom_op(f"t_judgement::twice{backward.__name__}", mutates_args=())
    def op(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, x * 3

    op.register_fake(lambda x: (torch.empty_like(x), torch.empty_like(x)))
    op.register_autograd(backward, setup_context=lambda ctx, inputs, output: None)
    x = torch.ones(3, dtype=torch.float64)
    assert gradients_of(op, x) == (outcome, "gradient-missing")


def test_real_tensors_that_say_nothing_need_no_gradients() -> None:
    x, buffer = torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    missing = "gradient-missing"
    assert gradients_of(half, x, buffer) == ("noted", missing)
    assert gradients_of(half, x, buffer, requires_grad=True) == ("failed", missing)
    assert gradients_of(half, x.clone().requires_grad_(), buffer) == ("passed", None)
    inputs = tuple(value.clone().requires_grad_() for value in (x, buffer))
    assert gradients_of(half, *inputs) == ("failed", missing)


def test_an_op_may_reject_gradients_that_no_tensor_asks_for() -> None:
    x = torch.ones(3)
    name = "t_judgement::no_buffer"
    assert gradients_of(name, x, x.clone()) == ("skipped", None)
    assert gradients_of(name, x, x.clone(), requires_grad=True) == ("failed", "eager-raises")


@torch.library.custom_op("t_judgement::no_second_gradient", mutates_args=())
def no_second_gradient(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return x + places


no_second_gradient.register_fake(lambda x, places: torch.empty_like(x))


def _one_gradient(ctx: Any, grad: torch.Tensor) -> Any:
    if ctx.needs_input_grad[1]:
        raise NotImplementedError("places have no gradient")
    return grad, None


no_second_gradient.register_autograd(_one_gradient, setup_context=lambda *_, **__: None)


def test_a_backward_may_reject_gradients_that_nobody_asks_for() -> None:
    x = torch.ones(3, dtype=torch.float64)
    raises = "backward-raises"
    for places in (x.clone(), tensor(3)):
        assert gradients_of(no_second_gradient, x, places) == ("noted", raises)
    assert gradients_of(no_second_gradient, x, x.clone(), requires_grad=True) == ("failed", raises)
    assert gradients_of(no_second_gradient, x.clone().requires_grad_(), x.clone()) == (
        "passed",
        None,
    )
    results = check_op(no_second_gradient, [(x, x.clone())], variants=False, backend="aot_eager")
    assert not [result for result in results if result.outcome in ("failed", "error")]


@pytest.mark.parametrize(("counts", "outcome"), [(False, "noted"), (True, "failed")])
def test_a_backward_that_raises_where_the_forward_ignores_a_larger_size_is_a_note(
    counts: bool, outcome: str
) -> None:
    name = f"t_judgement::area_{outcome}"

    @torch.library.custom_op(name, mutates_args=())
    def area(points: torch.Tensor) -> torch.Tensor:
        if points.dim() != 2 or points.shape[1] < 2:
            raise ValueError("points in a plane, please")
        return points[:, 0] * points[:, 1] + (points.sum(1) if counts else 0)

    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (points,) = ctx.saved_tensors
        grads = torch.stack([grad * points[:, 1], grad * points[:, 0]], 1)
        return grads + (grad[:, None] if counts else 0)

    area.register_fake(lambda points: points.new_empty(points.shape[0]))
    area.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    reported = [
        result
        for result in check_op(area, [(torch.randn(5, 2),)], checks="gradcheck", variants="quick")
        if result.outcome in ("failed", "noted", "error")
    ]
    assert {result.outcome for result in reported if result.place.variant == "odd"} == {outcome}
    assert {result.finding for result in reported} == {"backward-raises"}


def test_an_estimate_is_noted_on_variants_whose_steps_are_too_large_to_see() -> None:
    @torch.library.custom_op("t_judgement::in_levels", mutates_args=())
    def in_levels(x: torch.Tensor, bits: int) -> torch.Tensor:
        """Rounds to levels, as many as the bits give; the gradient is passed straight through."""
        if not 2 <= bits <= 8:
            raise ValueError("2 to 8 bits, please")
        size = x.abs().amax().clamp(min=1e-30) / (2 ** (bits - 1) - 1) if x.numel() else 1.0
        return (x / size).round() * size

    in_levels.register_fake(lambda x, bits: torch.empty_like(x))
    in_levels.register_autograd(lambda ctx, grad: (grad, None))
    results = check_op(
        in_levels, [(torch.randn(5, 8), 8)], checks=["gradcheck.backward"], variants=True
    )
    assert not [result for result in results if result.outcome in ("failed", "error")]
    noted = {result.place.variant for result in results if result.outcome == "noted"}
    assert {None, "bits.2"} <= noted


def test_a_learned_step_size_is_noted_where_it_alone_requires_gradients() -> None:
    @torch.library.custom_op("t_judgement::learned_step", mutates_args=())
    def learned_step(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        if scale.dim() or not bool(scale > 0):
            raise ValueError("one positive scale, please")
        return (x / scale).round().clamp(-8, 7) * scale

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, scale = ctx.saved_tensors
        level = (x / scale).round().clamp(-8, 7)
        inside = (x / scale).round() == level
        slope = torch.where(inside, level - x / scale, level)
        return grad * inside, (grad * slope).sum()

    learned_step.register_fake(lambda x, scale: torch.empty_like(x))
    learned_step.register_autograd(backward, setup_context=setup)
    samples = [(torch.randn(4, 10), torch.tensor(0.3))]
    results = check_op(learned_step, samples, checks=["gradcheck.backward"], variants=True)
    assert not [result for result in results if result.outcome in ("failed", "error")]
    assert "grad.scale" in {result.place.variant for result in results if result.outcome == "noted"}


def test_a_gradient_said_to_be_an_estimate_is_noted_where_the_largest_number_scales() -> None:
    @torch.library.custom_op("t_judgement::signs", mutates_args=())
    def signs(x: torch.Tensor) -> torch.Tensor:
        """Signs times the largest magnitude; the gradient is straight-through."""
        return x.sign() * x.abs().max() if x.numel() else x.clone()

    signs.register_fake(torch.empty_like)
    signs.register_autograd(lambda ctx, grad: grad.clone())
    samples = [(torch.tensor([0.3, -1.2, 0.7], requires_grad=True),)]
    assert outcomes_of(signs, *samples) == {("noted", "gradient-mismatch")}


@pytest.mark.parametrize(
    ("text", "of_module", "outcome"),
    [
        ("1 from 0 on. In backward the step has the derivative of a sigmoid.", "", "noted"),
        ("1 from 0 on.", "Spikes, each with a surrogate gradient.", "noted"),
        ("1 from 0 on. In backward it has the derivative of the step.", "Spikes.", "failed"),
    ],
)
def test_a_step_with_a_gradient_said_to_be_another_one_s_is_noted(
    text: str, of_module: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        return (x >= 0).to(x.dtype)

    kernel.__doc__ = text
    monkeypatch.setitem(globals(), "__doc__", of_module)
    op: Any = torch.library.custom_op(f"t_judgement::step{len(text)}", kernel, mutates_args=())
    op.register_fake(torch.empty_like)
    op.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0].sigmoid(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    sample = (torch.randn(5, requires_grad=True),)
    assert outcomes_of(op, sample) == {(outcome, "gradient-of-a-step-function")}


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("What the backward gives is not its derivative, but twice that.", "noted"),
        ("The gradients are the estimators of the paper.", "noted"),
        ("The backward gives twice the slope, not derivatives of sines.", "noted"),
        ("The gradient is that of the solution, by the implicit function theorem.", "noted"),
        ("The gradient is that of the exact sine, not of the polynomial.", "noted"),
        ("Sines.", "failed"),
    ],
)
def test_a_gradient_said_to_be_another_one_is_noted(text: str, outcome: str) -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    kernel.__doc__ = text
    name = f"t_judgement::twice{len(text)}"
    twice: Any = torch.library.custom_op(name, kernel, mutates_args=())
    twice.register_fake(torch.empty_like)
    twice.register_autograd(
        lambda ctx, grad: 2 * grad * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    sample = (torch.ones(3, requires_grad=True),)
    assert outcomes_of(twice, sample) == {(outcome, "gradient-mismatch")}


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Square roots; gradients are those of the solution, by the envelope theorem.", "noted"),
        ("Square roots, after some steps.", "failed"),
    ],
)
def test_a_gradient_after_fewer_iterations_is_noted_if_it_is_that_of_a_solution(
    text: str, outcome: str
) -> None:
    def kernel(x: torch.Tensor, max_iter: int) -> torch.Tensor:
        if max_iter < 1:
            raise ValueError("at least one, please")
        y = torch.full_like(x, 2.0)
        for _ in range(max_iter):
            y = (y + x / y) / 2
        return y

    kernel.__doc__ = text
    name = f"t_judgement::root_{outcome}"
    root: Any = torch.library.custom_op(name, kernel, mutates_args=())
    root.register_fake(lambda x, max_iter: torch.empty_like(x))
    root.register_autograd(
        lambda ctx, grad: (grad / (2 * ctx.saved_tensors[0].sqrt()), None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    sample = (torch.tensor([1.0, 2.0, 3.0], requires_grad=True), 30)
    results = check_op(root, [sample], checks=["gradcheck.backward"], variants=["arguments"])
    found = {(each.outcome, each.finding) for each in results if each.finding}
    assert (outcome, "gradient-mismatch") in found
    assert {each for each, code in found if code == "gradient-mismatch"} == {outcome}


def outcomes_of(op: Any, *samples: Any) -> set[tuple[str, Optional[str]]]:
    """What `gradcheck.backward` says of samples, where it has something to say."""
    results = check_op(op, samples, checks=["gradcheck.backward"], variants=False)
    return {(result.outcome, result.finding) for result in results if result.outcome != "skipped"}


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Adds noise.", "failed"),
        ("Adds noise from a generator of this module, not from torch's global one.", "noted"),
    ],
)
def test_an_op_with_a_stream_of_its_own_gives_something_else_at_each_call(
    text: str, outcome: str
) -> None:
    own = torch.Generator().manual_seed(0)

    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rand(x.shape, generator=own)

    noisy.__doc__ = text
    op = torch.library.custom_op(
        f"t_judgement::noisy_{outcome}",
        noisy,
        mutates_args=(),
        tags=(torch.Tag.nondeterministic_seeded,),
    )
    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[1] / ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output),
    )
    results = check_op(
        op, [(tensor(3, requires_grad=True),)], checks="backward.checkpoint", variants=False
    )
    assert {result.outcome for result in results} == {outcome}


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Buckets.\n\nids: int64 of any shape.", "noted"),
        ("Buckets.\n\nids: int32 or int64.", "failed"),
        ("Buckets.", "failed"),
    ],
)
def test_an_integer_dtype_that_a_docstring_leaves_out_is_noted(text: str, outcome: str) -> None:
    def kernel(ids: torch.Tensor) -> torch.Tensor:
        return (ids * 2_654_435_761 >> 30) % 64

    kernel.__doc__ = text
    op: Any = torch.library.custom_op(f"t_judgement::hash{len(text)}", kernel, mutates_args=())
    op.register_fake(torch.empty_like)
    results = check_op(
        op, [(torch.arange(1, 9),)], checks=["relations.index_dtype"], variants=False
    )
    assert {(result.outcome, result.finding) for result in results} == {
        (outcome, "index-dtype-mismatch")
    }


def test_a_case_is_judged_without_a_call() -> None:
    """A crash of a variant is judged in the session, where the call would end the session, too."""
    calls: list[Optional[torch.Tensor]] = []

    @torch.library.custom_op("t_judgement::gated", mutates_args=())
    def gated(x: torch.Tensor, gate: Optional[torch.Tensor] = None) -> torch.Tensor:
        calls.append(gate)
        return x.clone() if gate is None else x * gate

    gated.register_fake(lambda x, gate=None: torch.empty_like(x))
    judged = []

    def judge(case: Case) -> None:
        if case.variant == "gate.given":
            new = replace(case)
            before = len(calls)
            judged.append(note_for(new, fail("crash", "it ended the process", fix="").finding))
            assert len(calls) == before

    check = Check("own.check", "is right", judge, cheap=True)
    plugin = SimpleNamespace(pytest_customop_register_checks=lambda: [check])
    sample = (tensor(4, 6),)
    results = check_op(gated, [sample], plugins=[plugin], checks="own", requires_grad=False)
    assert judged == [None]
    assert not [result for result in results if result.outcome == "error"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("noise_that_promises_nothing", "different seeds"),
        ("passes_gradients_back_into_the_range", "sign of a gradient"),
        ("grid_of_documented_three", "size of points"),
    ],
)
def test_a_note_gives_its_own_reason(name: str, reason: str) -> None:
    specimen = specimens()[name]
    checks = [*specimen.notes, *specimen.variant_notes]
    results = specimen.check_with_variants("quick", checks)
    notes = [each for each in results if each.outcome == "noted"]
    assert notes
    assert all(reason in note.why_noted for note in notes)
