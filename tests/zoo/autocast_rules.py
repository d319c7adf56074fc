"""Ops with autocast rules written by hand."""

import functools

import torch
import torch.nn.functional as F

from pytest_customop import Sample, tensor

from . import registry

specimen = functools.partial(registry.specimen, backend="aot_eager")

ROWS, CLASSES, LABELS = tensor(4, 6), tensor(5, 6), tensor(4, dtype=torch.int64, low=0, high=4)
REJECTED = {"compile.autocast": "nothing-to-check"}
DROPS = {"relations.autocast": "autocast-drops-argument"}
RAISES = {"relations.autocast": "autocast-raises"}


def _logits(rows, classes, labels, scale=8.0, *, margin=0.25, kind="cosine"):
    rows, classes = rows.detach(), classes.detach()
    if rows.dim() != 2 or classes.dim() != 2 or labels.shape != rows.shape[:1]:
        raise ValueError("expected rows (n, size), classes (m, size) and labels (n,)")
    cosines = F.normalize(rows, dim=1) @ F.normalize(classes, dim=1).t()
    true = labels[:, None] == torch.arange(classes.shape[0], device=labels.device)
    if kind == "cosine":
        moved = cosines - margin
    elif kind == "angle":
        moved = torch.cos(torch.acos(cosines * 0.99) + margin)
    else:
        raise ValueError(f"kind must be cosine or angle, not {kind!r}")
    return scale * torch.where(true, moved, cosines)


@functools.cache
def _library():
    """A library of this file: in the file of its library the strings that a kernel takes are found."""
    return torch.library.Library("zoo", "FRAGMENT")


def _with_rule(name, rule):
    """The op with a rule: (op, rows and classes in the dtype of autocast, the other arguments)."""
    lib = _library()
    lib.define(
        f"{name}(Tensor rows, Tensor classes, Tensor labels, float scale=8.0, *, float margin=0.25, "
        'str kind="cosine") -> Tensor'
    )
    op = getattr(torch.ops.zoo, name).default

    def autocast(rows, classes, *others, **named):
        dtype = torch.get_autocast_dtype("cpu")
        return rule(op, rows.to(dtype), classes.to(dtype), *others, **named)

    lib.impl(name, _logits, "CPU")
    lib.impl(name, autocast, "AutocastCPU")
    fake = lambda rows, classes, *_, **__: rows.new_empty(rows.shape[0], classes.shape[0])  # noqa: E731
    torch.library.register_fake(op, fake, lib=lib)
    return op


def _off():
    return torch.autocast("cpu", enabled=False)


MARGIN = Sample((ROWS, CLASSES, LABELS), {"margin": 0.75})
PLAIN = (ROWS, CLASSES, LABELS)


@specimen(MARGIN, expected=DROPS)
def autocast_rule_without_the_keywords():
    """Has a rule that passes the arguments by position on, and not those by keyword."""

    def rule(op, *args, **named):
        with _off():
            return op(*args)

    return _with_rule("autocast_rule_without_the_keywords", rule)


@specimen(PLAIN, variant_findings=DROPS, shown_by="kind.angle")
def autocast_rule_without_the_kind():
    """Has a rule that passes the margin on, and not the kind."""

    def rule(op, *args, margin=0.25, kind="cosine"):
        with _off():
            return op(*args, margin=margin)

    return _with_rule("autocast_rule_without_the_kind", rule)


@specimen(
    MARGIN,
    twin_of=("autocast_rule_without_the_keywords", "autocast_rule_without_the_kind"),
)
def autocast_rule_with_all_arguments():
    """Has a rule that passes all arguments on."""

    def rule(op, *args, **named):
        with _off():
            return op(*args, **named)

    return _with_rule("autocast_rule_with_all_arguments", rule)


@specimen(MARGIN)
def autocast_rule_that_computes_in_float32():
    """Correct: has a rule that computes in float32, from inputs rounded to the dtype of autocast."""

    def rule(op, rows, classes, *args, **named):
        with _off():
            return op(rows.float(), classes.float(), *args, **named).to(rows.dtype)

    return _with_rule("autocast_rule_that_computes_in_float32", rule)


def _float32_alone(name, dtype):
    """An op that rejects other dtypes than float32, with a rule that casts to one."""
    lib = _library()
    lib.define(f"{name}(Tensor x) -> Tensor")
    op = getattr(torch.ops.zoo, name).default

    def energy(x):
        if x.dtype != torch.float32:
            raise TypeError(f"x must be float32, not {x.dtype}")
        return x.detach().square().sum(-1)

    def rule(x):
        with _off():
            return op(x.to(dtype))

    lib.impl(name, energy, "CPU")
    lib.impl(name, rule, "AutocastCPU")
    torch.library.register_fake(op, lambda x: x.new_empty(x.shape[:-1]), lib=lib)
    return op


@specimen((ROWS,), expected=RAISES, skips=REJECTED)
def autocast_rule_for_a_dtype_that_the_kernel_rejects():
    """Takes float32 alone, and has a rule that casts to bfloat16."""
    return _float32_alone("autocast_rule_for_a_dtype_that_the_kernel_rejects", torch.bfloat16)


@specimen(
    (ROWS,),
    twin_of=(
        "autocast_rule_for_a_dtype_that_the_kernel_rejects",
        "autocast_rule_that_calls_itself",
    ),
)
def autocast_rule_for_float32():
    """Takes float32 alone, and has a rule that casts to it."""
    return _float32_alone("autocast_rule_for_float32", torch.float32)


def _sine(x):
    return x.detach().sin()


@specimen((ROWS,), expected=RAISES, skips=REJECTED)
def autocast_rule_that_calls_itself():
    """Has a rule that calls the op with autocast still on."""
    lib = _library()
    lib.define("autocast_rule_that_calls_itself(Tensor x) -> Tensor")
    op = torch.ops.zoo.autocast_rule_that_calls_itself.default
    lib.impl("autocast_rule_that_calls_itself", _sine, "CPU")
    lib.impl("autocast_rule_that_calls_itself", lambda x: op(x.bfloat16()), "AutocastCPU")
    torch.library.register_fake(op, torch.empty_like, lib=lib)
    return op


@specimen((ROWS,), skips=REJECTED)
def autocast_rule_that_raises_on_purpose():
    """Correct: has a rule that says that the op is not for autocast."""
    lib = _library()
    lib.define("autocast_rule_that_raises_on_purpose(Tensor x) -> Tensor")

    def rule(x):
        raise RuntimeError("call it under torch.autocast('cpu', enabled=False)")

    op = torch.ops.zoo.autocast_rule_that_raises_on_purpose.default
    lib.impl("autocast_rule_that_raises_on_purpose", _sine, "CPU")
    lib.impl("autocast_rule_that_raises_on_purpose", rule, "AutocastCPU")
    torch.library.register_fake(op, torch.empty_like, lib=lib)
    return op
