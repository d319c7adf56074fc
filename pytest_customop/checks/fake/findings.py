"""What `fake.*` find: the fake kernel beside the real one."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

FINDINGS: dict[str, Explanation] = {
    "fake-missing": Explanation(
        meaning=(
            "The op has no fake kernel, so torch.compile, torch.export and FakeTensorMode cannot "
            "trace it."
        ),
        why=(
            "A compiler runs a model once on tensors without data, to learn the shapes. Without a "
            "fake kernel it stops at this op: an error with fullgraph=True, a graph break without."
        ),
        fix=(
            "Register one: @my_op.register_fake (or torch.library.register_fake) on a function that "
            "returns empty tensors with the shape, strides, dtype and device of the real result."
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
        meaning="The fake kernel raises on arguments that the real kernel takes.",
        why="What works in eager mode cannot be compiled or exported.",
        fix=(
            "Make the fake kernel accept what the real one accepts. It sees shapes, strides, dtypes "
            "and devices, never values: no .item(), no numpy, no branch on data."
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
    ),
    "fake-shape-mismatch": Explanation(
        meaning=(
            "The fake kernel returns another shape, or another number of outputs, than the real "
            "one."
        ),
        why=(
            "Compiled code allocates and indexes by the fake shape: it raises, or reads and writes "
            "memory that is not the output's."
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
    ),
    "fake-dtype-mismatch": Explanation(
        meaning="The fake kernel returns another dtype than the real one.",
        why=(
            "The code that is compiled for the next op reads the memory as the fake dtype: wrong "
            "numbers, or an error far from the op."
        ),
        fix=(
            "Pass dtype= where the fake kernel creates its output, or convert in the real kernel."
        ),
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
        meaning="The fake kernel returns a tensor on another device than the real one.",
        why=(
            "Generated code runs on the device that the fake kernel names, and is given memory of "
            "the other."
        ),
        fix=(
            "Create the output in the fake kernel on the device of the input (x.new_empty(...)), or "
            "move the real result back to it."
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
            "The fake kernel returns other strides than the real one. Compiled code reads the "
            "memory by the fake strides: it raises, or computes on the wrong elements."
        ),
        why=(
            "Strides are part of what the compiler bakes into its code. Eager mode never looks at "
            "the fake kernel, so nothing shows until somebody compiles a model that uses the op."
        ),
        fix=(
            "Return the real strides from the fake kernel, for instance with "
            "x.new_empty(...).permute(...) or torch.empty_strided; or end the real kernel with "
            ".contiguous() and return a contiguous fake."
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
    ),
    "fake-alias-mismatch": Explanation(
        meaning=(
            "Real and fake kernel disagree on which outputs share memory with which inputs or "
            "outputs."
        ),
        why=(
            "The compiler reuses memory that the fake kernel says is nobody else's; an in-place op "
            "on the output then changes the input, or the other way round."
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
        follows=("undeclared-alias",),
    ),
    "fake-size-hardcoded": Explanation(
        meaning=(
            "The fake kernel returns a size taken from the example instead of computing it from its "
            "inputs."
        ),
        why="It is right at this size and wrong at every other: a batch of another size breaks.",
        fix="Compute the size from the inputs' shapes: x.shape[0], not the number it has today.",
        before="""
@embed.register_fake
def _(x, table):
    return table.new_empty(32, 64)
""",
        after="""
@embed.register_fake
def _(x, table):
    return table.new_empty(x.shape[0], table.shape[1])
""",
        docs=(doc_links.REGISTER_FAKE, doc_links.DYNAMIC_SHAPES),
        follows=("fake-shape-mismatch",),
    ),
    "fake-size-specialized": Explanation(
        meaning=(
            "The fake kernel turns a symbolic size into a constant although the op works at other "
            "sizes: torch.compile then recompiles for each size, and torch.export refuses a dynamic "
            "dimension."
        ),
        why=(
            "Models whose batch or sequence length varies compile again and again, until dynamo's "
            "recompile limit is reached and the rest runs uncompiled."
        ),
        fix=(
            "Leave sizes symbolic in the fake kernel: no int(x.shape[i]), no comparison with the "
            "example's size, no torch.Size -> list of numbers; use the SymInt as it is."
        ),
        before="""
@pad.register_fake
def _(x, by):
    return x.new_empty(int(x.shape[0]) + by)
""",
        after="""
@pad.register_fake
def _(x, by):
    return x.new_empty(x.shape[0] + by)
""",
        docs=(doc_links.DYNAMIC_SHAPES, doc_links.EXPORT),
    ),
    "fake-not-symbolic": Explanation(
        meaning="The fake kernel works on plain sizes and raises on symbolic ones.",
        why=(
            "torch.compile makes sizes symbolic as soon as it sees a second one, and torch.export "
            "for every dynamic dimension: both then fail inside the fake kernel."
        ),
        fix=(
            "Write the fake kernel with operations that SymInt has: arithmetic, comparison, "
            "torch.sym_max, new_empty; not int(), range(), math.* or numpy on sizes."
        ),
        before="""
@halve.register_fake
def _(x):
    return x.new_empty(math.ceil(x.shape[0] / 2))
""",
        after="""
@halve.register_fake
def _(x):
    return x.new_empty((x.shape[0] + 1) // 2)
""",
        docs=(doc_links.DYNAMIC_SHAPES, doc_links.REGISTER_FAKE),
        follows=("fake-raises", "fake-missing"),
    ),
    "fake-size-ignores-data": Explanation(
        meaning=(
            "How large an output is depends on the values of the inputs, and the fake kernel says a "
            "fixed size."
        ),
        fix=(
            "Ask for a size that is not known yet: torch.library.get_ctx().new_dynamic_size(). Or let "
            "the real kernel return the fixed size, padded."
        ),
        why=(
            "The fixed size happens to be right for the sample. For other values compiled code reads "
            "past the end of the output, or raises."
        ),
        before="@positives.register_fake\ndef _(x):\n    return x.new_empty(x.numel())",
        after=(
            "@positives.register_fake\n"
            "def _(x):\n"
            "    count = torch.library.get_ctx().new_dynamic_size()\n"
            "    return x.new_empty(count)"
        ),
        docs=(doc_links.REGISTER_FAKE,),
    ),
    "fake-size-range": Explanation(
        meaning=(
            "The fake kernel promises a range for a size that depends on data, and the real size can "
            "be outside of it."
        ),
        fix=(
            "Promise what is true: new_dynamic_size(min=0), which is the default, unless the op "
            "really never returns so few; and a max only if there is one."
        ),
        why=(
            "torch.compile builds on the promise: branches for empty outputs are left out, and with "
            "no hits, or with one, the code that stays is wrong or raises at run time."
        ),
        before="count = torch.library.get_ctx().new_dynamic_size(min=2)",
        after="count = torch.library.get_ctx().new_dynamic_size()  # none and one are possible",
        docs=(doc_links.REGISTER_FAKE,),
    ),
}
