"""Why a child process ended: a signal, an exit of its own, or a limit of time or memory."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from ...core.lost_device import loss
from ...core.tracebacks import is_of_author
from . import protocol

_LINES = 20  # of standard error that a failure shows, apart from stacks
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):")
_FRAME = re.compile(r'  File "(.*)", line \d+ in ')
_PACKAGE = re.compile(r"[/\\]pytest_customop[/\\]")


class ProcessExit(Exception):
    """The child process has ended, or was killed.

    Args:
        code: the finding: `crash` or `hang`.
        how: what follows the op's name: "dies of SIGSEGV".
        stderr: the end of what it wrote there.
        fix: what to look at; None: the fix in the catalogue.
        exit_code: the code with which it ended itself; None if it did not.

    Attributes:
        signal: the name of the signal that it caused itself; empty without one.
        device_error: the error of a device that it has lost; empty without one.
        phase: what it was doing, one of `protocol`.
        after_calls: whether it had made other calls before.
        has_successor: whether another process can start at once, without importing everything.
        seconds: how long the item took.
    """

    def __init__(
        self,
        code: str,
        how: str,
        stderr: str = "",
        fix: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(how)
        self.code = code
        self.how = how
        self.stderr = stderr
        self.fix = fix
        self.exit_code = exit_code
        self.signal = ""
        self.device_error = ""
        self.phase = ""
        self.after_calls = False
        self.has_successor = False
        self.seconds = 0.0

    @property
    def may_be_of_earlier_calls(self) -> bool:
        """Whether calls that the child made before may have damaged the memory at which it died.

        It died outside of the first plain call, or in this call, but after other calls. If another child
        takes seconds, only an abort counts in the second case: mostly the allocator's.
        """
        if not self.signal:
            return False
        if self.phase == protocol.EAGER:
            return self.after_calls and (self.has_successor or self.signal == "SIGABRT")
        return self.phase in (protocol.DRAW, protocol.CHECK, protocol.BODY)

    @property
    def is_of_teardown(self) -> bool:
        """Whether it died of a signal in the teardown of an item."""
        return bool(self.signal) and self.phase == protocol.TEARDOWN


_EXITS = (
    "Raise an exception, with TORCH_CHECK in C++, instead of ending the process: it belongs to "
    "the caller of the op. Look for exit, _exit and os._exit in the kernel and in what it calls."
)
_KILLED = (
    "Look at how much memory the op takes (the log of the system's kernel says whether that was the "
    "reason), and at what else may have killed the process."
)
_MEMORY = (
    "Look at how the sizes of allocations are computed, and for memory that is kept from call to call. "
    "If the op needs this much, use smaller samples or a larger --customop-memory."
)


def ended_itself(returncode: int, stderr: str) -> ProcessExit:
    """The exit of a child that this process has not killed.

    Args:
        returncode: as `subprocess` gives it: the exit code, or minus the number of the signal.
    """
    if returncode >= 0:
        how = f"ends the process with exit code {returncode}"
        return ProcessExit("crash", how, stderr, _EXITS, exit_code=returncode)
    name = signal_name(-returncode)
    if name == "SIGKILL":
        how = "dies of SIGKILL (which the system sends where memory runs out)"
        return ProcessExit("crash", how, stderr, _KILLED)
    ended = ProcessExit("crash", f"dies of {name}", stderr)
    ended.signal = name
    return ended


def out_of_memory(limit: int, stderr: str) -> ProcessExit:
    """The exit of a child that held more than this many bytes."""
    return ProcessExit("crash", f"takes more than {limit / 1e9:.3g} GB of memory", stderr, _MEMORY)


def timed_out(limit: float, stderr: str) -> ProcessExit:
    """The exit of a child that did not answer within this many seconds."""
    return ProcessExit("hang", f"does not end within {limit:g} s", stderr)


def device_lost(lost: protocol.DeviceLost, stderr: str) -> ProcessExit:
    """The exit of a child that was killed because it can use a device no more."""
    from ...run.lost_devices import FIX

    ended = ProcessExit("crash", loss(lost.device, lost.error), stderr, FIX)
    ended.device_error = lost.error
    return ended


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def shortened(text: str) -> str:
    """The end of a process's standard error, its Python stacks cut to the author's frames.

    In faulthandler's stacks, the innermost frame of the current thread stays too. Other threads without a
    frame of the author are left out.
    """
    other_lines: list[str] = []
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
            other_lines.append(line)
    return "\n".join([*other_lines[-_LINES:], *stacks])


def _stack(heading: str, frames: Sequence[str]) -> list[str]:
    files = [frame.split('"')[1] for frame in frames]
    caller = next((at for at, file in enumerate(files) if _calls_author(file)), len(files))
    author = [frames[at] for at in range(caller) if is_of_author(files[at])]
    current = heading.startswith("Current")
    if not author and not current:
        return []
    top = [] if not frames or frames[0] in author else [frames[0]]
    return [heading, *top, *author]


def _calls_author(file: str) -> bool:
    """Whether a file is of this package or of pytest, which call the author's code."""
    from ...compat.pytest_private import runs_tests

    return _PACKAGE.search(file) is not None or runs_tests(file)
