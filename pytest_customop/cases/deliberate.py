"""Find out what an op does on purpose: a fake kernel or a backward that raises, an estimated gradient."""

from __future__ import annotations

import functools
import inspect
import os
import re
from types import CodeType, FrameType
from typing import Any

from ..compat.fakes import fake_cause
from ..compat.ops import fake_kernel_of
from ..core.tracebacks import chain, frames_of, is_of_author, raised_on_purpose, traceback_text
from ..declare.ops import Op
from ..findings import REFUSED_ON_PURPOSE, CheckFailed, fail
from .documentation import python_functions, texts_about, texts_beside
from .documented import sentences

_ESTIMATE = re.compile(
    r"straight[- ]?through|\bSTE\b|surrogate (gradient|derivative)|pseudo-?gradient|gradient estimat"
    r"|\b(gradient|derivative)\b[^.]{0,60}\bsurrogate\b"
    r"|\b(gradient|derivative)s?\s+(is|are)\s+(\w+\s+){0,2}estimat(e|or)s?\b"
    # "in backward the step has the derivative of an arctan"
    r"|\b(step|spike|heaviside|threshold|sign|round)\w*\s+(function\s+)?(has|gets|takes|uses)\s+the"
    r"\s+(derivative|gradient|slope)\s+of\b",
    re.I,
)

_GRADIENT = r"(gradient|derivative|backward)"
_PURPOSE = r"(on purpose|deliberate|intentional)"
_NO_DERIVATIVE = re.compile(
    r"gradient[- _]revers|revers\w*[- _](the |its )?grad|grad_revers"
    r"|is\s+not\s+(the|its|a)\s+((true|exact)\s+)?(derivative|gradient)"
    rf"|{_GRADIENT}\s+is\s+not\s+(that|the\s+one)\s+of\b"
    # of the function that an approximation stands for
    rf"|{_GRADIENT}s?\s+(is|are)\s+(that|those)\s+of\s+the\s+(exact|true|ideal|smooth|underlying)\b"
    r"|,\s+not\s+(the\s+)?((true|exact)\s+)?(derivative|gradient)s?\b"
    # of the solution, and not of the iterations that find it
    r"|\bimplicit(ly)?\s+(function\s+theorem|differentiat\w+)"
    rf"|{_PURPOSE}[^.\n]*{_GRADIENT}|{_GRADIENT}[^.\n]*{_PURPOSE}"
    # of numbers that only scale or clip what flows back
    r"|\b(no|neither)\b[^.;]{0,60}\b(effect|influence)\s+on\s+the\s+forward\b"
    r"|\bforward(\s+\w+){0,2}\s+(is|stays)\s+(unchanged|unaffected|(an?\s+|the\s+)?identity)\b"
    rf"|{_PURPOSE}\w*\s+(not|never)\s+differentiated|\bconstants?\s+(for|in|to)\s+the\s+{_GRADIENT}",
    re.I,
)
# One sentence, possibly over several lines, which says that a gradient is clipped.
_CLIPPED = re.compile(
    rf"{_GRADIENT}(?!s?\s+of\b)[^.]{{0,60}}\b(clipped|clamped)\b"
    r"|\b(clip|clamp)(s|ped|ping|ed|ing)\s+((the|its|each|incoming)\s+)*gradient",
    re.I,
)
# One sentence which says that a gradient is divided by how often its entry occurs.
_BY_COUNT = re.compile(
    rf"{_GRADIENT}s?\b[^.;]{{0,60}}\b(divided|scaled|normali[sz]ed|averaged)\s+(by|over)\s+(the|its|their)\s+"
    r"(inverse\s+)?(number|counts?|frequenc(y|ies)|occurrences)\b",
    re.I,
)
# One sentence which says that what the backward gives depends on the sign of grad_output.
_BY_SIGN = re.compile(
    rf"\b(positive|negative)\s+(incoming\s+|upstream\s+|output\s+)?{_GRADIENT}s?\b"
    rf"|\bsigns?\s+of\s+(the\s+|its\s+)?(incoming\s+|upstream\s+|output\s+)?(grad_out\w*|{_GRADIENT})",
    re.I,
)
# One line which says that all, each or every one of several maxima get the gradient.
_EVERY_TIE = re.compile(
    rf"^(?=.*{_GRADIENT}).*\b(all|each|every)\b[^.\n]{{0,40}}"
    r"\b(tie[ds]?|tying|maxim(a|um)|minim(a|um)|equal)\b",
    re.I | re.M,
)
_NAN = re.compile(r"(?<![a-z])(is)?nans?(?![a-z])", re.I)
# A limit: at most so many are taken.
_LIMIT = re.compile(
    r"\b(at most|up to|no more than|not more than|only the first|the first (\w+ )?(\d|[A-Z])|truncat\w*"
    r"|limit(s|ed)?|cap(s|ped|acity)?|max(imum)? (number|count) of|saturat\w*|overflow\w*)\b",
)

# Parts of a sequence that may be computed apart.
_BLOCKS = re.compile(
    r"\b(block|chunk|segment|tile|window|frame|group|bucket|page|section|reset|restart)(s|ed|ing|wise)?\b"
    r"|\bper[- ]\d",
    re.I,
)


def note_if_deliberate(op: str, error: BaseException) -> str | None:
    """The note for the finding that a fake kernel raises; None if it raises by mistake.

    It raises on purpose by a `raise`, an `assert` or a call of `torch._check*` in its own code, or in code
    of its package that it calls. Compiled code then fails with its author's message.

    Args:
        op: the name of the op whose fake kernel ran: `ns::name`.
        error: the exception of a call on fake tensors, or of a compiler that made one.
    """
    if isinstance(error, Exception):
        error = fake_cause(error)
    code = _code_of(fake_kernel_of(op))
    deliberate = any(
        raised_on_purpose(exception)
        and (code is None or _raised_within(code, frames_of(exception)))
        for exception in chain(error)
    )
    return REFUSED_ON_PURPOSE if deliberate else None


def backward_raises(text: str, error: BaseException, *, repro: str | None = None) -> CheckFailed:
    """The finding for a backward that raises; a note if its author's `raise` or `assert` raises.

    Args:
        text: the message.
        error: the exception of the backward.
        repro: as in `fail`.
    """
    note = REFUSED_ON_PURPOSE if raised_on_purpose(error) else None
    return fail("backward-raises", text, traceback_text(error), repro=repro, note=note)


def is_estimate_by_source(op: Op) -> bool:
    """Whether an op's Python source, comments and docstrings included, calls its gradient an estimate."""
    return _says(op, _ESTIMATE)


def is_estimate_by_module(op: Op) -> bool:
    """Whether the docstring of the op's module calls a gradient an estimate."""
    return any(map(_ESTIMATE.search, texts_beside(op)))


def is_no_derivative_by_source(op: Op) -> bool:
    """Whether the source says that the backward deliberately gives something other than the derivative."""
    in_one_line = sentences(op, of_op=True)
    return _says(op, _NO_DERIVATIVE) or any(map(_NO_DERIVATIVE.search, in_one_line))


def gives_ties_by_source(op: Op) -> bool:
    """Whether the source says that all tied elements get the gradient."""
    return _says(op, _EVERY_TIE)


def speaks_of_nan(op: Op) -> bool:
    """Whether the source mentions NaN: then the author has considered it."""
    return _says(op, _NAN)


def clips_by_docstring(op: Op) -> bool:
    """Whether a docstring says that the gradient is clipped.

    Only docstrings are read: clamping in the code of a backward may itself be the mistake.
    """
    return any(map(_CLIPPED.search, texts_about(op)))


def divides_by_count_by_docstring(op: Op) -> bool:
    """Whether a docstring says that the gradient of an entry is divided by how often it occurs."""
    return any(map(_BY_COUNT.search, sentences(op, of_op=True)))


def depends_on_sign_by_docstring(op: Op) -> bool:
    """Whether a docstring says that the backward treats positive and negative gradients differently."""
    return any(map(_BY_SIGN.search, sentences(op, of_op=True)))


def names_limit(op: Op) -> bool:
    """Whether a docstring names a limit: how many or how much there is at most."""
    return any(map(_LIMIT.search, texts_about(op)))


def names_blocks(op: Op) -> bool:
    """Whether a docstring speaks of parts that may be computed apart: blocks, chunks, windows."""
    return any(map(_BLOCKS.search, texts_about(op)))


def _says(op: Op, pattern: re.Pattern[str]) -> bool:
    return any(map(pattern.search, (*_sources(op), *texts_about(op))))


@functools.lru_cache(maxsize=256)  # a check may need it on every variant
def _sources(op: Op) -> tuple[str, ...]:
    return tuple(map(_source, python_functions(op)))


def _source(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # it is in no file, or not made by `def`
        return str(getattr(function, "__doc__", None) or "")


def _code_of(kernel: Any) -> CodeType | None:
    """The code of a fake kernel; None if it is unknown, as for kernels for meta tensors."""
    while isinstance(kernel, functools.partial):
        kernel = kernel.func
    for candidate in (kernel, getattr(type(kernel), "__call__", None)):  # noqa: B004 -- its code
        code = getattr(candidate, "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


def _raised_within(code: CodeType, frames: list[FrameType]) -> bool:
    """Whether a fake kernel was running, and code in its own package or folder raised.

    Args:
        code: of the fake kernel.
        frames: outermost first.
    """
    running = [frame for frame in frames if frame.f_code is code]
    if not running:
        return False
    last = [frame for frame in frames if is_of_author(frame.f_code.co_filename)][-1]
    folder = os.path.dirname(code.co_filename) + os.sep
    is_near = last.f_code.co_filename.startswith(folder)
    return is_near or _package(last) == _package(running[0])


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]
