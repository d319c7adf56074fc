"""Addresses of torch's documentation, for `Explanation.docs`."""

from __future__ import annotations

_STABLE = "https://docs.pytorch.org/docs/stable"
_GENERATED = f"{_STABLE}/generated"
_TUTORIALS = "https://docs.pytorch.org/tutorials/advanced"

LIBRARY = f"{_STABLE}/library.html"
CUSTOM_OP = f"{LIBRARY}#torch.library.custom_op"
REGISTER_FAKE = f"{LIBRARY}#torch.library.register_fake"
REGISTER_AUTOGRAD = f"{LIBRARY}#torch.library.register_autograd"
REGISTER_VMAP = f"{LIBRARY}#torch.library.register_vmap"
REGISTER_AUTOCAST = f"{LIBRARY}#torch.library.register_autocast"
OPCHECK = f"{LIBRARY}#torch.library.opcheck"
MANUAL = f"{_TUTORIALS}/custom_ops_landing_page.html"
PYTHON_CUSTOM_OPS = f"{_TUTORIALS}/python_custom_ops.html"

COMPILE = f"{_STABLE}/torch.compiler.html"
DYNAMIC_SHAPES = f"{_STABLE}/torch.compiler_dynamic_shapes.html"
FAKE_TENSOR = f"{_STABLE}/torch.compiler_fake_tensor.html"
EXPORT = f"{_STABLE}/export.html"

AUTOGRAD = f"{_STABLE}/autograd.html"
AUTOGRAD_NOTES = f"{_STABLE}/notes/autograd.html"
EXTENDING = f"{_STABLE}/notes/extending.html"
GRADCHECK = f"{_GENERATED}/torch.autograd.gradcheck.gradcheck.html"
GRADGRADCHECK = f"{_GENERATED}/torch.autograd.gradcheck.gradgradcheck.html"
GRADCHECK_NOTES = f"{_STABLE}/notes/gradcheck.html"
SAVE_FOR_BACKWARD = f"{_GENERATED}/torch.autograd.function.FunctionCtx.save_for_backward.html"
SET_MATERIALIZE_GRADS = (
    f"{_GENERATED}/torch.autograd.function.FunctionCtx.set_materialize_grads.html"
)
ONCE_DIFFERENTIABLE = f"{_GENERATED}/torch.autograd.function.once_differentiable.html"
CHECKPOINT = f"{_STABLE}/checkpoint.html"

FUNC = f"{_STABLE}/func.html"
VMAP = f"{_GENERATED}/torch.vmap.html"
AMP = f"{_STABLE}/amp.html"

TORCH = f"{_STABLE}/torch.html"
BROADCASTING = f"{_STABLE}/notes/broadcasting.html"
CONTIGUOUS = f"{_GENERATED}/torch.Tensor.contiguous.html"
EMPTY = f"{_GENERATED}/torch.empty.html"
TENSOR_VIEWS = f"{_STABLE}/tensor_view.html"
TENSOR_ATTRIBUTES = f"{_STABLE}/tensor_attributes.html"
SET_NUM_THREADS = f"{_GENERATED}/torch.set_num_threads.html"
SET_DEFAULT_DTYPE = f"{_GENERATED}/torch.set_default_dtype.html"
RANDOM = f"{_STABLE}/random.html"
RANDOMNESS = f"{_STABLE}/notes/randomness.html"
DETERMINISTIC = f"{_STABLE}/deterministic.html"
TESTING = f"{_STABLE}/testing.html"
