"""Ops that compare something with a limit, and what they do with a number that equals it."""

import functools

import torch
from torch import Tensor

from .registry import specimen

aot = functools.partial(specimen, backend="aot_eager")
WRONG = {"relations.at_limit": "wrong-side-of-limit"}
EVENTS = (
    torch.tensor([1.5, -0.5, 2.25, 3.0]),
    torch.tensor([0, 4, 5, 20]),
    10,
)
WINDOW = "The sum of the numbers in the window (t - window, t] that ends at the time of each."


def _window_sums(name, starts, said=WINDOW):
    """`starts(times, window)` are the places where windows begin."""

    def kernel(x: Tensor, times: Tensor, window: int) -> Tensor:
        check(x, times, window)
        if bool((times[1:] < times[:-1]).any()):
            raise ValueError("times may not decrease")
        ends = torch.searchsorted(times, times, right=True)
        at = torch.arange(x.shape[0])
        inside = (at >= starts(times, window)[:, None]) & (at < ends[:, None])
        return torch.where(inside, x, torch.zeros_like(x)).sum(-1)

    def check(x, times, window):
        if x.dim() != 1 or x.shape != times.shape or times.dtype != torch.int64 or window < 1:
            raise ValueError("numbers (N,), a time for each, and a window, please")
        if not x.is_floating_point():
            raise TypeError("floating-point numbers, please")

    kernel.__doc__ = f"""{said}

    x: (N,) numbers.
    times: (N,) int64, not decreasing.
    """
    sums = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @sums.register_fake
    def _(x, times, window):
        check(x, times, window)
        return x.new_empty(x.shape)

    return sums


listed = functools.partial(aot, EVENTS, skips={"fake.symbolic": "no-second-size"})


def _behind(times, window):
    return torch.searchsorted(times, times - window, right=True)


def _from(times, window):
    return torch.searchsorted(times, times - window)


@listed(expected=WRONG)
def windows_have_an_event_too_many():
    """What is exactly one window earlier counts."""
    return _window_sums("windows_have_an_event_too_many", _from)


@listed(twin_of="windows_have_an_event_too_many")
def windows_are_open_at_their_start():
    """Windows begin behind what is one window earlier."""
    return _window_sums("windows_are_open_at_their_start", _behind)


@listed()
def windows_are_closed_at_their_start():
    """As the docstring says."""
    said = "The sum of the numbers in [t - window, t] for the time of each."
    return _window_sums("windows_are_closed_at_their_start", _from, said)


@listed()
def windows_of_which_two_things_are_said():
    """A sentence contradicts another one."""
    said = f"{WINDOW} Those at most window earlier count."
    return _window_sums("windows_of_which_two_things_are_said", _from, said)


POINTS = (torch.tensor([[0.0, 0.5], [1.0, 1.5], [3.0, -1.0]]), 1.5)


def _neighbours(name, near):
    """How many points are near each point; `near(distances, radius)` says which."""

    def kernel(points: Tensor, radius: float) -> Tensor:
        """The number of points (N,) at a distance of at most `radius` from each of points (N, D)."""
        if points.dim() != 2 or not points.is_floating_point() or radius <= 0:
            raise ValueError("points (N, D), and a radius above 0, please")
        apart = (points[:, None] - points).double().square().sum(-1).sqrt()
        return near(apart, radius).sum(-1)

    counted = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    counted.register_fake(
        lambda points, radius: points.new_empty(points.shape[0], dtype=torch.int64)
    )
    return counted


@aot(POINTS, expected=WRONG)
def neighbours_within_the_radius():
    """A point at the radius is none."""
    return _neighbours("neighbours_within_the_radius", torch.lt)


@aot(POINTS, twin_of="neighbours_within_the_radius")
def neighbours_up_to_the_radius():
    """A point at the radius is one."""
    return _neighbours("neighbours_up_to_the_radius", torch.le)


SCORES = (torch.tensor([[0.1, 0.7, -0.4], [0.9, 0.3, 0.2]]), 0.5)


def _kept(name, keeps):
    """Scores, of which `keeps(scores, threshold)` are kept."""

    def kernel(scores: Tensor, threshold: float) -> Tensor:
        """The scores that are >= threshold; the others become 0."""
        if not scores.is_floating_point():
            raise TypeError("floating-point numbers, please")
        return torch.where(keeps(scores, threshold), scores, torch.zeros_like(scores)).contiguous()

    kept = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())
    kept.register_fake(lambda scores, threshold: scores.new_empty(scores.shape))
    return kept


@aot(SCORES, expected=WRONG)
def loses_scores_at_the_threshold():
    """Keeps what is larger."""
    return _kept("loses_scores_at_the_threshold", torch.gt)


@aot(SCORES, twin_of="loses_scores_at_the_threshold")
def keeps_scores_at_the_threshold():
    """Keeps what is equal, too."""
    return _kept("keeps_scores_at_the_threshold", torch.ge)


INTERVALS = (
    torch.tensor([1, 4, 9, 30]),
    torch.tensor([0, 5]),
    torch.tensor([3, 20]),
)


def _counted(name, right):
    """How many times are in each interval; `right` says on which side of an end its equals are."""

    def kernel(times: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
        """The number of times t with starts[i] <= t < ends[i].

        times: (N,) int64, not decreasing.
        starts, ends: (W,) int64.
        """
        check(times, starts, ends)
        if bool((times[1:] < times[:-1]).any()) or bool((ends < starts).any()):
            raise ValueError("times may not decrease, and intervals end after they start")
        last = torch.searchsorted(times, ends, right=right)
        return last - torch.searchsorted(times, starts)

    def check(times, starts, ends):
        if times.dim() != 1 or starts.dim() != 1 or starts.shape != ends.shape:
            raise ValueError("times, and a start and an end for each interval, please")
        if {times.dtype, starts.dtype, ends.dtype} != {torch.int64}:
            raise TypeError("int64, please")

    counted = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @counted.register_fake
    def _(times, starts, ends):
        check(times, starts, ends)
        return starts.new_empty(starts.shape)

    return counted


of_intervals = functools.partial(aot, INTERVALS, skips={"fake.symbolic": "no-second-size"})


@of_intervals(expected=WRONG)
def intervals_with_their_ends():
    """What is at the end of an interval counts."""
    return _counted("intervals_with_their_ends", right=True)


@of_intervals(twin_of="intervals_with_their_ends")
def intervals_without_their_ends():
    """What is at the end of an interval does not count."""
    return _counted("intervals_without_their_ends", right=False)


@aot((torch.tensor([[1.5, 0.5], [2.0, 3.0], [0.25, 4.0]]), 1))
def steps_of_which_an_index_is_said():
    """Brackets with a sum in them are an index, and no interval."""

    @torch.library.custom_op("zoo::steps_of_which_an_index_is_said", mutates_args=())
    def steps(x: Tensor, lag: int) -> Tensor:
        """The whole steps floor(x[t + lag] - x[t]) between rows."""
        check(x, lag)
        return (x[lag:] - x[:-lag]).floor()

    def check(x, lag):
        if x.dim() != 2 or not 1 <= lag <= x.shape[0] or not x.is_floating_point():
            raise ValueError("rows of numbers, and a lag of at most their number, please")

    @steps.register_fake
    def _(x, lag):
        check(x, lag)
        return x.new_empty(x.shape[0] - lag, x.shape[1])

    return steps


BINS = (torch.tensor([0.5, 1.25, 2.75, 0.75]), torch.tensor([0.0, 1.0, 2.0, 3.0]))


def _binned(name, right):
    """How many numbers are in each bin; `right` says on which side of an edge its equals are."""

    def kernel(x: Tensor, edges: Tensor) -> Tensor:
        """Counts for bins [edges[k], edges[k + 1]); the last bin also has its right edge."""
        check(x, edges)
        if not bool((edges[1:] > edges[:-1]).all()):
            raise ValueError("edges that increase, please")
        bins = edges.shape[0] - 1
        place = torch.searchsorted(edges, x.contiguous(), right=right) - 1
        place = torch.where(x == edges[-1], bins - 1, torch.where(x == edges[0], 0, place))
        inside = (x >= edges[0]) & (x <= edges[-1])
        return torch.bincount(place[inside], minlength=bins)

    def check(x, edges):
        if x.dim() != 1 or edges.dim() != 1 or edges.shape[0] < 2 or x.dtype != edges.dtype:
            raise ValueError("numbers and edges of one dtype, please")
        if x.dtype not in (torch.float32, torch.float64):
            raise TypeError("float32 or float64, please")

    binned = torch.library.custom_op(f"zoo::{name}", kernel, mutates_args=())

    @binned.register_fake
    def _(x, edges):
        check(x, edges)
        return edges.new_empty(edges.shape[0] - 1, dtype=torch.int64)

    return binned


@aot(BINS, expected=WRONG)
def bins_with_their_right_edges():
    """What is at an edge is in the bin before it."""
    return _binned("bins_with_their_right_edges", right=False)


@aot(BINS, twin_of="bins_with_their_right_edges")
def bins_with_their_left_edges():
    """What is at an edge is in the bin behind it, except at the last one."""
    return _binned("bins_with_their_left_edges", right=True)


def _lattice():
    axis = torch.arange(4.0)
    points = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    noise = 0.1 * torch.rand(points.shape, generator=torch.Generator().manual_seed(3))
    return 1.5 * (points + 0.5) + noise


@aot((_lattice(), 6.0, 1.9), (_lattice().double(), 6.0, 2.0))
def pair_forces_in_a_periodic_box():
    """Results jump where a pair comes near enough, which is nowhere special for one coordinate."""

    @torch.library.custom_op("zoo::pair_forces_in_a_periodic_box", mutates_args=())
    def forces(points: Tensor, box: float, cutoff: float) -> Tensor:
        """Forces of repelling points in a periodic box.

        Points may lie outside of the box, and stand for their periodic image. Pairs nearer than
        `cutoff` (at most box / 3) count.
        """
        check(points, box, cutoff)
        wide = points.double()
        apart = wide[:, None] - wide[None]
        apart = apart - box * torch.round(apart / box)
        square = apart.square().sum(-1)
        near = (square < cutoff * cutoff) & (square > 0)
        size = torch.where(near, square.where(near, 1.0).pow(-4), 0.0)
        return (size[..., None] * apart).sum(1).to(points.dtype)

    def check(points, box, cutoff):
        if points.dim() != 2 or points.dtype not in (torch.float32, torch.float64):
            raise ValueError("points in float32 or float64, please")
        if not 0 < cutoff <= box / 3:
            raise ValueError("a cutoff of at most a third of the box, please")

    @forces.register_fake
    def _(points, box, cutoff):
        check(points, box, cutoff)
        return points.new_empty(points.shape)

    return forces
