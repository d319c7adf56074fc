"""Checks without pytest: `check_op`, what it returns, and how that reads."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, List

import pytest
import torch

from pytest_customop import Case, Check, CheckResult, Sample, check_op, fail, skip, tensor
from pytest_customop.declare.mistakes import MarkError
from pytest_customop.hookspecs import hookimpl
from pytest_customop.plan.place import Place


@torch.library.custom_op("t_engine::scale", mutates_args=())
def scale(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


scale.register_autograd(
    lambda ctx, grad: (grad * ctx.n, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[1]),
)


@torch.library.custom_op("t_engine::refuses", mutates_args=())
def refuses(x: torch.Tensor) -> torch.Tensor:
    raise IndexError("no such row\nand a second line")


@torch.library.custom_op("t_engine::inference_only", mutates_args=())
def inference_only(x: torch.Tensor) -> torch.Tensor:
    if x.requires_grad:
        raise RuntimeError("inference only")
    return x.clone()


_LIBRARY = torch.library.Library("t_engine", "FRAGMENT")
_LIBRARY.define("no_graph(Tensor x) -> Tensor")
_LIBRARY.impl("no_graph", lambda x: x.clone(), "CPU")


@torch.library.impl(_LIBRARY, "no_graph", "Autograd")
def _no_graph(x: torch.Tensor) -> torch.Tensor:
    if x.requires_grad:
        raise RuntimeError("no_graph has no gradient: call it under torch.no_grad()")
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.t_engine.no_graph(x)


def passes(case: Case) -> None:
    assert case.eager.error is None


def fails(case: Case) -> None:
    raise fail("own-finding", "output is wrong", "the evidence", fix="change it")


def skips(case: Case) -> None:
    raise skip("own-reason", "it cannot be judged here")


def breaks(case: Case) -> None:
    raise KeyError("a broken check")


class Own:
    """A plugin with a check of each outcome."""

    @hookimpl
    def pytest_customop_register_checks(self) -> List[Check]:
        return [
            Check("own.breaks", "breaks", breaks),
            Check("own.fails", "fails", fails),
            Check("own.passes", "passes", passes),
            Check("own.skips", "skips", skips),
        ]


X = [(tensor(3), 2)]


def run(op: Any, samples: Any, checks: Any = "own", **options: Any) -> List[CheckResult]:
    return check_op(op, samples, checks=checks, plugins=[Own()], **options)


def test_one_result_a_check_and_case() -> None:
    results = run(scale, X)
    assert [(result.case, result.check, result.outcome) for result in results] == [
        (f"cpu-float32-{gradients}-0", check, outcome)
        for gradients in ("nograd", "withgrad")
        for check, outcome in (
            ("own.breaks", "error"),
            ("own.fails", "failed"),
            ("own.passes", "passed"),
            ("own.skips", "skipped"),
        )
    ]
    assert {result.op for result in results} == {"t_engine::scale"}
    assert results[0].place == Place("cpu", "float32", False, "contiguous", "0")
    assert all(result.duration > 0 for result in results)


def test_a_finding() -> None:
    (result,) = run(scale, X, "own.fails", requires_grad=False)
    assert (result.finding, result.message, result.fix) == (
        "own-finding",
        "output is wrong",
        "change it",
    )
    assert str(result) == (
        "own-finding: output is wrong\n"
        "\n"
        "op     t_engine::scale\n"
        "check  own.fails\n"
        "case   cpu-float32-nograd-0\n"
        "         x = tensor(3): float32[3]\n"
        "         n = 2\n"
        "\n"
        "the evidence\n"
        "\n"
        "fix    change it"
    )


def test_a_skip_and_a_pass_are_one_line() -> None:
    results = run(scale, X, ["own.passes", "own.skips"], requires_grad=False)
    assert [str(result) for result in results] == [
        "passed t_engine::scale own.passes [cpu-float32-nograd-0]",
        "skipped t_engine::scale own.skips [cpu-float32-nograd-0]: "
        "own-reason: it cannot be judged here",
    ]
    assert (results[1].skip_code, results[1].unjudged) == ("own-reason", True)


def test_a_check_that_breaks_is_an_error_with_its_whole_traceback() -> None:
    (result,) = run(scale, X, "own.breaks", requires_grad=False)
    assert result.outcome == "error"
    assert result.finding is None
    assert "KeyError" in result.message
    assert 'raise KeyError("a broken check")' in result.evidence


def test_a_check_that_breaks_on_the_sample_hides_nothing_on_its_variants() -> None:
    def odd(case: Case) -> None:
        if case.base_case is None:
            raise KeyError("a broken check")
        raise fail("own-finding", "output is wrong", fix="change it")

    plugin = SimpleNamespace(
        pytest_customop_register_checks=lambda: [Check("own.odd", "is odd", odd, cheap=True)]
    )
    results = check_op(scale, X, checks="own", requires_grad=False, plugins=[plugin])
    assert len(results) > 1
    for result in results:
        assert (result.outcome, result.finding) == ("error", None), result
        assert "KeyError" in result.message


def test_a_finding_without_an_explanation_needs_a_fix() -> None:
    def unexplained(case: Case) -> None:
        raise fail("own-finding", "output is wrong")

    plugin = SimpleNamespace(
        pytest_customop_register_checks=lambda: [Check("own.bare", "has no fix", unexplained)]
    )
    (result,) = check_op(scale, X, checks="own", requires_grad=False, plugins=[plugin])
    assert result.outcome == "error"
    assert "'own-finding' is not explained: give it a fix" in result.message


def test_an_op_that_raises_is_reported_in_full_once_a_case_and_in_one_line_after() -> None:
    results = run(refuses, [(tensor(3),), (tensor(4),)], requires_grad=False)
    assert {(result.outcome, result.finding) for result in results} == {("failed", "eager-raises")}
    for case in (results[:4], results[4:]):
        first, *others = case
        assert first.message == "t_engine::refuses raises IndexError: no such row"
        assert "and a second line" in first.evidence
        assert "in refuses" in first.evidence
        for result in others:
            assert (
                str(result)
                == f"eager-raises: {result.message} (reported in full above) [{result.check}]"
            )
            assert result.message == first.message
            assert result.script() is None


def test_the_traceback_of_an_op_keeps_the_op_s_frames_only() -> None:
    result = run(refuses, [(tensor(3),)], requires_grad=False)[0]
    frames = [line for line in result.evidence.splitlines() if line.startswith("  File ")]
    assert len(frames) == 1
    assert __file__ in frames[0]


def test_an_op_without_formula_may_reject_gradients() -> None:
    results = run(inference_only, [(tensor(3),)], "own.passes", requires_grad=[False, True])
    assert [(result.outcome, result.skip_code) for result in results] == [
        ("passed", None),
        ("skipped", "inference-only"),
    ]
    assert "inference only" in results[1].message


def test_an_op_with_a_kernel_for_autograd_may_reject_gradients_that_nobody_asks_for() -> None:
    for requires_grad, last in ((None, "skipped"), ([False, True], "failed")):
        results = run(
            "t_engine::no_graph", [(tensor(3),)], "own.passes", requires_grad=requires_grad
        )
        assert [result.outcome for result in results] == ["passed", last]
        assert "call it under torch.no_grad()" in results[1].message


def test_cells_that_do_not_run_are_reported() -> None:
    results = run(scale, X, requires_grad=False, skip_if=lambda cell: "not on Tuesdays")
    assert [(result.outcome, result.message, result.check) for result in results] == [
        ("skipped", "not on Tuesdays", "")
    ]


def test_a_device_that_is_absent_is_one_skip() -> None:
    class NoCuda:
        @hookimpl
        def pytest_customop_device_available(self, device: str) -> Any:
            return "no driver" if device == "cuda" else None

    results = check_op(
        scale, X, devices=["cpu", "cuda"], checks="own.passes", plugins=[Own(), NoCuda()]
    )
    assert [result.outcome for result in results] == ["passed", "passed", "skipped"]
    assert results[2].message == "device cuda is not available: no driver"
    assert results[2].place == Place(device="cuda")


def test_a_plugin_drops_and_replaces_planned_items() -> None:
    class FirstOnly:
        @hookimpl
        def pytest_customop_modify_cases(self, definition: Any, planned: List[Any]) -> None:
            assert definition is None
            del planned[1:]

    results = check_op(scale, X, checks="own", plugins=[Own(), FirstOnly()])
    assert [result.check for result in results] == ["own.breaks"]


def test_a_module_with_hooks_is_a_plugin_as_it_is_for_pytest() -> None:
    module = SimpleNamespace(
        pytest_customop_register_checks=lambda: [Check("own.passes", "passes", passes)]
    )
    results = check_op(scale, X, checks="own", requires_grad=False, plugins=[module])
    assert [result.outcome for result in results] == ["passed"]


def test_everything_can_be_given() -> None:
    def make(device: str, dtype: torch.dtype, requires_grad: bool, n: int) -> Any:
        return [Sample((tensor(4, 4), n), id="square")]

    results = run(
        "t_engine::scale",
        make,
        "own.passes",
        devices="cpu",
        dtypes=torch.float64,
        layouts=["transposed"],
        axes={"n": [2, 3]},
        tolerances=(1e-3, 1e-3),
        gradcheck="not here",
        requires_grad=True,
        backend="eager",
        seed=3,
    )
    assert [result.case for result in results] == [
        "cpu-float64-withgrad-transposed-n2-square",
        "cpu-float64-withgrad-transposed-n3-square",
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"op": "t_engine::scal"}, "did you mean 't_engine::scale'?"),
        ({"samples": []}, "samples is empty"),
        ({"samples": [tensor(3)]}, "which is not a tuple"),
        ({"samples": [(tensor(3), "2")]}, "argument 'n' is an int"),
        ({"layouts": "stridet"}, "did you mean 'strided'?"),
        ({"devices": "cuad"}, "did you mean 'cuda'?"),
        ({"checks": "own.pases"}, "did you mean 'own.passes'?"),
    ],
)
def test_wrong_use_is_a_mark_error_that_names_check_op(given: Any, message: str) -> None:
    call = {"op": scale, "samples": X, **given}
    with pytest.raises(MarkError) as caught:
        run(call.pop("op"), call.pop("samples"), **call)
    assert message in str(caught.value)
    assert "check_op: " in str(caught.value)


def test_an_interrupt_passes_through() -> None:
    def interrupted(case: Case) -> None:
        raise KeyboardInterrupt

    plugin = SimpleNamespace(
        pytest_customop_register_checks=hookimpl(
            lambda: [Check("own.interrupted", "is interrupted", interrupted)]
        )
    )
    with pytest.raises(KeyboardInterrupt):
        check_op(scale, X, checks="own", plugins=[plugin])


def test_a_script_needs_no_running_pytest(tmp_path: Path) -> None:
    script = """
import torch
from pytest_customop import check_op, tensor

@torch.library.custom_op("t_script::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

for result in check_op(twice, [(tensor(3),)], checks="opcheck.test_schema"):
    print(result)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == [
        "passed t_script::twice opcheck.test_schema [cpu-float32-nograd-0]"
    ]


@torch.library.custom_op("t_engine::returns_it", mutates_args=())
def returns_it(x: torch.Tensor, copy: bool = False) -> torch.Tensor:
    return x.clone() if copy else x


@torch.library.custom_op("t_engine::returns_it_empty", mutates_args=())
def returns_it_empty(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.numel() else x


def test_what_torch_rejects_of_an_output_is_a_finding_with_its_reason() -> None:
    (result,) = check_op(
        returns_it, [(tensor(3),)], checks="values.repeat", requires_grad=False, variants=False
    )
    assert result.finding == "output-alias-rejected"
    assert result.message.startswith("t_engine::returns_it: torch rejects what it returns")
    assert result.evidence.startswith(
        "torch's message: The output of this custom operator (1) must not"
    )
    assert "or other returns" in result.evidence
    assert "x.clone()" in str(result)


def test_an_output_that_torch_rejects_is_reported_once_for_a_sample_and_its_variants() -> None:
    options = {"checks": "values.uninitialized", "requires_grad": False}
    results = check_op(returns_it, [(tensor(4, 3),)], **options)
    failed = [result for result in results if result.outcome == "failed"]
    assert [result.place.variant for result in failed] == [None]
    assert "as-sample" in {result.skip_code for result in results}


def test_an_output_that_torch_rejects_on_a_variant_is_no_rejected_variant() -> None:
    options = {"checks": "values.aliasing", "requires_grad": False}
    results = check_op(returns_it_empty, [(tensor(4, 3),)], **options)
    failed = {
        result.place.variant: result.finding for result in results if result.outcome == "failed"
    }
    assert failed["empty0"] == "output-alias-rejected"
    assert set(failed.values()) == {"output-alias-rejected"}


def test_variants_of_an_op_in_python_have_one_thread_of_torch() -> None:
    seen: List[int] = []

    @torch.library.custom_op("t_engine::notes_threads", mutates_args=())
    def notes_threads(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return x + 1

    notes_threads.register_fake(torch.empty_like)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        check_op(notes_threads, [(tensor(4, 3),)], checks="fake.forward", variants=False)
        assert set(seen) == {2}
        check_op(notes_threads, [(tensor(4, 3),)], checks="fake.forward")
        assert set(seen) == {2, 1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
