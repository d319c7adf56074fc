"""The only package that uses private API of torch and pytest: one function a need.

The docstring of each module lists the private names that it uses: what each is, the versions in which it
was seen, and the public way if there is one. The tests in `tests/test_compat_*.py` fail when torch moves a
name.
"""

from __future__ import annotations

from torch._ops import OpOverload, OpOverloadPacket

from .compiler import (
    GRAPHS_CAN_STAY,
    TRACE_LOGGER,
    compile_session,
    compile_whole,
    counting_backend,
    forget_compiled,
    keep_compiled,
    maybe_mark_dynamic,
    recompiles_raise,
)
from .configuration import compiler_configuration
from .fakes import (
    enter_fake_mode,
    fake_cause,
    fake_mode,
    is_data_dependent,
    is_fake,
    missing_fake_kernel,
    to_fake,
)
from .graph_caches import (
    GRAPHS_ARE_STORED,
    compiling_flag_set,
    graphs_on_disk,
    has_custom_lowering,
    op_fingerprint,
)
from .ops import (
    defining_module,
    device_types,
    has_autocast_rule,
    has_autograd_formula,
    has_vmap_rule,
    is_alias_error,
    is_custom_op_def,
    kernel_in_python,
    overload_name,
    overload_of,
    packet_name,
    python_kernels,
    registered_names,
    schema_of,
)
from .symbols import expression, guards, is_constant_size, substitute, value_range
from .tensors import neg_view, observe_calls, storage_id

__all__ = [
    "GRAPHS_ARE_STORED",
    "GRAPHS_CAN_STAY",
    "TRACE_LOGGER",
    "OpOverload",
    "OpOverloadPacket",
    "compile_session",
    "compile_whole",
    "compiler_configuration",
    "compiling_flag_set",
    "counting_backend",
    "defining_module",
    "device_types",
    "enter_fake_mode",
    "expression",
    "fake_cause",
    "fake_mode",
    "forget_compiled",
    "graphs_on_disk",
    "guards",
    "has_autocast_rule",
    "has_autograd_formula",
    "has_custom_lowering",
    "has_vmap_rule",
    "is_alias_error",
    "is_constant_size",
    "is_custom_op_def",
    "is_data_dependent",
    "is_fake",
    "keep_compiled",
    "kernel_in_python",
    "maybe_mark_dynamic",
    "missing_fake_kernel",
    "neg_view",
    "observe_calls",
    "op_fingerprint",
    "overload_name",
    "overload_of",
    "packet_name",
    "python_kernels",
    "recompiles_raise",
    "registered_names",
    "schema_of",
    "storage_id",
    "substitute",
    "to_fake",
    "value_range",
]
