"""Read from an op's docstrings what it takes and returns: the author's own contract.

Only plain sentences count, and nothing is concluded beyond what they say.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ..declare.ops import Op
from .documentation import beginning, listed_together, mention, texts_about, texts_beside

# In one sentence: numbers below 0, and that they are padding or ignored.
_PADDING = re.compile(
    r"^(?=[^.]*(\bnegative\b|(?<!\w)-1\b))"
    r"(?=[^.]*\b(pad(ding|ded|s)?|skip(s|ped)?|ignor\w*|mask(s|ed)?|drop(s|ped)?|invalid|unused|no)\b)",
    re.I | re.M,
)
# About an argument: -1 stands for something missing.
_MISSING = re.compile(
    r"(?=.*(?<!\w)-1\b)(?=.*\b(pad(ding|ded|s)?|ignor\w*|mask(s|ed)?|drop(s|ped)?|invalid|unused|fewer|missing"
    r"|empty|absent|none|nothing|zeros?)\b)",
    re.I | re.S,
)
# In one sentence: any number below 0, and that it is padding; that there is none, or what else it means.
_NEGATIVE_MISSING = re.compile(
    r"(?=.*\b(negative|below (0|zero)|less than (0|zero))\b)"
    r"(?=.*\b(pad(ding|ded|s)?|skip(s|ped)?|ignor\w*|mask(s|ed)?|drop(s|ped)?|(left|leaves?) out"
    r"|missing|unused|(stands?|counts?) for no\w*|belongs? to no\w*)\b)",
    re.I | re.S,
)
_NOT_NEGATIVE = re.compile(
    r"\b(no|not|never|non)[- ](be )?negative\b|\b(must|raises?|errors?|end|last|wraps?|backwards?)\b",
    re.I,
)
# In one sentence: groups, and that they are apart.
_GROUP = r"(class(es)?|categor(y|ies)|labels?|images?|batch(es)?|groups?|levels?)"
_APART = re.compile(
    rf"\b(independent(ly)?|separate(ly)?|apart|alone)\b[^.]{{0,20}}\b{_GROUP}\b"
    rf"|\b(per|each|every)[- ]{_GROUP}\b[^.]{{0,20}}\b(independent(ly)?|separate(ly)?|apart|alone)\b"
    rf"|\b(only|never|not)\b[^.]{{0,40}}\b(same|other|another|different) {_GROUP}\b"
    rf"|\b(other|another|different) {_GROUP} (do not|don't|cannot|never)\b",
    re.I,
)
# A variance, a standard deviation, or a normalisation by one.
_VARIANCE = re.compile(
    r"\b(variances?|var|std|stds|stddev|standard deviations?|z-?scores?)\b"
    r"|\b(layer|batch|group|instance)[ -]?norm(ali[sz](e[sd]?|ation))?\b|\bstandardi[sz](e[sd]?|ation)\b",
    re.I,
)
# That results are exact, whatever numbers come.
_DIGITS = re.compile(
    r"\b(accurate|correct|exact) (to|within)\b|\bnumerically (stable|robust|safe)\b"
    r"|\b(in|of) any (units?|scale|magnitude)\b|\b(about|around|with|at) any (origin|offset|mean|level)\b"
    r"|\brelative (error|accuracy|precision)\b|\bcancellation\b"
    r"|\b(\d+|four|five|six|seven|several|most|all) (significant |decimal |valid )?digits\b",
    re.I,
)
# About a seed: 0 means no seed, or is not accepted.
_ZERO_IS_NO_SEED = re.compile(
    r"\bnon-?zero\b|\bpositive\b"
    r"|(?<![\w.\[])(?<!>=)(?<!>= )(0|zero)(?![\w.])[^.;]*"
    r"\b(no|not|none|without|random\w*|global|draws?|default|time|fresh)\b"
    r"|\b(no|not|none|without|random\w*|unless|if)\b[^.;]*(?<![\w.])(0|zero)(?![\w.])",
    re.I,
)

# In one sentence with the name of a number: what is longer is cut off.
_CUT_OFF = re.compile(
    r"\btruncat\w*\b|(?=.*\b(longer|beyond|exceed\w*|more than|past|the rest)\b)"
    r"(?=.*\b(cut|clip(s|ped)?|trim(s|med)?|drop(s|ped)?|discard(s|ed)?|ignored)\b)",
    re.I | re.S,
)
# In one sentence: a stream of random numbers that is not torch's.
_OWN_GENERATOR = re.compile(
    r"\b(generator|rng|random (state|stream|numbers?)|stream) of ((its|their) own|(this|the) module)\b"
    r"|\bnot\b[^.;]*\btorch'?s? (global|default)\b"
    r"|\bown (random )?(generator|rng|state|stream|random)\b"
    r"|\b(manual_seed|torch'?s? (seed|generator|rng))\b[^.;]*"
    r"\b(no (effect|say|influence|bearing)|not|ignored)\b"
    r"|\b(two|repeated|successive|consecutive) calls\b(?! with (different|other))[^.;]*"
    r"\b(differ|(give|return) different)\b"
    r"|\b(not|unaffected|independent)\b[^.;]*\bmanual_seed\b"
    r"|\b(numpy|python)('s)?\b[^.;]*\b(random|rng|generator|seed)|\b(np|numpy)\.random\b|`random`",
    re.I,
)
_SEEDED = re.compile(r"\bseed(ed|s)?\b|\bmanual_seed\b|\breproduc|\bdeterministic\b", re.I)

_ZERO = re.compile(r"(?<![\w.])(0|0\.0?|zero)(?![\w.]*\d)", re.I)
# In one sentence: something is empty or masked, or is zero; and it gives 0.
_NOTHING = (
    r"\b(empty|(all|fully|entirely|completely)[- ]?(masked|padded)|masked[- ]out|without( any)?|nothing"
    r"|zero[- ](length|counts?)|no (\w+ ){0,2}(rows?|points?|entries|elements|items|neighbou?rs|edges"
    r"|members|valid|keys?|tokens?|samples?|weights?))\b"
)
_ZEROS = (
    r"\b((all|entirely|completely)[- ]?zeros?|constant|zero[- ](vectors?|rows?|norms?|weights?|sums?))"
    r"\b"
)
_GIVES_ZERO = (
    r"[^.;]*?(\b(gives?|gets?|returns?|yields?|are|is|stays?|becomes?|maps? to|has|have|filled with)\b"
    r"|->|=>?|:)(?! (not|no|ignored|skipped)\b)[^.;]{0,24}?(?<![\w.])(0|0\.0?|zeros?)(?![\w.]*\d)"
)
_ZERO_FOR_NOTHING = re.compile(_NOTHING + _GIVES_ZERO, re.I)
_ZERO_FOR_ZEROS = re.compile(_ZEROS + _GIVES_ZERO, re.I)
# About a number: no result depends on it.
_NO_INFLUENCE = re.compile(
    r"\b(no|without|never|not|n't)\b[^.;]{0,24}\b(influence|effect|affect|change|changes|alter|depend)\b"
    r"[^.;]*\b(results?|outputs?|values?)\b"
    r"|\b(results?|outputs?|values?)\b[^.;]*"
    r"\b(independent of|(do|does) not (depend|change)|(is|are) the same)\b",
    re.I,
)
_SOMETIMES = re.compile(
    r"\b(such|if|when|where|unless|(?<!at )once|only|except|from -?\d|above|below|beyond|at least"
    r"|(larg|great|small)er)\b",
    re.I,
)

_REPEATED = re.compile(
    r"(?<!no )(?<!not )(?<!without )\b(more than once|several times|repeat(s|ed)?|duplicat(es?|ed)|twice"
    r"|any number of (times|bags|rows|groups|segments))\b",
    re.I,
)
_SAME_PLACE = re.compile(
    r"\bsame (place|position|cell|coordinates?|row and column|pair|voxel|pixel|bin)\b|\bcoalesc"
    r"|(?<!no )(?<!not )(?<!without )\b(duplicat(es?|ed)|repeated)"
    r"( (entries|edges|pairs|indices|positions|coordinates|elements))?"
    r" (are|get|have|may|will|add|sum|accumulate|count|merge|contribute)",
    re.I,
)
_TRUSTED = re.compile(
    r"\b(un|not (bounds-?|range-?)?)(checked|validated)\b|\bno (bounds|range) checks?\b|\bundefined\b"
    r"|\b(must|should|have to|has to) (be|lie|stay|point|index|fit)\b.*"
    r"\b(within|in|inside|into|valid|range|non-?negative|positive|between|less|below|smaller)\b"
    r"|\bvalid (ind(ices|exes)|positions?|ids?|rows?|slots?)\b",
    re.I,
)
# About an argument: entries may share it.
_BROADCAST = re.compile(
    r"\bbroadcast\w*\b|\bshared\b|\b(one|same) for (all|every|each)\b|\bor (a )?(single|one)\b",
    re.I,
)
# The bytes of a number, which depend on its dtype.
_BYTES = re.compile(r"\b(bytes?|octets?|bit patterns?|memory|widths?)\b", re.I)
_SOFTMAX = re.compile(r"softmax|log_?sum_?exp|cross_entropy")
# Results, and not inputs that are not read.
_UNSET = re.compile(
    r"^(?!.*\b(ignored?|(not|never) read|no (effect|influence))\b).*"
    r"((?<!\bno )(?<!\bnever )(?<!\bnot )\buninitiali[sz]ed\b(?! (inputs?|arguments?))"
    r"|\b(rest|others|remaining|remainder|tail|other (elements|entries|rows|positions|values)"
    r"|(elements|entries|rows|positions|values) (beyond|behind|after|past))\b[^.;]{0,40}"
    r"\b(undefined|unspecified|unset|not (set|written|initiali[sz]ed))\b)",
    re.I | re.S,
)
_DISTINCT = re.compile(
    r"\b(?<!not )(?<!not be )(unique|distinct|different|permutation)\b|\bmust not\b", re.I
)


def may_repeat(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that a number may occur in it more than once."""
    about = lines_about(op, argument)
    return _REPEATED.search(about) is not None and not _DISTINCT.search(about)


def adds_up_repeated(op: Op) -> bool:
    """Whether a sentence says what becomes of entries at the same place, so that there may be some."""
    return any(map(_SAME_PLACE.search, sentences(op))) and not wants_distinct(op)


def wants_distinct(op: Op) -> bool:
    """Whether a sentence says that something must not come twice."""
    return any(map(_DISTINCT.search, sentences(op)))


def trusts_positions(op: Op) -> bool:
    """Whether a sentence says that positions are not checked, or leaves their range to the caller."""
    return any(map(_TRUSTED.search, sentences(op)))


def may_be_shared(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that it is broadcast, or one for all entries."""
    return _BROADCAST.search(lines_about(op, argument)) is not None


def hashes_bytes(op: Op) -> bool:
    """Whether the docstrings speak of a hash, and of bytes or widths: other dtypes give another hash."""
    texts = [*sentences(op, of_op=True)]
    return any("hash" in text.lower() for text in texts) and any(map(_BYTES.search, texts))


def zero_is_no_seed(op: Op, argument: str) -> bool:
    """Whether a docstring says that a seed of 0 means no seed, or is not accepted."""
    return _ZERO_IS_NO_SEED.search(lines_about(op, argument)) is not None


def says_of_zero(op: Op, argument: str) -> bool:
    """Whether the text about an argument mentions 0."""
    return _ZERO.search(lines_about(op, argument)) is not None


def gives_zero_for_nothing(op: Op) -> bool:
    """Whether a sentence says that something empty or masked gives 0, and so never NaN."""
    return any(map(_ZERO_FOR_NOTHING.search, sentences(op, of_op=True)))


def gives_zero_for_zeros(op: Op) -> bool:
    """Whether a sentence says that zeros or equal numbers give 0, and so never NaN."""
    return any(map(_ZERO_FOR_ZEROS.search, sentences(op, of_op=True)))


def says_no_influence(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that results do not depend on it, whatever it is."""
    clauses = re.split(r"[.;]\s", lines_about(op, argument))
    return any(_NO_INFLUENCE.search(each) and not _SOMETIMES.search(each) for each in clauses)


def keeps_groups_apart(op: Op) -> bool:
    """Whether a sentence says that classes, images or other groups are treated apart."""
    return any(map(_APART.search, sentences(op, of_op=True)))


def is_softmax(op: Op) -> bool:
    """Whether the name of an op says that it computes a softmax, or the logarithm of its denominator."""
    return _SOFTMAX.search(op.own_name) is not None


def leaves_memory_unset(op: Op) -> bool:
    """Whether a sentence says that a part of the results is memory that nothing was written to."""
    return any(map(_UNSET.search, sentences(op, of_op=True)))


def gives_variance(op: Op) -> bool:
    """Whether the name of an op, or a sentence, speaks of a variance or of a normalisation by one."""
    words = op.own_name.replace("_", " ")
    return any(map(_VARIANCE.search, (words, *sentences(op, of_op=True))))


def promises_digits(op: Op) -> bool:
    """Whether a sentence says that results are exact, or that numbers may have any offset or unit."""
    return any(map(_DIGITS.search, sentences(op, of_op=True)))


def pads_with_negative(op: Op) -> bool:
    """Whether a sentence says that numbers below 0 are padding."""
    return any(_PADDING.search(sentence) for sentence in sentences(op))


def marks_negative_missing(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that any number below 0 stands for something missing."""
    said = re.split(r"\.\s", lines_about(op, argument))
    return any(_NEGATIVE_MISSING.search(one) and not _NOT_NEGATIVE.search(one) for one in said)


def marks_missing(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that -1 stands for something missing."""
    return any(map(_MISSING.search, re.split(r"\.\s", lines_about(op, argument))))


def naming(op: Op, argument: str) -> Iterator[str]:
    """The sentences about an op that contain the name of an argument."""
    named = re.compile(mention(argument))
    return filter(named.search, sentences(op, of_op=True))


def cuts_off(op: Op, argument: str) -> bool:
    """Whether a sentence that names a number says that what is longer is cut off."""
    return any(map(_CUT_OFF.search, naming(op, argument)))


def has_own_generator(op: Op) -> bool:
    """Whether a sentence says that the op draws from a stream that torch does not seed."""
    return any(map(_OWN_GENERATOR.search, sentences(op, of_op=True)))


def speaks_of_seed(op: Op) -> bool:
    """Whether a sentence is about seeds, or about reproducible results."""
    return any(map(_SEEDED.search, sentences(op, of_op=True)))


@functools.lru_cache(maxsize=1024)  # asked for every sample
def lines_about(op: Op, argument: str) -> str:
    """The text of docstrings about an argument: the lines from its name to the next argument's.

    If no line begins with its name, the sentences that do: `x: (N,). k: from 1 to 31.`
    """
    names = tuple(item.name for item in op.arguments)
    begins, together = beginning(names), listed_together(names)
    lines: list[str] = []
    for text in texts_about(op):
        inside = False
        for line in text.splitlines():
            begun, several = begins.match(line), together.match(line)
            if several:
                inside = argument in re.findall(r"\w+", several[0])
            elif begun:
                inside = argument in begun.groups()
            elif not line.strip() or re.match(r"\s*(Returns?|Raises?)\b", line):
                inside = False
            if inside:
                lines.append(line)
    if not lines:
        begins = re.compile(rf"\W*{re.escape(argument)}\W?\s*:")
        lines = [sentence for sentence in sentences(op, of_op=True) if begins.match(sentence)]
    return " ".join(lines)


_SENTENCE_END = re.compile(r"(?<![\s.])\.\s")  # not in `0 .. n`
# A section about results, to the next empty line.
_RESULTS = re.compile(r"^[ \t]*(Returns?|Yields?)[ \t]*:?[ \t]*$.*?(?=\n[ \t]*\n|\Z)", re.M | re.S)


@functools.lru_cache(maxsize=1024)  # asked for every case
def sentences(op: Op, *, of_op: bool = False, results: bool = True) -> tuple[str, ...]:
    """The sentences about an op, each in one line.

    Args:
        of_op: whether those of a module are left out unless they are about the op.
        results: whether sections about results are included.
    """
    texts = texts_about(op) if of_op else texts_beside(op)
    if not results:
        texts = tuple(_RESULTS.sub("", text) for text in texts)
    in_lines = (" ".join(text.split()) for text in texts)
    return tuple(each for text in in_lines for each in _SENTENCE_END.split(text))


def first_sentence(op: Op, pattern: re.Pattern[str]) -> str:
    """The first sentence about an op in which a pattern is found, in one line; empty without one."""
    return " ".join(next(filter(pattern.search, sentences(op, of_op=True)), "").split())
