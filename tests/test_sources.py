"""A digest of files changes with each of them, and with what they import."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_customop.core import sources
from pytest_customop.core.sources import Sources, sources_of

FILES = {
    "sources_a/__init__.py": "",
    "sources_a/ops.py": "import pytest\nfrom . import helper\nfrom .deep.within import number\n",
    "sources_a/helper.py": "def late():\n    import sources_b\n    return sources_b\n",
    "sources_a/deep/__init__.py": "",
    "sources_a/deep/within.py": "from ..helper import late\nnumber = 1\n",
    "sources_b.py": "number = 2\n",
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Writes files that look older than this process; the modules above are imported."""

    def write(**contents: str) -> Path:
        for name, text in {**FILES, **contents}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, (1, 1 + len(text)))
        sources._sources.cache_clear()
        return tmp_path

    monkeypatch.syspath_prepend(write())
    __import__("sources_a.ops")
    __import__("sources_b")
    yield write
    for name in [name for name in sys.modules if name.startswith(("sources_a", "sources_b"))]:
        del sys.modules[name]


def _of(folder: Path) -> Sources:
    loaded = sources_of({str(folder / "sources_a" / "ops.py")})
    assert loaded is not None
    return loaded


def test_the_same_files_have_the_same_digest(files: Callable[..., Path]) -> None:
    assert _of(files()) == _of(files())


@pytest.mark.parametrize("name", [name for name, text in FILES.items() if text])
def test_each_file_that_is_imported_somewhere_counts(name: str, files: Callable[..., Path]) -> None:
    before = _of(files())
    assert _of(files(**{name: FILES[name] + "# more\n"})) != before
    assert _of(files()) == before


def test_other_files_do_not_count(files: Callable[..., Path]) -> None:
    assert _of(files()) == _of(files(**{"sources_c.py": "number = 3\n"}))


def test_the_version_of_an_installed_package_counts(
    files: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _of(files())
    monkeypatch.setattr(pytest, "__version__", "0")
    sources._sources.cache_clear()
    assert _of(files()) != before


def test_code_that_asks_whether_it_is_compiled_is_seen(files: Callable[..., Path]) -> None:
    assert not _of(files()).asks_for_compiler
    changed = files(**{"sources_b.py": "from torch.compiler import is_compiling\n"})
    assert _of(changed).asks_for_compiler


def test_a_file_that_has_changed_since_is_not_what_runs(files: Callable[..., Path]) -> None:
    folder = files()
    os.utime(folder / "sources_b.py")
    assert sources_of({str(folder / "sources_a" / "ops.py")}) is None


def test_more_than_can_be_read_quickly_has_no_digest(
    files: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_MOST_BYTES", 100)
    assert sources_of({str(files() / "sources_a" / "ops.py")}) is None


@pytest.mark.parametrize("name", ["<string>", "missing.py", sys.executable])
def test_what_is_no_file_of_python_has_no_digest(name: str) -> None:
    assert sources_of({name}) is None
