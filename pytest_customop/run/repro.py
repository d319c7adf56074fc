"""Write a failing case as a script that fails without pytest and without this package."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..cases.case import Case
from ..core.files import write_whole
from ..findings import Finding
from .literals import inputs_source

CALL = "args, kwargs = inputs()\nop(*args, **kwargs)"  # the lines that call the op alone
_BACKWARD = """
results = torch.utils._pytree.tree_leaves(result)
outputs = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
if outputs:
    torch.autograd.backward(outputs, [torch.ones_like(each) for each in outputs])
"""


def plain_call(case: Case) -> str:
    """The lines that call the op and, in a case with gradients, its backward."""
    return CALL.replace("op(", "result = op(") + _BACKWARD if case.requires_grad else CALL


@dataclass(frozen=True)
class Script:
    """A script, and the files that it loads.

    Args:
        text: Python; it raises where the defect is.
        data: the content of each file of tensors, by its ending. The files have the script's name and
            are in its folder.
    """

    text: str
    data: Mapping[str, bytes] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        """Write the script to this path and its tensors to the same folder; returns the path.

        Raises:
            OSError: if that fails. No file is written in part, and no script without its tensors.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        for ending, content in self.data.items():
            write_whole(path.with_suffix(ending), content)
        write_whole(path, self.text.encode())
        return path


def reproduced_by(finding: Finding, lines: str, case: Case) -> Callable[[str], Script] | None:
    """A function from the lines that register the op to the script of a finding; None without lines.

    Args:
        finding: the finding, for the script's title.
        lines: `Finding.repro` or `Check.repro`.
        case: the case on which they show the finding.
    """
    if not lines.strip():
        return None
    title = f"{finding.code}: {finding.message}"
    if "other_inputs" in lines:
        return partial(script, case, lines, title, other=finding.case)
    return partial(script, finding.case or case, lines, title)


def script(case: Case, lines: str, title: str, registers: str, other: Case | None = None) -> Script:
    """The script that shows a defect of an op on a case.

    Args:
        case: the case on which the op shows the defect.
        lines: the lines that show it: `Finding.repro` or `Check.repro`.
        title: the finding in one line.
        registers: the lines that register the op: `import my_ops`.
        other: a second case, whose inputs the lines get from `other_inputs()`.
    """
    inputs, data = inputs_source(case)
    if other is not None:
        more, files = inputs_source(other, "other_inputs")
        data |= files
        inputs += f"\n\n\n{more}"
    parts = [
        f'"""{_quotable(title)}"""',
        registers,
        "import torch",
        f"op = {_op_expression(case)}",
        inputs,
        (_constants(case, lines) + textwrap.dedent(lines)).strip(),
        'print("The defect no longer reproduces.")',
    ]
    return Script("\n\n".join(parts) + "\n", data)


def _quotable(title: str) -> str:
    return title.replace("\\", "\\\\").replace('"""', "'''").strip().rstrip('"')


def _op_expression(case: Case) -> str:
    namespace, _, rest = case.op.name.partition("::")
    name, _, overload = rest.partition(".")
    return f"torch.ops.{namespace}.{name}.{overload or 'default'}"


def _constants(case: Case, lines: str) -> str:
    """The assignments of the names that the lines use, apart from `op` and `inputs`."""
    values = {"backend": case.backend, "seed": case.seed}
    used = [f"{name} = {value!r}\n" for name, value in values.items() if name in lines]
    return "".join(used)
