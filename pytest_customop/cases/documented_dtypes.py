"""Read from an op's docstrings which dtypes it takes, and what it does with them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import torch

from ..declare.ops import Op
from .documentation import listed_together, mention, mention_of_others, texts_about
from .documented import lines_about, sentences

_PROMOTED = re.compile(r"(?<!not )(?<!no )(?<!without )\b(type )?promot(ed?|es|ion)\b", re.I)
# In one sentence: half precision, and an argument that may be float32 beside it.
_MIXED = (
    r"(?=.*\b(half|float16|fp16|bfloat16|bf16)\b)"
    r".*(?:\b(?:float32|fp32) {name}\b|\b{name}\b.*\b(?:float32|fp32)\b.*\b(?:when|while|if|where)\b)"
)
_FLOATING = re.compile(
    r"(?<!no )(?<!not )(?<!to )(?<!as )(?<!into )(?<!in )\bfloat(s|ing|ing-point|32|64)?\b", re.I
)
_FLOAT_OR_INTEGER = re.compile(
    r"\bfloat\w*([- ]point)? or (an )?integ(er|ral)s?\b|\binteg(er|ral)s? or (a )?float", re.I
)
_FLOAT_OR_BYTES = re.compile(
    r"\buint8`* or (any |a )?`*(torch\.)?float"
    r"|\bfloat\w*([- ]point)?( numbers| values)?`* or `*(torch\.)?uint8\b",
    re.I,
)
_BOOL_OR_BYTES = (
    r"(?:\bbool\w*`*,? or (an? |of )?`*(torch\.)?uint8\b"
    r"|\buint8`*,? or (an? |of )?`*(torch\.)?bool)"
)
_ANY_FLOATS = re.compile(r"(?<!no )(?<!not )\b(floats?|floating([- ]point)?)\b", re.I)
_ONE_FLOAT = re.compile(r"\b(b?float|fp)(16|32|64)\b|\bbf16\b|\b(double|single|half)\b", re.I)
# The words that end a text about an argument.
_RESULT = r"->|\b(returns?|gives?|results?|outputs?)\b"
_DOUBLE = re.compile(r"\b(torch\.)?(float64|double)\b", re.I)
_SINGLE = re.compile(
    r"\bsingle precision\b|\binternal\w*\b|\bin (torch\.)?float(32)?\b(?!,| or| and)", re.I
)
_OF_HALF = re.compile(  # what is said of narrow inputs alone
    r"\b((reduced|half|low|lower)[- ]precision|half|(b?float16|fp16|bf16)( and (b?float16|fp16|bf16))?) "
    r"(inputs?|tensors?|values?|numbers?|d?types?|ones)\b[^.;)]*",
    re.I,
)
# "shape and dtype as x"
_AS_ANOTHER = re.compile(r"\bdtype (as|of|like) (those of |that of )?`{0,2}(?P<other>\w+)", re.I)
_SHAPE = r"[(\[][^()\[\]]*[)\]]"
_DTYPE = re.compile(r"\b(float16|bfloat16|float32|float64|u?int8|int16|int32|int64)\b")
# In one sentence: integers, that something is the same, and floating-point numbers.
_SAME_NUMBERS = re.compile(
    r"(?=.*\b(u?int(8|16|32)|integers?|whole numbers?)\b)(?=.*\b(float\w*|convert\w*|cast)\b)"
    r".*(?<!not )(?<!of )\bthe same (?!shape|dtype|type|size|length|device|layout|order)"
    r"\w+.*\bas\b",
    re.I | re.S,
)
# In one sentence: that results are the same, whatever the dtype of integers; not that dtypes are.
_SAME_IN_DTYPES = re.compile(
    r"(?=.*\b(the same|identical(ly)?|equal|equally|alike)\b)"
    r"(?=.*\b(whichever|whatever|any|every|all|regardless of|independent of|no matter|across)\b[^.;]{0,30}"
    r"\b(dtypes?|integer (types?|widths?))\b)"
    r"(?!.*\b(same|equal) (shape|size|length|device|layout|(d)?types?|number)\b)"
    r"(?!.*\b(must|raises?|float\w*)\b)",
    re.I | re.S,
)
# Dtypes one after the other: "float32, bfloat16 or float16". Each has several names.
_DTYPE_NAMES = {
    torch.float16: ("float16", "fp16", "half"),
    torch.bfloat16: ("bfloat16", "bf16"),
    torch.float32: ("float32", "fp32", "float"),
    torch.float64: ("float64", "fp64", "double"),
}
_DTYPE_BY_NAME = {name: dtype for dtype, names in _DTYPE_NAMES.items() for name in names}
_INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
# Integers of any dtype.
_ANY_INTEGERS = re.compile(
    r"\b(any|same|all|every|either) (signed |unsigned )?integ(er|ral)[- ](d?types?|tensors?|arrays?)\b"
    r"|\bintegers? of any (d?type|width|size)\b|\b(d?types?|tensors?) of (any )?integers?\b",
    re.I,
)
_ALL_NUMBERS = {
    8: re.compile(r"\b(8|eight)[- ]bit\b|\b255\b", re.I),
    16: re.compile(r"\b(16|sixteen)[- ]bit\b|\bPCM\b|\b(32767|65535)\b", re.I),
}
_REAL_OR_COMPLEX = re.compile(
    r"\b(real|float\w*)\b[^.;]*\bor\b[^.;]*\bcomplex|\bcomplex\w*\b[^.;]*\bor\b[^.;]*\b(real|float\w*)\b",
    re.I,
)
_TAKES_COMPLEX = re.compile(
    r"(?<!not )(?<!no )\b(real|float\w*|floating[- ]point)( tensors?| inputs?| numbers?| values?)?,? "
    r"(or|and) (both |all )?complex\b(?! (conjugate|outputs?|results?|parts?|spectr))"
    r"|\bcomplex,? (or|and) (both |all )?(real|float\w*)\b"
    # "float32, float64, complex64 or complex128"
    r"|(?<!not )(?<!no )\bfloat(32|64)`*(,| or|/)+ *`*(torch\.)?complex(64|128)\b",
    re.I,
)


def whole_numbers_count_as_floats(op: Op) -> bool:
    """Whether a sentence says that integers give the same results as equal floating-point numbers."""
    return any(map(_SAME_NUMBERS.search, sentences(op, of_op=True)))


def has_all_numbers(op: Op, argument: str, bits: int) -> bool:
    """Whether the text about an argument says that its integers have so many bits, as samples of sound."""
    known = _ALL_NUMBERS.get(bits)
    return known is not None and known.search(_about(op, argument)) is not None


def may_be_floating(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that it may hold floating-point numbers."""
    return _FLOATING.search(_about(op, argument)) is not None


def _about(op: Op, argument: str) -> str:
    """The text about an argument, as far as it is about the argument and not about results."""
    return re.split(_RESULT, lines_about(op, argument), maxsplit=1, flags=re.I)[0]


def may_be_integer(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that it holds integers or floating-point numbers."""
    return _FLOAT_OR_INTEGER.search(_about(op, argument)) is not None


def may_be_bytes(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that it is uint8 or floating-point, as images are."""
    named = dtypes_of(op, argument)
    listed = torch.uint8 in named and any(dtype.is_floating_point for dtype in named)
    return listed or _FLOAT_OR_BYTES.search(_about(op, argument)) is not None


def takes_any_floats(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that it is floating-point, and names no dtype."""
    about = _about(op, argument)
    return _ANY_FLOATS.search(about) is not None and _ONE_FLOAT.search(about) is None


def may_be_wider(op: Op, argument: str) -> bool:
    """Whether a sentence says that an argument may be float32 where others have half precision."""
    mixed = re.compile(_MIXED.replace("{name}", re.escape(argument)), re.I)
    return any(map(mixed.search, sentences(op, of_op=True)))


def promotes_dtypes(op: Op) -> bool:
    """Whether a sentence says that results have the promoted dtype of several arguments."""
    return any(_PROMOTED.search(sentence) for sentence in sentences(op, of_op=True))


def names_float64(op: Op) -> bool:
    """Whether docstrings name float64, and do not say that the op computes in a narrower dtype."""
    every = [_OF_HALF.sub("", sentence) for sentence in sentences(op, of_op=True)]
    return any(map(_DOUBLE.search, every)) and not any(map(_SINGLE.search, every))


def dtypes_of(op: Op, argument: str) -> list[torch.dtype]:
    """The dtypes that the first sentence about an argument names before it turns to something else.

    If that names none, the first sentence that lists several. If none does, and one says that the dtype
    is that of another argument: those of the other one.
    """
    named = _dtypes_named(op, argument)
    like = None if named else _AS_ANOTHER.search(lines_about(op, argument))
    other = like["other"] if like is not None else ""
    return _dtypes_named(op, other) if other in {item.name for item in op.arguments} else named


def _dtypes_named(op: Op, argument: str) -> list[torch.dtype]:
    other = mention_of_others(op, argument)
    text = listed_together(tuple(item.name for item in op.arguments)).sub(
        "", lines_about(op, argument)
    )
    about, *_ = re.split(rf"(?i:{_RESULT})|{other}", text, maxsplit=1)
    for at, clause in enumerate(re.split(r"[.;]\s", about)):
        named = dict.fromkeys(match[0] for match in _DTYPE.finditer(clause))
        if len(named) > (at > 0):
            return [getattr(torch, name) for name in named]
    # "if `x` (N,) int64 is given"
    beside = re.compile(rf"{mention(argument)}`*:?\s*{_SHAPE},?\s*`*{_DTYPE.pattern}")
    found = next(filter(None, map(beside.search, texts_about(op))), None)
    return [getattr(torch, found[found.lastindex or 0])] if found else []


def may_be_bytes_for_booleans(op: Op, argument: str, others: Collection[str] = ()) -> bool:
    """Whether a sentence that names an argument of booleans says that it may be uint8 too.

    Args:
        others: the other arguments of booleans. What is said after the name of one is about that one.
    """
    if torch.uint8 in dtypes_of(op, argument):
        return True
    said = re.compile(rf"{mention(argument)}(?:(?!{mention(*others)}).)*?{_BOOL_OR_BYTES}", re.I)
    return any(map(said.search, sentences(op, of_op=True)))


def listed_dtypes(op: Op) -> list[torch.dtype]:
    """The floating-point dtypes that are listed one after the other in a text about the op."""
    return [*dict.fromkeys(_DTYPE_BY_NAME[name] for name in _listed(op, _DTYPE_BY_NAME))]


def listed_integers(op: Op) -> list[torch.dtype]:
    """The integer dtypes that are listed one after the other, and int32 and int64 if any are allowed."""
    names = [*_listed(op, _INTEGERS)]
    if any(map(_ANY_INTEGERS.search, texts_about(op))):
        names += ["int32", "int64"]
    return [getattr(torch, name) for name in dict.fromkeys(names)]


def _listed(op: Op, names: Collection[str]) -> Iterator[str]:
    """The names that a text lists one after the other, at least two of them: `a, b or c`."""
    name = rf"`{{0,2}}(?:torch\.)?\b({'|'.join(names)})\b`{{0,2}}"
    several = rf"(?<!not )(?<!no ){name}((\s*[,/|]\s*|,?\s+(or|and)\s+){name})+"
    for text in texts_about(op):
        for match in re.finditer(several, text, re.I):
            yield from map(str.lower, re.findall(name, match[0], re.I))


def may_be_complex(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that it may be real or complex."""
    return _REAL_OR_COMPLEX.search(_about(op, argument)) is not None


def takes_complex(op: Op) -> bool:
    """Whether a sentence says that numbers may be real or complex."""
    return any(map(_TAKES_COMPLEX.search, sentences(op, of_op=True)))


def is_same_in_integer_dtypes(op: Op) -> bool:
    """Whether a sentence says that results do not depend on which integer dtype holds the numbers."""
    return any(map(_SAME_IN_DTYPES.search, sentences(op, of_op=True)))
