"""Findings that several checks of the family report."""

from __future__ import annotations

from ...findings import Explanation, doc_links

FINDINGS = {
    "fake-missing": Explanation(
        meaning=(
            "The op has no fake kernel, so torch.compile, torch.export and FakeTensorMode "
            "cannot trace it."
        ),
        why=(
            "A compiler runs a model once on tensors without data, to learn the shapes. "
            "Without a fake kernel it stops at this op: an error with fullgraph=True, a "
            "graph break without."
        ),
        fix=(
            "Register one: @my_op.register_fake (or torch.library.register_fake) on a "
            "function that returns empty tensors with the shape, strides, dtype and device "
            "of the real result."
        ),
        before="""
@torch.library.custom_op("mylib::scale", mutates_args=())
def scale(x: Tensor, factor: float) -> Tensor:
    return x * factor
""",
        after="""
@torch.library.custom_op("mylib::scale", mutates_args=())
def scale(x: Tensor, factor: float) -> Tensor:
    return x * factor

@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.FAKE_TENSOR),
    ),
    "fake-raises": Explanation(
        meaning="The fake kernel raises on arguments that the real kernel accepts.",
        why="A call that works in eager mode cannot be compiled or exported.",
        fix=(
            "Make the fake kernel accept what the real one accepts. It sees shapes, strides, "
            "dtypes and devices, never values: no .item(), no numpy, no branch on data."
        ),
        before="""
@first_rows.register_fake
def _(x, count):                      # count is a tensor
    return x.new_empty(count.item(), x.shape[1])
""",
        after="""
@first_rows.register_fake
def _(x, count):
    rows = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(rows, x.shape[1])
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.FAKE_TENSOR),
        follows=("signature-differs",),
    ),
    "fake-shape-mismatch": Explanation(
        meaning=(
            "The fake kernel returns a different shape, or a different number of outputs, than "
            "the real one."
        ),
        why=(
            "Compiled code allocates and indexes by the fake shape: it raises, or reads and "
            "writes memory that is not the output's."
        ),
        fix="Compute the output shape in the fake kernel from the inputs as the real kernel does.",
        before="""
@row_sums.register_fake
def _(x):
    return x.new_empty(x.shape[1])    # the real one sums over dim 1
""",
        after="""
@row_sums.register_fake
def _(x):
    return x.new_empty(x.shape[0])
""",
        docs=(doc_links.REGISTER_FAKE,),
        follows=("fake-size-ignores-data",),
    ),
    "fake-dtype-mismatch": Explanation(
        meaning="The fake kernel returns a different dtype than the real one.",
        why=(
            "The compiled code of the next op reads the memory as the fake dtype: wrong "
            "numbers, or an error far from the op."
        ),
        fix="Pass dtype= where the fake kernel creates its output, or convert in the real kernel.",
        before="""
@count.register_fake
def _(x):
    return x.new_empty(x.shape[0])    # the real one returns int64
""",
        after="""
@count.register_fake
def _(x):
    return x.new_empty(x.shape[0], dtype=torch.int64)
""",
        docs=(doc_links.REGISTER_FAKE,),
    ),
    "fake-device-mismatch": Explanation(
        meaning="The fake kernel returns a tensor on a different device than the real one.",
        why=(
            "Generated code runs on the device that the fake kernel returns, but gets memory "
            "on the other."
        ),
        fix=(
            "Create the output in the fake kernel on the device of the input "
            "(x.new_empty(...)), or move the real result back to it."
        ),
        before="""
@histogram.register_fake
def _(x, bins):
    return torch.empty(bins)          # on the CPU, wherever x is
""",
        after="""
@histogram.register_fake
def _(x, bins):
    return x.new_empty(bins)
""",
        docs=(doc_links.REGISTER_FAKE,),
    ),
    "fake-stride-mismatch": Explanation(
        meaning=(
            "The fake kernel returns different strides than the real one. Compiled code reads "
            "the memory by the fake strides: it raises, or computes on the wrong elements."
        ),
        why=(
            "Strides are part of what the compiler bakes into its code. Eager mode never "
            "runs the fake kernel, so nothing shows until a model that uses the op is "
            "compiled."
        ),
        fix=(
            "Return the real strides from the fake kernel, for instance with "
            "x.new_empty(...).permute(...) or torch.empty_strided; or end the real kernel "
            "with .contiguous() and return a contiguous fake."
        ),
        before="""
@torch.library.custom_op("mylib::paste", mutates_args=())
def paste(image: Tensor) -> Tensor:
    return to_tensor(to_picture(image))              # height, width, channels in memory

@paste.register_fake
def _(image):
    return torch.empty_like(image)                   # channels, height, width
""",
        after="""
@torch.library.custom_op("mylib::paste", mutates_args=())
def paste(image: Tensor) -> Tensor:
    return to_tensor(to_picture(image)).contiguous()

@paste.register_fake
def _(image):
    return image.new_empty(image.shape)
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.TENSOR_VIEWS),
    ),
    "fake-metadata-mismatch": Explanation(
        meaning=(
            "The fake kernel's output differs from the real one in layout, storage offset, "
            "requires_grad, or in a returned number."
        ),
        why="The compiler plans memory, views and gradients by what the fake kernel returns.",
        fix="Make the fake kernel return the same metadata as the real one.",
        before="""
@second_half.register_fake            # the real kernel returns a slice of a larger buffer
def _(x):
    return x.new_empty(x.shape[0] // 2)
""",
        after="""
@second_half.register_fake
def _(x):
    return x.new_empty(x.shape[0])[x.shape[0] - x.shape[0] // 2 :]
""",
        docs=(doc_links.REGISTER_FAKE,),
        follows=("outputs-share-storage",),
    ),
    "fake-alias-mismatch": Explanation(
        meaning=(
            "The real and the fake kernel disagree on which outputs share memory with which "
            "inputs or outputs."
        ),
        why=(
            "The compiler reuses memory that belongs to no other tensor according to the "
            "fake kernel. An in-place op on the output then changes the input, or vice versa."
        ),
        fix=(
            "Return fresh memory from both kernels, or a view of the same argument from both "
            "(which a schema must declare)."
        ),
        before="""
@torch.library.custom_op("mylib::dense", mutates_args=())
def dense(x: Tensor) -> Tensor:
    return x.contiguous()             # x itself, if it is contiguous already

@dense.register_fake
def _(x):
    return x.new_empty(x.shape)
""",
        after="""
@torch.library.custom_op("mylib::dense", mutates_args=())
def dense(x: Tensor) -> Tensor:
    return x.clone(memory_format=torch.contiguous_format)

@dense.register_fake
def _(x):
    return x.new_empty(x.shape)
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.CUSTOM_OP),
        follows=("undeclared-alias", "outputs-share-memory", "outputs-share-storage"),
    ),
}
