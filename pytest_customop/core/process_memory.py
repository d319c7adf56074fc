"""Read how much memory a process holds and how much is free, on Linux; limit that of this process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

# The files of a control group in versions 2 and 1, seen from inside of a container: the limit, the memory
# in use, and the part of it that is a cache of files, which the kernel frees when it has to.
_GROUPS = (
    ("memory.max", "memory.current", "file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_cache"),
)


def resident(pid: int) -> int | None:
    """The bytes of memory that a process holds; None on other systems, or without such a process."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else None


def limit_growth(size: int) -> None:
    """Limit this process for good to `size` bytes more than it has reserved: further allocations fail.

    This has no effect on systems other than Linux.
    """
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return
    import resource

    reserved = int(fields[0]) * os.sysconf("SC_PAGE_SIZE")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (reserved + size, hard))


@contextlib.contextmanager
def growth_limited(size: int) -> Iterator[None]:
    """In the block, limit this process as `limit_growth` does; a lower limit stays.

    A single call of native code that allocates too much then raises. Nothing could interrupt it.
    """
    try:
        import resource
    except ImportError:  # Windows
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit_growth(size)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    with contextlib.suppress(OSError, ValueError):
        if soft != resource.RLIM_INFINITY and (limit == resource.RLIM_INFINITY or soft < limit):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def available(root: Path = Path("/")) -> int | None:
    """The bytes that are free in the machine and in the container; None if neither is known."""
    kilobytes = _table(root / "proc/meminfo").get("MemAvailable:")
    free = [] if kilobytes is None else [kilobytes * 1024]
    groups = root / "sys/fs/cgroup"
    for limit, used, cache in _GROUPS:
        most, now = _number(groups / limit), _number(groups / used)
        if most is not None and now is not None:
            cached = _table((groups / used).parent / "memory.stat").get(cache, 0)
            free.append(max(most - max(now - cached, 0), 0))
    return min(free, default=None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # the limit is "max" where there is none
        return None


def _table(path: Path) -> Mapping[str, int]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    rows = [line.split() for line in lines]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
