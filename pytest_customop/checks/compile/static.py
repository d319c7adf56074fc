"""`compile.static`: the op compiled for the sizes of the sample."""

from __future__ import annotations

from ...cases.case import Case
from ...compat.graph_caches import graphs_on_disk
from ...core.tracebacks import is_own_bug
from ..check import Check
from .compilation import Compilation, skip_if_meta
from .disk_cache import tag_of
from .errors import compiler_session
from .group_run import agreeing_static
from .groups import Groups
from .harness import HarnessConfig
from .scripts import STATIC

_CONFIG = HarnessConfig()
_GROUPS = Groups()


def check_static(case: Case) -> None:
    """Compile the op for the sizes of the case, and compare with eager mode."""
    skip_if_meta(case)
    if _GROUPS.agreed(case):
        return  # nothing is left to compile
    with compiler_session():
        if _GROUPS.agrees(case, lambda cases: agreeing_static(cases, _CONFIG)):
            return
        compilation = Compilation(case, _CONFIG, dynamic=False)
        if not _agrees_on_stored(compilation):
            compilation.compile()
            compilation.run_at(case)


def _agrees_on_stored(compilation: Compilation) -> bool:
    """Compare with graphs from torch's disk cache, or with new ones that are stored there.

    Returns:
        False if there is no safe key for the disk cache, or the stored graphs disagree.

    Raises:
        Exception: what `Compilation.run_at` raises, if no graph came from disk.
    """
    tag = tag_of(compilation.harness, compilation.case)
    if tag is None:
        return False
    with graphs_on_disk(tag) as taken:
        try:
            compilation.compile()
            compilation.run_at(compilation.case)
        except Exception as error:  # a finding, or whatever an op raises: judged without the graphs
            if is_own_bug(error) or not taken():
                raise
            return False
    return True


CHECK = Check(
    name="compile.static",
    summary="compiled with consumers around it, the op's outputs, mutations and gradients equal eager's",
    run=check_static,
    variants=("layout", "shape", "dtype", "arguments", "gradients", "alias"),
    prepare=_GROUPS.prepare,
    repro=STATIC,
    catches=(
        "With the sample's sizes: an error or a graph break; other outputs, strides, mutated "
        "arguments or gradients than in eager mode."
    ),
    cannot_see=(
        "Defects that show only with another backend. The values of an op that is tagged as "
        "nondeterministic are not compared."
    ),
    cost="compile",
)
