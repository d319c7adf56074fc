"""`opcheck.test_autograd_registration`: torch's own utility of that name."""

from __future__ import annotations

from ...cases.case import Case
from ...findings import Explanation, doc_links
from ..check import Check
from .utility import run_utility, script


def check_autograd_registration(case: Case) -> None:
    """Run torch's `test_autograd_registration`."""
    run_utility(case, "test_autograd_registration")


FINDINGS = {
    "autograd-registration": Explanation(
        meaning="Gradients come from somewhere other than an Autograd registration.",
        why=(
            "When a device's kernel is compiled or transformed, it runs below autograd. Its "
            "gradients exist in plain eager mode, and are silently missing everywhere else."
        ),
        fix=(
            "Register the formula with torch.library.register_autograd. Do not call a "
            "torch.autograd.Function inside a CPU or CUDA kernel. A kernel that consists of torch's own "
            "ops gives gradients without a formula, but only in eager mode: if it needs none, have it call "
            "them under torch.no_grad(); if no other kernel is needed, register it as "
            "CompositeImplicitAutograd."
        ),
        before="""
lib.impl("sine", lambda x: SineFunction.apply(x), "CPU")
""",
        after="""
lib.impl("sine", sine_forward, "CPU")
torch.library.register_autograd(
    "mylib::sine", sine_backward, setup_context=sine_setup, lib=lib
)
""",
        docs=(doc_links.REGISTER_AUTOGRAD, doc_links.OPCHECK),
    ),
}

CHECK = Check(
    name="opcheck.test_autograd_registration",
    summary="torch's own: gradients come from a kernel at an autograd key",
    run=check_autograd_registration,
    gradients=True,
    runs_without_autograd=True,
    variants=(),
    repro=script("test_autograd_registration"),
    findings=FINDINGS,
    catches=(
        "Gradients that do not come from an Autograd registration. It needs a case with "
        "gradients; an op without a formula gets one for this check alone."
    ),
    cannot_see="Whether the gradients are right.",
    cost="calls",
)
