"""Ops whose fake kernels are right for contiguous arguments only."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .variants import MATRIX, STRIDE, VECTOR, specimen

IMAGE = tensor(2, 3, 4, 6)


def _doubled(name, kernel, fake):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return kernel(x)

    doubled.register_fake(fake)
    return doubled


def _contiguous(x):
    return x.new_empty(x.shape)


@specimen((MATRIX,), variant_findings=STRIDE, shown_by="transposed")
def fake_forgets_the_order():
    """The real kernel keeps the order of dims in memory, the fake one says that it is the usual."""
    return _doubled("fake_forgets_the_order", lambda x: x * 2, _contiguous)


@specimen((MATRIX,), twin_of="fake_forgets_the_order")
def fake_keeps_the_order():
    """Both kernels keep the order of dims in memory."""
    return _doubled("fake_keeps_the_order", lambda x: x * 2, lambda x: torch.empty_like(x))


def _in_channels_last(x):
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    order = torch.channels_last if last else torch.contiguous_format
    return x.contiguous(memory_format=order) * 2


@specimen((IMAGE,), variant_findings=STRIDE, shown_by="channels_last")
def fake_forgets_channels_last():
    """The real kernel keeps channels_last memory, the fake one says contiguous."""
    return _doubled("fake_forgets_channels_last", _in_channels_last, _contiguous)


@specimen((IMAGE,), twin_of="fake_forgets_channels_last")
def fake_keeps_channels_last():
    """Both kernels keep channels_last memory."""
    return _doubled("fake_keeps_channels_last", _in_channels_last, _in_channels_last)


def _once(x, expanded):
    """Doubles rows that stride 0 repeats once."""
    if x.dim() < 2 or x.stride(0) != 0:
        return x.contiguous() * 2
    row = x[:1].contiguous() * 2
    return row.expand(x.shape) if expanded else row.repeat(x.shape[0], *[1] * (x.dim() - 1))


@specimen((MATRIX,), variant_findings=STRIDE, shown_by="expanded")
def fake_forgets_expanded_rows():
    """The real kernel returns rows that stride 0 repeats as such, the fake one says contiguous."""
    kernel = lambda x: _once(x, expanded=True)  # noqa: E731
    return _doubled("fake_forgets_expanded_rows", kernel, _contiguous)


@specimen((MATRIX,), twin_of="fake_forgets_expanded_rows")
def fake_repeats_expanded_rows():
    """The real kernel repeats such rows in memory."""
    kernel = lambda x: _once(x, expanded=False)  # noqa: E731
    return _doubled("fake_repeats_expanded_rows", kernel, _contiguous)


@specimen((MATRIX,), variant_findings=STRIDE, shown_by=("strided", "expanded"))
def fake_copies_the_strides():
    """The real kernel returns dense memory, the fake one the strides of its argument."""
    fake = lambda x: torch.empty_strided(  # noqa: E731
        x.shape, x.stride(), dtype=x.dtype, device=x.device
    )
    return _doubled("fake_copies_the_strides", lambda x: x * 2, fake)


@specimen((MATRIX,), twin_of="fake_copies_the_strides")
def fake_has_dense_strides():
    """Both kernels return dense memory."""
    return _doubled("fake_has_dense_strides", lambda x: x * 2, lambda x: x * 2)


def _difference(name, fake):
    """A difference, in the memory order of the second argument."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def difference(a: Tensor, b: Tensor) -> Tensor:
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ValueError("tensors of one shape and dtype, please")
        return torch.empty_like(b).copy_(a - b)

    difference.register_fake(fake)
    return difference


@specimen((MATRIX, MATRIX), variant_findings=STRIDE, shown_by=("a.transposed", "b.transposed"))
def fake_takes_the_other_order():
    """The real kernel keeps the order of the second argument, the fake one that of the first."""
    return _difference("fake_takes_the_other_order", lambda a, b: torch.empty_like(a))


@specimen((MATRIX, MATRIX), twin_of="fake_takes_the_other_order")
def fake_takes_the_right_order():
    """Both kernels keep the order of the second argument."""
    return _difference("fake_takes_the_right_order", lambda a, b: torch.empty_like(b))


def _through_an_op(name, gradient):
    """A sine, whose backward calls an op; the fake kernel of that says contiguous."""

    @torch.library.custom_op(f"zoo::{name}_gradient", mutates_args=())
    def op(x: Tensor, grad: Tensor) -> Tensor:
        return gradient(x, grad)

    op.register_fake(lambda x, grad: x.new_empty(x.shape))

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return x.sin()

    sine.register_fake(lambda x: torch.empty_like(x))
    sine.register_autograd(
        torch.autograd.function.once_differentiable(lambda ctx, grad: op(*ctx.saved_tensors, grad)),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return sine


ONCE = {"gradcheck.double": "no-second-order"}


@specimen(
    (MATRIX,),
    variant_findings={"fake.backward": "fake-stride-mismatch"},
    shown_by="transposed",
    skips=ONCE,
)
def backward_keeps_the_order():
    """The op that the backward calls keeps the order in memory; its fake kernel says contiguous."""
    return _through_an_op("backward_keeps_the_order", lambda x, grad: x.cos() * grad)


@specimen((MATRIX,), skips=ONCE, twin_of="backward_keeps_the_order")
def backward_takes_the_usual_order():
    """The op that the backward calls returns contiguous memory."""
    kernel = lambda x, grad: x.contiguous().cos() * grad.contiguous()  # noqa: E731
    return _through_an_op("backward_takes_the_usual_order", kernel)


def _outer(name, order):
    """The products of all pairs; for one tensor twice, they are their own transpose."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def outer(a: Tensor, b: Tensor) -> Tensor:
        if a.dim() != 1 or b.dim() != 1 or a.dtype != b.dtype:
            raise ValueError("two vectors of one dtype, please")
        product = a.contiguous()[:, None] * b.contiguous()
        return order(product) if a.numel() and a.data_ptr() == b.data_ptr() else product

    outer.register_fake(lambda a, b: a.new_empty(a.shape[0], b.shape[0]))
    return outer


@specimen((VECTOR, VECTOR), variant_findings=STRIDE, shown_by="b.is.a")
def transposed_for_one_tensor():
    """Returns the transpose where both arguments are one tensor: of equal values, in another order."""
    return _outer("transposed_for_one_tensor", lambda product: product.t())


@specimen((VECTOR, VECTOR), twin_of="transposed_for_one_tensor")
def usual_for_one_tensor():
    """Returns what it always returns where both arguments are one tensor."""
    return _outer("usual_for_one_tensor", lambda product: product)


def _cubed(name, gradient):
    """The cube; `gradient(x, y)` is its derivative."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def cubed(x: Tensor) -> Tensor:
        return (x * x * x).contiguous()

    cubed.register_fake(_contiguous)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    cubed.register_autograd(
        lambda ctx, grad: grad * gradient(*ctx.saved_tensors), setup_context=setup
    )
    return cubed


def _in_memory_order(x):
    """The numbers in the order of memory, as a kernel reads them that takes x for contiguous."""
    strides = torch.empty(x.shape, device="meta").stride()
    return x.as_strided(x.shape, strides, x.storage_offset()) if 0 not in x.stride() else x


WRONG = {"gradcheck.backward": "gradient-mismatch"}


@specimen((MATRIX,), variant_findings=WRONG, shown_by="transposed")
def backward_takes_memory_for_contiguous():
    """The backward reads the saved argument in the order of memory."""
    name = "backward_takes_memory_for_contiguous"
    return _cubed(name, lambda x, y: 3 * _in_memory_order(x).square())


@specimen((MATRIX,), variant_findings=WRONG, shown_by="zeros")
def backward_divides_by_its_argument():
    """The backward divides the result by the argument, with a guard that is wrong at 0."""
    name = "backward_divides_by_its_argument"
    return _cubed(name, lambda x, y: torch.where(x == 0, 1.0, 3 * y / x))


@specimen(
    (MATRIX,),
    twin_of=("backward_takes_memory_for_contiguous", "backward_divides_by_its_argument"),
)
def backward_takes_any_memory():
    """The backward reads the saved argument by its strides."""
    return _cubed("backward_takes_any_memory", lambda x, y: 3 * x.square())
