"""The command line's options and their ini twins.

Every option `--customop-x-y` has an ini twin `customop_x_y`; the command line wins.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Option(NamedTuple):
    """One option and its ini twin."""

    name: str
    help: str
    metavar: str = "NAMES"
    action: str = "store"

    @property
    def flag(self) -> str:
        """As on the command line."""
        return f"--customop-{self.name}"

    @property
    def key(self) -> str:
        """As in the ini file, and in the parsed options."""
        return f"customop_{self.name.replace('-', '_')}"


OPTIONS = (
    Option("devices", "devices to run on, comma-separated (default: cpu)"),
    Option("dtypes", "dtypes of tensors described without one (default: torch's default dtype)"),
    Option("checks", "checks or families to run, comma-separated; -name removes (default: all)"),
    Option("backend", "torch.compile backend of compile.* (default: inductor)", "NAME"),
    Option("seed", "seed of every drawn value, with the case's id (default: 0)", "NUMBER"),
    Option("variants", "variants of samples: off, quick, full, or N a sample", "AMOUNT"),
    Option("max-samples", "at most so many samples of a mark, drawn by the seed", "N"),
    Option("shard", "run part i of n of the cases (1/3); other tests are in part 1", "I/N"),
    Option("durations", "balance shards by an earlier report; repeatable", "PATH", "append"),
    Option("report", "write the results to this file (.json); repeatable", "PATH", "append"),
    Option("repro-dir", "write a script for each failure into this folder", "DIR"),
    Option("require-devices", "an absent device is an error, not a skip", "", "store_true"),
    Option(
        "isolate", "run every item in a child process, which may crash or hang", "", "store_true"
    ),
    Option(
        "timeout",
        "seconds that an item may take (default: 300 with --customop-isolate); 0: any time",
        "SECONDS",
    ),
    Option(
        "memory",
        "gigabytes that the child of --customop-isolate may hold (default: four fifths of what is free); "
        "0: any number",
        "GB",
    ),
)


# What a session says of itself that was asked for nothing; it need not make its settings for it.
BY_DEFAULT = (
    "customop: devices=cpu dtypes=default checks=all variants=quick backend=inductor seed=0"
)


def any_given(config: pytest.Config) -> bool:
    """Whether any of the options has a value, on the command line or in the ini file."""
    return any(config.getoption(one.key) or config.getini(one.key) for one in OPTIONS)


def add_options(parser: pytest.Parser) -> None:
    """Register the options and their ini twins."""
    group = parser.getgroup("customop", "conformance of PyTorch custom operators")
    for option in OPTIONS:
        if option.action == "store_true":
            group.addoption(
                option.flag, dest=option.key, action="store_true", default=None, help=option.help
            )
            parser.addini(option.key, option.help, type="bool", default=False)
            continue
        group.addoption(
            option.flag,
            dest=option.key,
            metavar=option.metavar,
            action=option.action,
            default=None,
            help=option.help,
        )
        parser.addini(option.key, option.help, default="")
    group.addoption(
        "--customop-list-checks",
        action="store_true",
        help="print the checks with one line each, and exit",
    )
    group.addoption(
        "--customop-explain",
        metavar="CODE",
        help="print what a finding means and how to mend it, and exit",
    )
