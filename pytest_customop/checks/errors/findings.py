"""What `errors.*` find."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

FINDINGS: dict[str, Explanation] = {
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
        docs=(doc_links.LIBRARY,),
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
        docs=(doc_links.LIBRARY,),
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
        docs=(doc_links.REGISTER_FAKE,),
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
        docs=(doc_links.REGISTER_FAKE,),
        follows=("error-differs",),
    ),
}
