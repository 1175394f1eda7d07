"""Session windows on short timelines. In the drawings a character is a millisecond, a letter a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core import aggregates as agg
from rheos.core.checkpoint.compatibility import Verdict, compare
from rheos.core.errors import UnrestorableError
from rheos.core.graph.windows import Session, Tumbling
from rheos.core.operators.window import panes
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.protocol.ids import CheckpointId, OperatorId
from rheos.ops.savepoints.layouts import layout_of
from rheos.testing import OperatorExample, check_example
from tests.core.operators.rows import SCHEMA as ROWS
from tests.core.operators.rows import Row, row
from tests.core.operators.window.harness import Bench, timeline
from tests.core.operators.window.test_spill import with_budget
from tests.worlds.programs import millis

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
COUNT = {"rows": agg.count(), "total": agg.sum("v")}


def bench_of(gap: str = "5ms", **more: Any) -> Bench:
    return Bench.of_aggregates(Session(gap), COUNT, SCHEMA, **more)


def seen(results: list[dict[str, Any]]) -> list[tuple[str, int, int, int]]:
    """Return key, start and end of the session, and row count."""
    return [
        (row["k"], millis(row["window_start"]), millis(row["window_end"]), row["rows"])
        for row in results
    ]


def test_a_session_ends_a_gap_after_its_last_row() -> None:
    bench = bench_of()
    #                                 [---|---)   [----)
    bench.rows(list(timeline("   a...a.......a"[3:])))
    assert bench.watermark(7) == []
    assert seen(bench.watermark(8)) == [("a", 0, 9, 2)]
    assert seen(bench.end()) == [("a", 12, 17, 1)]


def test_rows_a_gap_apart_are_one_session_and_a_millisecond_more_are_two() -> None:
    bench = bench_of()
    bench.rows(list(timeline("a....a.....a")))
    assert seen(bench.end()) == [("a", 0, 10, 2), ("a", 11, 16, 1)]


def test_a_row_between_two_sessions_merges_them() -> None:
    bench = bench_of()
    bench.rows(list(timeline("ab........a")))
    bench.rows([{"k": "a", "v": 5, "ts": 5}])
    assert seen(bench.end()) == [("b", 1, 6, 1), ("a", 0, 15, 3)]


def test_a_row_after_a_closed_session_starts_another() -> None:
    for wm, wanted in ((3, [("a", 0, 10, 2)]), (4, [("a", 0, 5, 1), ("a", 5, 10, 1)])):
        bench = bench_of()
        bench.rows([{"k": "a", "v": 1, "ts": 0}])
        # Whether the first session has fired by then makes no difference.
        bench.rows([{"k": "a", "v": 1, "ts": 5, "wm": wm}])
        assert seen(bench.end()) == wanted


def test_a_late_row_joins_a_session_that_is_still_open() -> None:
    # Its own window is [2, 7). A session has been open from 7 to 15, the watermark and one.
    late = {"k": "a", "v": 2, "ts": 2, "wm": 14}
    for others, taken in ((("7", "11"), True), (("8", "11"), False), (("7", "10"), False)):
        bench = bench_of(parallelism=2)
        bench.rows([late])
        bench.rows([{"k": "a", "v": 1, "ts": int(ts)} for ts in others])
        bench.rows([{"k": "b", "v": 1, "ts": 7}])
        bench.restart(1)
        assert bench.sides["late"] == [], "it is not known yet"
        results = bench.end()
        assert (("a", 2, 16, 3) in seen(results)) == taken
        assert [r["v"] for r in bench.sides["late"]] == ([] if taken else [2])
        assert bench.count("late") == (not taken)


def test_a_late_row_goes_to_the_late_output_unchanged() -> None:
    bench = bench_of()
    bench.rows([{"k": "a", "v": 2, "ts": 2, "wm": 14}])
    bench.watermark(14)
    assert not bench.sides["late"]
    bench.watermark(15)
    assert bench.sides["late"] == [{"k": "a", "v": 2, "__ts": 2, "__wm": 14}]
    assert (bench.count("late"), bench.count("late_purged")) == (1, 0)


def test_rows_of_a_session_purged_during_idleness_are_counted_separately() -> None:
    bench = bench_of()
    bench.watermark(20)
    bench.rows([{"k": "a", "v": 7, "ts": 2}])
    bench.watermark(21)
    assert [row["v"] for row in bench.sides["late"]] == [7]
    assert (bench.count("late"), bench.count("late_purged")) == (1, 1)


def test_with_lateness_a_session_that_has_fired_grows_and_fires_again() -> None:
    bench = bench_of(lateness_ms=10)
    bench.rows([{"k": "a", "v": 1, "ts": 0}])
    assert seen(bench.watermark(4)) == [("a", 0, 5, 1)]
    came = bench.rows([{"k": "a", "v": 1, "ts": 1, "wm": 8}, {"k": "b", "v": 1, "ts": 1, "wm": 8}])
    assert seen(came) == []
    assert seen(bench.watermark(8)) == [("a", 0, 6, 2), ("b", 1, 6, 1)]
    assert seen(bench.rows([{"k": "a", "v": 1, "ts": 2, "wm": 8}])) == [("a", 0, 7, 3)]
    assert bench.watermark(30) == []
    assert not list(bench.subtasks[0]._index), "a session goes when its lateness is over"


def test_functions_are_applied_to_sessions() -> None:
    @dataclass
    class Seen:
        k: str
        session: str
        values: str

    class Listing(rh.WindowFunction):
        def process(self, records: list[Row], ctx: rh.WindowContext) -> Iterator[Seen]:
            session = f"{ctx.window.start_ms} to {ctx.window.end_ms}"
            yield Seen(ctx.key, session, str([record.v for record in records]))

    def windowed(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
        out = rows.key_by("k").window(Session(gap="5ms")).process(Listing())
        return {"out": out, "late": out.side_output("late")}

    script: list[Mapping[str, Any] | WatermarkMark] = [
        row("a", 1, 5),
        row("b", 2, 7),
        row("a", 3, 9),
        WatermarkMark(11),
        row("a", 4, 4),
        row("b", 5, 0),
        row("b", 6, 33),
    ]
    came = check_example(OperatorExample(windowed, ROWS, script, on="at"))
    assert sorted((r["k"], r["session"], r["values"]) for r in came["out"]) == [
        ("a", "4 to 14", "[4, 1, 3]"),
        ("b", "33 to 38", "[6]"),
        ("b", "7 to 12", "[2]"),
    ]
    assert [r["v"] for r in came["late"]] == [5]


def test_rows_of_a_long_session_do_not_pile_up() -> None:
    bench = Bench.of_aggregates(Session("20ms"), COUNT | {"n": agg.count_distinct("k")}, SCHEMA)
    (operator,) = bench.subtasks
    for ts in range(0, 1000, 10):
        bench.rows([{"k": key, "v": ts, "ts": ts} for key in "abc"])
        bench.watermark(ts)
        for store in operator._stores():
            assert sum(segment.height for segment in store) <= 3 * 4
    assert seen(bench.end()) == [(key, 0, 1010, 100) for key in "abc"]


def test_sessions_larger_than_memory_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panes, "_LEAST_ROWS", 16)
    plain, bench = bench_of(), with_budget(bench_of(), str(tmp_path / "state"), 2_000)
    for at in range(0, 24, 3):
        came = [{"k": f"key {at * i % 97}", "v": i, "ts": at + i % 7} for i in range(20)]
        for each in (plain, bench):
            each.rows(came)
            each.watermark(at - 5)
        stores = bench.subtasks[0]._stores()
        assert sum(store.memory_bytes for store in stores) <= 2_000
    plain.end()
    bench.end()
    assert sorted(seen(bench.out)) == sorted(seen(plain.out))


def test_stored_state_names_its_kind_and_is_shown() -> None:
    bench = bench_of()
    bench.rows([*timeline(".....a.a"), {"k": "b", "v": 7, "ts": 1, "wm": 20}])
    stored = bench.checkpoint()
    assert stored["fired"][0].select(["gap_ms", "kind"]).to_pylist() == [
        {"gap_ms": 5, "kind": "session"}
    ]
    shapes = bench.shapes()

    def shown(state: str) -> tuple[Any, ...]:
        (pane,) = layout_of(state, shapes).rows(stored[state][0]).to_pylist()
        return pane["k"], *(millis(pane[n]) for n in ("pane_start", "pane_end", "first_window_end"))

    assert shown("totals") == ("a", 5, 12, 5)
    assert shown("undecided") == ("b", 1, 22, 22)
    bench.make = Bench.of_aggregates(Session("6ms"), COUNT, SCHEMA).make
    with pytest.raises(
        UnrestorableError, match="the state belongs to sessions with a gap of 5 ms, but the program"
    ):
        bench.restart(1)
    for other in (Session("6ms"), Tumbling("5ms")):
        now = Bench.of_aggregates(other, COUNT, SCHEMA).shapes()
        found = compare({OperatorId("w"): shapes}, {OperatorId("w"): now}, {})
        assert any(one.verdict is Verdict.UNREADABLE for one in found)


def test_a_snapshot_is_complete_and_without_later_rows() -> None:
    bench = bench_of()
    bench.rows(list(timeline("ab..a")))
    snapshot = bench.subtasks[0].snapshot(CheckpointId(1))
    bench.rows(list(timeline(".....abc")))
    bench.watermark(30)
    (totals,) = [part.write() for part in snapshot.parts if part.state == "totals"]
    assert sorted(zip(totals["key.k"].to_pylist(), totals["rows"].to_pylist(), strict=True)) == [
        ("a", 2),
        ("b", 1),
    ]


def test_rows_buffered_in_a_slow_subtask_are_assigned_and_fired_once() -> None:
    for lateness_ms in (0, 30):
        bench = bench_of(parallelism=2, lateness_ms=lateness_ms)
        ahead, behind = bench.subtasks
        for key in "abcdefgh":
            bench.rows([{"k": key, "v": 1, "ts": ts} for ts in (7, 11)])
            bench.rows([{"k": key, "v": 1, "ts": 2, "wm": 14 + lateness_ms}])
        bench.collect(ahead.on_watermark(20 + lateness_ms))
        bench.collect(behind.on_watermark(8 + lateness_ms))
        bench.restart(1)
        assert bench.count("late") == 0
        bench.end()
        last = {key: (start, end, rows) for key, start, end, rows in seen(bench.out)}
        assert last == dict.fromkeys("abcdefgh", (2, 16, 3))
        if not lateness_ms:
            assert len(bench.out) == 8
