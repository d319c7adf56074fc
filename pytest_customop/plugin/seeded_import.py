"""Make samples that a file draws while it is imported the same in every process.

An example is `torch.randn(4, 5)` in a mark. torch starts its stream from another seed in every process, so
a worker of pytest-xdist, a child or the next run would have other samples, and maybe other ids.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def torch_seeded(collector: pytest.Collector) -> Iterator[None]:
    """Start torch's stream from the session's seed and the file's name, and restore it afterwards.

    If the file calls `torch.manual_seed` itself, the stream stays as the file leaves it.
    """
    try:
        import torch
    except ImportError:  # the file may skip itself then
        yield
        return

    from ..core.seeds import seed_of
    from .runtime import session_of

    generator = torch.default_generator
    before = generator.get_state()
    seed = seed_of("import", session_of(collector.config).settings.seed, collector.nodeid)
    generator.manual_seed(seed)
    try:
        yield
    finally:
        if generator.initial_seed() == seed:
            generator.set_state(before)
