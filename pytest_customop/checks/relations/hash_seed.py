"""`relations.hash_seed`: results do not depend on Python's hash seed, that of the process."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Hashable, Iterator
from typing import Any

from ...cases.case import Case
from ...cases.code_names import names_in_code
from ...declare.ops import Op
from ...findings import Explanation, doc_links, fail, skip
from ..check import Check
from ..values.memory.calls import (
    CALL,
    Caller,
    copied_results,
    first_difference,
    skip_if_incomparable,
)

_SALT = 0x9E3779B9


def check_hash_seed(case: Case) -> None:
    """Call the op as it is, and with a `hash` that gives other numbers for text, as in another process."""
    skip_if_incomparable(case)
    calls = Caller(case)
    expected = copied_results(calls(case.inputs()))
    with _other_hash_seed():
        actual = copied_results(calls(case.inputs()))
    again = copied_results(calls(case.inputs()))
    if expected is None or again is None or first_difference(again, expected) is not None:
        reason = "the op gives other values each time: see values.repeat"
        raise skip("nondeterministic", reason, unjudged=False)
    wrong = "the op raises" if actual is None else first_difference(actual, expected)
    if wrong is not None:
        raise fail(
            "result-depends-on-hash-seed",
            f"{case.op.name}: the results depend on hash(...) of a text, which each process seeds anew: "
            f"{wrong}",
            "(first: with the numbers of another seed; second: with those of this process)",
            repro=CALL + _SCRIPT,
        )


def _calls_hash(op: Op) -> bool:
    return "hash" in names_in_code(op)


@contextlib.contextmanager
def _other_hash_seed() -> Iterator[None]:
    """Let the built-in function `hash` give other numbers for whatever contains text."""
    original = builtins.hash

    def other(value: Hashable) -> int:
        number = original(value)
        return original((number, _SALT)) if _has_text(value) else number

    builtins.hash = other
    try:
        yield
    finally:
        builtins.hash = original


def _has_text(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return any(map(_has_text, value))
    return isinstance(value, (str, bytes))


_SCRIPT = f"""
import builtins

original = builtins.hash
expected = call(*inputs())
builtins.hash = lambda value: original((original(value), {_SALT}))  # as in another process
try:
    got = call(*inputs())
finally:
    builtins.hash = original
torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
"""

FINDINGS = {
    "result-depends-on-hash-seed": Explanation(
        meaning="A result is computed from Python's hash() of a text.",
        why=(
            "Python seeds the hashes of str and bytes anew in every process (PYTHONHASHSEED). What one "
            "process has trained or stored, another one looks up elsewhere: buckets, salts and seeds "
            "differ between the ranks of a job, and after a restart."
        ),
        fix=(
            "Take a hash that is the same everywhere: zlib.crc32(name.encode()), or "
            "int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), 'little')."
        ),
        before="""
salt = hash(field)
""",
        after="""
salt = zlib.crc32(field.encode())
""",
        docs=(doc_links.CUSTOM_OP,),
        follows=("uninitialized-output", "undeclared-mutation", "outputs-not-repeatable"),
    ),
}

CHECK = Check(
    name="relations.hash_seed",
    summary="results do not depend on Python's hash seed",
    run=check_hash_seed,
    gradients=False,
    needs=_calls_hash,
    variants=("arguments",),
    cheap=True,
    findings=FINDINGS,
    catches=(
        "Buckets, salts and random seeds from `hash(text)`, which differ between processes. If the op's "
        "Python code calls `hash`, the op is called once more with a `hash` that gives other numbers for "
        "whatever contains text."
    ),
    cannot_see=(
        "A hash that an earlier call has stored, the order of sets of texts, and code in other languages."
    ),
    cost="calls",
)
