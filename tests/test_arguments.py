"""Arguments of every schema type reach the op as they were given, and misfits are named."""

from typing import Any, List, Optional, Sequence

import pytest
import torch

from pytest_customop import Check, Sample, check_op, tensor
from pytest_customop.declare.mistakes import MarkError
from pytest_customop.hookspecs import hookimpl

LIBRARY = torch.library.Library("t_arguments", "DEF")
CALLS: List[Any] = []


def define(schema: str) -> str:
    """Define an op of this schema that notes its arguments and returns a copy of the first."""
    name = schema.partition("(")[0]
    LIBRARY.define(schema)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        CALLS.append((args, kwargs))
        first = args[0][0] if isinstance(args[0], (list, tuple)) else args[0]
        return first.clone()

    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    return f"t_arguments::{name}"


class Own:
    """A plugin with one check, which calls the op once."""

    @hookimpl
    def pytest_customop_register_checks(self) -> List[Check]:
        return [Check("own.runs", "runs the op", lambda case: case.run(case.inputs()))]


def received(op: str, *args: Any, **kwargs: Any) -> Any:
    """What the op's kernel got for this sample."""
    CALLS.clear()
    sample = Sample(args, kwargs)
    results = check_op(op, [sample], checks="own", requires_grad=False, plugins=[Own()])
    assert [result.outcome for result in results] == ["passed"], results
    return CALLS[-1]


X = tensor(2, 3)
ACCEPTED = [
    ("int n", 3),
    ("SymInt n", 3),
    ("float n", 0.5),
    ("float n", 2),
    ("bool n", True),
    ("str n", "mean"),
    ("Scalar n", 3),
    ("Scalar n", 0.5),
    ("Scalar n", 1 + 2j),
    ("ScalarType n", torch.float16),
    ("Device n", torch.device("cpu")),
    ("Layout n", torch.strided),
    ("MemoryFormat n", torch.contiguous_format),
    ("int[] n", [1, 2]),
    ("int[] n", (1, 2)),
    ("SymInt[] n", []),
    ("int[2] n", [1, 2]),
    ("float[] n", [0.5, 1.0]),
    ("bool[] n", [True, False]),
    ("str[] n", ["a", "b"]),
    ("int? n", None),
    ("int? n", 3),
    ("int[]? n", None),
    ("int[]? n", [1]),
    ("ScalarType? n", None),
    ("Scalar? n", 2),
    ("str? n", "a"),
    ("Generator? n", None),
]


@pytest.mark.parametrize(("kind", "value"), ACCEPTED, ids=lambda it: str(it).replace(" ", "_"))
def test_a_plain_argument(kind: str, value: Any, request: pytest.FixtureRequest) -> None:
    op = define(f"plain{ACCEPTED.index((kind, value))}(Tensor x, {kind}) -> Tensor")
    args, _ = received(op, X, value)
    got = args[1]
    if isinstance(value, tuple):
        value = list(value)
    if kind.startswith("float "):
        value = float(value)
    if kind.startswith(("ScalarType", "Layout", "MemoryFormat")) and isinstance(got, int):
        return  # some torch versions hand these to Python kernels as numbers
    assert got == value


def test_tensor_arguments_of_every_kind() -> None:
    op = define("tensors(Tensor x, Tensor? y, Tensor[] zs, Tensor?[] ws) -> Tensor")
    args, _ = received(op, X, None, [tensor(2), tensor(3)], [tensor(4), None])
    x, y, zs, ws = args
    assert x.shape == (2, 3)
    assert y is None
    assert [z.shape for z in zs] == [(2,), (3,)]
    assert ws[0].shape == (4,)
    assert ws[1] is None
    args, _ = received(op, X, tensor(5), [], [])
    assert args[1].shape == (5,)


def test_keyword_only_arguments_and_defaults() -> None:
    op = define("keyword(Tensor x, int n=2, *, float eps=0.5, Tensor? w=None) -> Tensor")
    assert received(op, X)[0][0].shape == (2, 3)
    _, kwargs = received(op, X, eps=0.25, w=tensor(3))
    assert kwargs["eps"] == 0.25
    assert kwargs["w"].shape == (3,)
    with pytest.raises(MarkError, match="takes 2 positional arguments, 3 given"):
        received(op, X, 2, 0.25)


def test_arguments_by_name() -> None:
    op = define("named(Tensor x, int n) -> Tensor")
    args, kwargs = received(op, n=4, x=X)
    assert (*args, *kwargs.values())[0].shape == (2, 3)


def test_a_device_argument_follows_the_case() -> None:
    op = define("device(Tensor x, Device where) -> Tensor")
    args, _ = received(op, X, torch.device("cuda:1"))
    assert args[1] == torch.device("cpu")


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_0_dim_and_zero_size_tensors(shape: Any) -> None:
    op = define(f"shape{'_'.join(map(str, shape))}(Tensor x) -> Tensor")
    assert received(op, tensor(shape))[0][0].shape == shape


def test_a_0_dim_tensor_of_one_value() -> None:
    op = define("one(Tensor x, Tensor y) -> Tensor")
    args, _ = received(op, tensor(values=2.5), tensor(values=True))
    assert args[0].item() == 2.5
    assert args[1].dtype == torch.bool


def test_a_mutable_argument_is_fresh_for_every_call() -> None:
    LIBRARY.define("mutable(Tensor x, Tensor(a!) out) -> ()")
    seen = []

    def kernel(x: torch.Tensor, out: torch.Tensor) -> None:
        seen.append(out.clone())
        out.copy_(x)

    LIBRARY.impl("mutable", kernel, "CompositeExplicitAutograd")
    samples = [(X, tensor(2, 3, fill=7))]
    check_op("t_arguments::mutable", samples, checks="own", requires_grad=False, plugins=[Own()])
    assert len(seen) == 2
    assert all(bool((out == 7).all()) for out in seen)


MISFITS = [
    ("int n", 0.5, "is an int, not 0.5 (float)"),
    ("int n", "3", "is an int, not '3' (str)"),
    ("int n", None, "is an int, not None"),
    ("int n", X, "is an int, not a tensor"),
    ("float n", 1j, "is a float, not 1j (complex)"),
    ("str n", 3, "is a str, not 3 (int)"),
    ("Device n", 0.5, "is a Device, not 0.5 (float)"),
    ("Scalar n", "3", "not '3' (str)"),
    ("Tensor n", None, "is a Tensor, not None"),
    ("Tensor n", [X], "is a Tensor, not [tensor(2, 3)] (list)"),
    ("Tensor[] n", X, "is a list of Tensor, not a tensor"),
    ("Tensor[] n", [X, None], "[1] is a Tensor, not None"),
    ("int[] n", [1, 0.5], "[1] is an int, not 0.5 (float)"),
    ("int[] n", "ab", "is a list of int, not 'ab' (str)"),
    ("int[]? n", [None], "[0] is an int, not None"),
]


@pytest.mark.parametrize(("kind", "value", "reported"), MISFITS, ids=lambda it: None)
def test_a_misfit_is_named(kind: str, value: Any, reported: str) -> None:
    index = next(i for i, misfit in enumerate(MISFITS) if misfit[2] is reported)
    op = define(f"misfit{index}(Tensor x, {kind}) -> Tensor")
    CALLS.clear()
    with pytest.raises(MarkError) as caught:
        check_op(op, [(X, value)])
    message = str(caught.value)
    assert message.startswith("check_op: samples[0]: argument 'n' ")
    assert reported in message
    assert f"the schema is {op}(Tensor x, " in message
    assert not CALLS


def test_sequences_of_a_custom_op() -> None:
    @torch.library.custom_op("t_arguments::sequences", mutates_args=())
    def sequences(x: torch.Tensor, box: Sequence[int], name: str) -> torch.Tensor:
        CALLS.append(((x, box, name), {}))
        return x.clone()

    args, _ = received("t_arguments::sequences", X, (1, 2), "a")
    assert list(args[1]) == [1, 2]


def test_samples_that_differ_in_nested_lists_only_are_different() -> None:
    op = define("lists(Tensor x, int[] a, int[] b) -> Tensor")
    samples = [(X, [1], [2]), (X, [1, 2], []), (X, [], [1, 2])]
    results = check_op(op, samples, checks="own", requires_grad=False, plugins=[Own()])
    assert [result.outcome for result in results] == ["passed"] * 3


def test_optional_tensor_lists_stay_lists_in_misfit_messages() -> None:
    op = define("optional(Tensor x, Tensor?[] ws) -> Tensor")
    with pytest.raises(MarkError, match=r"argument 'ws' \[1\] is a Tensor, not 3"):
        check_op(op, [(X, [None, 3])])


def test_one_check_is_enough_to_run_an_op() -> None:
    op = define("enough(Tensor x) -> Tensor")
    results = check_op(op, [(X,)], checks="own", plugins=[Own()])
    assert [(result.check, result.outcome) for result in results] == [("own.runs", "passed")]


def test_a_sample_of_no_arguments() -> None:
    LIBRARY.define("none() -> Tensor")
    LIBRARY.impl("none", lambda: torch.zeros(2), "CompositeExplicitAutograd")
    sample: Optional[Sample] = Sample()
    results = check_op("t_arguments::none", [sample], checks="own", plugins=[Own()])
    assert [result.case for result in results] == ["cpu-float32-nograd-0"]
