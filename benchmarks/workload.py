"""The cases of `loop.py`, `running.py` and `growth.py`: reference ops and torch's own custom_op_db.

With `CUSTOMOP_BENCHMARK_OPS=small` they are those of `small_ops.py`. As a test module it holds one marked
test an op; `cases()` gives the same cases to a loop.
"""

import os
import warnings
from typing import Any

import torch
from torch.testing._internal import custom_op_db as db

from pytest_customop import Sample, customop_cases, tensor
from pytest_customop.cases.case import Case
from pytest_customop.checks import builtin_checks
from pytest_customop.declare.declaration import declare_call
from pytest_customop.plan.matrix import plan
from pytest_customop.settings import Settings
from reference_ops import sin

DTYPES = [torch.float32, torch.float64]


def _same(*shapes: tuple[int, ...]) -> list[Any]:
    return [(tensor(*shape),) for shape in shapes]


def _reversed(*size: int) -> tuple[Any, ...]:
    """A tensor, the indices that turn it around along its last dim, and back."""
    order = torch.arange(size[-1] - 1, -1, -1).expand(size).contiguous()
    return tensor(*size), tensor(values=order), tensor(values=order), len(size) - 1


OPS: dict[Any, list[Any]] = {
    sin.numpy_sin: [(tensor(*size), tensor(*size)) for size in [(3,), (4, 5), (4, 2, 3), (7, 9)]],
    sin.numpy_sin_functional: _same((3,), (4, 5), (4, 2, 3), (7, 9)),
    sin.numpy_sin_cpu: _same((6,), (2, 3), (5, 4), (3, 2, 2)),
    sin.numpy_sin_inplace: _same((6,), (2, 3), (5, 4), (3, 2, 2)),
    sin.numpy_sin_scaled: [
        Sample((tensor(4, 5), 2.0), {"frequency": 0.5}, id="both"),
        Sample((tensor(6, 3),), id="defaults"),
        Sample((tensor(7), 3.0), id="scale"),
        Sample((tensor(2, 3, 4), 3.0), id="block"),
    ],
    db.numpy_cube: _same((4,), (3, 5), (2, 3, 4), (8, 6)),
    db.numpy_mul: [(tensor(*size), tensor(*size)) for size in [(4,), (3, 5), (2, 3, 4), (8, 6)]],
    db.numpy_mul_scalar: [
        Sample((tensor(*size),), {"scalar": factor})
        for size, factor in [((4,), 2.0), ((3, 5), 2.0), ((7, 2), -0.5)]
    ],
    db.numpy_sort: [(tensor(5), 0), (tensor(3, 5), 1), (tensor(4, 6), 1), (tensor(2, 3, 4), 1)],
    db.numpy_take: [_reversed(*size) for size in [(3, 5), (4, 6), (2, 3, 4)]],
    db.numpy_nonzero: _same((10,), (3, 4)),
    db.numpy_nms: [(tensor(8, 4, low=0, high=9), tensor(8), 0.5)],
    db.numpy_view_copy: [(tensor(2, 3, 4), [2, 12]), (tensor(6, 4), [24]), (tensor(4, 6), [24])],
    db.numpy_cat: [
        ([tensor(2, 3), tensor(4, 3)], 0),
        ([tensor(3, 5), tensor(2, 5), tensor(4, 5)], 0),
        ([tensor(3, 5), tensor(3, 2)], 1),
    ],
    db.numpy_split_copy: [(tensor(2, 9), [1, 3, 6], 1), (tensor(4, 9), [1, 3, 6], 1)],
    db.numpy_split_copy_with_int: [(tensor(2, 9), [1, 3, 6], 1), (tensor(4, 9), [1, 3, 6], 1)],
}

SMALL = os.environ.get("CUSTOMOP_BENCHMARK_OPS") == "small"
try:
    images: Any = None
    if not SMALL:  # torchvision takes long to import
        from reference_ops import images
except ImportError:  # they need torchvision
    pass
if images is not None:
    OPS[images.crop] = [
        (tensor(3, 24, 24), [4, 0, 14, 10]),
        (tensor(5, 17, 23), [4, 0, 14, 10]),
        (tensor(1, 9, 8), [0, 0, 8, 9]),
        (tensor(4, 12, 15), [4, 2, 12, 12]),
    ]
    OPS[images.paste] = [
        (tensor(3, 31, 40), tensor(3, 11, 10), [3, 2]),
        (tensor(2, 16, 17), tensor(2, 6, 7), [3, 2]),
        (tensor(2, 6, 7), tensor(2, 6, 7), [0, 0]),
    ]


if SMALL:
    import small_ops

    OPS = small_ops.OPS

# Every so many samples only, for a quick look.
_EVERY = int(os.environ.get("CUSTOMOP_BENCHMARK_EVERY", "1"))
OPS = {op: samples[::_EVERY] for op, samples in OPS.items()}


def _marked(op: Any, samples: list[Any]) -> Any:
    @customop_cases(op, samples, dtypes=DTYPES)
    def test() -> None: ...

    return test


for _index, (_op, _samples) in enumerate(OPS.items()):
    globals()[f"test_{_index:02}"] = _marked(_op, _samples)


def cases(checks: list[str]) -> list[tuple[Case, list[str]]]:
    """Every case of the marks above, and which of these checks apply to it."""
    known = [check for check in builtin_checks() if check.name in checks or check.family in checks]
    by_case: dict[Case, list[str]] = {}
    for op, samples in OPS.items():
        declaration = declare_call({"op": op, "samples": samples, "dtypes": DTYPES}, "benchmark")
        for item in plan([declaration], Settings(), lambda _: known, lambda device: None):
            if item.case is not None and item.check is not None:
                by_case.setdefault(item.case, []).append(item.check.name)
    return list(by_case.items())


warnings.filterwarnings("ignore")
