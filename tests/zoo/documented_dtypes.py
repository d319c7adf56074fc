"""Ops that are wrong in a dtype that their docstrings list, and their samples do not show."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
NIGHTS = torch.tensor([[4.5, float("nan"), 11.0, 7.25], [8.0, 12.5, 9.75, 3.0]])
DEGREES = (NIGHTS, NIGHTS + 6)
SCENE = (torch.tensor([[7, 250, 3], [99, 0, 31]], dtype=torch.uint8), torch.tensor([0, 2]))


def _means(name, dtype_of):
    """The mean of two temperatures; `dtype_of(low)` is the dtype that the fake kernel gives."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def means(low: Tensor, high: Tensor) -> Tensor:
        """The mean (N, D) of the lowest and the highest temperature of each day.

        Args:
            low: the lowest temperatures (N, D), in degrees; float32 or float64, or int32 or int64 for
                stations that report whole degrees.
            high: the highest temperatures, shape and dtype as low.

        The means of whole degrees are float32.
        """
        check(low, high)
        if not low.is_floating_point():
            low, high = low.float(), high.float()
        return ((low + high) / 2).contiguous()

    def check(low, high):
        known = (torch.float32, torch.float64, torch.int32, torch.int64)
        if low.dim() != 2 or low.shape != high.shape or low.dtype != high.dtype:
            raise ValueError("temperatures (N, D) and as many others, please")
        if low.dtype not in known:
            raise TypeError("float32, float64, int32 or int64, please")

    @means.register_fake
    def _(low, high):
        check(low, high)
        return low.new_empty((low.shape[0], low.shape[1]), dtype=dtype_of(low))

    return means


NAN = {"opcheck.test_aot_dispatch_dynamic": "checker-limit"}


@aot(
    DEGREES,
    skips=NAN,
    variant_findings={"fake.forward": "fake-dtype-mismatch"},
    shown_by=("int32", "int64"),
)
def fake_means_of_whole_degrees_are_whole():
    """The fake kernel gives the dtype of the temperatures; NaN of the sample is no integer."""
    return _means("fake_means_of_whole_degrees_are_whole", lambda low: low.dtype)


@aot(DEGREES, skips=NAN, twin_of="fake_means_of_whole_degrees_are_whole")
def fake_means_of_whole_degrees_are_fractions():
    """The fake kernel has the dtype that the docstring gives."""
    return _means(
        "fake_means_of_whole_degrees_are_fractions",
        lambda low: low.dtype if low.is_floating_point() else torch.float32,
    )


def _without(name, writable):
    """The sum of a scene without some columns; `writable(scene)` is what they are cleared in."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def total(scene: Tensor, left_out: Tensor) -> Tensor:
        """The sum of a scene without some of its columns.

        Args:
            scene: an image (H, W): digital numbers in uint8, or reflectances in float32.
            left_out: the numbers of columns that do not count, int64.
        """
        if scene.dim() != 2 or scene.dtype not in (torch.uint8, torch.float32):
            raise ValueError("an image (H, W) of uint8 or float32, please")
        if left_out.dim() != 1 or left_out.dtype != torch.int64:
            raise ValueError("columns (N,) of int64, please")
        cleared = writable(scene)
        cleared[:, left_out] = 0
        return cleared.sum()

    total.register_fake(lambda scene, left_out: scene.new_empty((), dtype=torch.float32))
    return total


@aot(
    SCENE,
    variant_findings={"values.mutation": "undeclared-mutation"},
    shown_by="uint8_as_float32",
    skips={"fake.symbolic": "no-second-size"},
)
def clears_columns_of_reflectances():
    """`.to(float32)` copies bytes, and is the argument itself where that is float32."""
    return _without("clears_columns_of_reflectances", lambda scene: scene.to(torch.float32))


@aot(SCENE, twin_of="clears_columns_of_reflectances", skips={"fake.symbolic": "no-second-size"})
def clears_columns_of_a_copy():
    """The copy is made for each dtype."""
    return _without("clears_columns_of_a_copy", lambda scene: scene.to(torch.float32, copy=True))


def _scaled(name, text, dtype_of=lambda x: torch.float32):
    """Numbers times others, in the dtype that they get; `dtype_of(x)` is that of the fake kernel."""

    def check(x, scale):
        if x.dim() != 2 or x.shape != scale.shape or x.dtype != scale.dtype:
            raise ValueError("numbers (N, D) and as many others, please")

    def scaled(x: Tensor, scale: Tensor) -> Tensor:
        check(x, scale)
        return (x * scale).contiguous()

    scaled.__doc__ = text
    operator = torch.library.custom_op(f"zoo::{name}", scaled, mutates_args=())

    @operator.register_fake
    def _(x, scale):
        check(x, scale)
        return x.new_empty((x.shape[0], x.shape[1]), dtype=dtype_of(x))

    return operator


ROWS = (torch.tensor([[0.5, 2.0], [1.5, 3.0]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
WRONG = {"fake.forward": "fake-dtype-mismatch"}


@aot(ROWS, variant_findings=WRONG, shown_by=("float64", "bfloat16"))
def fake_of_float32_alone():
    """The fake kernel gives float32; no docstring names a dtype."""
    return _scaled("fake_of_float32_alone", "Numbers times others.")


@aot(ROWS, twin_of=("fake_of_float32_alone", "fake_of_the_documented_dtype"))
def fake_of_any_dtype():
    """The fake kernel gives the dtype of the numbers."""
    return _scaled("fake_of_any_dtype", "Numbers times others.", lambda x: x.dtype)


@aot(ROWS, variant_notes=WRONG, shown_by=("float64", "bfloat16"))
def fake_of_the_documented_dtype():
    """The fake kernel gives float32, and so does the docstring."""
    text = "Numbers times others.\n\nx, scale: float32 (N, D)\n"
    return _scaled("fake_of_the_documented_dtype", text)


def _renamed(name, copied):
    """Ids by a table; `copied(ids)` gives them in int64, where some are replaced."""

    @torch.library.custom_op(f"zoo::{name}", mutates_args=())
    def renamed(ids: Tensor, old: Tensor, new: Tensor) -> Tensor:
        """Ids with each old one replaced by the new one.

        Args:
            ids: of any shape, int16, int32 or int64.
            old: (K,) int64.
            new: (K,) int64, in their place.
        """
        check(ids, old, new)
        found = copied(ids)
        before = found.clone()
        for one, other in zip(old.tolist(), new.tolist(), strict=True):
            found[before == one] = other
        return found.clone(memory_format=torch.contiguous_format)

    def check(ids, old, new):
        if ids.dtype not in (torch.int16, torch.int32, torch.int64):
            raise TypeError("ids of int16, int32 or int64, please")
        if old.dim() != 1 or old.shape != new.shape or not old.dtype == new.dtype == torch.int64:
            raise ValueError("a new int64 id for each old one, please")

    @renamed.register_fake
    def _(ids, old, new):
        check(ids, old, new)
        return ids.new_empty(ids.shape, dtype=torch.int64)

    return renamed


IDS = (
    torch.tensor([[3, 1, 4], [1, 5, 9]], dtype=torch.int32),
    torch.tensor([1, 4]),
    torch.tensor([4, 1]),
)


@aot(
    IDS,
    variant_findings={"values.mutation": "undeclared-mutation"},
    shown_by="ids.int64",
    skips={"fake.symbolic": "no-second-size"},
)
def renames_ids_of_int64_in_place():
    """`.to(torch.int64)` of ids that are int64 gives the argument."""
    return _renamed("renames_ids_of_int64_in_place", lambda ids: ids.to(torch.int64))


@aot(IDS, twin_of="renames_ids_of_int64_in_place", skips={"fake.symbolic": "no-second-size"})
def renames_ids_of_a_copy():
    """Always a copy."""
    return _renamed("renames_ids_of_a_copy", lambda ids: ids.to(torch.int64, copy=True))
