"""What the checks outside of the large families find."""

from __future__ import annotations

from .explanation import Explanation

_CUSTOM = "https://docs.pytorch.org/docs/stable/library.html"
_VMAP = "https://docs.pytorch.org/docs/stable/library.html#torch.library.register_vmap"
_FAKE = "https://docs.pytorch.org/docs/stable/library.html#torch.library.register_fake"
_AUTOGRAD = "https://docs.pytorch.org/docs/stable/library.html#torch.library.register_autograd"
_EXPORT = "https://docs.pytorch.org/docs/stable/export.html"

ENTRIES: dict[str, Explanation] = {
    "bad-input-accepted": Explanation(
        meaning="The op works on arguments that the mark's errors= says it refuses.",
        fix="Check the arguments in the kernel before anything is computed, and raise.",
        why=(
            "Whoever passes such arguments gets numbers that mean nothing in place of an error, far "
            "from where the mistake was made; a kernel in C++ or CUDA may read memory that is not "
            "the tensor's."
        ),
        before=(
            "def kernel(image):\n"
            "    return image[0] + image[1] + image[2]  # four channels: the last is ignored"
        ),
        after=(
            "def kernel(image):\n"
            "    if image.shape[0] != 3:\n"
            '        raise ValueError(f"three channels, not {image.shape[0]}")\n'
            "    return image[0] + image[1] + image[2]"
        ),
        docs=(_CUSTOM,),
    ),
    "error-differs": Explanation(
        meaning=(
            "The op refuses the arguments, with another type or message than the mark's errors= names."
        ),
        fix=(
            "Check the arguments before they are used and raise what is documented; or, if the error "
            "is good as it is, name it in the mark."
        ),
        why=(
            "An error that comes from somewhere inside the kernel says nothing about the argument "
            "that is wrong, and callers that catch the documented type do not catch it."
        ),
        before="def kernel(image):\n    return image[2] * 2  # IndexError: index 2 is out of bounds",
        after=(
            "def kernel(image):\n"
            "    if image.shape[0] != 3:\n"
            '        raise ValueError(f"three channels, not {image.shape[0]}")\n'
            "    return image[2] * 2"
        ),
        docs=(_CUSTOM,),
    ),
    "fake-accepts-bad-input": Explanation(
        meaning="The real kernel refuses these arguments, and the fake kernel takes them.",
        fix=(
            "Do in the fake kernel the checks that need shapes, dtypes, devices and numbers only, best "
            "in one function that both kernels call. If it is values that are wrong, say so: "
            "ErrorSample(..., data_dependent=True)."
        ),
        why=(
            "torch.compile and torch.export run the fake kernel alone. They go on tracing with a "
            "result that cannot be, and the mistake shows at run time, or in an op further on."
        ),
        before=(
            "@double_rows.register_fake\n"
            "def _(x):\n"
            "    return torch.empty_like(x)  # the real kernel raises unless x.dim() == 2"
        ),
        after=(
            "@double_rows.register_fake\n"
            "def _(x):\n"
            "    check_arguments(x)  # the real kernel calls it too\n"
            "    return torch.empty_like(x)"
        ),
        docs=(_FAKE,),
        follows=("bad-input-accepted",),
    ),
    "fake-error-differs": Explanation(
        meaning=(
            "The fake kernel refuses the arguments with another type or message than the mark's "
            "errors= names."
        ),
        fix=(
            "Call one function that checks the arguments from both kernels; or name both in the "
            "mark: raises=(ValueError, IndexError), match='one|other'."
        ),
        why=(
            "Under torch.compile the user reads the fake kernel's error. One that happened by chance "
            "says nothing about the argument that is wrong."
        ),
        before=(
            "@grey.register_fake\n"
            "def _(image):\n"
            "    channels, height, width = image.shape  # not enough values to unpack"
        ),
        after=(
            "@grey.register_fake\n"
            "def _(image):\n"
            "    check_arguments(image)  # the real kernel calls it too\n"
            "    channels, height, width = image.shape"
        ),
        docs=(_FAKE,),
        follows=("error-differs",),
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
        docs=(_FAKE,),
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
        docs=(_FAKE,),
    ),
    "reference-mismatch": Explanation(
        meaning=(
            "The op returns, or writes to a mutated argument, other values than the mark's reference."
        ),
        fix=(
            "Mend the kernel. If only rounding differs, give the mark tolerances=; if the reference is "
            "wrong, mend that."
        ),
        why="The op computes something else than its author says it does.",
        before="def kernel(x):\n    return torch.from_numpy(np.sin(x.numpy())) * 180 / np.pi",
        after="def kernel(x):\n    return torch.from_numpy(np.sin(x.numpy()))",
        docs=("https://docs.pytorch.org/docs/stable/testing.html",),
    ),
    "reference-gradient-mismatch": Explanation(
        meaning=(
            "For the same grad_output the op's backward gives another gradient than the mark's "
            "reference, or none where the reference has one."
        ),
        fix=(
            "Mend the backward formula, or the order in which it returns gradients: one an argument, "
            "None for those without."
        ),
        why=(
            "Training goes astray without an error. Where gradcheck is left out on purpose, as for a "
            "straight-through estimator, this is the check that holds the gradient to what was meant."
        ),
        before="def backward(ctx, grad):\n    return grad * (ctx.x.abs() < 1)  # meant: <= 1",
        after="def backward(ctx, grad):\n    return grad * (ctx.x.abs() <= 1)",
        docs=(_AUTOGRAD,),
        follows=("gradient-mismatch", "backward-raises"),
    ),
    "vmap-mismatch": Explanation(
        meaning="torch.vmap of the op gives other results than a loop over the batch.",
        fix=(
            "In the vmap rule, move each batched argument's dim to where the op wants it "
            "(x.movedim(in_dims[0], 0)), give unbatched arguments a dim of size 1, and return the dim "
            "that the output's batch really has."
        ),
        why=(
            "torch.vmap, torch.func.jacrev and per-sample gradients use the rule: they mix up samples "
            "without an error."
        ),
        before="def rule(info, in_dims, x, y):\n    return scale(x, y), 0  # in_dims is not looked at",
        after=(
            "def rule(info, in_dims, x, y):\n"
            "    x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x[None]\n"
            "    y = y.movedim(in_dims[1], 0) if in_dims[1] is not None else y[None]\n"
            "    return scale(x, y), 0"
        ),
        docs=(_VMAP, "https://docs.pytorch.org/docs/stable/generated/torch.vmap.html"),
    ),
    "vmap-raises": Explanation(
        meaning="The op's vmap rule raises on a batch whose single calls all work.",
        fix=(
            "Let the rule take every in_dims: None where an argument is not batched, and any dim where "
            "it is. What it does not support it can refuse with NotImplementedError."
        ),
        why="torch.vmap fails with an error from inside the rule, for a call that is right.",
        before="def rule(info, in_dims, x, y):\n    return scale(x, y.movedim(in_dims[1], 0)), 0",
        after=(
            "def rule(info, in_dims, x, y):\n"
            "    y = y if in_dims[1] is None else y.movedim(in_dims[1], 0)\n"
            "    ..."
        ),
        docs=(_VMAP,),
    ),
    "export-mismatch": Explanation(
        meaning=(
            "The program that torch.export makes of the op promises or gives something else than the "
            "op in eager mode, or cannot be made because the op's own code raises."
        ),
        fix=(
            "Do the same while exporting as at other times: no torch.compiler.is_exporting() that "
            "changes the result, in the kernel, the fake kernel or a Python implementation."
        ),
        why="What was exported is deployed, and differs from what was trained and tested.",
        before=(
            "def kernel(x):\n"
            "    if torch.compiler.is_exporting():\n"
            "        return x * torch.sigmoid(1.7 * x)  # the same, nearly\n"
            "    return torch.nn.functional.gelu(x)"
        ),
        after="def kernel(x):\n    return torch.nn.functional.gelu(x)",
        docs=(_EXPORT,),
        follows=("fake-raises", "fake-missing", "fake-shape-mismatch", "fake-dtype-mismatch"),
    ),
}
