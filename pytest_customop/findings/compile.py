"""What `compile.*` find: the compiled op beside the eager one."""

from __future__ import annotations

from .entry import Explanation

ENTRIES: dict[str, Explanation] = {
    "compile-graph-break": Explanation(
        meaning=("torch.compile(fullgraph=True) cannot trace the call without a graph break."),
        fix=(
            "Register what the tracer misses (usually a fake kernel), and call the op through "
            "torch.ops or its CustomOpDef, not through a Python wrapper that looks at data."
        ),
    ),
    "compile-error": Explanation(
        meaning=("The op works in eager mode and raises when it is compiled."),
        fix=(
            "Read the cut traceback below the message; a fake kernel that does not tell the "
            "truth is the usual cause."
        ),
    ),
    "compile-stride-assert": Explanation(
        meaning=(
            "Compiled code found that the op returned other strides than its fake kernel promised."
        ),
        fix=(
            "Mend the strides of the fake kernel of the op that the message names; for one "
            "that the backward calls, fake.backward shows the row."
        ),
    ),
    "compile-output-mismatch": Explanation(
        meaning=("The compiled op returns other values than the eager one."),
        fix=(
            "Look for a fake kernel with other strides or dtypes than the real one, an "
            "argument that is mutated and not declared, or an output that shares memory with "
            "an input."
        ),
    ),
    "compile-mutation-mismatch": Explanation(
        meaning=(
            "After the compiled call a mutated argument holds other values than after the "
            "eager call."
        ),
        fix=(
            "Declare every argument that the op writes to (mutates_args=, Tensor(a!)), and "
            "only those."
        ),
    ),
    "compile-gradient-mismatch": Explanation(
        meaning=(
            "The compiled op gives other gradients than the eager one, or None in place of one."
        ),
        fix=(
            "Write the backward with ops that torch.compile can trace, without side effects, "
            "and with fake kernels that are right for every op it calls."
        ),
    ),
    "compile-recompiles": Explanation(
        meaning=(
            "A size that does not have to be constant was made one, so that another size "
            "compiles again."
        ),
        fix=("Leave sizes symbolic in the fake kernel and in the backward: no int(x.shape[i])."),
    ),
}
