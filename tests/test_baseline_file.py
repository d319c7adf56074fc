"""The text of a baseline: what edits keep, and what is wrong with one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_customop.baseline.entry import Cell, Entry, Key, new_entry
from pytest_customop.baseline.file import Baseline
from pytest_customop.baseline.on_disk import BaselineError, parsed, update
from pytest_customop.baseline.toml import parse, parts, statement

TEXT = """\
# At the head.

version = 1  # of the format

# About both.

# About scale.
[[failure]]  # first
op = "lib::scale"
check = "fake.forward"
finding = "fake-stride-mismatch"
devices = ["cpu"]
# Only these two.
dtypes = [
    "float16",  # a half
    "float32",
]
comment = '''
[[failure]]
# no comment'''

[[failure]]
op = "lib::scale"
check = "values.repeat"
finding = "crash"
comment = ""

# At the end.
"""


def a_cell(**fields: object) -> Cell:
    return Cell("cpu", "float32", False, "contiguous", "unnamed", "samples")._replace(**fields)


def an_entry(op: str, check: str = "fake.forward", **fields: object) -> Entry:
    cell = a_cell(**fields)
    return new_entry(Key(op, check, "a-code"), [cell], set(), [cell])


def test_a_text_is_the_sum_of_its_parts() -> None:
    text_parts = [*parts(TEXT)]
    assert "".join(part.text for part in text_parts) == TEXT
    values = {part.key: part.value for part in text_parts if part.line < 20 and part.key}
    assert values["dtypes"] == ["float16", "float32"]
    assert values["comment"] == "[[failure]]\n# no comment"
    assert [part.line for part in text_parts if part.header] == [8, 22]


@pytest.mark.parametrize("text", [TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip("\n")])
def test_no_edit_changes_nothing(text: str) -> None:
    assert Baseline(text).edit({}, []) == text


def test_an_edited_entry_keeps_its_comments() -> None:
    baseline = Baseline(TEXT)
    old = baseline.entries[0]
    lists = {**old.lists, "dtype": frozenset({"float16"}), "layout": frozenset({"strided"})}
    text = baseline.edit({0: Entry(old.key, lists, None, old.comment)}, [])
    changed = 'dtypes = ["float16"]\nlayouts = ["strided"]\n'
    assert text == re.sub(r"dtypes = \[.*?\n\]\n", changed, TEXT, flags=re.DOTALL)
    assert Baseline(text).entries[0].comment == old.comment


def test_a_removed_entry_takes_the_comment_directly_above_it() -> None:
    text = Baseline(TEXT).edit({0: None}, [])
    assert "# About both." in text
    assert "# About scale." not in text
    assert "# At the head." in text
    assert [entry.key.check for entry in Baseline(text).entries] == ["values.repeat"]


def test_new_entries_are_sorted_in() -> None:
    added = [an_entry("lib::zeros"), an_entry("lib::scale", "opcheck.x"), an_entry("lib::add")]
    text = Baseline(TEXT).edit({}, added)
    keys = [entry.key for entry in Baseline(text).entries]
    assert keys == sorted(keys)
    assert len(keys) == 5
    assert text.rstrip().endswith("# At the end.")
    for line in TEXT.splitlines():
        assert line in text.splitlines()


def test_entries_that_are_out_of_order_stay_so() -> None:
    first, second = (TEXT[TEXT.index("[[failure]]  #") : TEXT.index("[[failure]]\nop")], "")
    second = TEXT[TEXT.index("[[failure]]\nop") :]
    text = f"version = 1\n\n{second}\n{first}"
    after = Baseline(Baseline(text).edit({}, [an_entry("lib::add")]))
    assert [entry.key.check for entry in after.entries] == [
        "fake.forward",
        "values.repeat",
        "fake.forward",
    ]


def test_what_is_written_is_read_again() -> None:
    names = ["unnamed", 'a "quote"', "ü\\", "\x7f\t"]
    assert parse(statement("samples", names)) == {"samples": names}
    many = [f"sample{number}" for number in range(30)]
    assert len(statement("samples", many).splitlines()) == 32
    assert parse(statement("samples", many)) == {"samples": many}
    assert parse(statement("requires_grad", False)) == {"requires_grad": False}


ENTRY = '[[failure]]\nop = "a::b"\ncheck = "c.d"\nfinding = "e"\n'
WRONG = {
    "": "b.toml: has no version: it is not a baseline",
    "version = 2\n": "b.toml: has version 2, written by a newer pytest-customop; this one reads 1",
    'version = "1"\n': "b.toml: has the version '1'",
    "version = 1\n\nversion = ": "b.toml:3: is not TOML: Invalid value",
    "version = 1\nname = 3\n": "b.toml:2: has an unknown key 'name' above its tables",
    "version = 1\n[failure]\n": "b.toml:2: has an unknown table [failure]: write [[failure]]",
    "version = 1\n\n[[failure]]\nop = 'a::b'\n": "b.toml:3: has an entry without 'check'",
    f"version = 1\n{ENTRY}dtype = ['a']\n": "b.toml:6: has an unknown key 'dtype'; did you mean 'dtypes'?",
    f"version = 1\n{ENTRY}dtypes = 'a'\n": "b.toml:6: has dtypes = 'a': give a list of names",
    f"version = 1\n{ENTRY}dtypes = []\n": "give a list of names",
    f"version = 1\n{ENTRY}requires_grad = 1\n": "give true or false",
    f"version = 1\n{ENTRY}variants = 'all'\n": 'give "also", "only", or a list of steps',
    f"version = 1\n{ENTRY}comment = 1\n": "give a string",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_is_one_error_with_its_line(text: str) -> None:
    with pytest.raises(BaselineError) as caught:
        parsed(text, "b.toml")
    assert WRONG[text] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_update_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    from pytest_customop.baseline.merge import merge

    path = tmp_path / "b.toml"
    path.write_text(TEXT)
    path.chmod(0o400)
    before = path.stat()
    merged = update(path, "b.toml", lambda baseline: merge(baseline.entries, {}, records=True))
    assert not merged.added
    assert path.stat() == before


def test_a_file_that_was_broken_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    from pytest_customop.baseline.merge import merge

    path = tmp_path / "b.toml"
    path.write_text("version = 9\n")
    with pytest.raises(BaselineError, match=r"b\.toml: has version 9"):
        update(path, "b.toml", lambda baseline: merge(baseline.entries, {}, records=True))
    assert path.read_text() == "version = 9\n"
