"""Perturb and restore the global settings of torch, numpy, Python and the process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from .process_settings import PROCESS_SETTINGS
from .setting import Setting
from .torch_settings import THREADS, TORCH_SETTINGS

# In the order in which they are written.
SETTINGS: tuple[Setting, ...] = (*TORCH_SETTINGS, *PROCESS_SETTINGS)


def perturb(*, threads: bool = True) -> None:
    """Change the value of every setting that has another one.

    Args:
        threads: whether the number of threads changes too. Native code that has already allocated memory
            for each thread would write outside of it.
    """
    for setting in SETTINGS:
        if setting.change is not None and (threads or setting.name != THREADS):
            value = setting.read()
            changed = setting.change(value)
            if changed != value:
                with contextlib.suppress(RuntimeError):  # flags that the session has frozen
                    setting.write(changed)


@contextlib.contextmanager
def preserved() -> Iterator[Callable[[], None]]:
    """Restore every setting that the block changes.

    Yields:
        a function that restores them at once.
    """
    before = [(setting, setting.read()) for setting in SETTINGS]

    def restore() -> None:
        for setting, value in before:
            if setting.read() != value:
                setting.write(value)

    try:
        yield restore
    finally:
        restore()
