"""Compare two reports, or merge several: `python -m pytest_customop.report`. Imports no torch."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from ..core.files import write_whole
from ..core.wording import counted, printable
from ..settings.values import REPORT_FORMATS, report_file
from .compare import compare, comparison_lines, is_broken
from .formats import render
from .merge import merge
from .read import ReportError, read_report

PROGRAM = "python -m pytest_customop.report"
_BROKEN, _WRONG_USE = 1, 2

_COMPARE = f"""usage: {PROGRAM} OLD.json NEW.json
       {PROGRAM} merge REPORT.json [REPORT.json ...] -o OUT

Compare two reports of --customop-report, or merge several into one. Both read the JSON reports of this
and of earlier versions.

The comparison prints what is broken, fixed, new and gone, by op, check and finding. It exits with 1 if a
case fails that did not fail before.

-o OUT   the file of the merged report; its ending selects the format; repeatable. If several reports have
         a result, the worst is kept.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with one line."""
        _fail(f"{message} (see {PROGRAM} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit status.
    """
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if not argv or {"-h", "--help"} & set(argv):
            print(_COMPARE, end="")
            return 0 if argv else _WRONG_USE
        return _merge(argv[1:]) if argv[0] == "merge" else _compare(argv)
    except ReportError as error:
        _fail(str(error))


def _compare(argv: Sequence[str]) -> int:
    parser = _Parser(prog=PROGRAM, usage=argparse.SUPPRESS)
    parser.add_argument("reports", nargs="*", metavar="REPORT.json")
    paths: list[str] = parser.parse_args(argv).reports
    if len(paths) != 2:
        _fail(f"give the old report and the new one, not {counted(len(paths), 'file')}")
    old, new = (read_report(Path(path)) for path in paths)
    changes = compare(old, new)
    _print(comparison_lines(old, new, (paths[0], paths[1]), changes))
    return _BROKEN if is_broken(changes) else 0


def _merge(argv: Sequence[str]) -> int:
    parser = _Parser(prog=f"{PROGRAM} merge", usage=argparse.SUPPRESS)
    parser.add_argument("reports", nargs="+", metavar="REPORT.json")
    parser.add_argument("-o", "--output", action="append", required=True, metavar="OUT", type=Path)
    chosen = parser.parse_args(argv)
    outputs: list[Path] = chosen.output
    for path in outputs:
        if path.suffix not in REPORT_FORMATS:
            _fail(f"-o {path}: the ending says the format; known: {', '.join(REPORT_FORMATS)}")
        try:
            report_file(path)
        except ValueError as error:
            _fail(f"-o {path}: {error}")
    reports = [(name, read_report(Path(name))) for name in chosen.reports]
    merged = merge(reports, [*PROGRAM.split(), "merge", *argv])
    _print(merged.messages)
    for path in outputs:
        try:
            text = render(merged.report, path.suffix)
            write_whole(path, text.encode())
        except OSError as error:
            _fail(f"{path} was not written: {error.strerror or error}")
        count = counted(len(merged.report["results"]), "result")
        _print([f"{path}: {count} of {counted(len(reports), 'report')}"])
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line))


def _fail(message: str) -> NoReturn:
    print(printable(f"{PROGRAM}: {message}"), file=sys.stderr)
    raise SystemExit(_WRONG_USE)


def _run() -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # for example `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    raise SystemExit(status)


if __name__ == "__main__":
    _run()
