"""Selections in which classes are, or should be, independent."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", skips={"fake.symbolic": "no-second-size"})
SPANS = torch.tensor([[10.0, 20.0], [11.0, 21.0], [40.0, 50.0], [41.0, 49.0], [12.0, 19.0]])
SCORES = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5])
LABELS = torch.tensor([0, 1, 0, 0, 1])


def _kept(spans, scores, same):
    order = scores.argsort(descending=True, stable=True).tolist()
    kept: list[int] = []
    for entry in order:
        overlaps = (
            min(spans[entry][1], spans[other][1]) - max(spans[entry][0], spans[other][0]) > 0
            for other in kept
            if same(entry, other)
        )
        if not any(overlaps):
            kept.append(entry)
    return torch.tensor(kept, dtype=torch.int64)


def _selection(name, kernel):
    """The spans that no better span of their class overlaps."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def selection(spans: Tensor, scores: Tensor, labels: Tensor, at_most: int = 100) -> Tensor:
        """The spans that no better one overlaps, independently for each class; indices by score."""
        if spans.dim() != 2 or spans.shape[1] != 2 or spans.shape[0] != scores.shape[0]:
            raise ValueError("spans (N, 2) and N scores, please")
        if scores.shape != labels.shape or scores.dim() != 1:
            raise ValueError("N scores and labels, please")
        return kernel(spans, scores, labels)[:at_most]

    @selection.register_fake
    def _(spans, scores, labels, at_most=100):
        return spans.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)

    return selection


def _moved(span_of):
    def kernel(spans, scores, labels):
        if not len(spans):
            return torch.empty(0, dtype=torch.int64)
        moved = spans + (labels * span_of(spans))[:, None]
        return _kept(moved, scores, lambda *_: True)

    return kernel


@aot(
    (SPANS, SCORES, LABELS),
    expected={"relations.groups": "groups-not-independent"},
)
def moves_classes_by_the_largest_coordinate():
    """Each class is moved by the largest coordinate plus 1, which is too little for negative ones."""
    return _selection(
        "moves_classes_by_the_largest_coordinate", _moved(lambda spans: spans.max() + 1)
    )


@aot((SPANS, SCORES, LABELS), twin_of="moves_classes_by_the_largest_coordinate")
def moves_classes_by_the_span():
    """Each class is moved by the span of all coordinates."""
    return _selection(
        "moves_classes_by_the_span", _moved(lambda spans: spans.max() - spans.min() + 1)
    )


@aot((SPANS, SCORES, LABELS), twin_of="moves_classes_by_the_largest_coordinate")
def compares_classes():
    """Spans of other classes are left out."""
    return _selection(
        "compares_classes",
        lambda spans, scores, labels: _kept(
            spans, scores, lambda one, other: labels[one] == labels[other]
        ),
    )


@aot((SPANS, SCORES, LABELS, 2), twin_of="moves_classes_by_the_largest_coordinate")
def keeps_at_most_two():
    """Spans of other classes are left out, and so are those after the first two of all classes."""
    return _selection(
        "keeps_at_most_two",
        lambda spans, scores, labels: _kept(
            spans, scores, lambda one, other: labels[one] == labels[other]
        ),
    )
