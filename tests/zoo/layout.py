"""Ops whose results depend on where in memory their arguments lie."""

import functools

import torch
from torch import Tensor

from pytest_customop import tensor

from .memory import library_op
from .registry import library, specimen

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 3)
IMAGE = tensor(2, 3, 4, 4)
FOUND = {"values.layouts": "layout-dependent-result"}


def dense(x):
    """The strides that a contiguous tensor of this shape has."""
    return x.new_empty(x.shape, device="meta").stride()


def op(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        return kernel(x)

    operator.register_fake(lambda x: x.new_empty(x.shape))
    return operator


@aot((MATRIX,), expected=FOUND)
def takes_memory_for_contiguous():
    """Reads its argument as if it were contiguous."""
    return op("takes_memory_for_contiguous", lambda x: x.as_strided(x.shape, dense(x)) * 2)


def _after_infinities(name, rows):
    """`rows(x)`, with -inf in the first column."""

    def kernel(x):
        result = rows(x) * 2
        result[..., :1] = -torch.inf
        return result

    return op(name, kernel)


@aot((MATRIX,), expected=FOUND)
def takes_memory_for_contiguous_beside_infinities():
    """Takes its argument for contiguous, and gives -inf in the first column in any layout."""
    name = "takes_memory_for_contiguous_beside_infinities"
    return _after_infinities(name, lambda x: x.as_strided(x.shape, dense(x)))


@aot((MATRIX,), twin_of="takes_memory_for_contiguous_beside_infinities")
def takes_any_memory_beside_infinities():
    """Gives -inf in the first column, and the rest from where it lies."""
    return _after_infinities("takes_any_memory_beside_infinities", torch.Tensor.contiguous)


@aot((MATRIX,), expected=FOUND)
def forgets_the_storage_offset():
    """Reads from the start of the storage."""
    kernel = lambda x: x.as_strided(x.shape, x.stride(), 0).contiguous() * 2  # noqa: E731
    return op("forgets_the_storage_offset", kernel)


def _boxes(name, read):
    """The area of each box `(image, x0, y0, x1, y1)`; raises for an image that is not 0 or 1."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def areas(boxes: Tensor) -> Tensor:
        if boxes.dim() != 2 or boxes.shape[1] != 5:
            raise ValueError("five numbers for each box, please")
        values = read(boxes.detach())
        if not ((values[:, 0] == 0) | (values[:, 0] == 1)).all():
            raise IndexError("the image of a box is out of range")
        return (values[:, 3] - values[:, 1]) * (values[:, 4] - values[:, 2])

    areas.register_fake(lambda boxes: boxes.new_empty(boxes.shape[:1]))
    return areas


NO_SIZE = {"fake.symbolic": "no-second-size"}  # no box is left out, and none has more numbers
BOXES = tensor(values=[[0.0, 2.0, 3.0, 5.0, 7.0], [1.0, 4.0, 2.0, 6.0, 9.0]])


@aot((BOXES,), expected=FOUND, skips=NO_SIZE)
def reads_images_from_wrong_places():
    """Takes boxes for contiguous, and raises for the images that it reads then."""
    return _boxes("reads_images_from_wrong_places", lambda x: x.as_strided(x.shape, dense(x)))


@aot((BOXES,), twin_of="reads_images_from_wrong_places", skips=NO_SIZE)
def reads_images_by_strides():
    """Takes boxes in any layout."""
    return _boxes("reads_images_by_strides", lambda x: x)


@aot((BOXES,), skips=NO_SIZE)
def rejects_boxes_with_gaps():
    """Correct: raises for boxes that are not contiguous."""

    def read(x):
        if not x.is_contiguous():
            raise ValueError("gaps are not supported")
        return x

    return _boxes("rejects_boxes_with_gaps", read)


@aot((MATRIX,), expected=FOUND)
def reads_the_padding_of_rows():
    """Subtracts the largest element of each row, which it takes to be as long as its stride."""

    def kernel(x):
        x = x if x.stride(1) == 1 and x.stride(0) >= x.shape[1] else x.contiguous()
        rows = x.as_strided((x.shape[0], x.stride(0)), (x.stride(0), 1))
        return x - rows.amax(1, keepdim=True)

    return op("reads_the_padding_of_rows", kernel)


@aot((MATRIX,), expected=FOUND)
def counts_expanded_rows_once():
    """Reads rows that stride 0 repeats once, and forgets how many there are."""

    def kernel(x):
        total = x.narrow(0, 0, 1) if x.stride(0) == 0 else x
        return x.contiguous() - total.sum()

    return op("counts_expanded_rows_once", kernel)


@aot((IMAGE,), expected=FOUND)
def takes_channels_last_for_contiguous():
    """Has a fast path for dense memory in any order, that takes the order for the usual one."""

    def kernel(x):
        if x.is_contiguous(memory_format=torch.channels_last):
            return x.as_strided(x.shape, dense(x)).clone() * 2
        return x.contiguous() * 2

    return op("takes_channels_last_for_contiguous", kernel)


@aot((IMAGE,), (MATRIX,), layouts=["contiguous", "row_padded", "channels_last", "expanded"])
def refuses_what_is_not_contiguous():
    """Correct: raises for memory that it cannot read, but for the layouts of its samples."""

    def kernel(x):
        if x.dim() == 2 and x.stride(-1) not in (0, 1):
            raise ValueError("contiguous rows, please")
        return x.contiguous() * 2

    return op("refuses_what_is_not_contiguous", kernel)


def _bits(name, kernel, key):
    operator = library_op(
        name,
        "(Tensor x) -> Tensor",
        kernel,
        lambda x: x.new_empty(x.shape),
    )
    library().impl(name, torch.library.fallthrough_kernel, key)
    return operator


def _memory(x):
    """What lies in memory, whatever the conjugate and negative bits say."""
    raw = torch.empty(0, dtype=x.dtype)
    return raw.set_(x.untyped_storage(), x.storage_offset(), x.shape, x.stride())


def _double_of_memory(x):
    return _memory(x).contiguous() * 2


@aot((MATRIX,), dtypes=[torch.complex64], expected=FOUND)
def ignores_the_conjugate_bit():
    """Asks for tensors with the conjugate bit, and reads memory without looking at it."""
    return _bits("ignores_the_conjugate_bit", _double_of_memory, "Conjugate")


@aot((MATRIX,), expected=FOUND)
def ignores_the_negative_bit():
    """Asks for tensors with the negative bit, and reads memory without looking at it."""
    return _bits("ignores_the_negative_bit", _double_of_memory, "Negative")


@aot(
    (MATRIX,),
    (IMAGE,),
    (tensor(4, 3, dtype=torch.complex64),),
    twin_of=(
        "takes_memory_for_contiguous",
        "forgets_the_storage_offset",
        "reads_the_padding_of_rows",
        "counts_expanded_rows_once",
        "takes_channels_last_for_contiguous",
        "ignores_the_conjugate_bit",
        "ignores_the_negative_bit",
    ),
)
def resolves_every_bit():
    """Asks for tensors with the conjugate bit, and takes any memory."""
    kernel = lambda x: x.resolve_conj().resolve_neg().contiguous() * 2  # noqa: E731
    return _bits("resolves_every_bit", kernel, "Conjugate")


def _sum(name, second):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(a: Tensor, b: Tensor) -> Tensor:
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError("tensors of one shape and dtype, please")
        return a.contiguous() + second(a, b)

    operator.register_fake(lambda a, b: a.new_empty(a.shape))
    return operator


@aot((MATRIX, MATRIX), expected=FOUND)
def takes_the_strides_of_the_first():
    """Reads its second argument by the strides of the first."""
    return _sum("takes_the_strides_of_the_first", lambda a, b: b.as_strided(b.shape, a.stride()))


@aot((MATRIX, MATRIX), twin_of="takes_the_strides_of_the_first")
def takes_the_strides_of_each():
    """Reads each argument by its own strides."""
    return _sum("takes_the_strides_of_each", lambda a, b: b)


def _into(name, kernel):
    @torch.library.custom_op(f"zoo::{name}", mutates_args={"out"})
    def operator(x: Tensor, out: Tensor) -> None:
        kernel(x, out)

    operator.register_fake(lambda x, out: None)
    return operator


@aot(
    (MATRIX, MATRIX),
    expected={**FOUND, "values.mutation": "write-outside-elements"},
)
def writes_as_if_contiguous():
    """Writes its result as if the output buffer were contiguous."""
    return _into(
        "writes_as_if_contiguous", lambda x, out: out.as_strided(x.shape, dense(x)).copy_(x)
    )


@aot((MATRIX, MATRIX), expected=FOUND)
def writes_to_a_contiguous_copy():
    """Makes the output buffer contiguous, and so writes to a copy if it is not."""
    return _into("writes_to_a_contiguous_copy", lambda x, out: out.contiguous().copy_(x))


@aot(
    (MATRIX, MATRIX),
    (IMAGE, IMAGE),
    layouts=["contiguous", "channels_last"],
    twin_of=("writes_as_if_contiguous", "writes_to_a_contiguous_copy"),
)
def writes_by_strides():
    """Writes its result by the strides of the output buffer."""
    return _into("writes_by_strides", lambda x, out: out.copy_(x))


def _packed(name, rows):
    """Bytes of each row of numbers, in 256 levels, behind those of the smallest number and of the step."""

    def kernel(x):
        if x.dim() != 2 or x.dtype != torch.float32 or not x.numel():
            raise TypeError("rows of float32, please")
        x = rows(x)
        low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
        step = ((high - low) / 255).clamp(min=1e-30)
        levels = ((x - low) / step).round().to(torch.uint8)
        return torch.cat([torch.cat([low, step], 1).view(torch.uint8), levels], 1)

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def packed(x: Tensor) -> Tensor:
        return kernel(x)

    packed.register_fake(lambda x: x.new_empty((x.shape[0], x.shape[1] + 8), dtype=torch.uint8))
    return packed


@aot((tensor(4, 6),), dtypes=[torch.float32], expected=FOUND)
def packs_memory_taken_for_rows():
    """Packs numbers as bytes, in the order in which they lie in memory."""
    return _packed("packs_memory_taken_for_rows", lambda x: x.as_strided(x.shape, dense(x)))


@aot((tensor(4, 6),), dtypes=[torch.float32], twin_of="packs_memory_taken_for_rows")
def packs_rows():
    """Packs the numbers of each row as bytes."""
    return _packed("packs_rows", lambda x: x.contiguous())
