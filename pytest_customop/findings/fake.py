"""What `fake.*` find: the fake kernel beside the real one."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {
    "fake-missing": Explanation(
        meaning=(
            "The op has no fake kernel, so torch.compile, torch.export and FakeTensorMode "
            "cannot trace it."
        ),
        fix=(
            "Register one: @my_op.register_fake (or torch.library.register_fake) on a "
            "function that returns empty tensors with the shape, strides, dtype and device of "
            "the real result."
        ),
    ),
    "fake-raises": Explanation(
        meaning=("The fake kernel raises on arguments that the real kernel takes."),
        fix=(
            "Make the fake kernel accept what the real one accepts. It sees shapes, strides, "
            "dtypes and devices, never values: no .item(), no numpy, no branch on data."
        ),
    ),
    "fake-shape-mismatch": Explanation(
        meaning=(
            "The fake kernel returns another shape, or another number of outputs, than the "
            "real one."
        ),
        fix=(
            "Compute the output shape in the fake kernel from the inputs as the real kernel does."
        ),
    ),
    "fake-stride-mismatch": Explanation(
        meaning=(
            "The fake kernel returns other strides than the real one. Compiled code reads the "
            "memory by the fake strides: it raises, or computes on the wrong elements."
        ),
        fix=(
            "Return the real strides from the fake kernel, for instance with "
            "x.new_empty(...).permute(...) or torch.empty_strided; or end the real kernel "
            "with .contiguous() and return a contiguous fake."
        ),
    ),
    "fake-dtype-mismatch": Explanation(
        meaning=("The fake kernel returns another dtype than the real one."),
        fix=(
            "Pass dtype= where the fake kernel creates its output, or convert in the real kernel."
        ),
    ),
    "fake-device-mismatch": Explanation(
        meaning=("The fake kernel returns a tensor on another device than the real one."),
        fix=(
            "Create the output in the fake kernel on the device of the input "
            "(x.new_empty(...)), or move the real result back to it."
        ),
    ),
    "fake-metadata-mismatch": Explanation(
        meaning=(
            "The fake kernel's output differs from the real one in layout, storage offset, "
            "requires_grad, or in a returned number."
        ),
        fix=("Make the fake kernel return the same metadata as the real one."),
    ),
    "fake-alias-mismatch": Explanation(
        meaning=(
            "Real and fake kernel disagree on which outputs share memory with which inputs or "
            "outputs."
        ),
        fix=(
            "Return fresh memory from both kernels, or a view of the same argument from both "
            "(which a schema must declare)."
        ),
    ),
    "fake-size-hardcoded": Explanation(
        meaning=(
            "The fake kernel returns a size taken from the example instead of computing it "
            "from its inputs."
        ),
        fix=("Compute the size from the inputs' shapes: x.shape[0], not the number it has today."),
    ),
    "fake-size-specialised": Explanation(
        meaning=(
            "The fake kernel turns a symbolic size into a constant although the op works at "
            "other sizes: torch.compile then recompiles for each size, and torch.export "
            "refuses a dynamic dimension."
        ),
        fix=(
            "Leave sizes symbolic in the fake kernel: no int(x.shape[i]), no comparison with "
            "the example's size, no torch.Size -> list of numbers; use the SymInt as it is."
        ),
    ),
    "fake-not-symbolic": Explanation(
        meaning=("The fake kernel works on plain sizes and raises on symbolic ones."),
        fix=(
            "Write the fake kernel with operations that SymInt has: arithmetic, comparison, "
            "torch.sym_max, new_empty; not int(), range(), math.* or numpy on sizes."
        ),
    ),
}
