"""Files that cannot be written: known before anything runs, or reported in a line at the end."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import HEAD, Suite

from pytest_customop.core.files import why_unusable, why_unwritable, write_whole

TEST = "@customop_cases(plain, [(tensor(3),)], requires_grad=False)\ndef test_plain(): ...\n"
FAILING = TEST.replace("requires_grad", "checks=['own.fails'], requires_grad")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can get to, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        if not all(folder.stat().st_mode & 0o001 for folder in Path(name).parents):
            pytest.skip("the folder for temporary files is closed to other users")
        yield Path(name)


@pytest.fixture
def other_user() -> Iterator[None]:
    """Run as a user who may not write everywhere, which root may."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """The system lets no file grow beyond 100 bytes, in the middle of a write.

    This is no fixture: pytest writes the outcome of a test before its fixtures end, maybe to a file.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"one" * 1000)
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"the old one")
    with small_files(), pytest.raises(OSError, match="File too large"):
        write_whole(path, b"x" * 300)
    assert path.read_bytes() == b"the old one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "file")
    assert why_unwritable(link) is None
    write_whole(link, b"text")
    assert link.is_symlink()
    assert (tmp_path / "real" / "file").read_bytes() == b"text"


def test_what_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert why_unwritable(path) is None
    assert why_unusable(tmp_path / "new" / "folder") is None
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    assert why_unwritable(path) is None
    assert path.read_text() == "old"


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/full")
    (tmp_path / "file").touch()
    assert why_unwritable(tmp_path) == "it is a folder"
    assert why_unwritable(tmp_path / "fifo") == "it is not an ordinary file"
    assert why_unwritable(tmp_path / "device") == "it is not an ordinary file"
    assert why_unwritable(tmp_path / "file" / "below") == "Not a directory"
    assert why_unwritable(tmp_path / "nosuch" / "file") == "No such file or directory"
    assert why_unwritable(tmp_path / ("long" * 63 + ".json")) == "File name too long"
    assert why_unusable(tmp_path / "file" / "folder") == "Not a directory"


def test_a_full_disk_is_known_although_it_takes_empty_files(tmp_path: Path) -> None:
    with small_files():
        reasons = why_unwritable(tmp_path / "file"), why_unusable(tmp_path)
    assert reasons == ("File too large", "File too large")
    assert list(tmp_path.iterdir()) == []


def test_what_may_not_be_written(open_folder: Path, closed_to_others: None) -> None:
    closed, read_only = open_folder / "closed", open_folder / "file"
    assert why_unwritable(closed / "new") == "Permission denied"
    assert why_unwritable(closed / "old") == "Permission denied"
    assert why_unusable(closed / "new" / "folder") == "Permission denied"
    assert why_unwritable(read_only) == "it is read-only"


@pytest.fixture
def closed_to_others(open_folder: Path, request: pytest.FixtureRequest) -> None:
    """A folder and a file in `open_folder` that others may not write to."""
    closed = open_folder / "closed"
    closed.mkdir()
    (closed / "old").touch()
    (closed / "old").chmod(0o666)
    closed.chmod(0o555)
    (open_folder / "file").touch(0o444)
    request.getfixturevalue("other_user")


# Before anything runs


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--customop-report=folder.json", "cannot be written: it is a folder"),
        ("--customop-report=pipe.json", "cannot be written: it is not an ordinary file"),
        ("--customop-report=nosuch/report.json", "there is no folder "),
        ("--customop-report=file/report.json", "there is no folder "),
        ("--customop-repro-dir=file", "this is a file"),
        ("--customop-repro-dir=file/below", "cannot be written into: Not a directory"),
    ],
)
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_it_is_known_before_anything_runs(
    suite: Suite, option: str, message: str, workers: tuple[str, ...]
) -> None:
    suite.test(TEST)
    (suite.path / "folder.json").mkdir()
    os.mkfifo(suite.path / "pipe.json")
    (suite.path / "file").touch()
    result = suite.run(*workers, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.errlines if line]
    assert len(lines) == 1
    assert lines[0].startswith(f"ERROR: {option}: {message}")
    assert "collected" not in result.stdout.str()


# At the end

FILLS_UP = """
import resource

@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish():
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
"""


def assert_reported_in_a_line(result: pytest.RunResult, path: str, why: str) -> None:
    """One line names the file and the reason, in place of an internal error."""
    errors = [line for line in result.outlines if line.startswith("ERROR")]
    assert len(errors) == 1, result.outlines
    assert errors[0].startswith("ERROR: customop: ")
    assert errors[0].endswith(f"/{path} was not written: {why}")
    for word in ("INTERNALERROR", "Traceback"):
        assert word not in result.stdout.str() + result.stderr.str()
    assert f"report: {path}" not in result.stdout.str()


def test_a_disk_that_fills_up_ends_the_session_with_a_line_and_the_old_report(
    suite: Suite,
) -> None:
    suite.write("conftest.py", (suite.path / "conftest.py").read_text() + FILLS_UP)
    suite.test(TEST)
    suite.write("report.json", "the old one")
    result = suite.run_apart("-p", "no:cacheprovider", "--customop-report=report.json")
    result.assert_outcomes(passed=1)
    assert_reported_in_a_line(result, "report.json", "File too large")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert (suite.path / "report.json").read_text() == "the old one"
    assert not [path for path in suite.path.iterdir() if path.name.startswith(".report")]


TAKES_FOLDER_AWAY = """
import pathlib, shutil

def test_z():
    shutil.rmtree(pathlib.Path(__file__).parent / "folder")
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_one_report_that_cannot_be_written_is_not_the_end_of_the_others(
    suite: Suite, workers: tuple[str, ...]
) -> None:
    suite.test(TEST)
    suite.write("test_z.py", TAKES_FOLDER_AWAY)
    (suite.path / "folder").mkdir()
    run = suite.run_apart if workers else suite.run
    options = ("--customop-report=folder/a.json", "--customop-report=b.json")
    result = run(*workers, *options)
    assert_reported_in_a_line(result, "folder/a.json", "No such file or directory")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(suite.results("b.json")) == 1
    result.stdout.fnmatch_lines(["report: *b.json"])


def test_other_statuses_stand(suite: Suite) -> None:
    suite.test(TEST)
    suite.write("test_z.py", TAKES_FOLDER_AWAY + "    import pytest; pytest.exit('enough')\n")
    (suite.path / "folder").mkdir()
    result = suite.run("--customop-report=folder/a.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert_reported_in_a_line(result, "folder/a.json", "No such file or directory")


SCRIPTED = """
def look(case):
    raise fail("own-finding", "output is wrong", "the evidence", fix="change it")

def pytest_customop_register_checks():
    return [Check("own.scripted", "fails, with a script", look, repro="assert op is None\\n")]

def pytest_collection_finish(session):
    import pathlib
    folder = pathlib.Path("scripts")
    folder.unlink() if folder.is_file() else None
    folder.write_text("in the way")
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_script_that_cannot_be_written_hides_no_finding(
    suite: Suite, workers: tuple[str, ...]
) -> None:
    suite.write("conftest.py", SCRIPTED, head=HEAD)
    suite.test(TEST)
    run = suite.run_apart if workers else suite.run
    result = run(*workers, "--customop-repro-dir=scripts", "--customop-report=report.json")
    assert_reported_in_a_line(result, "scripts", "File exists")
    assert [record["finding"] for record in suite.results()] == ["own-finding"]
    result.stdout.fnmatch_lines(
        ["*own-finding: output is wrong", "repro  --customop-repro-dir=DIR*"]
    )


@pytest.mark.slow
def test_a_file_system_that_is_really_full(suite: Suite) -> None:
    """64 KiB of memory as a disk, where the system lets one be mounted."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    disk = suite.path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {disk}"
    in_private = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*in_private, mount], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    suite.test(TEST)
    suite.write(
        "test_z.py",
        """
import pathlib

def test_z():
    with open(pathlib.Path(__file__).parent / "disk" / "filling", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            pass
""",
    )
    pytest_line = f"{sys.executable} -m pytest -p no:randomly -p no:cacheprovider"
    options = "--customop-checks=own --customop-report=disk/report.json"
    shows = "echo; ls -A disk; cat disk/report.json"
    script = f"{mount} && echo the old one > disk/report.json && {pytest_line} {options}; {shows}"
    result = suite.pytester.run(*in_private, f"cd {suite.path} && {script}")
    assert_reported_in_a_line(result, "disk/report.json", "No space left on device")
    assert result.outlines[-3:] == ["filling", "report.json", "the old one"]
    # And in the next session before anything runs.
    filled = f"{mount}; head -c 70000 /dev/zero > disk/filling; {pytest_line} {options}; echo $?"
    again = suite.pytester.run(*in_private, f"cd {suite.path} && {filled}")
    assert "cannot be written: No space left on device" in again.stderr.str()
    assert again.outlines[-1] == str(int(pytest.ExitCode.USAGE_ERROR))
