"""Read from an op's docstrings that the order of an argument's entries does not matter."""

from __future__ import annotations

import re

from ..declare.ops import Op
from .documented import lines_about

# In one clause of the text about an argument.
_ANY_ORDER = re.compile(
    r"\border\b[^.;,]{0,40}\b(carries no|(does|do) not matter|is (irrelevant|arbitrary|free|insignificant)"
    r"|has no (effect|influence|meaning)|is not (significant|important|relevant))"
    r"|\bin any order\b|\bany order\b|\bin (an )?arbitrary order\b|\bun-?ordered\b|\bun-?sorted\b"
    r"|\b(need|does|do|must) not( (have to|need to))? be (sorted|ordered|in order)\b"
    r"|\bnot (necessarily|assumed( to be)?) (sorted|ordered)\b|\bpermutation[- ]invariant\b",
    re.I,
)
# From there on: entries that belong to a group stay there.
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


def clause_of_any_order(op: Op, argument: str) -> str:
    """The clause about an argument which says that the order of its entries does not matter; or empty."""
    for clause in re.split(r"[.;]\s", lines_about(op, argument)):
        said = _ANY_ORDER.search(clause)
        if said and not _LIMITED.search(clause, said.start()) and not _OF_OTHERS.search(clause):
            start = max(clause.rfind(sign, 0, said.start()) for sign in ",:") + 1
            return " ".join(clause[start:].split())
    return ""
