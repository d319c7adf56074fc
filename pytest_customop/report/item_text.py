"""The final text of an item: its distinct findings in full, or why nothing was checked.

An item of variants has one record per variant. Variants that show the same defect share one text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from ..core.wording import counted
from ..run.record import BAD, ResultRecord
from .causes import also_line, causes, one_line


def failure_text(records: Sequence[ResultRecord]) -> str | None:
    """The text of an item that failed; None for one that did not.

    Args:
        records: of the item.
    """
    return composed_text(records, range(len(records)), causes(records), {})


def composed_text(
    records: Sequence[ResultRecord],
    positions: Sequence[int],
    roots: Mapping[int, int],
    ids: Mapping[str, str],
) -> str | None:
    """The text of an item, in which a finding that is reported elsewhere is one line.

    Args:
        records: of the session, or of the item.
        positions: the positions of the item's records among them.
        roots: the position of the root cause of each record that has one, as from `causes`.
        ids: the node ids as the terminal shows them, of the items that a line may name.

    Returns:
        The text; None if no record of the item failed.
    """
    bad = [at for at in positions if records[at].outcome in BAD]
    bad.sort(key=lambda at: _rank(records[at]))
    consequences: dict[int, list[int]] = defaultdict(list)
    for at, root in roots.items():
        consequences[root].append(at)
    full, brief = [], []
    for at in bad:
        record = records[at]
        if at not in roots:
            others = [records[position] for position in consequences[at]]
            text = record.text or f"{record.outcome}: {record.message}"
            full.append("\n".join([text, *([also_line(record, others)] if others else [])]))
            continue
        cause = records[roots[at]]
        if cause.nodeid != record.nodeid:
            brief.append(one_line(record, cause, ids.get(cause.nodeid, cause.nodeid)))
    texts = [*full, *dict.fromkeys(brief)]
    if not texts:
        return None
    if len(full) > 1:
        codes = dict.fromkeys(text.partition(":")[0] for text in full)
        texts.insert(0, f"{', '.join(codes)}: {len(full)} defects")
    return "\n\n".join(texts)


def skip_reason(records: Sequence[ResultRecord]) -> str | None:
    """Why an item that did not fail is a skip: its notes, or the reasons why no check ran.

    None for an item that passed.
    """
    noted = [record for record in records if record.outcome == "noted"]
    if noted:
        codes = dict.fromkeys(f"{record.skip_code}: {_code(record)}" for record in noted)
        text = ", ".join(codes)
        return noted[0].reason if len(records) == 1 else f"{text} ({_many(noted)})"
    if any(record.outcome == "passed" for record in records):
        return None
    if len(records) == 1:
        return records[0].reason
    counts = Counter(record.skip_code or record.message for record in records)
    listed = ", ".join(f"{count} {code}" for code, count in counts.most_common())
    return f"{counted(len(records), 'variant')}: {listed}"


def _rank(record: ResultRecord) -> tuple[int | str, ...]:
    return record.finding.rank if record.finding else ()


def _code(record: ResultRecord) -> str:
    return record.finding.code if record.finding else record.outcome


def _many(records: Sequence[ResultRecord]) -> str:
    return ", ".join(dict.fromkeys(record.place.variant or "" for record in records))
