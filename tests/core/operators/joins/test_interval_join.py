"""Interval joins: every pair and no other; rows without a partner; late rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Operator, Out
from rheos.core.operators.joins import interval_join
from rheos.core.operators.joins.interval_join import BEHIND, IntervalJoinOperator, IntervalJoinSpec
from rheos.core.operators.late_rows import LATE_OF_TWO
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, TS, WM
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import PartMode
from rheos.testing import OperatorExample, check_example
from tests.core.operators.contexts import context
from tests.core.operators.joins.oracle import LEFT, RIGHT, drawn_script, parted
from tests.worlds.join_programs import JoinedRow, interval_joined

Rows = list[dict[str, Any]]


def joined(rows: Rows) -> Counter[JoinedRow]:
    return Counter(JoinedRow(row["k"], row["l"], row["r"], row["__ts"]) for row in rows)


@pytest.mark.parametrize(
    ("how", "lower", "upper", "keys"),
    [
        pytest.param("inner", -15, 25, 3, marks=pytest.mark.slow),
        pytest.param("left", 0, 30, 2, marks=pytest.mark.slow),
        pytest.param("right", -40, -10, 4, marks=pytest.mark.slow),
        ("full", -12, 20, 5),
    ],
)
def test_random_rows_are_joined_as_the_oracle_does_in_any_arrival(
    how: Any, lower: int, upper: int, keys: int
) -> None:
    script = drawn_script(Random(f"{how} {lower}"), 36, keys)

    def build(left: rh.DataStream, right: rh.DataStream) -> dict[str, rh.DataStream]:
        found = left.key_by("k").interval_join(
            right.key_by("k"), between=(f"{lower}ms", f"{upper}ms"), how=how
        )
        return {"out": found, **{tag: found.side_output(tag) for tag in LATE_OF_TWO}}

    came = check_example(OperatorExample(build, LEFT, script, "at", RIGHT, "then"))
    rows = parted(script)
    wanted = Counter(interval_joined(rows.left, rows.right, lower, upper, how))
    assert joined(came["out"]) == wanted
    assert len(wanted) >= 8
    assert sorted(row["l"] for row in came["late_left"]) == rows.late_left
    assert sorted(row["r"] for row in came["late_right"]) == rows.late_right
    assert rows.late_left + rows.late_right


# --- the operator by itself ---------------------------------------------------------------------------

_OF_LEFT = pa.schema([*LEFT, (TS, pa.int64()), (WM, pa.int64())])
_OF_RIGHT = pa.schema([*RIGHT, (TS, pa.int64()), (WM, pa.int64())])


def operator(
    how: Any, *, lower: int = -5, upper: int = 5, batch_rows: int = 1000
) -> IntervalJoinOperator:
    env = rh.Environment(1, max_parallelism=128)
    watermark = [rh.Watermark.monotonic(on=on) for on in ("at", "then")]
    left, right = (
        env.from_source(rh.collection(schema.empty_table()), by)
        for schema, by in zip((LEFT, RIGHT), watermark, strict=True)
    )
    found = left.key_by("k").interval_join(
        right.key_by("k"), between=(f"{lower}ms", f"{upper}ms"), how=how
    )
    found.collect("out")
    [planned] = [op for op in env.plan().operators() if isinstance(op.spec, IntervalJoinSpec)]
    ctx = context(_OF_LEFT, planned.outputs[MAIN].schema, keys=("k",), batch_rows=batch_rows)
    ctx.ports = planned.ports
    assert isinstance(planned.spec, IntervalJoinSpec)
    made = planned.spec.operator(ctx)
    made.open({})
    return made


def rows_of(port: int, keys: list[str], stamps: list[int], watermark: int = -1000) -> pa.RecordBatch:
    schema = (_OF_LEFT, _OF_RIGHT)[port]
    columns = [keys, stamps, stamps, stamps, [watermark] * len(keys)]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def shown(outs: list[Out]) -> list[tuple[Any, ...]]:
    return sorted((row["l"], row["r"], row[TS]) for out in outs for row in out.batch.to_pylist())


def test_a_join_with_many_results_emits_bounded_batches() -> None:
    join = operator("inner", batch_rows=64)
    list(join.on_batch(0, rows_of(0, ["a"] * 500, [10] * 500)))
    outs = join.on_batch(1, rows_of(1, ["a"] * 400, [11] * 400))
    counts = [out.batch.num_rows for out in outs]
    assert sum(counts) == 200_000
    assert max(counts) <= 64


def test_unmatched_rows_are_in_bounded_batches_ordered_by_time() -> None:
    join = operator("full", batch_rows=16)
    stamps = np.random.default_rng(1).permutation(100).tolist()
    list(join.on_batch(0, rows_of(0, [f"l{n}" for n in stamps], stamps)))
    list(join.on_batch(1, rows_of(1, [f"r{n}" for n in stamps], stamps)))
    outs = list(join.on_watermark(MAX_TIMESTAMP_MS))
    assert max(out.batch.num_rows for out in outs) <= 16
    times = [time for out in outs for time in out.batch.column(TS).to_pylist()]
    assert times == sorted([n + 5 for n in range(100)] * 2)


def test_rows_and_keys_are_removed_when_no_partner_can_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interval_join, "TIDY_ROWS", 100)
    monkeypatch.setattr(interval_join, "SPARE_KEYS", 50)
    join = operator("full", lower=-5, upper=10)
    most_rows = most_keys = 0
    for now in range(0, 4_000, 10):
        keys = [f"order {now + n}" for n in range(10)]
        # One row far ahead keeps its segment from being dropped whole.
        stamps = [now + n for n in range(9)] + [now + 400]
        for port in (0, 1):
            list(join.on_batch(port, rows_of(port, keys, stamps, now - 20)))
        list(join.on_watermark(now - 20))
        most_rows = max(most_rows, sum(len(side) for side in join._sides))
        most_keys = max(most_keys, len(join._keys))
    alive = sum(side.alive(join._watermark) for side in join._sides)
    assert 100 < alive < 200
    assert most_rows < 6 * alive
    assert most_keys < 6 * alive
    assert not [row for row in shown(list(join.on_watermark(MAX_TIMESTAMP_MS))) if None in row]


def test_a_delta_has_only_new_rows_and_new_partners() -> None:
    join = operator("left")
    parts = []
    list(join.on_batch(0, rows_of(0, ["a"] * 50, [*range(50)])))
    parts.append(join.snapshot(CheckpointId(1)).parts)
    list(join.on_batch(1, rows_of(1, ["a"], [0])))
    parts.append(join.snapshot(CheckpointId(2)).parts)
    list(join.on_batch(0, rows_of(0, ["b"], [60])))
    parts.append(join.snapshot(CheckpointId(3)).parts)
    parts.append(join.snapshot(CheckpointId(4)).parts)
    left = [next(part for part in of if part.state == "left") for of in parts]
    assert [part.mode for part in left] == [PartMode.FULL, *[PartMode.DELTA] * 3]
    rows = [sum(table.num_rows for table in part.write()) for part in left]
    assert rows == [50, 6, 1, 0]
    assert left[-1].unchanged


def restored(parts: list[Any], join: IntervalJoinOperator) -> IntervalJoinOperator:
    tables: dict[str, list[pa.Table]] = {}
    for part in parts:
        made = part.write()
        tables.setdefault(part.state, []).extend([made] if isinstance(made, pa.Table) else made)
    join.open(tables)
    return join


def test_each_key_group_resumes_at_the_watermark_of_its_subtask() -> None:
    """Check EX15: two subtasks with different watermarks are merged by a rescale."""
    before = operator("left")
    list(before.on_batch(0, rows_of(0, ["a", "b"], [100, 100])))
    parts = before.snapshot(CheckpointId(1)).parts
    behind = next(part for part in parts if part.state == BEHIND)
    stored = behind.write()
    assert isinstance(stored, pa.Table)
    groups = stored.column("key_group").to_pylist()
    from rheos.core.state.key_groups import key_groups

    of_a = int(key_groups(rows_of(0, ["a"], [0]), ("k",), 128)[0])
    reached = [110 if group == of_a else 50 for group in groups]
    moved = stored.set_column(1, "watermark", pa.array(reached, pa.int64()))
    parts = [part for part in parts if part.state != BEHIND]
    after = restored([*parts, replace(behind, write=lambda: moved)], operator("left"))
    # The row of a is done with: it was given before. For b's group 100 is still to come.
    assert shown(list(after.on_in_flight(1, rows_of(1, ["a", "b"], [101, 101])))) == [(100, 101, 101)]
    assert after.ctx.counters == {"late": 1, "late_purged": 1}
    assert shown(list(after.on_watermark(MAX_TIMESTAMP_MS))) == []


def test_rows_of_an_idle_split_that_the_watermark_has_passed_join_nothing() -> None:
    join: Operator = operator("left")
    list(join.on_batch(0, rows_of(0, ["a"], [100])))
    list(join.on_watermark(104))
    assert not list(join.on_batch(1, rows_of(1, ["a"], [102])))
    assert join.ctx.counters == {"late": 1, "late_purged": 1}
    assert shown(list(join.on_watermark(105))) == [(100, None, 105)]
