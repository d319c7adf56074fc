"""Read from an op's docstrings the shapes of its tensors: `v: (B, H, S, Dv)`, or ``col`` int64 ``[E]``."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping

from ..declare.ops import Op
from .documentation import mention, texts_about
from .documented import lines_about

Shape = tuple[str, ...]  # a letter or word, a number or a term for each dim

_DIM = r"[A-Za-z_]\w*|\d+"
_TERM = rf"(?:{_DIM})(?:\s*[-+*/]{{1,2}}\s*(?:{_DIM}))*"
_LISTED = re.compile(
    rf"(?<!\w)(?P<tick>`*)(?P<open>[(\[])\s*(?P<dims>{_TERM}(?:\s*,\s*{_TERM})*)\s*(?P<comma>,?)\s*[)\]]"
)
# Any dims, and then some with names: `(..., H, W)`.
_ANY_BEFORE = re.compile(
    rf"[(\[]\s*(?:\.\.\.|\u2026|\*)\s*,\s*(?P<dims>{_TERM}(?:\s*,\s*{_TERM})*)\s*[)\]]"
)
_LETTER = re.compile(r"[A-Z]\w?\d?")
# Words in parentheses that are no size.
_NO_SIZE = re.compile(
    r"u?int\d*|b?float\d*|half|double|long|bool(ean)?|complex\d*|optional|default|required|inclusive"
    r"|exclusive|tensor|contiguous|integers?|scalar|and|or|see",
    re.I,
)
_AND = re.compile(r"\W*(,|and|/|&)\W*(and\W*)?")
_OR = re.compile(r"\W*\bor\b\W*")
_ONE_MORE = re.compile(r"(?P<of>[A-Za-z_]\w*)\+1")
_FARTHEST = 48  # characters between the name of an argument and its shape


@functools.lru_cache(maxsize=256)
def documented_shapes(op: Op) -> Mapping[str, Shape]:
    """The shape that the text gives each tensor argument, by name; none where it gives several.

    Where it does, the lines about the argument alone count. Lists of tensors are left out: their tensors
    may differ in shape.
    """
    names = [item.name for item in op.arguments]
    tensors = [item.name for item in op.arguments if _is_tensor(str(item.type))]
    found: dict[str, set[Shape]] = {}
    for text in texts_about(op):
        for name, shape in _shapes_in(text, names):
            found.setdefault(name, set()).add(shape)
    for name in tensors:
        if len(found.get(name, ())) > 1:
            found[name] = {shape for _, shape in _shapes_in(lines_about(op, name), [name])}
    return {name: next(iter(found[name])) for name in tensors if len(found.get(name, ())) == 1}


def _is_tensor(kind: str) -> bool:
    return "Tensor" in kind and "List" not in kind


def _shapes_in(text: str, names: Iterable[str]) -> Iterable[tuple[str, Shape]]:
    """(argument, shape) for each shape that stands behind the name of an argument."""
    named = re.compile(mention(*names))
    last: list[str] = []
    for match in _LISTED.finditer(text):
        dims = tuple(re.sub(r"\s", "", dim) for dim in match["dims"].split(","))
        if not _is_shape(match, dims):
            continue
        before = text[max(0, match.start() - _FARTHEST) : match.start()]
        before = re.split(r"[()\[\]]|\.\s|\n\s*\n", before)[-1]
        if not _OR.fullmatch(before):
            last = [*_last_mentioned(before, named)]
        yield from ((name, dims) for name in last)


def _last_mentioned(text: str, named: re.Pattern[str]) -> Iterator[str]:
    """The last name in a text, and those that it is listed with: `key and value:`."""
    following: re.Match[str] | None = None
    for match in reversed([*named.finditer(text)]):
        if following is not None and not _AND.fullmatch(text[match.end() : following.start()]):
            return
        yield match[0]
        following = match


def _is_shape(match: re.Match[str], dims: Shape) -> bool:
    """Whether a list stands for a shape. A single word in parentheses may be anything else."""
    if any(_NO_SIZE.fullmatch(dim) for dim in dims):
        return False
    if len(dims) > 1 or match["comma"] or match["tick"] or match["open"] == "[":
        return True
    return _LETTER.fullmatch(dims[0]) is not None


def may_have_entries(op: Op, argument: str, dims: int) -> bool:
    """Whether the first dim of an argument may be one of entries: no text counts it to each of them.

    In `(..., H, W)` it does where there are no more than two dims.
    """
    named = [
        match["dims"].count(",") + 1 for match in _ANY_BEFORE.finditer(lines_about(op, argument))
    ]
    return not named or dims > min(named)


def names_of_sizes(
    op: Op, shapes: Mapping[str, tuple[int, ...]]
) -> Mapping[tuple[str, int], str] | None:
    """How the text calls each size of the tensors of a call, by argument and dim.

    Args:
        shapes: of the call's tensors, by argument.

    Returns:
        None unless the text gives the shapes of all tensors with dims, and they agree with the call.
    """
    documented = documented_shapes(op)
    sizes: dict[str, int] = {}
    names: dict[tuple[str, int], str] = {}
    for argument, shape in shapes.items():
        if not shape:
            continue
        dims = documented.get(argument, ())
        if len(dims) != len(shape):
            return None
        for at, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            if sizes.setdefault(dim, size) != size or (dim.isdigit() and int(dim) != size):
                return None
            names[argument, at] = dim
    return names


def with_another_size(op: Op, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    """The first argument that has another size than the number in its text, as 3 in `[N, 3]`; or None.

    Args:
        shapes: of the call's tensors, by argument.
    """
    for argument, dims in documented_shapes(op).items():
        shape = shapes.get(argument, ())
        pairs = zip(dims, shape, strict=True) if len(dims) == len(shape) else ()
        if any(dim.isdigit() and int(dim) != size for dim, size in pairs):
            return argument
    return None


def is_number_in_text(op: Op, argument: str, dim: int, size: int) -> bool:
    """Whether the text gives a size as a number: 2 at dim 1 of an argument that is `(B, 2, H, W)`."""
    return documented_shapes(op).get(argument, ())[dim : dim + 1] == (str(size),)


def documented_shape(
    op: Op, argument: str, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The shape of an argument by the text, with the sizes of a call that leaves it out.

    Returns:
        None if the text gives no shape, or the call does not tell a size.
    """
    names = names_of_sizes(op, shapes)
    if names is None:
        return None
    sizes = {dim: shapes[name][at] for (name, at), dim in names.items()}
    dims = documented_shapes(op).get(argument)
    if dims is None:
        return None
    given = [_size(dim, sizes) for dim in dims]
    known = tuple(size for size in given if size is not None)
    return known if len(known) == len(given) else None


def _size(dim: str, sizes: Mapping[str, int]) -> int | None:
    """The size of a dim: a number, the size of its name, or N where another is `N+1`, and the other way."""
    if dim.isdigit():
        return int(dim)
    if dim in sizes:
        return sizes[dim]
    if (more := _ONE_MORE.fullmatch(dim)) and more["of"] in sizes:
        return sizes[more["of"]] + 1
    more_than = f"{dim}+1"
    return sizes[more_than] - 1 if sizes.get(more_than) else None
