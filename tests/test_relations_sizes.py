"""`relations.split` and `relations.permutation`: what is a mistake, what a note, and what says nothing."""

import torch
from verdicts import codes

from pytest_customop import check_op, tensor

CHECKS = ["relations.permutation", "relations.split"]
ORDER = ("relations.permutation", "result-depends-on-order")
PARTS = ("relations.split", "parts-differ-from-whole")


def make_op(name, kernel, schema=None):
    """An op of one tensor, and of what the schema adds; it has no fake kernel, which is not needed."""
    return torch.library.custom_op(f"sizes::{name}", kernel, mutates_args=(), schema=schema)


def reported(op, sample, outcome, variants="quick"):
    """The (check, code) pairs with an outcome."""
    results = check_op(op, [sample], checks=CHECKS, variants=variants)
    assert not codes(results, ("error",))
    return codes(results, (outcome,))


def first_sum(x: torch.Tensor, most: int) -> torch.Tensor:
    return x[:most].sum(0)


def test_a_whole_number_that_limits_entries_makes_it_a_note() -> None:
    op = make_op("first_sum", first_sum)
    sample = (tensor(4, 3), 9)
    assert reported(op, sample, "failed") == set()
    assert reported(op, sample, "noted") == {ORDER, PARTS}


def test_a_whole_number_with_which_the_mistake_stays_does_not() -> None:
    def without_the_last(x: torch.Tensor, block: int) -> torch.Tensor:
        return x[: len(x) - len(x) % 2].sum(0) * (block > 0)

    op = make_op("without_the_last", without_the_last)
    assert reported(op, (tensor(4, 3), 2), "failed") == {ORDER, PARTS}


def test_a_docstring_that_names_a_limit_makes_it_a_note() -> None:
    def limited(x: torch.Tensor) -> torch.Tensor:
        """The sum of at most 1000 rows."""
        return x[:1000].sum(0)

    op = make_op("limited", limited)
    assert reported(op, (tensor(4, 3),), "failed") == set()
    assert reported(op, (tensor(4, 3),), "noted") == {ORDER, PARTS}


def test_a_limit_in_the_code_alone_makes_it_a_note_too() -> None:
    op = make_op("capped", lambda x: x[:1000].sum(0), "(Tensor x) -> Tensor")
    assert reported(op, (tensor(4, 3),), "failed") == set()
    assert reported(op, (tensor(4, 3),), "noted") == {ORDER, PARTS}


def test_a_few_more_entries_than_the_sample_has_are_no_limit() -> None:
    op = make_op("even", lambda x: x[: len(x) // 2 * 2].sum(0), "(Tensor x) -> Tensor")
    assert reported(op, (tensor(4, 3),), "failed") == {ORDER, PARTS}


def test_unless_the_code_has_the_size_of_the_sample_as_a_number() -> None:
    op = make_op("four_at_most", lambda x: x[:4].sum(0), "(Tensor x) -> Tensor")
    assert reported(op, (tensor(4, 3),), "failed") == set()
    assert reported(op, (tensor(4, 3),), "noted") == {ORDER}


def test_a_norm_that_is_clipped_says_nothing() -> None:
    clipped = lambda x: x / torch.linalg.vector_norm(x).clamp(min=5)  # noqa: E731
    op = make_op("clipped", clipped, "(Tensor x) -> Tensor")
    results = check_op(op, [(tensor(4, 3, low=-1, high=1),)], checks=CHECKS, variants="quick")
    assert codes(results, ("failed", "noted", "error")) == set()


def test_dims_of_one_size_may_belong_together_or_not() -> None:
    # The rows of `x` go with those of `weight`, the columns do not, and all have one size.
    def weighted(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        output = x * weight[:, None]
        output[len(x) // 4 * 4 :] = 0
        return output

    op = make_op("weighted", weighted)
    sample = (tensor(4, 4, low=1, high=2), tensor(4, low=1, high=2))
    assert PARTS in reported(op, sample, "failed")


def test_a_result_of_another_kind_says_nothing() -> None:
    op = make_op("between", lambda x: x[:1] - x[-1:], "(Tensor x) -> Tensor")
    results = check_op(op, [(tensor(4),)], checks=CHECKS, variants="quick")
    assert {result.outcome for result in results} == {"skipped"}
    reasons = {
        result.message for result in results if result.outcome == "skipped" and result.place.variant
    }
    assert any("computed alike" in reason for reason in reasons)


def test_gradients_of_parts_are_compared() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    op = make_op("double", double)
    op.register_fake(torch.empty_like)

    def backward(ctx, grad):
        grad_x = grad * 2
        grad_x[len(grad) // 4 * 4 :] = 0
        return grad_x

    op.register_autograd(backward)
    results = check_op(op, [(tensor(4, 3),)], checks="relations.split", variants="quick")
    (shown,) = {
        result.message.partition("do: ")[2][:15] for result in results if result.outcome == "failed"
    }
    assert shown == "the gradient of"


def test_a_backward_that_always_raises_rejects_no_variant() -> None:
    op = make_op("for_inference", lambda x: x[: len(x) // 2 * 2].sum(0), "(Tensor x) -> Tensor")

    def backward(ctx, grad):
        raise NotImplementedError("for inference only")

    op.register_autograd(backward)
    results = check_op(op, [(tensor(4, 3),)], checks="relations.split", variants="quick")
    assert codes(results, ("failed",)) == {PARTS}
    assert {result.place.requires_grad for result in results if result.outcome == "failed"} == {
        True
    }


def test_results_cropped_to_a_size_have_no_entry_for_each() -> None:
    def cropped(x: torch.Tensor, size: int) -> torch.Tensor:
        return x[max(len(x) - size, 0) // 2 :][:size].clone()

    op = make_op("cropped", cropped)
    op.register_autograd(
        lambda ctx, grad: (torch.zeros(ctx.shape).index_copy(0, ctx.rows, grad), None),
        setup_context=lambda ctx, inputs, output: vars(ctx).update(
            shape=inputs[0].shape,
            rows=torch.arange(len(output)) + max(len(inputs[0]) - inputs[1], 0) // 2,
        ),
    )
    assert reported(op, (tensor(4, 3, requires_grad=True), 5), "failed") == set()
