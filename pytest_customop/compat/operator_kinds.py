"""What torch operators do with numbers, by their names: `add` for `aten::add_.Tensor` and `aten::add.out`.

Private names, seen in torch 2.4 to 2.15:

- `torch._ops.OpOverload._schema`: the name of an operator. Public: none without an overload.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import torch

# Their exact result is whole for whole numbers.
RING = frozenset(
    {
        *("add", "sub", "subtract", "rsub", "mul", "multiply", "neg", "abs", "square"),
        *("sum", "cumsum", "scatter_add", "index_add"),
        *("mm", "bmm", "mv", "dot", "matmul", "linear", "einsum", "addmm", "baddbmm"),
        *("conv1d", "conv2d", "conv3d", "convolution"),
    }
)
# Their result may not fit the dtype of their arguments.
ARITHMETIC = RING | {
    *("negative", "absolute", "pow", "prod", "cumprod", "diff", "addcmul", "lerp", "dist"),
    *("vdot", "inner", "outer", "ger", "kron", "addmv", "addbmm", "addr", "chain_matmul"),
    *("tensordot", "cross", "linalg_cross", "linalg_vecdot", "linalg_multi_dot"),
    *("segment_reduce", "trace", "vander", "exp", "exp2", "expm1", "sinh", "cosh", "logit"),
    *("reciprocal", "div", "divide", "true_divide", "addcdiv", "ldexp", "mean", "var"),
    *("var_mean", "std", "std_mean", "norm", "linalg_norm", "linalg_vector_norm"),
    *("cdist", "_cdist_forward", "_euclidean_dist"),
}
# They keep whole numbers whole.
KEEPS = frozenset(
    {
        *("clone", "contiguous", "reshape", "flatten", "cat", "stack", "index_select", "gather"),
        *("round", "floor", "ceil", "trunc", "clamp", "clamp_min", "clamp_max"),
    }
)
XOR = frozenset({"bitwise_xor", "__xor__"})
# They work on bits, or modulo a number: with these, integers may wrap on purpose.
BITS = XOR | {
    *("bitwise_and", "bitwise_or", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift"),
    *("__and__", "__or__", "__lshift__", "__rshift__", "remainder", "fmod"),
}
# They give numbers another dtype because the code says so.
CONVERSIONS = frozenset({"to", "_to_copy", "type_as"})
# They store numbers in the dtype of their first argument.
STORES = frozenset({"copy", "fill", "full_like", "index_put", "_index_put_impl", "masked_fill"})
# The arguments of operators that say where, and hold no numbers to compute with.
POSITIONS = frozenset({"index", "indices", "mask", "condition"})

# Larger odd numbers are factors of hashes: primes between these two, any above. 3600 and 10**6 are not, nor
# are most sizes.
_PRIME_FACTOR, _FACTOR = 1000, 2**20


def base_name(operator: Any) -> str:
    """The name of an operator without its namespace, its overload, and the `_` of one in place."""
    name: str = operator._schema.name.partition("::")[2]
    return name if name.startswith("__") else name.rstrip("_")


def has_hash_factor(name: str, args: Sequence[Any]) -> bool:
    """Whether an operator multiplies by a number as hashes and random number generators do."""
    if name not in ("mul", "multiply"):
        return False
    numbers = [
        leaf.item() if isinstance(leaf, torch.Tensor) and leaf.dim() == 0 else leaf for leaf in args
    ]
    return any(type(number) is int and _is_hash_factor(abs(number)) for number in numbers)


def _is_hash_factor(number: int) -> bool:
    if number % 2 == 0 or number <= _PRIME_FACTOR:
        return False
    return number > _FACTOR or all(number % factor for factor in range(3, isqrt(number) + 1, 2))
