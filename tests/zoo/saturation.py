"""Ops that round to integers of 8 bits, which end at their limits or start again."""

import functools

import numpy
import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager", requires_grad=[False])

WRAPS = {"relations.saturation": "integers-wrap"}
ROWS = (tensor(4, 6), 0.1, 10)


def _quantized(name, codes):
    """Codes in int8; `codes(numbers, zero_point)` are those of whole numbers, in int32."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def quantized(x: Tensor, scale: float, zero_point: int) -> Tensor:
        check(x, scale, zero_point)
        limits = numpy.iinfo(numpy.int32)
        whole = numpy.clip(numpy.rint(x.double().numpy() / scale), limits.min / 2, limits.max / 2)
        found = codes(numpy.ascontiguousarray(whole).astype(numpy.int32), zero_point)
        return torch.from_numpy(found.astype(numpy.int8))

    def check(x, scale, zero_point):
        if not x.is_floating_point() or scale <= 0 or not -128 <= zero_point <= 127:
            raise ValueError("numbers, a positive scale and a zero point of 8 bits, please")

    @quantized.register_fake
    def _(x, scale, zero_point):
        check(x, scale, zero_point)
        return x.new_empty(x.shape, dtype=torch.int8)

    return quantized


@aot(ROWS, expected=WRAPS)
def adds_the_zero_point_at_last():
    """A zero point of 10 is added to a code of 127."""
    return _quantized(
        "adds_the_zero_point_at_last", lambda whole, zero: numpy.clip(whole, -128, 127) + zero
    )


@aot(ROWS, expected=WRAPS)
def casts_codes_without_a_clamp():
    """Keeps the last eight bits of a code."""
    return _quantized("casts_codes_without_a_clamp", lambda whole, zero: whole + zero)


@aot(ROWS, twin_of=("adds_the_zero_point_at_last", "casts_codes_without_a_clamp"))
def clamps_codes_at_last():
    """Adds the zero point, then clamps."""
    return _quantized(
        "clamps_codes_at_last", lambda whole, zero: numpy.clip(whole + zero, -128, 127)
    )


@aot(ROWS, twin_of="casts_codes_without_a_clamp")
def sections_of_a_circle():
    """The section of a phase; a whole turn later the sections come again, as the docstring says."""

    @torch.library.custom_op("zoo::sections_of_a_circle", mutates_args=())
    def sections(x: Tensor, scale: float, zero_point: int) -> Tensor:
        """The section of each phase, in units of `scale`: phases wrap after 256 of them."""
        if not x.is_floating_point() or scale <= 0:
            raise ValueError("phases and a positive scale, please")
        whole = torch.floor(x.double() / scale).clamp(-(2**31), 2**31) + zero_point
        return whole.remainder(256).sub(128).to(torch.int8).contiguous()

    @sections.register_fake
    def _(x, scale, zero_point):
        if not x.is_floating_point() or scale <= 0:
            raise ValueError("phases and a positive scale, please")
        return x.new_empty(x.shape, dtype=torch.int8)

    return sections


def _rounded_to_codes(name, codes):
    """Numbers rounded to a grid of int8 and back; `codes` as in `_quantized`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def rounded(x: Tensor, scale: float, zero_point: int) -> Tensor:
        """Numbers as they are after int8: codes are `round(x / scale) + zero_point`, saturated to int8."""
        if not x.is_floating_point() or scale <= 0 or not -128 <= zero_point <= 127:
            raise ValueError("numbers, a positive scale and a zero point of 8 bits, please")
        limits = numpy.iinfo(numpy.int32)
        whole = numpy.clip(numpy.rint(x.double().numpy() / scale), limits.min / 2, limits.max / 2)
        code = codes(numpy.ascontiguousarray(whole).astype(numpy.int32), zero_point)
        back = (code.astype(numpy.int8).astype(numpy.float64) - zero_point) * scale
        return torch.from_numpy(back).to(x.dtype)

    rounded.register_fake(lambda x, scale, zero_point: x.new_empty(x.shape))
    return rounded


@aot(ROWS, expected=WRAPS)
def clips_before_the_zero_point():
    """Codes inside the op start again at the other end of int8."""
    return _rounded_to_codes(
        "clips_before_the_zero_point", lambda whole, zero: numpy.clip(whole, -128, 127) + zero
    )


@aot(ROWS, twin_of="clips_before_the_zero_point")
def clips_behind_the_zero_point():
    """Codes inside the op end at the limits of int8."""
    return _rounded_to_codes(
        "clips_behind_the_zero_point", lambda whole, zero: numpy.clip(whole + zero, -128, 127)
    )


@aot((tensor(4, 6), torch.full((4, 6), 40.0)))
def squares_beside_clipped_codes():
    """Correct: a square falls over the sample's numbers, and rises for larger ones without end."""

    @torch.library.custom_op("zoo::squares_beside_clipped_codes", mutates_args=())
    def squares(x: Tensor, y: Tensor) -> Tensor:
        """The squares of x less y, which is rounded to codes of int8 and clipped."""
        if x.shape != y.shape or x.dtype != y.dtype or not x.is_floating_point():
            raise ValueError("two tensors of the same shape and floating-point dtype, please")
        return (x.contiguous() - y.contiguous().round().clamp(-128, 127)).square()

    squares.register_fake(lambda x, y: x.new_empty(x.shape))
    return squares


def _audio(name, limited):
    """Audio in 16 bits; `limited(x)` keeps numbers in range, before or after they are scaled."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def audio(x: Tensor) -> Tensor:
        """Audio of full scale 1 in 16 bits. Samples beyond full scale saturate at -32768 and 32767."""
        if x.dtype != torch.float32:
            raise TypeError("float32, please")
        return limited(x.nan_to_num(0)).to(torch.int16).contiguous()

    audio.register_fake(lambda x: x.new_empty(x.shape, dtype=torch.int16))
    return audio


QUIET = (tensor(2, 8, low=-0.5, high=0.5),)


@aot(QUIET, expected=WRAPS)
def clamps_audio_before_it_is_scaled():
    """1 becomes 32768, which int16 does not hold."""
    return _audio(
        "clamps_audio_before_it_is_scaled", lambda x: (x.clamp(-1, 1) * 32768).round().int()
    )


@aot(QUIET, twin_of="clamps_audio_before_it_is_scaled")
def clamps_audio_after_it_is_scaled():
    """Clamps in the unit of int16."""
    return _audio(
        "clamps_audio_after_it_is_scaled",
        lambda x: (x.clamp(-2, 2) * 32768).round().clamp(-32768, 32767),
    )


def _long_audio(name, dtype):
    """Audio in 32 bits with the channels last; the scaled samples are clamped in `dtype`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def audio(x: Tensor) -> Tensor:
        """Audio (C, T) of full scale 1 as (T, C) in 32 bits. Samples beyond full scale saturate."""
        if x.dtype not in (torch.float32, torch.float64) or x.dim() != 2:
            raise TypeError("float32 or float64 of two dims, please")
        scaled = (x.nan_to_num(0).to(dtype).clamp(-2, 2) * 2**31).round().clamp(-(2**31), 2**31 - 1)
        return scaled.t().to(torch.int32).contiguous()

    audio.register_fake(lambda x: x.new_empty((x.shape[1], x.shape[0]), dtype=torch.int32))
    return audio


@aot(QUIET, expected=WRAPS)
def clamps_audio_to_a_number_that_float32_has_not():
    """2**31 - 1 becomes 2**31 in float32, which int32 does not hold."""
    return _long_audio("clamps_audio_to_a_number_that_float32_has_not", torch.float32)


@aot(QUIET, twin_of="clamps_audio_to_a_number_that_float32_has_not")
def clamps_audio_in_float64():
    """float64 has the largest int32."""
    return _long_audio("clamps_audio_in_float64", torch.float64)


@aot((tensor(4, 6), 0.1, 4))
def trusts_the_number_of_bits():
    """Codes of more bits than the dtype has wrap, which only a wrong number of bits shows."""

    @torch.library.custom_op("zoo::trusts_the_number_of_bits", mutates_args=())
    def codes(x: Tensor, scale: float, bits: int) -> Tensor:
        """Codes from 0 to 2**bits - 1 in uint8."""
        if scale <= 0 or not 1 <= bits <= 32:
            raise ValueError("a positive scale and at least one bit, please")
        whole = torch.round(x.double() / scale) + 2 ** (bits - 1)
        return whole.clamp(0, 2**bits - 1).to(torch.int64).to(torch.uint8)

    codes.register_fake(lambda x, scale, bits: x.new_empty(x.shape, dtype=torch.uint8))
    return codes


def _stored(name, codes):
    """Writes codes of rows to some slots of a cache; `codes(whole)` narrows whole numbers to int8."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args={"cache"})
    def store(cache: Tensor, x: Tensor, slots: Tensor, scale: float) -> None:
        """Stores `x / scale` in slots of a cache, rounded and saturated to the range of int8."""
        check(cache, x, slots, scale)
        if slots.unique().numel() != slots.numel():
            raise ValueError("different slots, please")
        if bool(((slots < 0) | (slots >= cache.shape[0])).any()):
            raise IndexError("no such slot")
        cache[slots.long()] = codes(torch.round(x.double() / scale))

    def check(cache, x, slots, scale):
        if cache.dtype != torch.int8 or x.dtype not in (torch.float32, torch.float64):
            raise TypeError("a cache of int8, and rows of float32 or float64, please")
        if cache.dim() != 2 or x.shape != (*slots.shape, cache.shape[1]) or slots.dim() != 1:
            raise ValueError("a row for each slot, please")
        if slots.dtype not in (torch.int32, torch.int64) or not scale > 0:
            raise ValueError("positions, and a scale above 0, please")

    store.register_fake(check)
    return store


CACHED = (torch.zeros(6, 4, dtype=torch.int8), tensor(3, 4), torch.tensor([4, 0, 2]), 0.2)


@aot(CACHED, expected=WRAPS)
def stores_codes_that_wrap():
    """Codes outside of int8 wrap on their way to the cache."""
    return _stored("stores_codes_that_wrap", lambda whole: whole.to(torch.int32).to(torch.int8))


@aot(CACHED, twin_of="stores_codes_that_wrap")
def stores_codes_that_saturate():
    """Codes outside of int8 become its limits."""
    return _stored(
        "stores_codes_that_saturate", lambda whole: whole.clamp(-128, 127).to(torch.int8)
    )
