"""The catalogue of findings: a code, what it means, what to change.

It imports nothing of the package, so that the checks that report findings can be held to it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """One entry of the catalogue."""

    meaning: str
    fix: str


CATALOGUE: dict[str, Explanation] = {}


@dataclass(frozen=True)
class Finding:
    """What a failed check reports.

    Args:
        code: the entry of the catalogue, in kebab-case.
        message: one line: which output, argument or size, and what is wrong with it.
        evidence: the lines that show it: a table, the first differing element, a cut traceback.
        fix: what to change; None takes the catalogue's words.

    Raises:
        ValueError: for a code that is not in the catalogue and brings no fix of its own.
    """

    code: str
    message: str
    evidence: str = ""
    fix: str | None = None

    def __post_init__(self) -> None:
        if self.fix is None:
            if self.code not in CATALOGUE:
                raise ValueError(
                    f"finding {self.code!r} is not in the catalogue: give it a fix of its own"
                )
            object.__setattr__(self, "fix", CATALOGUE[self.code].fix)


class CheckFailed(Exception):
    """Raised by a check that found a defect."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.code}: {finding.message}")
        self.finding = finding


class CheckSkipped(Exception):
    """Raised by a check that had nothing to check, or could not judge.

    Args:
        code: the kind of reason, in kebab-case (`no-second-size`, `checker-limit`).
        reason: one or two sentences: why, and the way out if there is one.
        limit: True where the author could believe that the property was checked; such skips are
            listed one by one under the summary.
    """

    def __init__(self, code: str, reason: str, *, limit: bool = True) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason
        self.limit = limit


def fail(code: str, message: str, evidence: str = "", fix: str | None = None) -> CheckFailed:
    """The exception for a finding: `raise fail("fake-shape-mismatch", "output 0 ...", table)`."""
    return CheckFailed(Finding(code, message, evidence, fix))


def skip(code: str, reason: str, *, limit: bool = True) -> CheckSkipped:
    """The exception for a skip: `raise skip("not-smooth", "...")`."""
    return CheckSkipped(code, reason, limit=limit)


def _entry(code: str, meaning: str, fix: str) -> None:
    CATALOGUE[code] = Explanation(meaning, fix)


_entry(
    "eager-raises",
    "The op itself raises on this case, before any check looks at it.",
    "If these arguments are ones the op must take, mend the kernel; if it does not support them, "
    "take them out of the samples, or name the cells with skip_if=.",
)
_entry(
    "fake-missing",
    "The op has no fake kernel, so torch.compile, torch.export and FakeTensorMode cannot trace it.",
    "Register one: @my_op.register_fake (or torch.library.register_fake) on a function that returns "
    "empty tensors with the shape, strides, dtype and device of the real result.",
)
_entry(
    "fake-raises",
    "The fake kernel raises on arguments that the real kernel takes.",
    "Make the fake kernel accept what the real one accepts. It sees shapes, strides, dtypes and "
    "devices, never values: no .item(), no numpy, no branch on data.",
)
_entry(
    "fake-shape-mismatch",
    "The fake kernel returns another shape, or another number of outputs, than the real one.",
    "Compute the output shape in the fake kernel from the inputs as the real kernel does.",
)
_entry(
    "fake-stride-mismatch",
    "The fake kernel returns other strides than the real one. Compiled code reads the memory by the "
    "fake strides: it raises, or computes on the wrong elements.",
    "Return the real strides from the fake kernel, for instance with "
    "x.new_empty(...).permute(...) or torch.empty_strided; or end the real kernel with "
    ".contiguous() and return a contiguous fake.",
)
_entry(
    "fake-dtype-mismatch",
    "The fake kernel returns another dtype than the real one.",
    "Pass dtype= where the fake kernel creates its output, or convert in the real kernel.",
)
_entry(
    "fake-device-mismatch",
    "The fake kernel returns a tensor on another device than the real one.",
    "Create the output in the fake kernel on the device of the input (x.new_empty(...)), or move "
    "the real result back to it.",
)
_entry(
    "fake-metadata-mismatch",
    "The fake kernel's output differs from the real one in layout, storage offset, requires_grad, or "
    "in a returned number.",
    "Make the fake kernel return the same metadata as the real one.",
)
_entry(
    "fake-alias-mismatch",
    "Real and fake kernel disagree on which outputs share memory with which inputs or outputs.",
    "Return fresh memory from both kernels, or a view of the same argument from both (which a "
    "schema must declare).",
)
_entry(
    "fake-size-hardcoded",
    "The fake kernel returns a size taken from the example instead of computing it from its inputs.",
    "Compute the size from the inputs' shapes: x.shape[0], not the number it has today.",
)
_entry(
    "fake-size-specialised",
    "The fake kernel turns a symbolic size into a constant although the op works at other sizes: "
    "torch.compile then recompiles for each size, and torch.export refuses a dynamic dimension.",
    "Leave sizes symbolic in the fake kernel: no int(x.shape[i]), no comparison with the example's "
    "size, no torch.Size -> list of numbers; use the SymInt as it is.",
)
_entry(
    "fake-not-symbolic",
    "The fake kernel works on plain sizes and raises on symbolic ones.",
    "Write the fake kernel with operations that SymInt has: arithmetic, comparison, torch.sym_max, "
    "new_empty; not int(), range(), math.* or numpy on sizes.",
)
_entry(
    "undeclared-mutation",
    "The op writes to an argument that its schema does not declare as mutated.",
    "Name the argument in mutates_args= (or write Tensor(a!) in the schema), or copy it before "
    "writing.",
)
_entry(
    "undeclared-alias",
    "The op returns memory that it shares with an argument, and its schema does not say so.",
    "Return a copy: end the kernel with .clone().",
)
_entry(
    "autograd-registration",
    "Gradients come from somewhere else than an Autograd registration.",
    "Register the formula with torch.library.register_autograd; do not build it from "
    "torch.autograd.Function inside a CPU or CUDA kernel.",
)
_entry(
    "opcheck-failure",
    "A torch.library.opcheck utility failed with a message that is given as it is.",
    "Read the message; it is torch's.",
)
_entry(
    "compile-graph-break",
    "torch.compile(fullgraph=True) cannot trace the call without a graph break.",
    "Register what the tracer misses (usually a fake kernel), and call the op through torch.ops "
    "or its CustomOpDef, not through a Python wrapper that looks at data.",
)
_entry(
    "compile-error",
    "The op works in eager mode and raises when it is compiled.",
    "Read the cut traceback below the message; a fake kernel that does not tell the truth is the "
    "usual cause.",
)
_entry(
    "compile-stride-assert",
    "Compiled code found that the op returned other strides than its fake kernel promised.",
    "Mend the strides of the fake kernel of the op that the message names; for one that the "
    "backward calls, fake.backward shows the row.",
)
_entry(
    "compile-output-mismatch",
    "The compiled op returns other values than the eager one.",
    "Look for a fake kernel with other strides or dtypes than the real one, an argument that is "
    "mutated and not declared, or an output that shares memory with an input.",
)
_entry(
    "compile-mutation-mismatch",
    "After the compiled call a mutated argument holds other values than after the eager call.",
    "Declare every argument that the op writes to (mutates_args=, Tensor(a!)), and only those.",
)
_entry(
    "compile-gradient-mismatch",
    "The compiled op gives other gradients than the eager one, or None in place of one.",
    "Write the backward with ops that torch.compile can trace, without side effects, and with fake "
    "kernels that are right for every op it calls.",
)
_entry(
    "compile-recompiles",
    "A size that does not have to be constant was made one, so that another size compiles again.",
    "Leave sizes symbolic in the fake kernel and in the backward: no int(x.shape[i]).",
)
_entry(
    "gradient-mismatch",
    "The gradients of the autograd formula are not the ones that finite differences give.",
    "Derive the formula again for the input named; check that gradients are returned in the order "
    "of the arguments, and that complex gradients are conjugated as torch expects.",
)
_entry(
    "gradient-missing",
    "The backward returns None, or zeros, for an input that the output depends on.",
    "Return the gradient of that input from the backward; None is for inputs that need none.",
)
_entry(
    "gradient-of-a-step-function",
    "Finite differences are zero and the formula's gradient is not: at this step size the op is "
    "constant, as an op that rounds to a grid is.",
    "If the op rounds (8-bit images, quantisation), compare on its grid: "
    "gradcheck=GradOptions(eps=<a multiple of the step>) with inputs on the grid, or give a reason "
    "to leave it out; if it should not round, compute in floating point.",
)
_entry(
    "second-order-gradient-mismatch",
    "Gradients of gradients are not the ones that finite differences of the first-order ones give.",
    "Differentiate the backward again: every tensor that it uses must be saved with "
    "ctx.save_for_backward, and every op it calls needs a right formula of its own.",
)
_entry(
    "backward-raises",
    "The backward raises although the forward worked.",
    "Mend the backward; the cut traceback shows where.",
)
_entry(
    "backward-not-linear",
    "The backward is not linear in grad_output, as every vector-Jacobian product is: scaling or "
    "adding up grad_outputs must scale or add up the gradients.",
    "Compute the gradient from grad_output by sums and products with values saved in forward; no "
    "rounding, clamping or 8-bit images on the way, and no constant in place of grad_output.",
)
