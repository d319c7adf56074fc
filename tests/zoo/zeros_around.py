"""Scans that are computed in chunks, and hand a state on from one chunk to the next."""

import functools

import numpy as np
import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
BROKEN = {"relations.zeros_around": "zeros-around-matter"}
CHUNK = 64
SERIES = (torch.linspace(-1, 1, 18).sin().reshape(6, 3),)
LONG = (torch.linspace(-40, 40, 600).sin().reshape(200, 3),)


def _scan(name, scan, said="", dtypes=(torch.float32, torch.float64)):
    """An op of a series (T, C), computed along T by `scan(numpy array of float64)`."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        if x.dim() != 2 or x.dtype not in dtypes:
            raise ValueError("a series (T, C) of float32 or float64, please")
        return torch.from_numpy(scan(x.contiguous().numpy().astype(np.float64))).to(x.dtype)

    @op.register_fake
    def fake(x):
        return x.new_empty((x.shape[0], x.shape[1]))

    fake.__doc__ = f"""A series (T, C) over time, added up along T with a decay of 0.99.{said}"""
    return op


def _decayed(x, carry):
    """The sums of one chunk, after a carry."""
    sums = np.empty_like(x)
    for at, row in enumerate(x):
        carry = sums[at] = 0.99 * carry + row
    return sums


def _in_chunks(x, carry_of):
    """`carry_of(sums, own)` gives the carry of a chunk from its sums, and from its sums without a carry."""
    sums, carry = [np.zeros_like(x[:0])], np.zeros_like(x[:1].sum(0))
    for start in range(0, len(x), CHUNK):
        chunk = x[start : start + CHUNK]
        sums.append(_decayed(chunk, carry))
        carry = carry_of(sums[-1], _decayed(chunk, np.zeros_like(carry)))[-1]
    return np.concatenate(sums)


@aot(SERIES, variant_findings=BROKEN, shown_by="hundreds0")
def hands_on_one_chunk_alone():
    """What a chunk hands on lacks what it took over itself: the third one forgets the first."""
    return _scan("hands_on_one_chunk_alone", lambda x: _in_chunks(x, lambda sums, own: own))


@aot(SERIES, twin_of=("hands_on_one_chunk_alone", "starts_anew_in_each_block"))
def hands_on_all_chunks():
    """The last sum of a chunk is handed on."""
    return _scan("hands_on_all_chunks", lambda x: _in_chunks(x, lambda sums, own: sums))


@aot(SERIES, variant_findings=BROKEN, shown_by="hundreds0")
def forgets_the_chunk_behind_the_next():
    """The same from the last entry to the first, as returns are added up in reinforcement learning."""
    return _scan(
        "forgets_the_chunk_behind_the_next",
        lambda x: _in_chunks(x[::-1], lambda sums, own: own)[::-1].copy(),
        " Each entry has what comes after it.",
    )


@aot(SERIES, twin_of="forgets_the_chunk_behind_the_next")
def adds_up_what_comes_after():
    """From the last entry to the first, with all that is taken over."""
    return _scan(
        "adds_up_what_comes_after",
        lambda x: _in_chunks(x[::-1], lambda sums, own: sums)[::-1].copy(),
        " Each entry has what comes after it.",
    )


def _smoothed(x, forgets):
    """An average that begins with the first entry; `forgets`: and with that of each chunk after two."""
    out = x.copy()
    for at in range(1, len(x)):
        anew = forgets and at % CHUNK == 0 and at > CHUNK
        out[at] = x[at] if anew else 0.9 * out[at - 1] + 0.1 * x[at]
    return out


@aot(LONG, expected=BROKEN)
def averages_anew_from_the_third_chunk_on():
    """An average that starts with the first entry does so again in later chunks."""
    return _scan(
        "averages_anew_from_the_third_chunk_on", lambda x: _smoothed(x, True), " A moving average."
    )


@aot(LONG, twin_of="averages_anew_from_the_third_chunk_on")
def averages_from_the_first_entry_on():
    """It starts with the first entry."""
    return _scan(
        "averages_from_the_first_entry_on", lambda x: _smoothed(x, False), " A moving average."
    )


@aot(
    SERIES,
    variant_notes={"relations.zeros_around": "zeros-around-matter"},
    shown_by=("hundreds0", "long_before"),
)
def starts_anew_in_each_block():
    """The docstring says that blocks are apart."""
    return _scan(
        "starts_anew_in_each_block",
        lambda x: _in_chunks(x, lambda sums, own: 0 * own),
        f" The sums start anew in each block of {CHUNK} entries.",
    )


@aot(SERIES)
def adds_up_the_last_fifty():
    """Sums of the last 50 entries: zeros around them change nothing, however many there are."""

    def windows(x):
        padded = np.concatenate([np.zeros_like(x, shape=(50, x.shape[1])), x]).cumsum(0)
        return padded[50:] - padded[: len(x)]

    return _scan("adds_up_the_last_fifty", windows, " Only the last 50 entries count.")
