"""What becomes of the entries of a baseline, by what ran."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from pytest_customop.baseline.entry import Entry, Key, cell_of
from pytest_customop.baseline.file import Baseline
from pytest_customop.baseline.merge import Merged, merge
from pytest_customop.baseline.ran import seen
from pytest_customop.baseline.unmatched import unmatched
from pytest_customop.plan.place import Place
from pytest_customop.run.record import FindingRecord, ResultRecord

OP, CHECK, CODE = "lib::scale", "fake.forward", "a-code"
HEAD = f'version = 1\n\n[[failure]]\nop = "{OP}"\ncheck = "{CHECK}"\nfinding = "{CODE}"\n'
F16, F32 = {"dtype": "float16"}, {"dtype": "float32"}


def case(bad: bool | str, **fields: object) -> ResultRecord:
    """A case that has the finding, another one, or none."""
    by_hand = bool(fields.pop("by_hand", False))
    outcome = str(fields.pop("outcome", "xfailed" if bad else "passed"))
    place = Place("cpu", "float32", False, "contiguous", "0")
    place = Place(**{**place.__dict__, **fields})
    code = bad if isinstance(bad, str) else CODE
    return ResultRecord(
        "t.py::test",
        OP,
        CHECK,
        place,
        outcome,  # type: ignore[arg-type]
        finding=FindingRecord(code) if bad else None,
        in_baseline=bool(bad),
        by_hand=by_hand,
    )


def merged(
    text: str,
    records: Iterable[ResultRecord],
    not_run: Iterable[ResultRecord] = (),
    **options: bool,
) -> tuple[str, Merged]:
    """The text of a baseline after a session, and what was changed."""
    ran, others = [*records], [*not_run]
    marked = [record for record in (*ran, *others) if not record.by_hand]
    counts = Counter((record.op, record.check or "", cell_of(record.place)) for record in marked)
    complete = options.pop("complete", False)
    report = options.pop("report", False)
    baseline = Baseline(text)
    result = merge(
        baseline.entries, seen(ran, counts, **options), records=not report, complete=complete
    )
    changes = {at: entry.new for at, entry in enumerate(result.changes)}
    return baseline.edit(changes, result.added), result


def entry_after(text: str, *args: object, **options: bool) -> str:
    """What the one entry of the text says apart from its name."""
    after, _ = merged(text, *args, **options)  # type: ignore[arg-type]
    return after.replace(HEAD, "").replace('comment = ""\n', "").strip().replace("\n", "; ")


NEW = "version = 1\n"


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([case(True)], 'devices = ["cpu"]; dtypes = ["float32"]'),
        ([case(True, **F16), case(True, **F32)], 'devices = ["cpu"]'),
        ([case(True, **F16), case(False, **F32)], 'devices = ["cpu"]; dtypes = ["float16"]'),
        (
            [case(True, **F16), case(True, **F32), case(False, requires_grad=True)],
            'devices = ["cpu"]; requires_grad = false',
        ),
        (
            [case(True, device="cuda:1"), case(True)],
            'devices = ["cpu", "cuda"]; dtypes = ["float32"]',
        ),
        # Positions of samples are no names.
        (
            [case(True, sample="3"), case(False, sample="1")],
            'devices = ["cpu"]; dtypes = ["float32"]',
        ),
        (
            [case(True, sample="wide"), case(False)],
            'devices = ["cpu"]; dtypes = ["float32"]; samples = ["wide"]',
        ),
        (
            [case(True, variant="odd"), case(False)],
            'devices = ["cpu"]; dtypes = ["float32"]; variants = ["odd"]',
        ),
        (
            [case(True, variant=variant) for variant in "abcd"],
            'devices = ["cpu"]; dtypes = ["float32"]; variants = "only"',
        ),
        (
            [case(True), case(True, variant="odd")],
            'devices = ["cpu"]; dtypes = ["float32"]; variants = "also"',
        ),
        (
            [case(True, by_hand=True), case(False)],
            'devices = ["cpu"]; dtypes = ["float32"]; samples = ["customop_check"]',
        ),
    ],
)
def test_a_new_entry_is_folded(records: list[ResultRecord], expected: str) -> None:
    assert entry_after(NEW, records) == expected
    # It covers what failed: nothing is added by the same run again.
    text, _ = merged(NEW, records)
    again, result = merged(text, records)
    assert again == text
    assert not any(entry.is_fixed for entry in result.changes)


def test_what_is_still_to_run_is_no_reason_to_fold() -> None:
    first, second = case(True, **F16), case(True, **F32)
    text, _ = merged(NEW, [first], [second])
    assert 'dtypes = ["float16"]' in text
    text, _ = merged(text, [second], [first])
    assert "dtypes" not in text
    assert text == merged(NEW, [first, second])[0]


LISTED = f'{HEAD}devices = ["cpu"]\ndtypes = ["float16", "float32"]\n'


@pytest.mark.parametrize(
    ("records", "not_run", "expected"),
    [
        # Fixed as a whole, or for one dtype.
        ([case(False, **F16), case(False, **F32)], [], None),
        ([case(False, **F16), case(True, **F32)], [], 'devices = ["cpu"]; dtypes = ["float32"]'),
        # What did not run stays.
        ([case(False, **F16)], [], 'devices = ["cpu"]; dtypes = ["float32"]'),
        ([case(False, **F16)], [case(True, **F32)], 'devices = ["cpu"]; dtypes = ["float32"]'),
        ([case(False, **F16)], [case(True, **F16)], LISTED),
        ([], [case(True, **F16)], LISTED),
        ([case(False, **F16, outcome="skipped")], [], LISTED),
        ([case(False, **F16, outcome="error")], [], LISTED),
        # It lists what another session has.
        ([case(False, **F16, device="cuda"), case(False, **F32, device="cuda")], [], LISTED),
        # Another finding: this one is gone.
        ([case("other", **F16), case(True, **F32)], [], 'devices = ["cpu"]; dtypes = ["float32"]'),
    ],
)
def test_only_what_ran_leaves_an_entry(
    records: list[ResultRecord], not_run: list[ResultRecord], expected: str | None
) -> None:
    after, _ = merged(LISTED, records, not_run)
    if expected == LISTED:
        assert after == LISTED
    elif expected is None:
        assert after == "version = 1\n"
    else:
        assert entry_after(LISTED, records, not_run).split("; \n")[0].startswith(expected)


def test_a_fix_on_one_machine_keeps_what_another_one_has() -> None:
    text = LISTED.replace('["cpu"]', '["cpu", "cuda"]')
    clean = [case(False, **F16), case(False, **F32)]
    assert 'devices = ["cuda"]\ndtypes = ["float16", "float32"]' in merged(text, clean)[0]
    # One dtype is fixed here. On the other machine it may fail, so that the list cannot say so.
    assert merged(text, [case(False, **F16), case(True, **F32)])[0] == text


def test_steps_of_variants_leave_an_entry() -> None:
    text = f'{HEAD}variants = ["empty0", "odd"]\n'
    odd, empty = case(False, variant="odd"), case(True, variant="empty0")
    assert 'variants = ["empty0"]' in merged(text, [odd, empty])[0]
    assert merged(text, [odd])[0].endswith('variants = ["empty0"]\n')
    assert merged(text, [odd, case(False, variant="empty0")])[0] == "version = 1\n"
    also = f'{HEAD}variants = "also"\n'
    assert 'variants = "only"' in merged(also, [case(False), empty])[0]
    assert "variants" not in merged(also, [case(True), odd])[0]
    assert merged(also, [case(False)])[0] == also.replace("also", "only")
    # Other amounts of variants derive other steps.
    only = f'{HEAD}variants = "only"\n'
    assert merged(only, [empty, odd])[0] == only


@pytest.mark.parametrize("given", ["left_out", "calls_open"])
def test_what_cannot_be_known_leaves_no_entry(given: str) -> None:
    text = f'{HEAD}devices = ["cpu"]\n'
    record = case(False, by_hand=given == "calls_open")
    assert merged(text, [record])[0] == "version = 1\n"
    assert merged(text, [record], **{given: True})[0] == text


def test_failures_of_others_are_not_recorded_and_not_called_fixed() -> None:
    text = f'{HEAD}devices = ["cpu"]\n'
    marked = ResultRecord(**{**case(True).__dict__, "in_baseline": False, "known": "#1"})
    assert merged(NEW, [marked])[0] == NEW
    assert merged(text, [marked])[0] == text


def test_a_report_adds_nothing() -> None:
    assert merged(NEW, [case(True, outcome="failed")], report=True)[0] == NEW


def test_two_entries_may_have_two_comments() -> None:
    second = HEAD.removeprefix("version = 1\n")
    text = f'{HEAD}dtypes = ["float16"]\ncomment = "one"\n{second}dtypes = ["float32"]\n'
    failing = [case(True, **F16), case(True, **F32)]
    assert merged(text, failing)[0] == text
    more = merged(text, [*failing, case(True, dtype="float64"), case(False, dtype="int8")])[0]
    assert more == text.replace('["float16"]', '["float16", "float64"]')


def test_entries_that_match_nothing() -> None:
    def listed(text: str, op: str = OP, **place: object) -> bool:
        entries = [
            Entry(Key(op, entry.key.check, CODE), entry.lists) for entry in Baseline(text).entries
        ]
        cells = {(OP, CHECK): {cell_of(case(False, **place).place)}}
        return bool(unmatched(entries, {OP}, cells, all_checks=True))

    assert listed(HEAD, op="lib::gone")
    assert listed(HEAD.replace(CHECK, "fake.gone"))
    assert listed(f'{HEAD}samples = ["gone"]\n')
    assert not listed(HEAD)
    assert not listed(f'{HEAD}devices = ["cuda"]\n')
    assert not listed(f'{HEAD}dtypes = ["float64"]\n')
    assert not listed(f'{HEAD}variants = "only"\n')


def test_a_sample_that_is_gone_keeps_no_entry() -> None:
    text = f'{HEAD}samples = ["gone", "wide"]\n'
    record = case(False, sample="wide")
    assert 'samples = ["gone"]' in merged(text, [record])[0]
    assert merged(text, [record], complete=True)[0] == "version = 1\n"


@pytest.mark.parametrize("seed", range(25))
def test_parts_in_any_order_lose_nothing(seed: int) -> None:
    """Every case fails or passes for good; a session runs some of them and updates the file."""
    draw = random.Random(seed)
    dimensions = {
        "device": ["cpu", "cuda"],
        "dtype": ["float16", "float32", "float64"],
        "requires_grad": [False, True],
        "layout": ["contiguous", "strided"],
        "sample": ["0", "1", "wide"],
        "variant": [None, "odd", "empty0", "one0", "large"],
    }
    records = []
    for values in itertools.product(*dimensions.values()):
        if draw.random() < 0.3:
            continue
        place = dict(zip(dimensions, values, strict=True))
        # Defects are of some values of two dimensions, as a rule.
        bad = place["dtype"] == "float16" and place["layout"] == "strided"
        if draw.random() < 0.05:
            bad = not bad
        records.append(case(bad, **place))
    text = NEW
    for round_ in range(6):
        device = draw.choice(["cpu", "cuda", None])
        collected = [record for record in records if device in (None, record.place.device)]
        share = draw.random()
        ran = [record for record in collected if draw.random() < share]
        if round_ == 3:  # some are mended, for good
            mended = draw.choice(dimensions["dtype"])
            records = [
                replace(record, outcome="passed", finding=None, in_baseline=False)
                if record.place.dtype == mended
                else record
                for record in records
            ]
            continue
        before = Baseline(text)
        text, _ = merged(text, ran, [record for record in collected if record not in ran])
        after = Baseline(text)
        for record in records:
            key, cell = Key(OP, CHECK, CODE), cell_of(record.place)
            covered = after.find(key, cell, record.place.variant)
            if record.finding and (record in ran or before.find(key, cell, record.place.variant)):
                assert covered, record.place
        # The same once more changes nothing, and finds nothing out of date.
        again, result = merged(text, ran, [record for record in collected if record not in ran])
        assert again == text
        assert not any(entry.is_fixed for entry in result.changes)
    everything, result = merged(text, records)
    assert merged(everything, records)[0] == everything
    if not any(record.finding for record in records):
        assert everything == "version = 1\n"
