"""The loop that an author writes by hand today, for one set of inputs."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten


def opcheck_alone(op: Any, args: Any, kwargs: Any) -> list[str]:
    """The utilities of `torch.library.opcheck` that fail, as torch itself runs them."""
    verdicts = torch.library.opcheck(op, args, kwargs, raise_exception=False)
    return [name for name, verdict in verdicts.items() if verdict != "SUCCESS"]


def by_hand(op: Any, args: Any, kwargs: Any, backend: str, has_autograd: bool) -> list[str]:
    """What fails of opcheck, of a comparison of compiled with eager mode, and of gradcheck."""
    failed: list[str] = []

    @contextlib.contextmanager
    def step(name: str) -> Iterator[None]:
        try:
            yield
        except Exception:  # whatever a test would fail with
            failed.append(name)

    with step("opcheck"):
        torch.library.opcheck(op, _copied(args), _copied(kwargs))
    with step("compile"):
        torch._dynamo.reset()
        compiled = torch.compile(lambda a, k: op(*a, **k), fullgraph=True, backend=backend)
        eager = _outcome(lambda a, k: op(*a, **k), args, kwargs)
        torch.testing.assert_close(_outcome(compiled, args, kwargs), eager)
    if has_autograd and any(tensor.requires_grad for tensor in _tensors((args, kwargs))):
        with step("gradcheck"):
            _gradcheck(op, _widened(args), _widened(kwargs))
    return failed


def _gradcheck(op: Any, args: Any, kwargs: Any) -> None:
    leaves, tree = tree_flatten((args, kwargs))
    positions = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> Any:
        filled = [*leaves]
        for at, tensor in zip(positions, tensors, strict=True):
            filled[at] = tensor
        args, kwargs = tree_unflatten(filled, tree)
        return tuple(_tensors(op(*args, **kwargs)))

    torch.autograd.gradcheck(function, [leaves[at] for at in positions], fast_mode=True)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _copied(values: Any) -> Any:
    def copy(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    return tree_map_only(torch.Tensor, copy, values)


def _widened(values: Any) -> Any:
    def widen(tensor: torch.Tensor) -> torch.Tensor:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        wide = torch.complex128 if tensor.is_complex() else torch.float64
        return tensor.detach().to(wide).requires_grad_(tensor.requires_grad)

    return tree_map_only(torch.Tensor, widen, values)


def _outcome(function: Any, args: Any, kwargs: Any) -> list[Any]:
    """Outputs, arguments as they are after the call, and gradients."""
    args, kwargs = _copied(args), _copied(kwargs)
    torch.manual_seed(0)
    outputs = _tensors(function(args, kwargs))
    inputs = [tensor for tensor in _tensors((args, kwargs)) if tensor.requires_grad]
    targets = [tensor for tensor in outputs if tensor.requires_grad]
    gradients: list[Any] = []
    if inputs and targets:
        ones = [torch.ones_like(target) for target in targets]
        gradients = list(torch.autograd.grad(targets, inputs, ones, allow_unused=True))
    return [*outputs, *_tensors((args, kwargs)), *gradients]
