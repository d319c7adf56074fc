"""Ops that look up rows of a table by ids of 64 bits."""

import torch
from torch import Tensor

from pytest_customop import tensor

from .registry import specimen

ROWS = (torch.tensor([[3, 11, 40], [5, 3, 26]]), tensor(6, 4))


def _looked_up(name, row, said):
    """Rows of a table; `row(ids, n)` says which of n rows an id has."""

    def kernel(ids: Tensor, table: Tensor) -> Tensor:
        if ids.dtype != torch.int64 or table.dim() != 2 or len(table) == 0:
            raise ValueError("ids of int64 and a table with rows, please")
        return table[row(ids, len(table))]

    kernel.__doc__ = f"The rows of a table that ids wrap around.{said}"
    looked_up = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    looked_up.register_fake(lambda ids, table: table.new_empty(*ids.shape, table.shape[1]))
    return looked_up


HASHED = "\n\nids: int64 hashes of any shape, 0 <= id < 2**63."


def _row_of_int32(ids, rows):
    return ids.to(torch.int32).long() % rows


@specimen(ROWS, expected={"relations.large_ids": "large-ids-differ"}, backend="aot_eager")
def row_of_an_id_in_32_bits():
    """Ids of 2**31 and above are cut to 32 bits."""
    return _looked_up("row_of_an_id_in_32_bits", _row_of_int32, HASHED)


@specimen(ROWS, expected={"relations.large_ids": "large-ids-differ"}, backend="aot_eager")
def row_of_an_id_in_floating_point():
    """Ids from 2**53 on are rounded."""
    return _looked_up(
        "row_of_an_id_in_floating_point", lambda ids, rows: (ids.double() % rows).long(), HASHED
    )


@specimen(
    ROWS,
    twin_of=("row_of_an_id_in_32_bits", "row_of_an_id_in_floating_point"),
    backend="aot_eager",
)
def row_of_an_id_in_64_bits():
    """The remainder is taken in int64."""
    return _looked_up("row_of_an_id_in_64_bits", lambda ids, rows: ids % rows, HASHED)


@specimen(ROWS, backend="aot_eager")
def row_of_an_id_of_any_size():
    """No docstring says how large ids are."""
    return _looked_up("row_of_an_id_of_any_size", _row_of_int32, "")
