"""The objects that the fixtures give to a test, and the error that they raise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..cases.case import Case
from ..cases.run import Run
from ..core.wording import counted, dtype_name
from ..global_state.preserve import preserved_state
from ..report.causes import also_line, causes

if TYPE_CHECKING:
    import torch

    from ..run.results import CheckResult


class CaseHandle:
    """One case of a marked test: call it to run the op on fresh inputs.

    `args` and `kwargs` are the arguments of the last call in their state after it: a mutated argument has
    its new values, and `.grad` the accumulated gradient. Before the first call they are fresh inputs.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._arguments = case.inputs()

    def __call__(self) -> Any:
        """Run the op on fresh inputs and return its result.

        Raises whatever the op raises. The random streams of the session stay as they were.
        """
        with preserved_state():
            run: Run = self._case.run(self._case.inputs())
        self._arguments = run.arguments
        if run.error is not None:
            raise run.error
        return run.result

    def inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh positional and keyword arguments, in memory of their own."""
        arguments = self._case.inputs()
        return arguments.args, dict(arguments.kwargs)

    @property
    def op(self) -> torch._ops.OpOverload:
        """The op's overload."""
        return self._case.op.overload

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the last call."""
        return self._arguments.args

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments of the last call."""
        return self._arguments.kwargs

    @property
    def device(self) -> str:
        """The case's device, as on the command line."""
        return self._case.placement.device

    @property
    def dtype(self) -> torch.dtype:
        """The case's dtype."""
        return self._case.placement.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether this is a case with gradients."""
        return self._case.requires_grad

    @property
    def layout(self) -> str:
        """The memory layout of the case."""
        return self._case.placement.layout

    @property
    def sample_id(self) -> str:
        """The sample's id, or its position."""
        return self._case.sample_id

    def __repr__(self) -> str:
        return f"<customop_case {self._case.op.name} {self._case.id} {dtype_name(self.dtype)}>"


class ConformanceError(AssertionError):
    """Raised by `customop_check`: every finding of the call, in one message.

    Each defect is shown in full once; findings that follow from it or repeat it are named below it.

    Attributes:
        results: the results of the checks that failed.
    """

    def __init__(self, results: Sequence[CheckResult], remarks: Sequence[str] = ()) -> None:
        """Make the message.

        Args:
            remarks: an extra line for each result; empty for none.
        """
        self.results = list(results)
        count = counted(len({result.check for result in results}), "check")
        follows = causes(result.record() for result in results)
        parts = [f"{count} failed ({_summary(results, follows)})"]
        parts += _texts(results, follows, remarks or [""] * len(results))
        super().__init__("\n\n".join(parts))


ConformanceError.__module__ = "pytest_customop"  # where it is public, for the names in tracebacks


def _summary(results: Sequence[CheckResult], follows: Mapping[int, int]) -> str:
    """The checks of each finding, causes first: `compile.dynamic, compile.static: compile-graph-break`."""
    checks: dict[str, dict[str, None]] = defaultdict(dict)
    for at in sorted(range(len(results)), key=follows.__contains__):
        result = results[at]
        name = (
            "known-failure-passes"
            if result.outcome == "xpassed"
            else result.finding or result.outcome
        )
        checks[name].setdefault(result.check)
    return "; ".join(f"{', '.join(names)}: {name}" for name, names in checks.items())


def _texts(
    results: Sequence[CheckResult], follows: Mapping[int, int], remarks: Sequence[str]
) -> Iterator[str]:
    """The texts of the root causes, each with the names of its consequences."""
    records = [result.record() for result in results]
    broken: dict[str, CheckResult] = {}  # by message
    for at, result in enumerate(results):
        if at in follows:
            continue
        if result.outcome == "error":
            first = broken.setdefault(result.message, result)
            if first is not result:
                yield f"error: {result.message} (as above) [{result.check}]"
                continue
        consequences = [records[position] for position, root in follows.items() if root == at]
        also = [also_line(records[at], consequences)] if consequences else []
        yield "\n".join([str(result), *filter(None, [remarks[at]]), *also])
