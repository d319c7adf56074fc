"""Custom operators to copy from, and the marked tests that check them.

The operators live in the namespace ``refops``.  Importing the package registers none of them and
imports neither torch nor torchvision; the first use of a name does both:

>>> from reference_ops import crop, paste        # needs torchvision and pillow
>>> from reference_ops import numpy_sin          # needs numpy

========================== ========================================================================
``reference_ops.images``   ``crop`` and ``paste``, on PIL images: opaque to the compiler, they train
``reference_ops.sin``      ``numpy_sin`` and the other ways to register an operator
========================== ========================================================================

``pytest --pyargs reference_ops`` runs their tests.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reference_ops.images import crop as crop
    from reference_ops.images import paste as paste
    from reference_ops.sin import numpy_sin as numpy_sin
    from reference_ops.sin import numpy_sin_cpu as numpy_sin_cpu
    from reference_ops.sin import numpy_sin_functional as numpy_sin_functional
    from reference_ops.sin import numpy_sin_inplace as numpy_sin_inplace
    from reference_ops.sin import numpy_sin_scaled as numpy_sin_scaled

_HOMES = {
    "crop": "images",
    "paste": "images",
    "numpy_sin": "sin",
    "numpy_sin_cpu": "sin",
    "numpy_sin_functional": "sin",
    "numpy_sin_inplace": "sin",
    "numpy_sin_scaled": "sin",
}

__all__ = [
    "crop",
    "numpy_sin",
    "numpy_sin_cpu",
    "numpy_sin_functional",
    "numpy_sin_inplace",
    "numpy_sin_scaled",
    "paste",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
