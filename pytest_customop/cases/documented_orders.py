"""Read from an op's docstrings that the order of entries does not matter, or that results are sorted."""

from __future__ import annotations

import re

from ..declare.ops import Op
from .documented import lines_about, sentences
from .documented_shapes import documented_shapes

# In one clause of the text about an argument.
_ANY_ORDER = re.compile(
    r"\border\b[^.;,]{0,40}\b(carries no|(does|do) not matter|is (irrelevant|arbitrary|free|insignificant)"
    r"|has no (effect|influence|meaning)|is not (significant|important|relevant))"
    r"|\bin any order\b|\bany order\b|\bin (an )?arbitrary order\b|\bun-?ordered\b|\bun-?sorted\b"
    r"|\b(need|does|do|must) not( (have to|need to))? be (sorted|ordered|in order)\b"
    r"|\bnot (necessarily|assumed( to be)?) (sorted|ordered)\b|\bpermutation[- ]invariant\b",
    re.I,
)
# In one sentence: results are the same for entries in any order.
_SAME_RESULTS = re.compile(
    r"\b((do|does|will) not depend on|(is|are) (independent of|invariant (to|under)|unaffected by))"
    r" (the |any )?(order(ing)?|permutations?) of (the |its |their )?(?P<entries>\w+)",
    re.I,
)
# In the same part of a clause: entries that belong to a group stay there.
_LIMITED = re.compile(
    r"\b(within|inside|in|of|per|for|among) (a|an|each|every|its|their|the same|one) \w+|\bonly\b"
    r"|\bstable\b|\b(but|except)\b",
    re.I,
)
# In the whole clause: it is about something else.
_OF_OTHERS = re.compile(
    r"\b(results?|outputs?|returns?|returned|raises?|differentia\w*|derivatives?|gradients?|spline|memory"
    r"|byte|layout|strides?)\b",
    re.I,
)
_SORTED = re.compile(
    r"\bsorted\b(?! (inputs?|arguments?))|\b((in|de)creasing|lexicographic(al)?) order\b"
    r"|\b(ascending|descending|non-?decreasing|lexicographically)\b",
    re.I,
)
_RESULT = re.compile(r"\b(returns?|returned|results?|outputs?|gives?|yields?)\b", re.I)


def clause_of_any_order(op: Op, argument: str) -> str:
    """The clause about an argument which says that the order of its entries does not matter; or empty."""
    for clause in re.split(r"[.;]\s", lines_about(op, argument)):
        said = _ANY_ORDER.search(clause)
        if said is None or _OF_OTHERS.search(clause):
            continue
        start = max(clause.rfind(sign, 0, said.start()) for sign in ",:") + 1
        if not _LIMITED.search(clause, start):
            return " ".join(clause[start:].split())
    return _clause_of_same_results(op, argument)


def _clause_of_same_results(op: Op, argument: str) -> str:
    """The same in a sentence about the results; the entries may be those along the first dim of all."""
    shapes = documented_shapes(op)
    shared = len({dims[:1] for dims in shapes.values()}) == 1 and argument in shapes
    names = {each.name for each in op.arguments}
    for sentence in sentences(op, of_op=True):
        said = _SAME_RESULTS.search(sentence)
        if said is None or _LIMITED.search(sentence, said.end()):
            continue
        if said["entries"] == argument or (shared and said["entries"] not in names):
            return said[0]
    return ""


def clause_of_sorted_results(op: Op) -> str:
    """The clause which says that a result is sorted, and not only within parts of it; empty without one."""
    of_arguments = {*sentences(op, of_op=True, results=False)}
    for sentence in sentences(op, of_op=True):
        for clause in re.split(r";\s", sentence):
            said = _SORTED.search(clause)
            is_of_results = sentence not in of_arguments or _RESULT.search(clause)
            if said and is_of_results and not _LIMITED.search(clause, said.start()):
                return clause
    return ""
