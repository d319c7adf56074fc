"""The options, in one table for the parser, the ini keys, the report header and the documentation.

An option `--customop-x-y` has an ini key `customop_x_y`; the command line overrides it. `read_options.py`
turns the given values into `Settings`. Every session imports this module, so it imports next to nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pytest

from ..compat.pytest_private import written_in_ini

_PREFIX = "customop"


def _in_settings(name: str) -> Callable[[Any], Any]:
    """A function of `settings/values.py`, which is imported when the function is first called."""

    def call(value: Any) -> Any:
        from ..settings import values

        return getattr(values, name)(value)

    call.__name__ = name
    return call


class Option(NamedTuple):
    """One option of the command line, and the ini key of the same name.

    Args:
        name: as it is written after `--customop-`.
        help: what it does, for `--help` and the documentation. Markdown.
        kind: the kind of value: one `text`, comma-separated `words` (in TOML a list or a string), a `path`,
            `paths` (comma-separated, and the option is repeatable), or none, for a `flag`.
        metavar: what `--help` shows in place of a value.
        example: a value that the documentation shows.
        default: the text on the default, for `--help` and the documentation.
        more: further sentences for the documentation only. Markdown.
        header: what the report header shows if the option is not given; empty: the header has the option
            only if it is given; None: never.
        field: of `Settings`; empty: the name, with underscores.
        parse: converts the given string, tuple of words, or path (for `paths`, each in turn). Raises
            `ValueError`. None: the value stays as it is.
        validate: raises `ValueError` for a value that torch does not know. It imports torch, so a value
            of an ini file is validated when the first marked test is collected.
        rerun: whether the command that runs a failed item again repeats the option.
        in_worker: what a worker of pytest-xdist does with it. `read`: it reads the option as its
            controller does. `sent`: the controller sends the value. `unchecked`: it takes the path as it
            is, because the controller has validated it. `unused`: only the controller needs it.
        words: the only values, written after `=`; without one, the option means `bare`.
        bare: one of them.
        no_path: a word that is allowed in place of a path.
        prints: whether something is printed and nothing runs. Such an option has no ini key.
    """

    name: str
    help: str
    kind: Literal["text", "words", "path", "paths", "flag"] = "text"
    metavar: str = ""
    example: str = ""
    default: str = ""
    more: str = ""
    header: str | None = None
    field: str = ""
    parse: Callable[[Any], Any] | None = None
    validate: Callable[[Any], None] | None = None
    rerun: bool = False
    in_worker: Literal["read", "sent", "unchecked", "unused"] = "read"
    words: tuple[str, ...] = ()
    bare: str = ""
    no_path: str = ""
    prints: bool = False

    @property
    def flag(self) -> str:
        """The option as it is written on the command line."""
        return f"--{_PREFIX}-{self.name}"

    @property
    def key(self) -> str:
        """The key in the ini file; also its name in pytest's parsed options."""
        return f"{_PREFIX}_{self.name.replace('-', '_')}"

    @property
    def setting(self) -> str:
        """The field of `Settings` that holds its value."""
        return self.field or self.name.replace("-", "_")


ALL_OPTIONS = (
    Option(
        "devices",
        "devices to run on, comma-separated",
        kind="words",
        metavar="NAMES",
        example="cpu,cuda",
        default="cpu",
        more="An unavailable device gives one skip per test.",
        header="cpu",
        validate=_in_settings("validate_devices"),
        rerun=True,
    ),
    Option("require-devices", "an unavailable device is a failure, not a skip", kind="flag"),
    Option(
        "dtypes",
        "dtypes of tensors that are described without one, comma-separated",
        kind="words",
        metavar="NAMES",
        example="float32,float64",
        default="torch's default dtype",
        header="default",
        validate=_in_settings("validate_dtypes"),
        rerun=True,
    ),
    Option(
        "checks",
        "checks or families to run, comma-separated; `-name` removes one",
        kind="words",
        metavar="NAMES",
        example="fake,-fake.symbolic",
        default="all that are not opt-in",
        header="all",
    ),
    Option(
        "variants",
        "variants of the samples to try, comma-separated: an amount (`off`, `quick`, `full`, or a "
        "number per sample), kinds (`layout`, `shape`, ...), `strict`",
        kind="words",
        metavar="WORDS",
        example="full,shape",
        default="quick",
        more="`quick` tries the likely ones with the cheap checks; without kinds, all kinds are tried; "
        "`strict` makes notes failures "
        "([variants.md](variants.md)).",
        header="quick",
        parse=_in_settings("read_variants"),
    ),
    Option(
        "variant",
        "run only these variants of the samples, comma-separated, by the name of the step",
        kind="words",
        metavar="STEPS",
        example="empty0,transposed",
        more="All checks that run on variants run on these, whatever `--customop-variants` says. A failure "
        "on a variant prints the command with its step.",
        field="variant_steps",
    ),
    Option(
        "fuzz",
        "also check the ops on this many generated inputs per check",
        metavar="N",
        example="200",
        more="Hypothesis draws the inputs from the samples, for the cheap checks; a failure is shrunk to a "
        "small input, printed as a sample. Needs `pip install 'pytest-customop[fuzz]'` "
        "([howto/fuzz.md](howto/fuzz.md)).",
        header="",
        parse=_in_settings("read_count"),
    ),
    Option(
        "backend",
        "the `torch.compile` backend of `compile.*`",
        metavar="NAME",
        example="inductor",
        default="inductor",
        header="inductor",
        validate=_in_settings("validate_backend"),
        rerun=True,
    ),
    Option(
        "seed",
        "seed of every drawn value, together with the case's id",
        metavar="NUMBER",
        example="3",
        default="0",
        header="0",
        parse=_in_settings("read_seed"),
        rerun=True,
    ),
    Option(
        "max-samples",
        "use at most this many samples of a mark, chosen by the seed",
        metavar="N",
        example="3",
        more="Their ids and values stay the same, and the summary says which were left out.",
        header="",
        parse=_in_settings("read_count"),
    ),
    Option(
        "compile-cells",
        "which cases of a mark `compile.*` runs on: `all`, or just enough (`pairwise`) to compile each "
        "sample, dtype, layout and axis value with gradients and without",
        metavar="WORD",
        example="pairwise",
        default="all",
        more="All other checks run on every case, and variants are not affected. The summary says how many "
        "cases were left out.",
        header="",
        parse=_in_settings("read_compile_cells"),
    ),
    Option(
        "shard",
        "run part I of N of the cases, for CI jobs that share a suite",
        metavar="I/N",
        example="2/5",
        more="All items of a case are in one part. Tests without the mark run in part 1. Give every "
        "job the same selection.",
        header="",
        parse=_in_settings("read_shard"),
    ),
    Option(
        "durations",
        "balance the shards by an earlier report; repeatable",
        kind="paths",
        metavar="PATH",
        example="report.json",
        more="Give the reports of all shards.",
        parse=_in_settings("read_durations"),
        in_worker="sent",
    ),
    Option(
        "report",
        "write the results to this file: a page (`.html`), Markdown (`.md`) or `.json`; or to `github`, "
        "the summary of a job on GitHub; repeatable",
        kind="paths",
        metavar="PATH",
        example="report.html",
        more="It is complete even with `-n 2` or `-x`, after Ctrl-C, and when a worker dies "
        "([reports.md](reports.md)).",
        no_path="github",
        field="reports",
        parse=_in_settings("report_file"),
        in_worker="unused",
    ),
    Option(
        "require-coverage",
        "fail unless every op of these namespaces had a case, comma-separated; `-ns::name` leaves one out",
        kind="words",
        metavar="NAMES",
        example="mylib,-mylib::_helper",
        more="Every overload needs a case, with gradients if it has a formula, and on every available "
        "device with a kernel ([coverage.md](coverage.md)).",
        header="",
        parse=_in_settings("read_required_coverage"),
    ),
    Option(
        "baseline",
        "a file of recorded failures, which are expected",
        kind="path",
        metavar="PATH",
        example="customop-baseline.toml",
        more="Everything else that fails is a failure ([known-failures.md](known-failures.md)).",
    ),
    Option(
        "update-baseline",
        "record the failures of this run in the baseline",
        kind="flag",
        more="Entries for cases that did not run stay as they are.",
    ),
    Option(
        "baseline-strict",
        "entries of the baseline that no longer fail are a failure",
        kind="flag",
    ),
    Option(
        "repro-dir",
        "write a script for each failure into this folder",
        kind="path",
        metavar="DIR",
        example="repro",
        more="A script shows the failure with plain torch calls, without pytest and this plugin.",
        parse=_in_settings("script_folder"),
        in_worker="unchecked",
    ),
    Option(
        "harvest",
        "check the calls that a suite makes to the ops of these namespaces, comma-separated",
        kind="words",
        metavar="NAMESPACES",
        example="mylib",
        more="The suite runs as it is; each distinct call goes through the checks at the end "
        "([harvest.md](harvest.md)).",
        header="",
        parse=_in_settings("read_namespaces"),
    ),
    Option(
        "harvest-save",
        "write the harvested calls to this file as marked tests, to continue from",
        kind="path",
        metavar="PATH",
        example="test_customops.py",
        more="An existing file is an error and is not changed.",
        parse=_in_settings("new_test_file"),
        in_worker="unchecked",
    ),
    Option(
        "scan",
        "check the ops that these packages register, comma-separated, without a test: their registrations, "
        "and any inputs found that they accept",
        kind="words",
        metavar="PACKAGES",
        example="mylib",
        more="Tests are run too if their paths are given ([scan.md](scan.md)).",
        header="",
        parse=_in_settings("read_packages"),
    ),
    Option(
        "scan-namespace",
        "scan only the ops of these namespaces, comma-separated, not all that the packages register",
        kind="words",
        metavar="NAMESPACES",
        example="mylib",
        parse=_in_settings("read_namespaces"),
        field="scan_namespaces",
    ),
    Option(
        "scan-seconds",
        "seconds that the search for inputs of an op may take; 0 for no search",
        metavar="SECONDS",
        example="5",
        default="10",
        parse=_in_settings("read_seconds"),
    ),
    Option(
        "scan-save",
        "write the inputs that a scan found to this file as marked tests, to continue from",
        kind="path",
        metavar="PATH",
        example="test_mylib.py",
        more="An existing file is an error and is not changed.",
        parse=_in_settings("new_test_file"),
        in_worker="unchecked",
    ),
    Option(
        "scan-examples",
        "a Python file with examples for a scan: `EXAMPLES`, a dict from the name of an op to its samples, "
        "or marked tests",
        kind="path",
        metavar="PATH",
        example="examples.py",
        more="An op with examples is checked on them, without a search for inputs.",
        parse=_in_settings("python_file"),
    ),
    Option(
        "isolate",
        "which items of marked tests run in a child process, which may crash or hang: all (`on`), none "
        "(`off`), or those of variants that could crash the process (`auto`)",
        metavar="WORD",
        example="on",
        default="auto",
        more="A crash or a hang fails one item, and the session goes on (Linux, macOS; "
        "[faults.md](faults.md)).",
        parse=_in_settings("read_isolate"),
        words=("auto", "on", "off"),
        bare="on",
        rerun=True,
    ),
    Option(
        "timeout",
        "seconds that an item may take; 0 for no limit",
        metavar="SECONDS",
        example="60",
        default="300 in a child process, otherwise no limit",
        more="Without `--customop-isolate=on` it needs pytest-timeout.",
        parse=_in_settings("read_seconds"),
        rerun=True,
    ),
    Option(
        "memory",
        "gigabytes that the child process of `--customop-isolate` may hold; 0 for no limit",
        metavar="GB",
        example="8",
        default="four fifths of the free memory",
        more="Linux only.",
        parse=_in_settings("read_gigabytes"),
        rerun=True,
    ),
    Option(
        "explain",
        "print what a finding or a check means, and what to change, and exit",
        metavar="NAME",
        example="fake-stride-mismatch",
        prints=True,
    ),
    Option("list-checks", "print the checks with one line each, and exit", "flag", prints=True),
)

# The options that become settings.
OPTIONS = tuple(option for option in ALL_OPTIONS if not option.prints)

# The report header of a session without options, which can do without the settings.
BY_DEFAULT = "customop: " + " ".join(
    f"{option.name}={option.header}" for option in OPTIONS if option.header
)


class _StoreWord(argparse.Action):
    """Stores what follows `=`, or `const`. So an argument after the option is not used as its value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        word = (option_string or "").partition("=")[2]
        setattr(namespace, self.dest, word or self.const)


def add_options(parser: pytest.Parser) -> None:
    """Register the options and their ini keys."""
    group = parser.getgroup(_PREFIX, "conformance of PyTorch custom operators")
    for option in ALL_OPTIONS:
        default = f" (default: {option.default})" if option.default else ""
        text = (option.help + default).replace("`", "")
        if option.kind == "flag":
            group.addoption(
                option.flag, dest=option.key, action="store_true", default=None, help=text
            )
        elif option.words:
            forms = [f"{option.flag}={word}" for word in option.words]
            group.addoption(
                option.flag,
                *forms,
                dest=option.key,
                action=_StoreWord,
                nargs=0,
                const=option.bare,
                default=None,
                help=text,
            )
        else:
            group.addoption(
                option.flag,
                dest=option.key,
                metavar=option.metavar,
                action="append" if option.kind == "paths" else "store",
                default=None,
                help=text,
            )
        if not option.prints:
            parser.addini(option.key, text, type=_INI_TYPES[option.kind], default=None)


# Only for `--help`: a type accepts either a string or a list, so `ini_value` reads the file itself.
_INI_TYPES: dict[str, Literal["string", "linelist", "bool"]] = {
    "text": "string",
    "words": "linelist",
    "path": "string",
    "paths": "linelist",
    "flag": "bool",
}


def any_given(config: pytest.Config) -> bool:
    """Whether any option has a value, on the command line or in the ini file."""
    return any(
        config.getoption(option.key) or ini_value(config, option.key) is not None
        for option in OPTIONS
    )


def ini_value(config: pytest.Config, key: str) -> Any:
    """The value of an ini key as it was written; None if there is none.

    `config.getini` converts it to one type, and native TOML (pytest 9) has several: names are a string or
    a list, a seed is a string or a number.
    """
    value = overridden(config, key)
    return written_in_ini(config, key) if value is None else value


def overridden(config: pytest.Config, key: str) -> str | None:
    """The value that pytest's `-o key=value` gives an ini key; the last one if there are several."""
    for text in reversed(config.getoption("override_ini", None) or ()):
        name, _, value = text.partition("=")
        if name == key:
            return str(value)
    return None
