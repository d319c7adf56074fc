"""Read from an op's docstrings what it says of gradients: which arguments get one, and where it is zero."""

from __future__ import annotations

import re

from ..declare.ops import Op
from .documentation import mention
from .documented import lines_about, naming, sentences

# What follows names the arguments.
_DIFFERENTIABLE = re.compile(
    r"\b(differentiable( (twice|again|any number of times))? "
    r"(with respect to|w\.?r\.?t\.?|in|by|for|through)|gradients? flows? (in)?to) (?P<what>[^.;]*)",
    re.I,
)
# In one clause: that gradients have gradients.
_SECOND_ORDER = re.compile(
    r"\b(twice|doubly) differentiable\b|\bdifferentiable (twice|to second order)\b|\bHessians?\b"
    r"|\b(double backward|(second[- ]order|second) (gradients?|derivatives?))\b",
    re.I,
)
_LEARNED = re.compile(
    r"(?<!not )(?<!never )\b(learn(ed|able|t)|trainable|(fixed|frozen) or trained)\b"
    r"|\brouting (weights|probabilities)\b",
    re.I,
)
_NOT_DIFFERENTIABLE = re.compile(
    r"\b(not|non|never)[- ]differentiable\b(?! (in|by|with respect|w\.?r\.?t))|\bno gradients?\b"
    r"|\b(never|not) requires? (grad|a gradient)\w*|\binference[- ]only\b|\bfor inference\b|\(inference\)",
    re.I,
)
# In one sentence with the name of an argument.
_CONSTANT = re.compile(
    r"\b(no|without( a)?) gradients?\b|\bgradients?( (of|for) \w+)? (is|are) (always )?(None|not)\b"
    r"|\b(not|non)[- ](differentiable|differentiated|trainable|learn(ed|able))\b"
    r"|\b(is|are|as)( a)? constants?\b",
    re.I,
)
# In one sentence that names no other tensor: a part of an argument gets no gradient.
_PART_CONSTANT = re.compile(
    r"\b(no|never|not|without)\b[^.;]{0,30}\bgradients?\b|\bfrozen\b|\bstop[- _]?gradients?\b", re.I
)
_ZERO_DERIVATIVE = re.compile(
    r"\b(derivatives?|gradients?)( of the result)? (is|are) (always )?(zero|0)(?![\w.]*\d)"
    r"(?! (for|where|if|at|on|in|outside|inside|beyond|when|along))",
    re.I,
)
# Something is solved step by step; a gradient may be that of the solution.
_OF_A_SOLUTION = re.compile(
    r"\b(converg\w*|toleran\w*|tol|fixed[- ]points?|equilibri\w+|(envelope|danskin\S*) theorem"
    r"|implicit(ly)? (function|differen\w+)|solutions?|optim(um|al)|minimi[sz]ers?)\b",
    re.I,
)
_EXCEPTED = re.compile(r"\b(not|non|but|except|excluding|neither|nor|never|only)\b", re.I)
_DENIED = re.compile(r"\b(no|not|nor|never|without|un\w+|raises?)\b|n't\b", re.I)
_EVERY = re.compile(r"\b(all|every|each)\b", re.I)
_BOTH = re.compile(r"\bboth\b", re.I)


def is_differentiable_by(op: Op, argument: str) -> bool:
    """Whether a sentence says that the op is differentiable with respect to an argument."""
    for sentence in sentences(op, of_op=True):
        match = _DIFFERENTIABLE.search(sentence)
        if match and not _EXCEPTED.search(sentence):
            named = re.search(mention(argument), match["what"])
            both_named = _BOTH.search(match["what"]) and _count_of_tensors(op) == 2
            if named or both_named or _EVERY.search(match["what"]):
                return True
    return False


def promises_second_order(op: Op) -> bool:
    """Whether a sentence says that the op can be differentiated twice."""
    clauses = (clause for sentence in sentences(op, of_op=True) for clause in sentence.split(";"))
    return any(not _DENIED.search(clause) for clause in filter(_SECOND_ORDER.search, clauses))


def is_learned(op: Op, argument: str) -> bool:
    """Whether the text about an argument says that training changes it."""
    return _LEARNED.search(lines_about(op, argument)) is not None


def is_not_differentiable(op: Op) -> bool:
    """Whether a sentence says that the op is not differentiable, or that nothing requires gradients."""
    return any(map(_NOT_DIFFERENTIABLE.search, sentences(op, of_op=True)))


def gets_no_gradient(op: Op, argument: str) -> bool:
    """Whether a sentence that names an argument says that it gets no gradient."""
    return bool(argument) and any(map(_CONSTANT.search, naming(op, argument)))


def has_zero_derivative(op: Op) -> bool:
    """Whether a sentence says without exceptions that the derivative is zero, as that of a rounding is."""
    return any(map(_ZERO_DERIVATIVE.search, sentences(op, of_op=True)))


def has_part_without_gradient(op: Op, argument: str) -> bool:
    """Whether a sentence that names no other tensor says that something gets no gradient.

    An example is the row of `padding_idx` in an embedding.
    """
    others = [
        item.name for item in op.arguments if item.name != argument and "Tensor" in str(item.type)
    ]
    other = re.compile(mention(*others))
    said = filter(_PART_CONSTANT.search, sentences(op, of_op=True))
    return any(not other.search(sentence) for sentence in said)


def may_be_of_a_solution(op: Op) -> bool:
    """Whether a sentence says that something is solved, as by iterations until they converge."""
    return any(map(_OF_A_SOLUTION.search, sentences(op, of_op=True)))


def _count_of_tensors(op: Op) -> int:
    return sum(str(argument.type) == "Tensor" for argument in op.arguments)
