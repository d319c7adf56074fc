"""How a child process died: by a signal, by ending itself, or by a limit of ours."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from ...core.tracebacks import is_of_author

_LINES = 20  # of standard error that a failure shows, beside the stacks
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):")
_FRAME = re.compile(r'  File "(.*)", line \d+ in ')
_RUNNER = re.compile(r"[/\\](pytest_customop|_pytest|pluggy)[/\\]")  # it calls the author's code


class Died(Exception):
    """The child is no more.

    Args:
        code: the finding: `crash` or `hang`.
        how: what follows the op's name: "dies of SIGSEGV".
        stderr: the end of what it wrote there.
        fix: what to look at; None: as the catalogue says.

    `phase` is what it was doing, one of `messages`, and `seconds` how long the item took; `exit_code`
    is the one with which it ended itself, None where it did not.
    """

    phase = ""
    seconds = 0.0
    exit_code: int | None = None

    def __init__(self, code: str, how: str, stderr: str = "", fix: str | None = None) -> None:
        super().__init__(how)
        self.code = code
        self.how = how
        self.stderr = stderr
        self.fix = fix


_EXITS = (
    "Raise an exception, with TORCH_CHECK in C++, instead of ending the process: it belongs to "
    "whoever calls the op. Look for exit, _exit and os._exit in the kernel and in what it calls."
)
_KILLED = (
    "Look at how much memory the op takes (the kernel's log says whether that was the reason), and "
    "for who else may have killed the process."
)
_MEMORY = (
    "Look at how the sizes of allocations are computed, and for what is kept from call to call. If "
    "it needs as much, use smaller samples or a larger --customop-memory."
)


def of_itself(returncode: int, stderr: str) -> Died:
    """The death of a child that nobody here has killed."""
    if returncode >= 0:
        ended = Died("crash", f"ends the process with exit code {returncode}", stderr, _EXITS)
        ended.exit_code = returncode
        return ended
    name = signal_name(-returncode)
    if name == "SIGKILL":
        how = "dies of SIGKILL (which the system sends where memory runs out)"
        return Died("crash", how, stderr, _KILLED)
    return Died("crash", f"dies of {name}", stderr)


def for_memory(limit: int, stderr: str) -> Died:
    """The death of a child that held more memory than it may."""
    return Died("crash", f"takes more than {limit / 1e9:.3g} GB of memory", stderr, _MEMORY)


def for_time(limit: float, stderr: str) -> Died:
    """The death of a child that did not answer in time."""
    return Died("hang", f"does not end within {limit:g} s", stderr)


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def shortened(text: str) -> str:
    """The end of a process's standard error, its Python stacks cut to the author's frames.

    Of faulthandler's stacks the innermost frame stays too, whosever it is; threads in which no
    author's frame runs are left out.
    """
    other: list[str] = []
    stacks: list[str] = []
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        if _THREAD.match(line):
            frames = []
            while lines and _FRAME.match(lines[0]):
                frames.append(lines.pop(0))
            stacks += _stack(line, frames)
        elif line.strip() and not line.startswith("Extension modules:"):
            other.append(line)
    return "\n".join([*other[-_LINES:], *stacks])


def _stack(heading: str, frames: Sequence[str]) -> list[str]:
    files = [frame.split('"')[1] for frame in frames]
    runner = next((at for at, file in enumerate(files) if _RUNNER.search(file)), len(files))
    author = [frames[at] for at in range(runner) if is_of_author(files[at])]
    current = heading.startswith("Current")
    if not author and not current:
        return []
    top = [] if not frames or frames[0] in author else [frames[0]]
    return [heading, *top, *author]
