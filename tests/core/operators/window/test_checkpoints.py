"""Checkpoints of windows contain only changes, wherever that is less than everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rheos.core import aggregates as agg
from rheos.core.graph.windows import Sliding, Tumbling
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import PartMode
from tests.core.operators.window.harness import Bench, deltas_wherever_they_can_be, timeline

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
AGGREGATES = {
    "rows": agg.count(),
    "mean": agg.mean("v"),
    "median": agg.quantile("v", 0.5),
    "users": agg.count_distinct("v"),
}
STATES = ("totals", "sums", "values.v", "distinct.v")


def rows(count: int, *, keys: int, until: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(count)
    return [
        {"k": f"key {key}", "v": value, "ts": ts}
        for key, value, ts in zip(
            rng.integers(0, keys, count).tolist(),
            rng.integers(0, 1000, count).tolist(),
            rng.integers(0, until, count).tolist(),
            strict=True,
        )
    ]


def modes(bench: Bench) -> dict[str, str]:
    return {
        state: "full" if len(tables) == 1 else "delta"
        for state, (_, tables) in bench.chains[0].items()
        if state != "fired"
    }


def test_the_size_of_a_delta_is_proportional_to_the_input() -> None:
    bench = Bench.of_aggregates(Sliding("100ms", every="10ms"), AGGREGATES, SCHEMA)
    bench.rows(rows(10_000, keys=2_000, until=100))
    before = bench.checkpoint()
    assert set(modes(bench).values()) == {"full"}
    for count in (100, 0, 100, 300):
        # In small batches, whose segments are merged: what was written before is not written again.
        for _ in range(count // 20):
            bench.rows(rows(20, keys=2_000, until=100))
        after = bench.checkpoint()
        assert set(modes(bench).values()) == {"delta"}
        for state in STATES:
            assert after[state][0].num_rows <= 2 * count, "a row, or a limb for each half of it"
            assert after[state][0].nbytes <= before[state][0].nbytes * 2 * count / 10_000 + 1000


def test_many_rows_of_few_keys_are_a_small_delta() -> None:
    bench = Bench.of_aggregates(Sliding("100ms", every="10ms"), {"rows": agg.count()}, SCHEMA)
    bench.rows(rows(10_000, keys=2_000, until=100))
    bench.checkpoint()
    for _ in range(50):
        bench.rows(rows(100, keys=3, until=30))
    assert bench.checkpoint()["totals"][0].num_rows == 9
    assert modes(bench) == {"totals": "delta"}


def test_a_chain_ends_when_it_is_as_large_as_the_state() -> None:
    bench = Bench.of_aggregates(Tumbling("100ms"), {"median": agg.quantile("v", 0.5)}, SCHEMA)
    lengths = []
    for count in (100, 30, 30, 30, 30, 30):
        bench.rows(rows(count, keys=9, until=100))
        bench.checkpoint()
        lengths.append(len(bench.chains[0]["values.v"][1]))
    assert lengths == [1, 2, 3, 4, 1, 2]


def test_a_lost_delta_is_noticed() -> None:
    bench = Bench.of_aggregates(Tumbling("100ms"), AGGREGATES, SCHEMA)
    with deltas_wherever_they_can_be():
        for count in (50, 7, 5):
            bench.rows(rows(count, keys=3, until=100))
            bench.checkpoint()
    chains = bench.chains[0]
    for missing in (0, 1, 2):
        left = {
            state: (
                kind,
                [table for at, table in enumerate(tables) if at != missing or state == "fired"],
            )
            for state, (kind, tables) in chains.items()
        }
        bench.restore({0: left}, 1)
        assert sum(row["rows"] for row in bench.end()) == 62 - (50, 7, 5)[missing]
    bench.restore({0: chains}, 2)
    assert sum(row["rows"] for row in bench.end()) == 62


@pytest.mark.parametrize("lateness_ms", [0, 10])
def test_panes_purged_after_they_were_written_do_not_return(lateness_ms: int) -> None:
    bench = Bench.of_aggregates(Tumbling("10ms"), AGGREGATES, SCHEMA, lateness_ms=lateness_ms)
    with deltas_wherever_they_can_be():
        bench.rows(list(timeline("ab........ab........ab")))
        bench.checkpoint()
        bench.watermark(20)
        bench.restart(1)
    for store in bench.subtasks[0]._stores():
        whole = store.whole()
        assert whole is not None
        # Rows at 0 and 10 belong to windows that have fired; with lateness the second is kept.
        slices = {start for frame in whole.segments for start in frame.firsts.tolist()}
        assert slices == ({10, 20} if lateness_ms else {20})
    assert [row["rows"] for row in bench.end()] == [1, 1]


def test_an_empty_store_begins_a_new_chain() -> None:
    bench = Bench.of_aggregates(Tumbling("10ms"), AGGREGATES, SCHEMA)
    with deltas_wherever_they_can_be():
        bench.rows(list(timeline("abc")))
        bench.checkpoint()
        bench.watermark(100)
        assert set(bench.checkpoint()) == {"fired"}
        bench.rows([{"k": "a", "v": 1, "ts": 200}])
        bench.checkpoint()
        assert set(modes(bench).values()) == {"full"}
        bench.checkpoint()
        assert set(modes(bench).values()) == {"delta"}
        bench.restart(1)
    assert [row["rows"] for row in bench.end()] == [1]


def test_a_discarded_snapshot_is_followed_by_a_full_one() -> None:
    bench = Bench.of_aggregates(Tumbling("10ms"), AGGREGATES, SCHEMA)
    with deltas_wherever_they_can_be():
        for kept in (True, True, False):
            bench.rows(list(timeline("ab")))
            bench.checkpoint(kept=kept)
        bench.checkpoint()
        assert set(modes(bench).values()) == {"full"}
        bench.restart(1)
    assert [row["rows"] for row in bench.end()] == [3, 3]


def test_a_savepoint_is_complete_and_changes_nothing() -> None:
    benches = [Bench.of_aggregates(Tumbling("10ms"), AGGREGATES, SCHEMA) for _ in range(2)]
    saved = []
    with deltas_wherever_they_can_be():
        for bench in benches:
            bench.rows(list(timeline("abc")))
            bench.checkpoint()
            bench.rows(list(timeline("ab")))
        plain, other = (bench.subtasks[0] for bench in benches)
        first, second = plain.snapshot(CheckpointId(2)), other.snapshot(CheckpointId(2))
        saved = other.savepoint(second)
        benches[1].rows(list(timeline("abc")))
        assert {part.mode for part in saved} == {PartMode.FULL}
        assert [part.mode for part in first.parts] == [part.mode for part in second.parts]
        assert [part.write() for part in first.parts] == [part.write() for part in second.parts]
        benches[0].rows(list(timeline("abc")))
        first, second = plain.snapshot(CheckpointId(3)), other.snapshot(CheckpointId(3))
        assert [part.write() for part in first.parts] == [part.write() for part in second.parts]
    benches[0].restore({0: {part.state: (part.kind, [part.write()]) for part in saved}}, 3)
    assert {row["k"]: row["rows"] for row in benches[0].end()} == {"a": 2, "b": 2, "c": 1}


def test_many_checkpoints_leave_few_segments() -> None:
    bench = Bench.of_aggregates(Tumbling("1s"), {"rows": agg.count()}, SCHEMA)
    bench.rows(rows(3000, keys=3000, until=1000))
    for count in range(1, 300):
        bench.rows(rows(count % 50 + 1, keys=3000, until=1000))
        bench.checkpoint()
    whole = bench.subtasks[0]._index.whole()
    assert whole is not None
    assert len(whole.segments) <= 30
