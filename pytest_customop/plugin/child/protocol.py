"""The messages between a session and its child process. Imports neither torch nor pytest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CHILD = "customop_child"  # in a session's workerinput: it is a child


def is_child(config: Any) -> bool:
    """Whether a session is one of a child process."""
    return CHILD in getattr(config, "workerinput", {})


# The phases of an item. The child sends each before it begins, so that its end can be explained.
START, COLLECT, SETUP, TEARDOWN = "start", "collect", "setup", "teardown"
DRAW, EAGER, CHECK, BODY = "draw", "eager", "check", "body"

Names = tuple[str, ...]  # of an item's nodes below its file: class, function with its parameters


@dataclass(frozen=True)
class Preload:
    """The first message to the process that forks children: what to import besides torch and dynamo.

    Args:
        compiler: whether the compiler is imported too.
    """

    compiler: bool


@dataclass(frozen=True)
class Fork:
    """Request a child from the process that has imported torch. Four file descriptors follow.

    They are the socket on which it sends the child's process id and, when the child has ended, its exit
    code; and the child's end of the connection, its standard output and its standard error.

    Args:
        cwd: the child's folder.
        environment: its environment variables.
        path: its `sys.path`.
    """

    cwd: str
    environment: dict[str, str]
    path: tuple[str, ...]


@dataclass(frozen=True)
class Start:
    """The first message to a child: describes its pytest session.

    Args:
        args: of the session's own command line.
        basetemp: the child's folder for temporary files; None: pytest's own choice.
        forks: whether it forks a runner for the items, and another when that one has ended.
        workerinput: as for an xdist worker, because plugins read it.
    """

    args: tuple[str, ...]
    basetemp: str | None
    forks: bool
    workerinput: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Collect:
    """Request the items of a file. The answer is `Collected`."""

    path: str


@dataclass(frozen=True)
class Run:
    """Request a run of one item of a file that was collected. The last answer is `Done` or `Ended`.

    Args:
        finished: the records of the item's variants that do not run again, as `record.to_wire` makes them.
        shows_calls: whether a `Call` comes before and after each call of the op.
    """

    path: str
    names: Names
    nodeid: str
    next_path: str | None = None
    next_names: Names = ()
    finished: tuple[dict[str, Any], ...] = ()
    shows_calls: bool = False


@dataclass(frozen=True)
class End:
    """Ask the child to tear down what is set up, and to end; or the process that forks children to end.

    Closing the connection may not be enough: a copy of the session may hold it open too.
    """


@dataclass(frozen=True)
class Ready:
    """The child's session has begun."""


@dataclass(frozen=True)
class Collected:
    """The answer to `Collect`; `error` says why there may be items missing."""

    names: frozenset[Names]
    error: str | None = None


@dataclass(frozen=True)
class Runner:
    """A runner was forked, which answers in the child's place. The descriptor of its connection follows.

    Args:
        pid: its process id.
    """

    pid: int


@dataclass(frozen=True)
class RunnerEnded:
    """The runner has ended; the child itself answers the next request.

    Args:
        code: the exit code, or minus the number of the signal.
    """

    code: int


@dataclass(frozen=True)
class Phase:
    """The phase that the child begins."""

    name: str


@dataclass(frozen=True)
class Generated:
    """The generated input that is tried next, pickled; None if it cannot be pickled."""

    data: bytes | None


@dataclass(frozen=True)
class Call:
    """The arguments of the call that comes next, pickled; None when it has returned."""

    data: bytes | None


@dataclass(frozen=True)
class Stderr:
    """Standard error is captured into a file; the file's descriptor follows."""


@dataclass(frozen=True)
class Report:
    """A report of pytest, made serializable."""

    data: dict[str, Any]


@dataclass(frozen=True)
class VariantEnded:
    """The record of one variant of the item that runs, as `record.to_wire` makes it."""

    record: dict[str, Any]


@dataclass(frozen=True)
class Warned:
    """The arguments of `pytest_warning_recorded`, the warning as its text and category."""

    text: str
    category: Any
    filename: str
    lineno: int
    when: str
    nodeid: str
    location: tuple[str, int, str] | None


@dataclass(frozen=True)
class DeviceLost:
    """A call has left a device unusable in the child, which waits to be killed.

    Args:
        device: the type of the device.
        error: what every call on it raises.
    """

    device: str
    error: str


@dataclass(frozen=True)
class Done:
    """The item has ended."""


@dataclass(frozen=True)
class Ended:
    """The item has requested the end of the session: by `pytest.exit`, or by KeyboardInterrupt."""

    interrupt: bool
    reason: str = ""
    returncode: int | None = None
