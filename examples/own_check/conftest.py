"""A check of your own: what a project requires of all its ops, in addition to the built-in checks."""

import torch

from pytest_customop import Case, Check, fail, skip


def check_independent(case: Case) -> None:
    """The first half of a batch gives the first half of the result."""
    arguments = case.inputs()
    tensors = arguments.tensors()
    if not tensors or any(tensor.dim() == 0 or tensor.shape[0] < 2 for _, tensor in tensors):
        raise skip("no-batch", "an argument has no first dim of at least 2", unjudged=False)
    half = tensors[0][1].shape[0] // 2
    whole = case.eager.outputs
    part = case.run(arguments.map(lambda tensor: tensor.detach()[:half])).outputs
    for (name, expected), (_, actual) in zip(whole, part, strict=True):
        if not torch.allclose(actual, expected[:half], equal_nan=True):
            raise fail(
                "batch-dependent",
                f"{case.op.name} {name}: half a batch gives other values than the whole one",
                fix="Compute each element of the batch by itself: no statistics over dim 0.",
            )


def pytest_customop_register_checks() -> list[Check]:
    return [
        Check(
            "batch.independent",
            "half a batch gives half of the result",
            check_independent,
            gradients=False,
        )
    ]
