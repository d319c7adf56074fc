"""What `values.*` find: results and memory in eager mode."""

from __future__ import annotations

from ...findings import doc_links
from ...findings.explanation import Explanation

_MUTATION = (
    "https://docs.pytorch.org/docs/stable/library.html",
    "https://docs.pytorch.org/tutorials/advanced/python_custom_ops.html",
)
_LIBRARY = ("https://docs.pytorch.org/docs/stable/library.html",)

FINDINGS: dict[str, Explanation] = {
    "undeclared-mutation": Explanation(
        meaning="The op writes to an argument that its schema does not declare as mutated.",
        why=(
            "Autograd and the compiler believe the schema: saved tensors are stale without an error, "
            "and compiled code reorders or drops the write."
        ),
        fix=(
            "Name the argument in mutates_args= (or write Tensor(a!) in the schema), or copy it "
            "before writing."
        ),
        before="""
@torch.library.custom_op("mylib::center", mutates_args=())
def center(x: Tensor, mean: Tensor) -> Tensor:
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - mean
""",
        after="""
@torch.library.custom_op("mylib::center", mutates_args={"mean"})
def center(x: Tensor, mean: Tensor) -> Tensor:
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - mean
""",
        docs=(doc_links.CUSTOM_OP, doc_links.OPCHECK),
    ),
    "undeclared-alias": Explanation(
        meaning=(
            "The op returns memory that it shares with an argument or with another output, and its "
            "schema does not say so."
        ),
        why=(
            "An in-place op on the result changes the input as well; compiled code, which takes the "
            "two for different memory, gives other numbers than eager mode."
        ),
        fix="Return a copy: end the kernel with .clone().",
        before="""
@torch.library.custom_op("mylib::flat", mutates_args=())
def flat(x: Tensor) -> Tensor:
    return x.reshape(-1)              # a view of x, if x is contiguous
""",
        after="""
@torch.library.custom_op("mylib::flat", mutates_args=())
def flat(x: Tensor) -> Tensor:
    return x.reshape(-1).clone()
""",
        docs=(doc_links.CUSTOM_OP, doc_links.TENSOR_VIEWS),
    ),
    "outputs-not-repeatable": Explanation(
        meaning="Called twice with equal inputs, the op gives different values.",
        fix=(
            "Compute from the arguments alone: no counter, clock or cache in the kernel. If the "
            "order of additions varies (atomics), or random numbers are wanted, define the op with "
            "tags=(torch.Tag.nondeterministic_seeded,)."
        ),
        why=(
            "Without the tag torch may run the op twice in place of keeping its result (activation "
            "checkpointing, recomputation in torch.compile), or once in place of twice. Gradients "
            "are then those of another forward."
        ),
        before=(
            "_calls = 0\n"
            '@torch.library.custom_op("my::noise", mutates_args=())\n'
            "def noise(x: Tensor) -> Tensor:\n"
            "    global _calls\n"
            "    _calls += 1\n"
            "    return x + _calls"
        ),
        after=(
            '@torch.library.custom_op("my::noise", mutates_args=())\n'
            "def noise(x: Tensor, step: int) -> Tensor:\n"
            "    return x + step"
        ),
        docs=("https://docs.pytorch.org/docs/stable/notes/randomness.html", *_LIBRARY),
        follows=("rng-undeclared", "rng-reseeded", "uninitialized-output", "output-memory-reused"),
    ),
    "output-memory-reused": Explanation(
        meaning=(
            "An output lies in memory that the op uses again: a later call overwrites it, or "
            "returns the same memory."
        ),
        fix="Allocate every output anew, or return workspace.clone().",
        why=(
            "Whoever keeps an output (autograd does, for the backward) finds the values of a later "
            "call in it. Loops, recurrent networks and multi-stream code break silently."
        ),
        before="out = _workspace[: x.numel()]\ntorch.mul(x.flatten(), 2, out=out)\nreturn out",
        after="out = x.new_empty(x.numel())\ntorch.mul(x.flatten(), 2, out=out)\nreturn out",
        docs=_MUTATION,
    ),
    "stale-result": Explanation(
        meaning=(
            "After an input was changed in place, the op still gives the result for its old values."
        ),
        fix=(
            "Do not remember results by data pointer or id(): both stay the same through an "
            "in-place change and are given to other tensors later. Prepare in an op of its own, and "
            "pass what it returns as an argument."
        ),
        why=(
            "An optimizer changes weights in place; the op then computes with the weights of the "
            "first step. A freed tensor's address is also given to the next one."
        ),
        before=(
            "key = weight.data_ptr()\n"
            "if key not in _packed:\n"
            "    _packed[key] = pack(weight)\n"
            "return x @ _packed[key]"
        ),
        after="return x @ pack(weight)",
        docs=_LIBRARY,
    ),
    "uninitialized-output": Explanation(
        meaning="The op returns, or computes with, memory that it allocated and never wrote to.",
        fix=(
            "Write every element of what torch.empty, new_empty or numpy.empty gives, also where a "
            "mask is off, a value is NaN or a row is left over; or allocate zeros."
        ),
        why=(
            "The values are whatever lay there before: right in a fresh process, where the system "
            "hands out zeros, and wrong later."
        ),
        before="out = torch.empty_like(x)\nout[x > 0] = x[x > 0].sqrt()\nreturn out",
        after="out = torch.zeros_like(x)\nout[x > 0] = x[x > 0].sqrt()\nreturn out",
        docs=(
            "https://docs.pytorch.org/docs/stable/deterministic.html",
            "https://docs.pytorch.org/docs/stable/generated/torch.empty.html",
        ),
    ),
    "outputs-share-memory": Explanation(
        meaning="Two outputs, or two elements of a returned list, share memory.",
        fix="Return tensors of their own: [part.clone() for part in parts], not one tensor twice.",
        why=(
            "The schema says that every output is fresh. An in-place operation on one changes the "
            "other, in eager mode and not in compiled code."
        ),
        before="y = x * 2\nreturn [y, y]",
        after="y = x * 2\nreturn [y, y.clone()]",
        docs=_MUTATION,
    ),
    "write-outside-elements": Explanation(
        meaning=(
            "The op writes to memory of an argument's storage that is none of the argument's "
            "elements: before it, after it, or between its rows."
        ),
        fix=(
            "Address elements by the tensor's strides, or copy to a contiguous tensor, compute, and "
            "copy_ back; stop at numel(), not at the end of the storage."
        ),
        why=(
            "A view's storage belongs to other tensors too: writing past a slice changes the rest "
            "of the batch. On the last tensor of a storage it corrupts the heap."
        ),
        before="flat = out.as_strided((out.numel(),), (1,))\nflat.copy_(result.flatten())",
        after="out.copy_(result)",
        docs=("https://docs.pytorch.org/docs/stable/tensor_view.html",),
    ),
    "mutation-missing": Explanation(
        meaning=(
            "The schema declares that an argument is written to, and the op leaves it as it was."
        ),
        fix=(
            "Write into the argument (x.copy_(result), not x = result); or take it out of "
            "mutates_args= (or the (a!) out of the schema)."
        ),
        why=(
            "Callers wait for a result that never comes; and torch.compile copies the argument "
            "around the call and orders other ops after it."
        ),
        before=(
            '@torch.library.custom_op("my::scale_", mutates_args={"x"})\n'
            "def scale_(x: Tensor, factor: float) -> None:\n"
            "    x = x * factor"
        ),
        after=(
            '@torch.library.custom_op("my::scale_", mutates_args={"x"})\n'
            "def scale_(x: Tensor, factor: float) -> None:\n"
            "    x.mul_(factor)"
        ),
        docs=_MUTATION,
    ),
    "version-not-bumped": Explanation(
        meaning=(
            "The op writes to an argument through raw memory (a pointer, numpy, .data), and the "
            "argument's version counter does not move."
        ),
        fix=(
            "Call torch.autograd.graph.increment_version(x) after the write (in C++ "
            "torch::autograd::increment_version), or define the op with torch.library.custom_op "
            "and mutates_args=, which does so."
        ),
        why=(
            "Autograd notices a saved tensor that was changed by its version. Without it, the "
            "backward of an earlier op computes with the new values, and says nothing."
        ),
        before='lib.impl("scale_", lambda x: x.numpy().__imul__(2) and None, "CPU")',
        after=(
            "def scale_(x):\n"
            "    x.numpy()[...] *= 2\n"
            "    torch.autograd.graph.increment_version(x)\n"
            'lib.impl("scale_", scale_, "CPU")'
        ),
        docs=(
            "https://docs.pytorch.org/docs/stable/autograd.html",
            "https://docs.pytorch.org/docs/stable/notes/autograd.html",
        ),
    ),
    "layout-dependent-result": Explanation(
        meaning=(
            "For the same values in another memory layout (other strides, an offset, padding, "
            "stride 0, a conjugate bit) the op gives other results, or writes them elsewhere."
        ),
        fix=(
            "Start the kernel with x = x.contiguous() (and copy_ back what is written), address "
            "elements by strides and storage_offset(), or raise for layouts that it cannot take."
        ),
        why=(
            "Slices, transposes and channels_last reach the op from ordinary code, and torch.compile "
            "chooses layouts by itself: the op then computes on the wrong elements."
        ),
        before="flat = torch.frombuffer(memory_of(x), dtype=x.dtype)  # assumes contiguous",
        after="x = x.contiguous()\nflat = torch.frombuffer(memory_of(x), dtype=x.dtype)",
        docs=(
            "https://docs.pytorch.org/docs/stable/tensor_view.html",
            "https://docs.pytorch.org/docs/stable/tensor_attributes.html",
        ),
        follows=("stale-result", "uninitialized-output", "write-outside-elements"),
    ),
    "same-tensor-result": Explanation(
        meaning=(
            "With one tensor in the place of two arguments the op gives other values than with a "
            "tensor and its copy."
        ),
        fix=(
            "Do not tell arguments apart by identity or address (a dict keyed by tensor, `a is b`), "
            "and do not use the memory of one as scratch for another."
        ),
        why="f(x, x) is ordinary code: a squared norm, self-attention, a distance to itself.",
        before="sizes = {id(a): 1.0, id(b): 2.0}\nreturn a * sizes[id(a)] + b * sizes[id(b)]",
        after="return a * 1.0 + b * 2.0",
        docs=_LIBRARY,
        follows=("stale-result", "undeclared-mutation"),
    ),
    "default-differs": Explanation(
        meaning=(
            "A Python kernel, or the fake kernel, has another default for an argument than the "
            "schema, or none."
        ),
        fix="Give the kernel's parameter the default that the schema has.",
        why=(
            "torch leaves out trailing arguments that equal the schema's default when it calls a "
            "Python kernel, also if the caller named them. The kernel's own default then decides, "
            "without a word."
        ),
        before=(
            'lib.define("scale(Tensor x, float factor=0.5) -> Tensor")\n'
            "def scale_fake(x, factor):\n"
            "    return torch.empty_like(x)"
        ),
        after=(
            'lib.define("scale(Tensor x, float factor=0.5) -> Tensor")\n'
            "def scale_fake(x, factor=0.5):\n"
            "    return torch.empty_like(x)"
        ),
        docs=_LIBRARY,
    ),
}
