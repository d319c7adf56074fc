"""A wrong mark is one clear error at collection: where it is, what is wrong, what is allowed."""

from __future__ import annotations

import pytest
from kit import (
    OPS,
    ModuleSuite,
    Suite,
    assert_no_plugin_frames,
    assert_one_error,
    collection_errors,
    errors_of,
)

GOOD = "[(tensor(3), 2)]"
MAKE = "def make(device, dtype, requires_grad):\n    "

ERRORS = f"customop_cases(scale, {GOOD}, errors="
IMPORT = "from pytest_customop import ErrorSample\n"

# name: (what comes before the mark, the mark, what the error says)
WRONG = {
    "unknown-keyword": (
        "",
        f"customop_cases(scale, {GOOD}, layout='strided')",
        ("unknown keyword 'layout'; did you mean 'layouts'?", "known: axes, checks, devices"),
    ),
    "unknown-keyword-of-the-marker": (
        "",
        f"pytest.mark.customop_cases(op=scale, samples={GOOD}, dtype=[torch.float32])",
        ("unknown keyword 'dtype'; did you mean 'dtypes'?",),
    ),
    "no-samples": (
        "",
        "customop_cases(scale)",
        ("samples is missing", "customop_cases(op, samples=[(...), ...])"),
    ),
    "no-op": ("", f"customop_cases(samples={GOOD})", ("op is missing",)),
    "nothing-at-all": ("", "pytest.mark.customop_cases()", ("op is missing",)),
    "too-many-positions": (
        "",
        f"customop_cases(scale, {GOOD}, ['cpu'])",
        ("takes op and samples by position, the rest by keyword",),
    ),
    "op-twice": (
        "",
        f"pytest.mark.customop_cases(scale, {GOOD}, op=plain)",
        ("op is given twice",),
    ),
    "empty-samples": ("", "customop_cases(scale, [])", ("samples is empty", "at least one tuple")),
    "samples-none": ("", "customop_cases(scale, None)", ("samples is None", "list of tuples")),
    "samples-is-one-sample": (
        "",
        "customop_cases(scale, Sample((tensor(3), 2)))",
        ("samples is Sample(", "list of tuples"),
    ),
    "sample-is-no-tuple": (
        "",
        "customop_cases(plain, [tensor(3)])",
        ("samples[0] is tensor(3), which is not a tuple of arguments", "write (tensor(3),)"),
    ),
    "sample-is-a-real-tensor": (
        "",
        "customop_cases(plain, [torch.ones(3)])",
        ("samples[0] is a tensor of shape (3,), which is not a tuple of arguments",),
    ),
    "unknown-op": (
        "",
        f"customop_cases('NS::scal', {GOOD})",
        ("unknown op 'NS::scal'; did you mean 'NS::scale'?", "is the module that registers it"),
    ),
    "unknown-namespace": (
        "",
        f"customop_cases('nosuchspace::scale', {GOOD})",
        ("unknown op 'nosuchspace::scale'", "is the module that registers it imported?"),
    ),
    "op-without-namespace": ("", f"customop_cases('scale', {GOOD})", ('"ns::name"',)),
    "op-is-a-number": ("", f"customop_cases(3, {GOOD})", ("op is 3: allowed are",)),
    "op-function-returns-no-op": (
        "",
        f"customop_cases(lambda: 3, {GOOD})",
        ("op is a function that returned 3", "allowed are"),
    ),
    "op-is-an-ordinary-function": (
        "def plain_function(x, n):\n    return x\n",
        f"customop_cases(plain_function, {GOOD})",
        ("op is plain_function", "raised TypeError", "allowed are"),
    ),
    "several-overloads": (
        "library = torch.library.Library('NS', 'FRAGMENT')\n"
        "library.define('two.a(Tensor x) -> Tensor')\n"
        "library.define('two.b(Tensor x, int n) -> Tensor')\n",
        f"customop_cases('NS::two', {GOOD})",
        ("NS::two has several overloads", '"NS::two.a"', '"NS::two.b"'),
    ),
    "unknown-overload": (
        "",
        f"customop_cases('NS::scale.defualt', {GOOD})",
        ("unknown overload of NS::scale 'defualt'; did you mean 'default'?",),
    ),
    "generator-raises": (
        "def make():\n    yield (tensor(3), 2)\n    raise KeyError('boom')\n",
        "customop_cases(scale, make())",
        ("samples raised KeyError: 'boom'", "test_it.py:32"),
    ),
    "function-raises": (
        f"{MAKE}raise KeyError('boom')\n",
        "customop_cases(scale, make)",
        ("samples function make raised KeyError: 'boom'", "test_it.py:31"),
    ),
    "generator-function-raises": (
        f"{MAKE}yield (tensor(3), 2)\n    raise KeyError('boom')\n",
        "customop_cases(scale, make)",
        ("samples function make raised KeyError: 'boom'", "test_it.py:32"),
    ),
    "function-of-other-arguments": (
        "def make(device):\n    return []\n",
        "customop_cases(scale, make, axes={'n': [1]})",
        ("samples function make is called with (device, dtype, requires_grad, n)",),
    ),
    "function-without-arguments": (
        "def make():\n    return []\n",
        "customop_cases(scale, make)",
        ("is called with (device, dtype, requires_grad): it takes no arguments", "write make()"),
    ),
    "function-returns-nothing": (
        f"{MAKE}pass\n",
        "customop_cases(scale, make)",
        ("samples function make returned None: return or yield tuples",),
    ),
    "function-returns-no-sample": (
        f"{MAKE}return []\n",
        "customop_cases(scale, make)",
        ("samples function make is empty",),
    ),
    "duplicate-id": (
        "",
        "customop_cases(scale, [Sample((tensor(3), 2), id='a'), Sample((tensor(4), 2), id='a')])",
        ("samples[0] and [1] have one id, 'a'",),
    ),
    "id-of-another's-position": (
        "",
        "customop_cases(scale, [Sample((tensor(3), 2), id='1'), (tensor(4), 2)])",
        ("samples[0] and [1] have one id, '1'",),
    ),
    "same-sample-twice": (
        "",
        "customop_cases(scale, [(tensor(3), 2), (tensor(3), 2)])",
        ("samples[0] and [1] are the same sample", "tell them apart by an id"),
    ),
    "id-with-a-space": (
        "",
        "customop_cases(scale, [Sample((tensor(3), 2), id='a b')])",
        ("samples[0].id is 'a b': give a word without spaces",),
    ),
    "ids-that-run-together": (
        "",
        "customop_cases(scale, [Sample((tensor(3), 2), id='a'), "
        "Sample((tensor(3), 2), id='offset-a')], layouts=['contiguous', 'offset'])",
        ("two cases have the id 'cpu-float32-nograd-offset-a-own.passes'; rename a sample",),
    ),
    "unknown-layout": (
        "",
        f"customop_cases(scale, {GOOD}, layouts=['contiguous', 'stridet'])",
        ("unknown layout 'stridet'; did you mean 'strided'?",),
    ),
    "layout-without-effect": (
        "",
        "customop_cases(scale, [(tensor(1), 2)], layouts=['transposed'])",
        ("layouts=['transposed'] leaves no case",),
    ),
    "dtype-in-words": (
        "",
        f"customop_cases(scale, {GOOD}, dtypes=['float32'])",
        ("dtypes is ['float32']: give a list of dtypes, as [torch.float32]",),
    ),
    "unknown-device": (
        "",
        f"customop_cases(scale, {GOOD}, devices='cuad')",
        ("unknown device 'cuad'; did you mean 'cuda'?", "known: cpu, cuda"),
    ),
    "unknown-check": (
        "",
        f"customop_cases(scale, {GOOD}, checks=['own.pases'])",
        ("unknown check 'own.pases'; did you mean 'own.passes'?", "fake.backward"),
    ),
    "unknown-removed-check": (
        "",
        f"customop_cases(scale, {GOOD}, checks=['-opchek'])",
        ("unknown check 'opchek'; did you mean 'opcheck'?",),
    ),
    "requires-grad-in-words": (
        "",
        f"customop_cases(scale, {GOOD}, requires_grad='yes')",
        ("requires_grad is 'yes': give False, True, or a list of both",),
    ),
    "no-argument-can-require-gradients": (
        "",
        "customop_cases(scale, [(tensor(3, dtype=torch.int64), 2)], requires_grad=True)",
        ("requires_grad=True leaves no case",),
    ),
    "axes-with-a-list": (
        "",
        f"customop_cases(scale, {GOOD}, axes={{'n': [1]}})",
        ("axes are handed to a samples function, and samples is a list",),
    ),
    "empty-axis": (f"{MAKE}...\n", "customop_cases(scale, make, axes={'n': []})", ("is empty",)),
    "skip-if-returns-a-number": (
        "",
        f"customop_cases(scale, {GOOD}, skip_if=lambda cell: 3)",
        ("skip_if returned 3: return the reason as a string, or None",),
    ),
    "skip-if-raises": (
        "",
        f"customop_cases(scale, {GOOD}, skip_if=lambda cell: cell.dtpye)",
        ("skip_if raised AttributeError", "dtpye"),
    ),
    "skip-if-is-no-function": (
        "",
        f"customop_cases(scale, {GOOD}, skip_if='on cpu')",
        ("skip_if is 'on cpu': give a function of a cell",),
    ),
    "axis-with-a-space": (
        f"{MAKE}...\n",
        "customop_cases(scale, make, axes={'mode': ['plain', 'a b']})",
        ("axes['mode'][1] in test ids is 'modea b': give a word without spaces", "by a name"),
    ),
    "axis-with-brackets": (
        f"{MAKE}...\n",
        "customop_cases(scale, make, axes={'shape': [(3,), [3]]})",
        ("axes['shape'][1] in test ids is 'shape[3]'",),
    ),
    "axis-with-the-separator-of-variants": (
        f"{MAKE}...\n",
        "customop_cases(scale, make, axes={'mode': ['a~b']})",
        ("axes['mode'][0] in test ids is 'modea~b': '~' stands between",),
    ),
    "axis-with-the-separator-of-ids": (
        f"{MAKE}...\n",
        "customop_cases(scale, make, axes={'mode': ['a::b']})",
        ("'::' separates the parts of a test id",),
    ),
    "axis-of-functions": (
        f"{MAKE}...\n",
        "customop_cases(scale, make, axes={'act': torch.nn.functional.relu})",
        ("axes['act'][0] in test ids is 'act<function relu at", "look up other values by a name"),
    ),
    "axis-with-values-that-read-the-same": (
        f"{MAKE}...\n",
        "customop_cases(scale, make, axes={'n': [1, '1']})",
        ("axes['n'] has two values that read '1' in test ids",),
    ),
    "axis-that-is-no-argument": (
        f"{MAKE}...\n",
        "customop_cases(scale, make, axes={'n m': [1]})",
        ("axes has 'n m': give the name of an argument of the samples function",),
    ),
    "tolerances": ("", f"customop_cases(scale, {GOOD}, tolerances=3)", ("give (rtol, atol)",)),
    "tolerances-in-words": (
        "",
        f"customop_cases(scale, {GOOD}, tolerances=('a', 'b'))",
        ("tolerances is ('a', 'b'): give (rtol, atol)", "numbers of at least 0"),
    ),
    "tolerances-that-are-no-numbers": (
        "",
        f"customop_cases(scale, {GOOD}, tolerances={{torch.float32: (0.1, float('nan'))}})",
        ("tolerances is {torch.float32: (0.1, nan)}", "numbers of at least 0"),
    ),
    "gradcheck-in-words": (
        "",
        f"customop_cases(scale, {GOOD}, gradcheck=GradOptions(eps='small'))",
        ("gradcheck is GradOptions(eps='small'", "give numbers of at least 0"),
    ),
    "range-that-the-dtype-does-not-have": (
        "",
        "customop_cases(scale, [(tensor(3, low=-5, high=-1, dtype=torch.uint8), 2)])",
        (
            "sample 0: x = tensor(3, dtype=torch.uint8, low=-5, high=-1) cannot be drawn in uint8: ",
            "only supports [0, 256)",
        ),
    ),
    "range-that-a-dtype-of-the-mark-does-not-have": (
        "",
        "customop_cases(scale, [Sample((tensor(3, low=-5, high=-1), 2), id='low')], "
        "dtypes=[torch.float32, torch.uint8])",
        ("sample low: x = tensor(3, low=-5, high=-1) cannot be drawn in uint8: ", "[0, 256)"),
    ),
    "range-with-one-end-beyond-the-default-of-the-other": (
        "",
        "customop_cases(scale, [(tensor(3, low=20), 2)])",
        ("x = tensor(3, low=20) cannot be drawn in float32", "give both low= and high="),
    ),
    "fill-that-the-dtype-does-not-have": (
        "",
        "customop_cases(scale, [(tensor(3, fill=300), 2)], dtypes=torch.uint8)",
        ("x = tensor(3, fill=300) cannot be drawn in uint8: ", "overflow"),
    ),
    "values-that-the-dtype-does-not-have": (
        "",
        "customop_cases(scale, [(tensor(values=[2**70], dtype=torch.int64), 2)])",
        (
            "x = tensor(values=[1180591620717411303424], dtype=torch.int64) cannot be drawn in int64",
        ),
    ),
    "range-of-an-error-sample": (
        IMPORT,
        f"{ERRORS}[ErrorSample((tensor(3, low=-5, high=-1, dtype=torch.uint8), 2), "
        "raises=ValueError)])",
        ("sample error0: x = tensor(3, dtype=torch.uint8, low=-5, high=-1) cannot be drawn",),
    ),
    "description-in-a-samples-function": (
        f"{MAKE}return [(tensor(3, fill='x'), 2)]\n",
        "customop_cases(scale, make)",
        ("raised TypeError: tensor(): fill is 'x': give one number", "test_it.py:31)"),
    ),
    "no-call": ("", "customop_cases", ("used without a call: write @customop_cases(op, samples=",)),
    "no-call-of-the-marker": ("", "pytest.mark.customop_cases", ("op is missing",)),
    "body-alone-of-an-empty-test": (
        "",
        f"customop_cases(scale, {GOOD}, checks='body')",
        ("checks selects the body alone, and the body is empty", "request customop_case"),
    ),
    "gradcheck": ("", f"customop_cases(scale, {GOOD}, gradcheck=3)", ("give GradOptions(eps=",)),
    "reference-is-no-function": (
        "",
        f"customop_cases(scale, {GOOD}, reference=3)",
        ("reference is 3: give a function with the op's arguments",),
    ),
    "reference-of-other-arguments": (
        "",
        f"customop_cases(scale, {GOOD}, reference=lambda x: x)",
        ("reference does not take the arguments of samples[0]: too many positional arguments",),
    ),
    "misspelt-reference": (
        "",
        f"customop_cases(scale, {GOOD}, referense=torch.mul)",
        ("unknown keyword 'referense'; did you mean 'reference'?",),
    ),
    "errors-is-no-list": ("", f"{ERRORS}3)", ("errors is 3: give a list of ErrorSample(...)",)),
    "errors-is-one-error": (
        IMPORT,
        f"{ERRORS}ErrorSample((tensor(3), 2), raises=ValueError))",
        ("errors is one ErrorSample: give a list of them",),
    ),
    "error-is-a-tuple": (
        "",
        f"{ERRORS}[(tensor(3), 2)])",
        ("errors[0] is (tensor(3), 2): give ErrorSample((...), raises=ValueError)",),
    ),
    "error-raises-a-word": (
        IMPORT,
        f"{ERRORS}[ErrorSample((tensor(3), 2), raises='ValueError')])",
        ("errors[0]: raises is 'ValueError': give a type of exception, or a tuple of them",),
    ),
    "error-raises-what-ends-the-session": (
        IMPORT,
        f"{ERRORS}[ErrorSample((tensor(3), 2), raises=KeyboardInterrupt)])",
        ("errors[0]: raises is <class 'KeyboardInterrupt'>",),
    ),
    "error-matches-no-expression": (
        IMPORT,
        f"{ERRORS}[ErrorSample((tensor(3), 2), raises=ValueError, match='(')])",
        ("errors[0]: match is '(': give a regular expression",),
    ),
    "error-data-dependent-in-words": (
        IMPORT,
        f"{ERRORS}[ErrorSample((tensor(3), 2), raises=ValueError, data_dependent='x')])",
        ("errors[0]: data_dependent is 'x': give True or False",),
    ),
    "error-that-does-not-fit": (
        IMPORT,
        f"{ERRORS}[ErrorSample((tensor(3), 'two'), raises=ValueError)])",
        ("errors[0]: argument 'n' is an int, not 'two'", "torch itself rejects"),
    ),
    "error-with-the-id-of-a-sample": (
        IMPORT,
        f"{ERRORS}[ErrorSample((tensor(3), 2), raises=ValueError, id='0')])",
        ("samples[0] and errors[0] have one id, '0'",),
    ),
    "error-twice": (
        IMPORT,
        f"{ERRORS}[ErrorSample((tensor(3), 2), raises=ValueError, id='a')] * 2)",
        ("errors[0] and errors[1] have one id, 'a'",),
    ),
    "error-among-the-samples": (
        IMPORT,
        "customop_cases(scale, [ErrorSample((tensor(3), 2), raises=ValueError)])",
        ("samples[0] is an ErrorSample: put it into errors=",),
    ),
}


@pytest.fixture(scope="module")
def of_wrong_marks(module_suite: ModuleSuite) -> dict[str, list[str]]:
    """What one session says of a file for each wrong mark, by its name in `WRONG`."""
    for name, (before, mark, _) in WRONG.items():
        space = _namespace(module_suite, name)
        source = f"{OPS}{before}\n@{mark}\ndef test_op(): ...\n"
        for quoted in ("NS::", "'NS'"):
            source = source.replace(quoted, quoted.replace("NS", space))
        module_suite.write(_file(name), source)
    result = module_suite.run("--continue-on-collection-errors")
    result.assert_outcomes(errors=len(WRONG))
    assert_no_plugin_frames(result)
    errors = collection_errors(result)
    return {name: errors[_file(name)] for name in WRONG}


def _file(name: str) -> str:
    return f"test_{list(WRONG).index(name)}.py"


def _namespace(suite: ModuleSuite, name: str) -> str:
    """Of the ops of a wrong mark's file."""
    return f"{suite.ns}_{list(WRONG).index(name)}"


@pytest.mark.xdist_group("wrong marks")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_mark(
    module_suite: ModuleSuite, of_wrong_marks: dict[str, list[str]], name: str
) -> None:
    _, mark, parts = WRONG[name]
    (error,) = of_wrong_marks[name]
    path = module_suite.path / _file(name)
    line = module_suite.line_of(
        "@customop" if mark.startswith("custom") else "@pytest.mark", path.name
    )
    assert error.startswith("customop_cases: ")
    assert error.endswith(f" [{path}:{line} (test_op)]")
    for part in parts:
        part = part.replace("NS::", f"{_namespace(module_suite, name)}::")
        assert part.replace("test_it.py", path.name) in error


MISFITS = {
    "(tensor(3), 'two')": "argument 'n' is an int, not 'two' (str)",
    "(2, 2)": "argument 'x' is a Tensor, not 2 (int)",
    "(tensor(3),)": "argument 'n' is missing",
    "(tensor(3), 2, 4)": "takes 2 positional arguments, 3 given",
    "Sample((tensor(3),), {'m': 2})": "unknown argument 'm'",
    "Sample((tensor(3), 2), {'n': 2})": "argument 'n' is given twice",
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_arguments_that_do_not_fit_are_named(suite: Suite, misfit: str) -> None:
    suite.test(f"@customop_cases(scale, [(tensor(3), 2), {misfit}])\ndef test_op(): ...\n")
    schema = f"the schema is {suite.ns}::scale(Tensor x, SymInt n) -> Tensor"
    assert_one_error(suite.run(), "samples[1]: ", MISFITS[misfit], schema)


@pytest.mark.parametrize("second", ["'two'", "3"])
def test_the_op_is_not_called_with_arguments_that_do_not_fit(suite: Suite, second: str) -> None:
    suite.test(f"""
import pathlib

@torch.library.custom_op("NS::tell", mutates_args=())
def tell(x: torch.Tensor, n: int) -> torch.Tensor:
    pathlib.Path("called").touch()
    return x.clone()

@customop_cases(tell, [(tensor(3), 2), (tensor(3), {second})])
def test_op(): ...
""")
    result = suite.run()
    assert (suite.path / "called").exists() == (second == "3") == (result.ret == 0)


def test_a_samples_function_is_held_to_the_schema_too(suite: Suite) -> None:
    suite.test("""
def make(device, dtype, requires_grad):
    return [(tensor(3), "two")]

@customop_cases(scale, make)
def test_op(): ...
""")
    assert_one_error(suite.run(), "samples function make[0]: argument 'n' is an int")


def test_two_marks_for_one_op(suite: Suite) -> None:
    suite.test(f"""
@customop_cases(scale, {GOOD})
@customop_cases("NS::scale", {GOOD})
def test_op(): ...
""")
    assert_one_error(
        suite.run(), f"two marks are for {suite.ns}.scale", "put their samples in one mark"
    )


def test_two_wrong_marks_on_one_test_are_one_error(suite: Suite) -> None:
    suite.test("""
@customop_cases(scale, [])
@customop_cases(plain, [])
def test_op(): ...
""")
    assert_one_error(suite.run(), "samples is empty")


def test_a_wrong_mark_leaves_other_files_alone(suite: Suite) -> None:
    suite.test("@customop_cases(scale, [])\ndef test_op(): ...\n")
    suite.write("test_other.py", "def test_other(): ...\n")
    result = suite.run("--continue-on-collection-errors")
    result.assert_outcomes(errors=1, passed=1)


DESCRIPTIONS = {
    "tensor(3, layout='strided_')": "ValueError: tensor(): unknown layout 'strided_'; "
    "did you mean 'strided'? (known: channels_last, ",
    "tensor(values='abc')": "TypeError: tensor(): values= has 'abc': give nested lists of numbers",
    "tensor(3, fill='x')": "TypeError: tensor(): fill is 'x': give one number",
    "tensor(3, dtype='float32')": "TypeError: tensor(): dtype is 'float32': give a torch dtype, "
    "as torch.float32; did you mean 'torch.float32'?",
    "tensor(3, dtype='flaot32')": "TypeError: tensor(): dtype is 'flaot32': give a torch dtype, "
    "as torch.float32; did you mean 'torch.float32'?",
    "tensor(3, dtype=float)": "TypeError: tensor(): dtype is <class 'float'>: give a torch dtype",
    "tensor(3, low='a')": "TypeError: tensor(): low is 'a': give a number",
    "tensor(3, requires_grad='yes')": "TypeError: tensor(): requires_grad is 'yes': give True or False",
    "Sample(tensor(3))": "TypeError: Sample(): args is a tuple of the op's arguments, not tensor(3); "
    "for one argument write Sample((x,))",
    "tensor(values=[1, None])": "TypeError: tensor(): values= has None: give nested lists of numbers",
}


@pytest.mark.parametrize("wrong", DESCRIPTIONS)
def test_a_wrong_description_is_reported_at_its_line(suite: Suite, wrong: str) -> None:
    suite.test(f"@customop_cases(plain, [({wrong},)])\ndef test_op(): ...\n")
    result = suite.run()
    result.assert_outcomes(errors=1)
    lines = [line for line in errors_of(result) if line.strip()]
    assert f"test_it.py:{suite.line_of('@customop_cases')}: in <module>" in lines
    (reported,) = (line for line in lines if line.startswith("E "))
    assert reported.partition(" ")[2].strip().startswith(DESCRIPTIONS[wrong])
    assert_no_plugin_frames(result)


def test_a_dtype_that_the_op_does_not_support_needs_no_values(suite: Suite) -> None:
    suite.test("""
@customop_cases(
    scale, [(tensor(3, low=-5, high=-1), 2)], dtypes=[torch.float32, torch.uint8],
    skip_if=lambda cell: "no uint8" if cell.dtype == torch.uint8 else None,
)
def test_op(): ...
""")
    suite.run().assert_outcomes(passed=2, skipped=1)


def test_the_class_may_not_take_the_name_of_its_checks(suite: Suite) -> None:
    path = suite.test(f"""
class Base:
    def test_customop(self): ...

@customop_cases(scale, {GOOD})
class TestOp(Base):
    def test_other(self, customop_case): ...
""")
    place = f"{path}:{suite.line_of('@customop_cases')} (TestOp)"
    reported = "the class has a method test_customop of its own", "rename the method"
    assert_one_error(suite.run(), place, *reported)


def test_a_subclass_of_a_marked_class_has_its_checks_too(suite: Suite) -> None:
    suite.test(f"""
@customop_cases(scale, {GOOD})
class TestOp: ...

class TestAgain(TestOp): ...
""")
    suite.run().assert_outcomes(passed=4)


def test_a_mark_without_a_call_under_another_name(suite: Suite) -> None:
    suite.write("pytest.ini", "[pytest]\npython_functions = check_*\n")
    path = suite.test("@customop_cases\ndef check_op(): ...\n")
    place = f"[{path}:{suite.line_of('@customop')} (check_op)]"
    assert_one_error(suite.run(), place, "customop_cases: it is used without a call")


def test_a_mark_that_is_kept_to_be_used_twice_is_no_test(suite: Suite) -> None:
    suite.test(f"""
cases = customop_cases(scale, {GOOD})

@cases
def test_one(): ...

@cases
def test_two(): ...
""")
    suite.run().assert_outcomes(passed=4)


def test_a_class_without_a_body_for_its_mark_is_one_skip(suite: Suite) -> None:
    suite.test(f"""
@customop_cases(scale, {GOOD}, checks="body")
class TestOp:
    def test_other(self): ...
""")
    result = suite.run("-rs", checks=None)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*no check of this selection applies*"])


def test_a_class_with_a_body_for_its_mark_runs_it_alone(suite: Suite) -> None:
    suite.test(f"""
@customop_cases(scale, {GOOD}, checks="body", requires_grad=False)
class TestOp:
    def test_it(self, customop_case):
        assert customop_case().shape == (3,)
""")
    suite.run(checks=None).assert_outcomes(passed=1, deselected=1)


def test_a_mark_without_a_check_that_applies_is_one_skip(suite: Suite) -> None:
    suite.test(f"@customop_cases(scale, {GOOD}, checks='reference')\ndef test_op(): ...\n")
    result = suite.run("-rs", checks=None)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*no check of this selection applies*"])


@pytest.mark.parametrize("fixture", ["customop_dtype", "customop_device"])
def test_a_body_takes_device_and_dtype_of_its_case(suite: Suite, fixture: str) -> None:
    suite.test(f"""
@customop_cases(scale, {GOOD})
def test_op(customop_case, {fixture}):
    assert customop_case() is not None
""")
    attribute = fixture.removeprefix("customop_")
    reported = f"the test requests {fixture}", f"use customop_case.{attribute}"
    assert_one_error(suite.run(checks=None), *reported)


def test_wrong_arguments_of_check_op_show_the_call_alone(suite: Suite) -> None:
    suite.test("""
from pytest_customop import check_op

def test_op():
    check_op(plain, [(tensor(3, low=-5, high=-1, dtype=torch.uint8),)])

def test_fixture(customop_check):
    customop_check(plain, tensor(3, low=-5, high=-1, dtype=torch.uint8))
""")
    result = suite.run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines_random(
        ["E *MarkError: check_op: sample 0: *", "E *MarkError: customop_check: sample 0: *"]
    )
    for inside in ("matrix.py", "engine.py", "fixtures.py", "cells.py"):
        assert inside not in result.stdout.str()


def test_inputs_that_no_memory_holds_are_named(suite: Suite) -> None:
    suite.test("""
@customop_cases(plain, [(tensor(2**50),)], requires_grad=False)
def test_op(customop_case):
    assert customop_case() is not None
""")
    result = suite.run(checks="fake.forward,body")
    result.assert_outcomes(failed=1, errors=1)
    reported = "*argument 'x' cannot be made of tensor(1125899906842624) on cpu: RuntimeError: *"
    result.stdout.fnmatch_lines(
        [reported, f"error: {reported}", "         x = tensor(1125899906842624)"]
    )
    assert_no_plugin_frames(result)


def test_the_reason_is_in_the_short_summary(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the path is: pytest cuts the line at the width of the terminal."""
    suite.test("@customop_cases(scale, [])\ndef test_scale(): ...\n")
    monkeypatch.setenv("COLUMNS", "80")
    result = suite.run("-ra")
    result.stdout.fnmatch_lines(["ERROR test_it.py - Failed: customop_cases: samples *"])
