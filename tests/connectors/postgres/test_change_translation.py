"""Transactions as rows: every position resumes exactly, without changes that the snapshot contains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from rheos.connectors.postgres.change_positions import (
    ChangesPosition,
    SnapshotRange,
    has_seen,
    lsn_of,
    lsn_text,
)
from rheos.connectors.postgres.change_rows import ChangeRows, ReadColumn
from rheos.connectors.postgres.change_translation import ChangeTranslation
from rheos.connectors.postgres.pgoutput import MalformedMessageError, decode
from rheos.core.errors import InputError
from tests.connectors.postgres import messages as m

COLUMNS = (
    ReadColumn("id", m.INTEGER, "integer", pa.int32()),
    ReadColumn("a", m.TEXT, "text", pa.string()),
)
ROWS = ChangeRows("public.t", COLUMNS, ("id", "a"), ("id",), (("op", "op"), ("before", "was")))
TABLE = m.relation(("id", m.INTEGER), ("a", m.TEXT))
OTHER = m.relation(("x", m.TEXT), id=9, table="other")
STREAM = [
    *(m.begin(100, 11), TABLE, m.insert(1, "one"), m.insert(2, "two"), m.commit(100, 110)),
    *(m.begin(120, 12), OTHER, m.insert("x", id=9), m.commit(120, 130)),
    *(m.begin(140, 13), m.update(1, "uno"), m.insert("y", id=9), m.update(3, "three", key=(2, None))),
    *(m.delete(1, None), m.truncate(9, 7), m.commit(140, 150)),
]
CHANGES = [
    ("insert", 1, "one", None),
    ("insert", 2, "two", None),
    ("update", 1, "uno", None),
    ("update", 3, "three", {"id": 2, "a": None}),
    ("delete", 1, None, {"id": 1, "a": None}),
    ("truncate", None, None, None),
]


def translated(
    stream: list[bytes],
    position: ChangesPosition = ChangesPosition(in_snapshot=False),  # noqa: B008
    rows: ChangeRows = ROWS,
    end_lsn: int | None = None,
) -> tuple[list[tuple[Any, ...]], list[tuple[int, int]], ChangeTranslation]:
    translation = ChangeTranslation(rows, "public", "t", position, end_lsn)
    for data in stream:
        translation.take(decode(data))
    gathered, places = translation.taken()
    found = [(r["op"], r["id"], r["a"], r["was"]) for r in gathered.batch().to_pylist()]
    return found, places, translation


def test_changes_become_rows() -> None:
    found, _, translation = translated(STREAM)
    assert found == CHANGES
    assert translation.position() == ChangesPosition((), False, 150, 0)


def test_an_update_of_the_key_is_a_deletion_and_an_insertion_and_resumes_between_them() -> None:
    rows = replace(ROWS, known=(("op", "op"),))
    wanted = [(op, id) for op, id, *_ in CHANGES]
    wanted[3:4] = [("delete", 2), ("insert", 3)]

    def found(position: ChangesPosition) -> tuple[list[tuple[Any, ...]], list[tuple[int, int]]]:
        translation = ChangeTranslation(rows, "public", "t", position)
        for data in STREAM:
            translation.take(decode(data))
        gathered, places = translation.taken()
        return [(r["op"], r["id"]) for r in gathered.batch().to_pylist()], places

    every, places = found(ChangesPosition(in_snapshot=False))
    assert every == wanted
    for number, (lsn, changes) in enumerate(places, 1):
        assert found(ChangesPosition((), False, lsn, changes))[0] == wanted[number:]


def test_positions_without_timelines_are_read() -> None:
    written = msgspec.msgpack.encode([[], False, 150, 2])
    assert ChangesPosition.decode(written) == ChangesPosition((), False, 150, 2, timeline=0)
    later = translated(STREAM, ChangesPosition(in_snapshot=False, timeline=3))[2]
    assert later.position() == ChangesPosition((), False, 150, 0, timeline=3)


def test_every_position_resumes_exactly() -> None:
    _, places, _ = translated(STREAM)
    for given, (lsn, changes) in enumerate(places, 1):
        position = ChangesPosition((), False, lsn, changes)
        assert translated(STREAM, position)[0] == CHANGES[given:]
        # The server sends only what commits behind the position.
        sent = [TABLE, OTHER, *STREAM[0 if lsn < 100 else 5 if lsn < 120 else 9 :]]
        assert translated(sent, position)[0] == CHANGES[given:]


def test_the_end_is_noticed_by_a_later_commit_or_an_idle_server() -> None:
    found, _, translation = translated(STREAM, end_lsn=140)
    assert found == CHANGES[:2]
    assert translation.finished
    found, _, translation = translated(STREAM[:5], end_lsn=140)
    translation.caught_up(139)
    assert not translation.finished
    translation.caught_up(140)
    assert translation.finished
    assert translation.position().lsn == 140
    half = translated(STREAM[:4], end_lsn=105)[2]
    half.caught_up(1000)  # Said within a transaction, which is not given yet.
    assert not half.finished


def test_changes_in_the_snapshot_are_not_repeated() -> None:
    # Of the first transactions, 11 was committed when it was taken, and 13 ran.
    part = SnapshotRange("13:14:13", 150)
    found, _, translation = translated(STREAM, ChangesPosition((part,), False, 90))
    assert found == CHANGES[2:]
    assert translation.position().parts == ()
    early = translated(STREAM[:5], ChangesPosition((part,), False, 90))[2]
    assert early.position() == ChangesPosition((part,), False, 110, 0)


def test_a_changed_key_may_move_between_parts_of_the_snapshot() -> None:
    # Keys up to 5 were read when 20 ran, and the others in a later transaction, which has seen it.
    parts = (SnapshotRange("20:20:", 150, (5,)), SnapshotRange("22:22:", 160))
    assert not has_seen(parts, (5,), 20)
    assert has_seen(parts, (6,), 20)
    moves = [
        *(m.begin(140, 20), TABLE, m.update(8, "up", key=(1, None))),
        *(m.update(2, "down", key=(9, None)), m.update(7, "there"), m.update(3, "here")),
        m.commit(140, 145),
    ]
    found = translated(moves, ChangesPosition(parts, False, 90))[0]
    assert found == [
        ("delete", 1, None, {"id": 1, "a": None}),
        ("insert", 2, "down", None),
        ("update", 3, "here", None),
    ]


def test_a_truncation_between_parts_of_the_snapshot_is_an_error() -> None:
    truncation = [m.begin(140, 20), TABLE, m.truncate(7), m.commit(140, 145)]
    before, during, after = "20:20:", "21:22:21", "22:22:"

    def found(*snapshots: str) -> list[tuple[Any, ...]]:
        parts = tuple(SnapshotRange(s, 150, (n,)) for n, s in enumerate(snapshots))
        return translated(truncation, ChangesPosition(parts, False, 90))[0]

    assert found(before, before) == [("truncate", None, None, None)]
    assert found(during, after) == []
    for disagreeing in ((before, after), (before, before, after), (before, after, after)):
        with pytest.raises(InputError, match="truncated while its snapshot was read"):
            found(*disagreeing)


@pytest.mark.parametrize(
    ("snapshot", "xid", "seen"),
    [
        ("10:15:12,13", 9, True),
        ("10:15:12,13", 11, True),
        ("10:15:12,13", 12, False),
        ("10:15:12,13", 15, False),
        # Ids of the stream are the lower halves, which begin again.
        (f"{2**32 + 3}:{2**32 + 5}:", 2**32 - 1, True),
        (f"{2**32 + 3}:{2**32 + 5}:", 4, True),
        (f"{2**32 - 3}:{2**32 - 1}:", 2, False),
    ],
)
def test_a_snapshot_knows_the_transactions_it_has_seen(snapshot: str, xid: int, seen: bool) -> None:
    assert SnapshotRange(snapshot, 0).has_seen(xid) is seen


def test_a_value_that_was_not_sent_is_taken_from_the_old_row_or_named() -> None:
    start = [m.begin(100, 11), TABLE]
    assert translated([*start, m.update(1, ..., full=(1, "large"))])[0] == [
        ("update", 1, "large", {"id": 1, "a": "large"})
    ]
    with pytest.raises(InputError, match=r"large value of 'a'") as raised:
        translated([*start, m.update(1, ...)])
    assert "REPLICA IDENTITY FULL" in str(raised.value)
    named = ChangeRows("public.t", COLUMNS, None, ("id",), (("unchanged", "left_out"),))
    translation = ChangeTranslation(named, "public", "t", ChangesPosition(in_snapshot=False))
    for data in (*start, m.update(1, ...), m.update(2, "b")):
        translation.take(decode(data))
    assert translation.taken()[0].batch().to_pylist() == [
        {"id": 1, "a": None, "left_out": ["a"]},
        {"id": 2, "a": "b", "left_out": []},
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("id", m.INTEGER)], "no longer has the column 'a'"),
        ([("id", m.INTEGER), ("a", m.INTEGER)], "the column 'a' has another type"),
        ([("id", m.INTEGER), ("a", m.TEXT), ("b", m.TEXT)], "new column 'b'"),
    ],
)
def test_a_table_that_changes_under_the_job_is_an_error(
    columns: list[tuple[str, int]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        translated([m.begin(100, 11), m.relation(*columns)])


WIDE = m.relation(("id", 20), ("n", m.INTEGER))


@pytest.mark.parametrize(
    ("policy", "known_lsn", "rows", "reason"),
    [
        ("ignore", 0, [(1, "a"), (2, None)], None),
        ("fail", 200, [(1, "a"), (2, None)], None),
        ("follow", 200, [(1, "a"), (2, None)], None),
        ("follow", 100, [(1, "a")], "'id' has another type: integer became bigint"),
    ],
)
def test_policies_decide_about_altered_columns(
    policy: Any, known_lsn: int, rows: list[tuple[Any, ...]], reason: str | None
) -> None:
    """A followed change ends the stream exactly before its row. Rows from before the program's start
    are read by name."""
    of = replace(ROWS, known=(), on_schema_change=policy, known_lsn=known_lsn)
    translation = ChangeTranslation(of, "public", "t", ChangesPosition(in_snapshot=False))
    stream = [m.begin(100, 11), TABLE, m.insert(1, "a"), m.commit(100, 110), m.begin(120, 12)]
    for data in (*stream, WIDE, m.insert(2, 7), m.commit(120, 130)):
        translation.take(decode(data))
    assert [tuple(row.values()) for row in translation.taken()[0].batch().to_pylist()] == rows
    if reason is None:
        assert translation.awaited is None
        assert translation.position().lsn == 130
    else:
        assert translation.awaited is not None
        assert reason in translation.awaited.reason
        assert translation.position() == ChangesPosition((), False, 110, 0)


def test_a_description_that_outlives_the_start_of_the_program_is_compared_again() -> None:
    of = replace(ROWS, known=(), on_schema_change="follow", known_lsn=115)
    translation = ChangeTranslation(of, "public", "t", ChangesPosition(in_snapshot=False))
    for data in (m.begin(100, 11), WIDE, m.insert(1, 7), m.commit(100, 110), m.begin(120, 12)):
        translation.take(decode(data))
    assert translation.awaited is not None


@pytest.mark.parametrize(
    "stream",
    [
        [TABLE, m.insert(1, "a")],
        [m.begin(100, 11), m.insert(1, "a")],
        [m.begin(100, 11), TABLE, m.insert(1)],
    ],
)
def test_messages_out_of_their_order_are_refused(stream: list[bytes]) -> None:
    with pytest.raises(MalformedMessageError):
        translated(stream)


def test_log_positions_are_formatted_as_the_server_does() -> None:
    assert lsn_text(lsn_of("2A/1505FA8")) == "2A/1505FA8"
    assert lsn_of("1/0") == 2**32
