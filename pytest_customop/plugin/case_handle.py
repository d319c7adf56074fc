"""The objects that the fixtures give to a test, and the error that they raise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..cases.case import Case, Run
from ..core.wording import counted, dtype_name
from ..global_state.preserve import preserved_state
from ..report.causes import also_line, causes

if TYPE_CHECKING:
    import torch

    from ..run.results import CheckResult


class CaseHandle:
    """One case of a marked test: call it to run the op on fresh inputs.

    `args` and `kwargs` are those of the last call, as they are after it: a mutated argument has what
    was written, and `.grad` what was accumulated. Before the first call they are fresh inputs.
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
        results: of the checks that failed.
    """

    def __init__(self, results: list[CheckResult]) -> None:
        self.results = results
        count = f"{counted(len(results), 'check')} failed"
        names = ", ".join(f"{one.check} ({one.finding or one.outcome})" for one in results)
        super().__init__("\n\n".join([f"{count}: {names}", *_texts(results)]))


def _texts(results: list[CheckResult]) -> Iterator[str]:
    """The texts of the root causes, each with the names of its consequences."""
    records = [one.record() for one in results]
    roots = causes(records)
    for at, result in enumerate(results):
        if at in roots:
            continue
        others = [records[other] for other, root in roots.items() if root == at]
        yield f"{result}\n{also_line(records[at], others)}" if others else str(result)
