"""Ops that give other values in a wider dtype, and ops for which a dtype rightly changes something."""

import functools

import numpy
import torch
from torch import Tensor
from torch.nn.functional import pad

from pytest_customop import tensor

from .registry import specimen
from .variants import PARTS

aot = functools.partial(specimen, backend="aot_eager")
MATRIX = tensor(4, 6)
PRECISION = {"relations.precision": "precision-mismatch"}
CANCELLATION = {"relations.precision": "catastrophic-cancellation"}
HALF = {"dtypes": [torch.float16, torch.bfloat16]}
EVERY = {"dtypes": [torch.float64, torch.float32, torch.float16, torch.bfloat16]}


def op(name, kernel, fake=lambda x: x.new_empty(x.shape), backward=None):
    """An op of one tensor with a contiguous result; `backward(x, grad)` is its formula."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def operator(x: Tensor) -> Tensor:
        return kernel(x).contiguous()

    operator.register_fake(fake)
    if backward is not None:

        def setup(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        operator.register_autograd(
            lambda ctx, grad: backward(*ctx.saved_tensors, grad), setup_context=setup
        )
    return operator


def _bytes(x, dtype, count):
    """The first numbers in the memory of a tensor, read as a dtype of numpy."""
    return numpy.frombuffer(x.contiguous().numpy().tobytes(), dtype)[:count]


def _doubled(x, dtype):
    doubled = torch.from_numpy(_bytes(x, dtype, x.numel()) * 2)
    return doubled.reshape(x.shape).to(x.dtype)


@aot((MATRIX,), expected=PRECISION)
def reads_all_memory_as_float32():
    """Reads the memory of a tensor of any dtype as float32."""
    return op("reads_all_memory_as_float32", lambda x: _doubled(x, "float32"))


@aot((MATRIX,), twin_of="reads_all_memory_as_float32")
def reads_memory_by_its_dtype():
    """Reads the memory as the dtype of the tensor."""

    def kernel(x):
        return _doubled(x.float() if x.dtype == torch.bfloat16 else x, _numpys(x)).to(x.dtype)

    def _numpys(x):
        return "float32" if x.dtype == torch.bfloat16 else str(x.dtype).removeprefix("torch.")

    return op("reads_memory_by_its_dtype", kernel)


@aot((MATRIX,), twin_of="reads_all_memory_as_float32")
def reads_float32_and_rejects_the_rest():
    """Reads the memory as float32, and rejects other dtypes."""

    def kernel(x):
        if x.dtype != torch.float32:
            raise TypeError(f"float32 only, not {x.dtype}")
        return _doubled(x, "float32")

    return op("reads_float32_and_rejects_the_rest", kernel)


def _energy(name, dtype_of_sum):
    def kernel(x):
        total = x.new_zeros(x.shape[:-1], dtype=dtype_of_sum(x))
        for columns in x.detach().split(4, -1):  # one by one, a large variant may take too long
            total = total + columns.square().sum(-1).to(total.dtype)
        return total.to(x.dtype)

    return op(name, kernel, fake=lambda x: x.new_empty(x.shape[:-1]))


@aot((MATRIX,), variant_findings=PRECISION, shown_by="long")
def adds_up_in_half_precision():
    """Adds squares up in the dtype of the input: in bfloat16 the sum stands still at 256 times a square."""
    return _energy("adds_up_in_half_precision", lambda x: x.dtype)


@aot((MATRIX,), twin_of="adds_up_in_half_precision")
def adds_up_in_single_precision():
    """Adds squares up in float32, or wider, and rounds once."""
    return _energy(
        "adds_up_in_single_precision", lambda x: torch.promote_types(x.dtype, torch.float32)
    )


def _halves(name, dtype_of):
    """Doubles; numbers of two bytes are read as `dtype_of(x)`."""

    def kernel(x):
        if x.element_size() != 2:
            return x * 2
        read = x.contiguous().view(dtype_of(x)).float() * 2
        return read.to(dtype_of(x)).view(x.dtype)

    return op(name, kernel)


@specimen((MATRIX,), variant_findings=PRECISION, shown_by="bfloat16")
def reads_bfloat16_as_float16():
    """Reads all numbers of two bytes as float16."""
    return _halves("reads_bfloat16_as_float16", lambda x: torch.float16)


@specimen((MATRIX,), twin_of="reads_bfloat16_as_float16")
def reads_bfloat16_as_such():
    """Reads numbers of two bytes by their dtype."""
    return _halves("reads_bfloat16_as_such", lambda x: x.dtype)


LONG = tensor(9000, low=0.5, high=1.5)


def _total(x, dtype):
    """The sum, one number after the other, in a dtype of numpy."""
    added = numpy.add.accumulate(x.float().numpy().astype(dtype), dtype=dtype)
    return x.new_full((), float(added[-1]) if len(added) else 0.0)


def _number(x):
    return x.new_empty(())


@aot((LONG,), dtypes=[torch.float16, torch.float32], expected=PRECISION, notes=PARTS)
def sum_that_stands_still():
    """Adds up in float16: from 4096 on the next number is lost."""
    return op(
        "sum_that_stands_still",
        lambda x: _total(x, "float16" if x.dtype == torch.float16 else "float32"),
        _number,
    )


@aot((LONG,), dtypes=[torch.float16, torch.float32], twin_of="sum_that_stands_still")
def sum_in_float32():
    """Adds up in float32 and rounds once."""
    return op("sum_in_float32", lambda x: _total(x, "float32"), _number)


LARGE = tensor(4, 6, low=-30, high=30)


@aot(
    (LARGE,),
    **HALF,
    expected={
        **PRECISION,
        "relations.overflow": "intermediate-overflow",
        "values.finite": "result-is-nan",
    },
    skips={"opcheck.test_aot_dispatch_dynamic": "checker-limit"},
)
def softmax_that_overflows():
    """Computes exp of the numbers as they are, in their dtype: infinite in float16 from 11.1 on."""

    def kernel(x):
        raised = x.exp()
        return raised / raised.sum(-1, keepdim=True)

    return op("softmax_that_overflows", kernel)


@aot((LARGE,), (tensor(4, 6, low=-2000, high=2000),), **EVERY, twin_of="softmax_that_overflows")
def softmax_of_large_numbers():
    """Subtracts the largest number first."""

    def kernel(x):
        raised = (x - x.amax(-1, keepdim=True)).exp()
        return raised / raised.sum(-1, keepdim=True)

    return op("softmax_of_large_numbers", kernel)


POSITIVE = tensor(600, low=1, high=2)


def _counted(x, dtype):
    """How many numbers are positive, counted one by one in a dtype."""
    total = torch.zeros((), dtype=dtype)
    for flag in x > 0:
        total += flag
    return total.to(torch.int64)


def _count(x):
    return x.new_empty((), dtype=torch.int64)


@aot((POSITIVE,), dtypes=[torch.bfloat16, torch.float32], expected=PRECISION)
def count_that_stands_still():
    """Counts in the dtype of the numbers: in bfloat16 up to 256."""
    return op("count_that_stands_still", lambda x: _counted(x, x.dtype), _count)


@aot((POSITIVE,), dtypes=[torch.bfloat16, torch.float32], twin_of="count_that_stands_still")
def count_in_whole_numbers():
    """Counts in int64."""
    return op("count_in_whole_numbers", lambda x: _counted(x, torch.int64), _count)


def _sine(name, backward):
    return op(name, torch.sin, backward=backward)


@aot((MATRIX,), expected={"relations.precision": "precision-gradient-mismatch"})
def gradient_of_float32_with_the_wrong_sign():
    """Has a backward of its own for float32, with the wrong sign. Finite differences see float64."""
    sign = {torch.float32: -1}
    return _sine(
        "gradient_of_float32_with_the_wrong_sign",
        lambda x, grad: grad * x.cos() * sign.get(x.dtype, 1),
    )


@aot((MATRIX,), expected={"relations.precision": "precision-gradient-mismatch"})
def gradient_of_float32_without_small_numbers():
    """Has a backward for float32 that goes through whole numbers."""

    def backward(x, grad):
        cosine = x.cos()
        return grad * (cosine.round() if x.dtype == torch.float32 else cosine)

    return _sine("gradient_of_float32_without_small_numbers", backward)


@aot(
    (MATRIX,),
    twin_of=(
        "gradient_of_float32_with_the_wrong_sign",
        "gradient_of_float32_without_small_numbers",
    ),
)
def gradient_of_float32_by_itself():
    """Has a backward of its own for float32, in another order."""

    def backward(x, grad):
        return x.cos() * grad if x.dtype == torch.float32 else grad * x.cos()

    return _sine("gradient_of_float32_by_itself", backward)


# ------------------------------------------------------- what a dtype changes in correct ops


@aot((tensor(40, 6),), **EVERY)
def rounds_to_tenths():
    """Correct: rounds to tenths, in the dtype that it gets: steps."""
    return op("rounds_to_tenths", lambda x: (x * 10).round() / 10)


@aot((tensor(40, 6),), **EVERY)
def quantizes_by_the_largest():
    """Correct: rounds to 255 steps of the largest number: one rounding moves every step."""

    def kernel(x):
        scale = x.abs().max() / 127 if x.numel() else x.new_ones(())
        return (x / scale).round().clamp(-127, 127).to(torch.int8)

    return op("quantizes_by_the_largest", kernel, lambda x: x.new_empty(x.shape, dtype=torch.int8))


@aot((tensor(30, 8),), (tensor(30, 8, low=0, high=1e-3),), **EVERY)
def position_of_the_largest_score():
    """Correct: the position of the largest of sums, which rounding may make equal."""

    def kernel(x):
        return (x * 3.7 + x.flip(-1)).argmax(-1)

    return op(
        "position_of_the_largest_score",
        kernel,
        lambda x: x.new_empty(x.shape[:-1], dtype=torch.int64),
    )


@aot((tensor(4, 10), 0.9), (tensor(30, 8), 0.3), **EVERY)
def masks_what_is_improbable():
    """Correct: keeps the most probable numbers of each row up to a sum; the rest is -inf."""

    @torch.library.custom_op("zoo::masks_what_is_improbable", mutates_args=())
    def nucleus(logits: Tensor, p: float) -> Tensor:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        shares = ordered.softmax(-1)
        keep = torch.zeros_like(logits, dtype=torch.bool)
        keep.scatter_(-1, order, shares.cumsum(-1) - shares < p)
        return logits.masked_fill(~keep, -torch.inf).contiguous()

    nucleus.register_fake(lambda logits, p: logits.new_empty(logits.shape))
    return nucleus


@aot((tensor(30, 8),), **EVERY)
def sorted_by_a_product():
    """Correct: sorts rows by a product of their numbers."""

    def kernel(x):
        return x[(x.select(-1, 0) * x.select(-1, -1)).argsort()] if x.numel() else x.clone()

    return op("sorted_by_a_product", kernel)


@aot((tensor(500, low=0, high=1),), **EVERY)
def histogram_of_tenths():
    """Correct: counts numbers in tenths, whose limits no binary dtype has."""

    def kernel(x):
        return torch.bincount((x * 10).floor().clamp(0, 9).to(torch.int64).flatten(), minlength=10)

    return op("histogram_of_tenths", kernel, lambda x: x.new_empty(10, dtype=torch.int64))


@aot((tensor(50, 6),), dtypes=[torch.float32, torch.float16])
def running_sum_in_its_dtype():
    """Correct: a running sum that is rounded at every step."""

    def kernel(x):
        sums = x.clone()
        for row in range(1, x.shape[0]):
            sums[row] += sums[row - 1]
        return sums

    return op("running_sum_in_its_dtype", kernel)


@aot((tensor(30, 6, low=99, high=101),), **EVERY)
def variance_by_squares():
    """Correct: the mean of squares less the square of the mean, of which little is left."""

    def kernel(x):
        return x.square().mean(-1) - x.mean(-1).square()

    return op("variance_by_squares", kernel, lambda x: x.new_empty(x.shape[:-1]))


@aot((MATRIX,), variant_findings=CANCELLATION, shown_by="shifted")
def variance_of_windows_by_running_sums():
    """Gives variances of windows from running sums of squares: of data with an offset nothing is left."""

    def kernel(x):
        sums, squares = (pad(value.cumsum(-1), (1, 0)) for value in (x, x.square()))
        mean, square = ((total[..., 3:] - total[..., :-3]) / 3 for total in (sums, squares))
        return (square - mean.square()).clamp(min=0)

    return op("variance_of_windows_by_running_sums", kernel, _windows)


def _matrix(x):
    if x.dim() != 2:
        raise ValueError("a matrix, please")
    return x


@aot((MATRIX,), variant_notes=CANCELLATION, shown_by="shifted")
def distances_by_products():
    """Squared distances of rows as squares less products: usual, and bad for rows far from 0."""

    def kernel(x):
        squares = _matrix(x).square().sum(-1)
        return (squares[:, None] + squares - 2 * (x @ x.t())).clamp(min=0)

    return op("distances_by_products", kernel, lambda x: x.new_empty(x.shape[0], x.shape[0]))


@aot((MATRIX,), twin_of="distances_by_products")
def distances_by_differences():
    """Squared distances of rows as squares of differences."""

    def kernel(x):
        return (_matrix(x)[:, None] - x).square().sum(-1)

    return op("distances_by_differences", kernel, lambda x: x.new_empty(x.shape[0], x.shape[0]))


def _layer_norm(name, variance):
    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def normalised(x: Tensor, weight: Tensor) -> Tensor:
        """Layer norm of each row, times the weight."""
        check(x, weight)
        scale = (variance(x) + 1e-5).rsqrt()
        return ((x - x.mean(-1, keepdim=True)) * scale * weight).contiguous()

    def check(x, weight):
        if x.dim() != 2 or x.shape[1:] != weight.shape or x.dtype != weight.dtype:
            raise ValueError("expected rows, and a weight for each column")

    @normalised.register_fake
    def _(x, weight):
        check(x, weight)
        return x.new_empty(x.shape)

    return normalised


# The weight of an author who pastes a sample: it says nothing about the range of x.
PASTED = (torch.linspace(-2, 2, 24).reshape(4, 6), torch.ones(6))


@aot(PASTED, variant_findings=CANCELLATION, shown_by="shifted")
def layer_norm_in_one_pass():
    """Takes the variance from a mean of squares: rows far from 0 are divided by noise."""

    def variance(x):
        return ((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2).clamp(min=0)

    return _layer_norm("layer_norm_in_one_pass", variance)


@aot(PASTED, twin_of="layer_norm_in_one_pass")
def layer_norm_in_two_passes():
    """Subtracts the mean first."""
    return _layer_norm("layer_norm_in_two_passes", lambda x: x.var(-1, correction=0, keepdim=True))


@aot((MATRIX,), twin_of="variance_of_windows_by_running_sums")
def variance_of_windows():
    """Gives variances of windows, whose means it subtracts first."""

    def kernel(x):
        windows = x.unfold(-1, 3, 1)
        return (windows - windows.mean(-1, keepdim=True)).square().mean(-1)

    return op("variance_of_windows", kernel, _windows)


def _windows(x):
    return x.new_empty(*x.shape[:-1], max(x.shape[-1] - 2, 0))


@aot((tensor(30, 6, low=0, high=1e-3),), **EVERY)
def one_less_the_cosine():
    """Correct: one less the cosine of small numbers, of which nothing is left in half precision."""
    return op("one_less_the_cosine", lambda x: 1 - x.cos())


@aot((tensor(values=[[0.0, 1.0, 0.5], [0.25, 0.0, 1.0]]),), **EVERY)
def logit_within_the_dtype():
    """Correct: keeps 0 and 1 apart by the eps of the dtype, and takes the logarithm."""

    def kernel(x):
        eps = torch.finfo(x.dtype).eps
        kept = x.clamp(eps, 1 - eps)
        return kept.log() - (1 - kept).log()

    return op("logit_within_the_dtype", kernel)


@aot((MATRIX,), **EVERY)
def masks_with_the_lowest_number():
    """Correct: puts the lowest number of the dtype where a number is negative."""
    return op(
        "masks_with_the_lowest_number",
        lambda x: torch.where(x < 0, torch.finfo(x.dtype).min, x),
    )


@aot((tensor(5, 5),), dtypes=[torch.float32])
def eigenvectors_of_any_sign():
    """Correct: eigenvectors, whose signs differ from dtype to dtype."""

    def kernel(x):
        if x.shape[-2] != x.shape[-1]:
            raise ValueError("a square matrix, please")
        vectors = torch.linalg.eigh(x + x.mT)[1]
        return vectors if x.dtype == torch.float64 else -vectors

    return op("eigenvectors_of_any_sign", kernel)


@aot((MATRIX,), **EVERY)
def projects_by_a_random_table():
    """Correct: a table of random signs, of a seed of its own, drawn and kept for each dtype."""

    @functools.cache
    def table(count, dtype):
        generator = torch.Generator().manual_seed(3)
        return torch.randn(count, generator=generator, dtype=dtype)

    return op("projects_by_a_random_table", lambda x: x * table(x.shape[-1], x.dtype))


@aot((MATRIX,), **EVERY)
def window_from_a_cache():
    """Correct: a window that is kept for each length, in float64."""

    @functools.cache
    def window(count):
        return torch.linspace(0, 1, count, dtype=torch.float64).sin()

    return op("window_from_a_cache", lambda x: (x * window(x.shape[-1])).to(x.dtype))


@aot((MATRIX,), **EVERY)
def bytes_of_the_numbers():
    """Correct: the bytes in memory, whose number depends on the dtype."""

    def fake(x):
        return x.new_empty((*x.shape[:-1], x.shape[-1] * x.element_size()), dtype=torch.uint8)

    return op("bytes_of_the_numbers", lambda x: x.contiguous().view(torch.uint8).clone(), fake)


@aot((tensor(30, 6, low=-5, high=5),), dtypes=[torch.float32, torch.bfloat16])
def gradient_of_a_sharp_step():
    """Correct: a steep sigmoid, whose gradient a rounding of the input changes several times over."""

    def backward(x, grad):
        high = (x * 50).sigmoid()
        return grad * 50 * high * (1 - high)

    return op("gradient_of_a_sharp_step", lambda x: (x * 50).sigmoid(), backward=backward)


DOUBLE = {"dtypes": [torch.float64]}


@aot((MATRIX,), expected={"relations.precision": "result-narrowed"}, **DOUBLE)
def sine_in_float32():
    """Computes in float32 and returns float64."""
    return op("sine_in_float32", lambda x: x.float().sin().to(x.dtype))


@aot((MATRIX,), twin_of="sine_in_float32", **DOUBLE)
def sine_in_the_dtype_of_its_input():
    """Computes in the dtype of its input."""
    return op("sine_in_the_dtype_of_its_input", torch.sin)


@aot((MATRIX,), twin_of="sine_in_float32", **DOUBLE)
def sixteenths():
    """Rounds to sixteenths, which float32 holds too."""
    return op("sixteenths", lambda x: (x * 16).round() / 16)


@aot((MATRIX,), twin_of="sine_in_float32", tolerances={torch.float64: (1e-5, 1e-6)}, **DOUBLE)
def sine_as_exact_as_its_mark_says():
    """Computes in float32, and its mark says so by tolerances."""
    return op("sine_as_exact_as_its_mark_says", lambda x: x.float().sin().to(x.dtype))


def _windowed(name, dtype_of):
    def window(x):
        return torch.cos(torch.arange(x.shape[-1], dtype=dtype_of(x)) / 3)

    return op(name, lambda x: x * window(x).to(x.dtype))


@aot((MATRIX,), expected={"relations.precision": "result-narrowed"}, **DOUBLE)
def window_in_the_default_dtype():
    """Multiplies with a window that is computed in the default dtype."""
    return _windowed("window_in_the_default_dtype", lambda x: torch.get_default_dtype())


@aot((MATRIX,), twin_of="window_in_the_default_dtype", **DOUBLE)
def window_in_the_dtype_of_its_input():
    """Multiplies with a window that is computed in the dtype of its input."""
    return _windowed("window_in_the_dtype_of_its_input", lambda x: x.dtype)


@aot((MATRIX,), twin_of="sine_in_float32")
def sine_of_which_nobody_asks_float64():
    """Computes in float32, and nothing says that it is made for more."""
    return op("sine_of_which_nobody_asks_float64", lambda x: x.float().sin().to(x.dtype))


@aot(
    (MATRIX,),
    expected={"relations.precision": "gradient-narrowed"},
    skips={"gradcheck.double": "float32-internal"},
    **DOUBLE,
)
def backward_in_float32():
    """Its backward computes in float32 and returns float64."""
    return op(
        "backward_in_float32",
        torch.sin,
        backward=lambda x, grad: (grad.float() * x.float().cos()).to(x.dtype),
    )


@aot((MATRIX,), twin_of="backward_in_float32", **DOUBLE)
def backward_in_the_dtype_of_its_input():
    """Its backward computes in the dtype of its input."""
    return op(
        "backward_in_the_dtype_of_its_input", torch.sin, backward=lambda x, grad: grad * x.cos()
    )


def _norms(name, dtype_of):
    """The root mean square of each row; `dtype_of(x)` is the dtype in which squares are added up."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def norms(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.dtype not in (torch.float16, torch.float32):
            raise TypeError("a matrix in float16 or float32, please")
        return x.to(dtype_of(x)).square().mean(1).sqrt().to(x.dtype)

    norms.register_fake(lambda x: x.new_empty(x.shape[0]))
    return norms


@aot(
    (tensor(4, 6),),
    variant_findings={"relations.precision": "precision-mismatch"},
    shown_by="float16",
)
def squares_overflow_in_half():
    """The squares of numbers above 255 are infinite in float16."""
    return _norms("squares_overflow_in_half", lambda x: x.dtype)


@aot((tensor(4, 6),), twin_of="squares_overflow_in_half")
def squares_in_single():
    """The squares are added up in float32."""
    return _norms("squares_in_single", lambda x: torch.float32)


def _norm(name, wide):
    """The root of the sum of squares, as float32; `wide(x)` is what is squared."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def norm(x: Tensor) -> Tensor:
        """The norm of fp32, bf16 or fp16 numbers, as a float32 scalar."""
        return wide(x).pow(2).sum(dtype=torch.float32).sqrt()

    norm.register_fake(lambda x: x.new_empty((), dtype=torch.float32))
    return norm


@specimen((tensor(8, 6),), requires_grad=[False], variant_findings=PRECISION, shown_by="float16")
def squares_in_a_dtype_that_a_docstring_names():
    """Squares in float16 overflow; the docstring names the dtype, and no sample has it."""
    return _norm("squares_in_a_dtype_that_a_docstring_names", lambda x: x)


@specimen(
    (tensor(8, 6),),
    requires_grad=[False],
    twin_of="squares_in_a_dtype_that_a_docstring_names",
)
def squares_in_float32_as_documented():
    """Squares in float32."""
    return _norm("squares_in_float32_as_documented", torch.Tensor.float)


def _segment_means(name, count_dtype):
    """The mean of the rows of each segment; `count_dtype(x)` is that of what it is divided by."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def means(x: Tensor, segment: Tensor, segments: int) -> Tensor:
        """The mean of the rows (E, D) of each segment; segment: (E,), from 0 to segments - 1, sorted."""
        if x.dim() != 2 or segment.shape != x.shape[:1] or segment.dtype != torch.int64:
            raise ValueError("rows, and the segment of each, please")
        if len(segment) and not 0 <= int(segment.min()) <= int(segment.max()) < segments:
            raise IndexError("a segment that there is not")
        wide = x.to(torch.float32) if x.dtype.itemsize == 2 else x
        sums = wide.new_zeros(segments, x.shape[1]).index_add_(0, segment, wide)
        count = torch.zeros(segments, dtype=count_dtype(x))
        count.index_add_(0, segment, torch.ones(len(segment), dtype=count.dtype))
        return (sums / count.clamp(min=1)[:, None]).to(x.dtype)

    @means.register_fake
    def _(x, segment, segments):
        return x.new_empty(segments, x.shape[1])

    return means


SEGMENTS = (tensor(7, 3, low=0.5, high=2), torch.tensor([0, 0, 1, 1, 1, 4, 4]), 5)


@specimen(SEGMENTS, requires_grad=[False], variant_findings=PRECISION, shown_by="long_before")
def counts_rows_in_half_precision():
    """Counts the rows of a segment in the dtype of the rows: at 256 the count stands still in bfloat16."""
    return _segment_means("counts_rows_in_half_precision", lambda x: x.dtype)


@specimen(SEGMENTS, requires_grad=[False], twin_of="counts_rows_in_half_precision")
def counts_rows_in_float32():
    """Counts in float32, or float64."""
    return _segment_means(
        "counts_rows_in_float32", lambda x: torch.promote_types(x.dtype, torch.float32)
    )


@specimen(
    (tensor(7, 3), torch.tensor([0, 3, 1, 1, 0, 3, 2]), 5),
    requires_grad=[False],
    twin_of="counts_rows_in_half_precision",
)
def adds_up_as_index_add_does():
    """Adds up in the dtype of the rows, as torch's own index_add does."""

    @torch.library.custom_op("zoo::adds_up_as_index_add_does", mutates_args=())
    def sums(x: Tensor, row: Tensor, rows: int) -> Tensor:
        """The sum of the entries x (E, D) of each row; row: (E,), from 0 to rows - 1, in any order."""
        if x.dim() != 2 or row.shape != x.shape[:1] or row.dtype != torch.int64:
            raise ValueError("entries, and the row of each, please")
        if len(row) and not 0 <= int(row.min()) <= int(row.max()) < rows:
            raise IndexError("a row that there is not")
        return x.new_zeros(rows, x.shape[1]).index_add_(0, row, x)

    sums.register_fake(lambda x, row, rows: x.new_empty(rows, x.shape[1]))
    return sums


def _onset(name, sums):
    """Power of 2 numbers by that of 10; `sums(squares, count)` adds up each `count` in succession."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def onset(x: Tensor) -> Tensor:
        """The power of the last 2 numbers of signals (N, T), in any unit, by that of the last 10.

        It is accurate to 1e-4, and 0 where there are no 10 numbers.
        """
        if x.dim() != 2 or x.dtype not in (torch.float32, torch.float64):
            raise ValueError("signals (N, T) of float32 or float64, please")
        if x.shape[1] < 10:
            return torch.zeros_like(x, memory_format=torch.contiguous_format)
        squares = x.square()
        share = sums(squares, 2)[:, 8:] / sums(squares, 10).clamp(min=1e-30)
        return pad(share, (9, 0))

    onset.register_fake(lambda x: x.new_empty((x.shape[0], x.shape[1])))
    return onset


SIGNALS = (tensor(2, 64),)


@aot(SIGNALS, variant_findings=CANCELLATION, shown_by="burst")
def onset_by_running_sums():
    """After a loud burst nothing is left of quiet windows, though the docstring promises digits."""

    def sums(squares, count):
        total = pad(squares.cumsum(-1), (1, 0))
        return total[:, count:] - total[:, :-count]

    return _onset("onset_by_running_sums", sums)


@aot(SIGNALS, twin_of="onset_by_running_sums")
def onset_by_sums_of_windows():
    """Each window is added up by itself."""
    return _onset(
        "onset_by_sums_of_windows", lambda squares, count: squares.unfold(-1, count, 1).sum(-1)
    )
