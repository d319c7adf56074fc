"""Script lines that show wrong gradients with `torch.autograd.gradcheck`; see `Check.repro`."""

from __future__ import annotations

from ...declare.inputs import GradOptions

_LARGE = 2000  # elements; above, comparing one by one takes too long

_FUNCTION = """
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._pytree import tree_leaves, tree_map_only


def widened(each):
    if not (each.is_floating_point() or each.is_complex()):
        return each
    wide = torch.complex128 if each.is_complex() else torch.float64
    return each.detach().to(wide).requires_grad_(each.requires_grad)


def tensors(values):
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


given = tree_map_only(torch.Tensor, widened, inputs())
leaves = tuple(each for each in tensors(given) if each.requires_grad)


def outputs(*values):
    rest = iter(values)
    args, kwargs = tree_map_only(
        torch.Tensor, lambda each: next(rest) if each.requires_grad else each.clone(), given
    )
    torch.manual_seed(seed)
    return tensors(op(*args, **kwargs))


reached = [at for at, each in enumerate(outputs(*leaves)) if each.requires_grad]


def function(*values):
    found = outputs(*values)
    return tuple(found[at] for at in reached)

"""
_PROJECTED = """
sizes = [each.detach() for each in leaves]
directions = [DIRECTION for each in sizes]
weights = [torch.randn_like(each) for each in function(*leaves)]


def projected(*steps):
    moved = [each + step * way for each, step, way in zip(sizes, steps, directions)]
    return sum((one * each).sum() for one, each in zip(weights, function(*moved)))


steps = tuple(torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in leaves)
CALL(projected, steps, OPTIONS)
"""
_WHOLE = "\nCALL(function, leaves, OPTIONS, check_undefined_grad=False, nondet_tol=1e-5)\n"


_MISSING = """
# NaN stands for missing numbers: there is no derivative by them, nor of a result that is NaN.
missing = [each.isnan() for each in leaves]
leaves = tuple(each.detach().nan_to_num(nan=0.0).requires_grad_() for each in leaves)
plain_function = function


def function(*values):
    found = plain_function(
        *(torch.where(gone, torch.nan, each) for gone, each in zip(missing, values))
    )
    return tuple(torch.where(each.isnan(), 0, each) for each in found)

"""
_ANY = "torch.randn_like(each).sign()"
# One number for all elements of a value.
_TIED = "torch.randn(each.numel(), dtype=each.dtype)[each.unique(return_inverse=True)[1]]"


def gradcheck_script(
    call: str, options: GradOptions, elements: int, *, ties: bool = False, missing: bool = False
) -> str:
    """Lines that call `gradcheck` or `gradgradcheck`.

    Args:
        call: the function's name.
        options: step and tolerances.
        elements: of the inputs. If they are many, derivatives along random directions are checked.
        ties: whether to use directions that keep equal elements equal, for any number of elements.
        missing: whether NaN among the inputs stands for missing numbers.
    """
    lines = _FUNCTION + _MISSING * missing + (_PROJECTED if ties or elements > _LARGE else _WHOLE)
    lines = lines.replace("DIRECTION", _TIED if ties else _ANY)
    settings = f"eps={options.eps!r}, atol={options.atol!r}, rtol={options.rtol!r}"
    return lines.replace("CALL(", f"{call}(").replace("OPTIONS", settings)
