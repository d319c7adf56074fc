"""What the docstrings of an op say that it takes and gives: an author's own contract.

They are those of the op's Python functions, and that of their module, for most questions only if it names
the op. A sentence is taken at its word only where it is plain; what it does not say is not concluded.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence

import torch

from ..declare.ops import Op
from .deliberate import python_functions

# In one sentence: numbers below 0, and what becomes of them.
_PADDING = re.compile(
    r"^(?=[^.]*(\bnegative\b|(?<!\w)-1\b))"
    r"(?=[^.]*\b(pad(ding|ded|s)?|skip(s|ped)?|ignor\w*|mask(s|ed)?|drop(s|ped)?|invalid|unused|no)\b)",
    re.I | re.M,
)
# Of an argument: what a number of -1 stands for.
_MISSING = re.compile(
    r"(?=.*(?<!\w)-1\b)(?=.*\b(pad(ding|ded|s)?|ignor\w*|mask(s|ed)?|drop(s|ped)?|invalid|unused|fewer|missing"
    r"|empty|absent|none|nothing|zeros?)\b)",
    re.I | re.S,
)
# In one sentence: lengths, and that they may be 0.
_EMPTY_SEQUENCES = re.compile(
    r"^(?=[^.]*\b(len(gth)?s?|counts?|sequences?|segments?|bags?|rows?)\b)(?=[^.]*(\b(zero|empty)\b|(?<![\w.])0(?![\w.])))",
    re.I | re.M,
)
_EMPTY = re.compile(
    r"\b(may|can|could|might)( also)? be (0|zero|empty)\b|\bor empty\b"
    r"|\bempty\b[^.;]*\b(allowed|fine|ok|okay|accepted|valid|supported|gives?|returns?|yields?)\b"
)
_NO_ENTRIES = re.compile(r"\b([A-Z])\w* ?(=|==|>=) ?0\b")  # of a size that has a letter
_NOT_EMPTY = re.compile(
    r"\bnot (be )?(0|zero|empty)\b|\bnon-?empty\b|\bat least\b|> ?0|>= ?1|\bpositive\b"
)
_PROMOTED = re.compile(r"(?<!not )(?<!no )(?<!without )\b(type )?promot(ed?|es|ion)\b", re.I)
# What follows names the arguments.
_DIFFERENTIABLE = re.compile(
    r"\b(differentiable( (twice|again|any number of times))? "
    r"(with respect to|w\.?r\.?t\.?|in|by|for|through)|gradients? flows? (in)?to) (?P<what>[^.;]*)",
    re.I,
)
_NOT_DIFFERENTIABLE = re.compile(
    r"\b(not|non|never)[- ]differentiable\b(?! (in|by|with respect|w\.?r\.?t))|\bno gradients?\b"
    r"|\b(never|not) requires? (grad|a gradient)\w*|\binference[- ]only\b|\bfor inference\b",
    re.I,
)
_FLOATING = re.compile(r"(?<!no )(?<!not )\bfloat(s|ing|ing-point|32|64)?\b", re.I)
_EXCEPTED = re.compile(r"\b(not|non|but|except|excluding|neither|nor|never|only)\b", re.I)
_EVERY = re.compile(r"\b(all|every|each)\b", re.I)
_BOTH = re.compile(r"\bboth\b", re.I)
_DOUBLE = re.compile(r"\b(torch\.)?(float64|double)\b", re.I)
_DTYPE = re.compile(r"\b(float16|bfloat16|float32|float64|u?int8|int16|int32|int64)\b")
_CALL = re.compile(r"^\W*([A-Za-z]\w*)\(", re.M)  # a line that begins with one
_SHORT = 2  # letters of a name that may be a word
_SINGLE = re.compile(
    r"\bsingle precision\b|\binternal\w*\b|\bin (torch\.)?float(32)?\b(?!,| or| and)", re.I
)

# Of a seed: that 0 is none, or is not taken.
_ZERO_IS_NO_SEED = re.compile(
    r"\bnon-?zero\b|\bpositive\b"
    r"|(?<![\w.\[])(?<!>=)(?<!>= )(0|zero)(?![\w.])[^.;]*"
    r"\b(no|not|none|without|random\w*|global|draws?|default|time|fresh)\b"
    r"|\b(no|not|none|without|random\w*|unless|if)\b[^.;]*(?<![\w.])(0|zero)(?![\w.])",
    re.I,
)

_ZERO = re.compile(r"(?<![\w.])(0|0\.0?|zero)(?![\w.]*\d)", re.I)
# Of a number: that no result depends on it.
_NO_INFLUENCE = re.compile(
    r"\b(no|without|never|not|n't)\b[^.;]{0,24}\b(influence|effect|affect|change|changes|alter|depend)\b"
    r"[^.;]*\b(results?|outputs?|values?)\b"
    r"|\b(results?|outputs?|values?)\b[^.;]*"
    r"\b(independent of|(do|does) not (depend|change)|(is|are) the same)\b",
    re.I,
)

# In one sentence: whole numbers, that something is the same, and floating-point numbers.
_SAME_NUMBERS = re.compile(
    r"(?=.*\b(u?int(8|16|32)|integers?|whole numbers?)\b)(?=.*\b(float\w*|convert\w*|cast)\b)"
    r".*(?<!not )(?<!of )\bthe same (?!shape|dtype|type|size|length|device|layout|order)"
    r"\w+.*\bas\b",
    re.I | re.S,
)
_REPEATED = re.compile(
    r"(?<!no )(?<!not )(?<!without )\b(more than once|several times|repeat(s|ed)?|duplicat(es?|ed)|twice"
    r"|any number of (times|bags|rows|groups|segments))\b",
    re.I,
)
_DISTINCT = re.compile(
    r"\b(?<!not )(?<!not be )(unique|distinct|different|permutation)\b|\bmust not\b", re.I
)


def whole_numbers_count_as_floats(op: Op) -> bool:
    """Whether a sentence says that whole numbers give what the same numbers give as floating-point ones."""
    return any(map(_SAME_NUMBERS.search, sentences(op, of_op=True)))


def may_repeat(op: Op, argument: str) -> bool:
    """Whether what is said of an argument says that a number may come more than once in it."""
    about = lines_about(op, argument)
    return _REPEATED.search(about) is not None and not _DISTINCT.search(about)


def zero_is_no_seed(op: Op, argument: str) -> bool:
    """Whether a docstring says of a seed that 0 is none, or is not taken."""
    return _ZERO_IS_NO_SEED.search(lines_about(op, argument)) is not None


def says_of_zero(op: Op, argument: str) -> bool:
    """Whether what is said of an argument speaks of 0."""
    return _ZERO.search(lines_about(op, argument)) is not None


def says_no_influence(op: Op, argument: str) -> bool:
    """Whether what is said of an argument says that results do not depend on it."""
    return _NO_INFLUENCE.search(lines_about(op, argument)) is not None


def pads_with_negative(op: Op) -> bool:
    """Whether a sentence says that numbers below 0 are padding."""
    return any(_PADDING.search(sentence) for sentence in sentences(op))


def marks_missing(op: Op, argument: str) -> bool:
    """Whether what is said of an argument says that -1 stands for something that is not there."""
    return any(map(_MISSING.search, re.split(r"\.\s", lines_about(op, argument))))


def allows_empty_sequences(op: Op) -> bool:
    """Whether a sentence says that a length or a count may be 0."""
    return any(_EMPTY_SEQUENCES.search(sentence) for sentence in sentences(op))


def allows_empty(op: Op, argument: str) -> bool:
    """Whether what is said of an argument says that it may be empty, and nothing that it may not."""
    about = lines_about(op, argument)
    sizes = " ".join(re.findall(r"[(\[][^)\]]*[)\]]", about))
    letters = [match[1] for match in _NO_ENTRIES.finditer(about)]
    allowed = _EMPTY.search(about) or any(re.search(rf"\b{letter}\b", sizes) for letter in letters)
    return bool(allowed) and not _NOT_EMPTY.search(about)


def may_be_floating(op: Op, argument: str) -> bool:
    """Whether what is said of an argument says that it may have floating-point numbers."""
    return _FLOATING.search(lines_about(op, argument)) is not None


def promotes_dtypes(op: Op) -> bool:
    """Whether a sentence says that results have the promoted dtype of several arguments."""
    return any(_PROMOTED.search(sentence) for sentence in sentences(op, of_op=True))


def is_differentiable_by(op: Op, argument: str) -> bool:
    """Whether a sentence says that the op is differentiable with respect to an argument."""
    for sentence in sentences(op, of_op=True):
        match = _DIFFERENTIABLE.search(sentence)
        if match and not _EXCEPTED.search(sentence):
            named = re.search(rf"\b{re.escape(argument)}\b", match["what"])
            both_named = _BOTH.search(match["what"]) and _count_of_tensors(op) == 2
            if named or both_named or _EVERY.search(match["what"]):
                return True
    return False


def is_not_differentiable(op: Op) -> bool:
    """Whether a sentence says that the op is not differentiable, or that nothing requires gradients."""
    return any(map(_NOT_DIFFERENTIABLE.search, sentences(op, of_op=True)))


def names_float64(op: Op) -> bool:
    """Whether float64 is named, and nothing says that the op computes in a narrower dtype."""
    every = [*sentences(op, of_op=True)]
    return any(map(_DOUBLE.search, every)) and not any(map(_SINGLE.search, every))


def dtypes_of(op: Op, argument: str) -> list[torch.dtype]:
    """The dtypes that the first sentence about an argument names, before it comes to another thing."""
    others = "|".join(re.escape(item.name) for item in op.arguments if item.name != argument)
    ends = re.compile(
        rf"[.;]\s|->|\b([Rr]eturns?|[Gg]ives?|[Rr]esults?|[Oo]utputs?{'|' * bool(others)}{others})\b"
    )
    first, *_ = ends.split(lines_about(op, argument), maxsplit=1)
    return [getattr(torch, name) for name in dict.fromkeys(_DTYPE.findall(first))]


def _count_of_tensors(op: Op) -> int:
    return sum(str(argument.type) == "Tensor" for argument in op.arguments)


def lines_about(op: Op, argument: str) -> str:
    """What docstrings say of an argument: the lines from its name to that of another one."""
    begins = _beginning(tuple(item.name for item in op.arguments))
    lines: list[str] = []
    for text in _docstrings(op, of_op=True):
        inside = False
        for line in text.splitlines():
            begun = begins.match(line)
            if begun:
                inside = argument in begun.groups()
            elif not line.strip() or re.match(r"\s*(Returns?|Raises?)\b", line):
                inside = False
            if inside:
                lines.append(line)
    return " ".join(lines)


def _beginning(names: Sequence[str]) -> re.Pattern[str]:
    """What a line about an argument begins with; `a` alone, or `x`, may begin any line."""
    all_names = "|".join(map(re.escape, names))
    long = "|".join(re.escape(name) for name in names if len(name) > _SHORT) or "(?!)"
    return re.compile(rf"^\W*({all_names})(?=\s*[:(,=]|\s\s|\s*$)|^\W*({long})\b")


def sentences(op: Op, *, of_op: bool = False) -> Iterator[str]:
    """The sentences of the docstrings; with `of_op`, those of a module only if it names the op."""
    for text in _docstrings(op, of_op=of_op):
        yield from re.split(r"\.\s", text)


def _docstrings(op: Op, *, of_op: bool) -> Iterator[str]:
    """The docstrings of an op.

    Args:
        of_op: whether that of a module counts only if it names the op, or describes its arguments.
    """
    functions = python_functions(op)
    yield from (inspect.getdoc(function) or "" for function in functions)
    name = op.name.partition("::")[2].partition(".")[0]
    for module in {*map(inspect.getmodule, functions)} - {None}:
        text = inspect.getdoc(module) or ""
        if not of_op or _is_named(name, text) or _describes_arguments(op, text):
            yield text


def _describes_arguments(op: Op, text: str) -> bool:
    """Whether a text has a line about each of several arguments of an op."""
    names = [item.name for item in op.arguments]
    matches = map(_beginning(tuple(names)).match, text.splitlines())
    begun = {name for match in matches if match for name in match.groups()}
    return len(names) > 1 and begun >= set(names)


def _is_named(name: str, text: str) -> bool:
    """Whether a text names an op, or has a line that begins with a call by the last words of its name.

    The name of an op often begins with that of the package: `warp(x, grid)` for `mylib::mylib_warp`.
    """
    calls = [call for call in _CALL.findall(text) if len(call) > _SHORT]
    return name in text or any(name.endswith(f"_{call}") for call in calls)
