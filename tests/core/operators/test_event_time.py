"""`with_event_time` downstream of a source has the same effect as at the source, under any faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import rheos as rh
from rheos import col, testing
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.event_time import LATEST, EventTimeOperator, EventTimeSpec
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SPLIT, TS, WM
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import PartMode, StateKind
from rheos.core.task.config import TaskConfig
from tests.core.operators.contexts import context

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = 400


@dataclass
class Line:
    user: int
    n: int
    text: str


@dataclass
class Visit:
    user: int
    n: int
    at: datetime


def moment(split: int, index: int) -> datetime:
    """Return the event time of a row. Splits are apart, rows out of order, and some late."""
    back = 70 if index % 17 == 16 else index % 5
    return NOON + timedelta(seconds=3 * index + 20 * split - back)


def lines(block: rh.Block) -> dict[str, list[object]]:
    indices = block.index().tolist()
    return {
        "user": [index % 4 for index in indices],
        "n": block.number().tolist(),
        "text": [moment(block.split, index).isoformat() for index in indices],
    }


def visits(block: rh.Block) -> dict[str, list[object]]:
    made = lines(block)
    made["at"] = [datetime.fromisoformat(str(text)) for text in made.pop("text")]
    return made


def parsed(line: Line) -> Iterator[Visit]:
    yield Visit(line.user, line.n, datetime.fromisoformat(line.text))


FIVE = rh.Watermark.bounded_out_of_orderness("5s", on="at")


def at_the_source(env: rh.Environment, splits: int) -> rh.DataStream:
    made = rh.generator(visits, count=ROWS, rate_per_s=800, splits=splits, schema=Visit, block_rows=32)
    return env.from_source(made, watermark=FIVE).filter("n % 7 != 3")


def behind_it(env: rh.Environment, splits: int) -> rh.DataStream:
    made = rh.generator(lines, count=ROWS, rate_per_s=800, splits=splits, schema=Line, block_rows=32)
    return env.from_source(made).filter("n % 7 != 3").flat_map(parsed).with_event_time(FIVE)


def windows(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
    counts = rows.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
    return {"counts": counts, "late": counts.side_output("late")}


def sorted_rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_state_is_the_latest_time_of_each_split_and_all_subtasks_get_it() -> None:
    schema = pa.schema([("at", pa.int64()), (SPLIT, pa.int64())])
    out = pa.schema([("at", pa.int64()), (TS, pa.int64()), (WM, pa.int64())])
    spec = EventTimeSpec(rh.Watermark.bounded_out_of_orderness("3ms", on="at"))

    def operator(restored: Mapping[str, list[pa.Table]]) -> EventTimeOperator:
        made = EventTimeOperator(context(schema, {MAIN: out}), spec)
        made.open(restored)
        return made

    def feed(to: EventTimeOperator, split: int, *times: int) -> list[int]:
        batch = pa.RecordBatch.from_pylist([{"at": at, SPLIT: split} for at in times], schema)
        [made] = to.on_batch(0, batch)
        assert made.batch.column(TS).to_pylist() == list(times)
        return made.batch.column(WM).to_pylist()

    one, other = operator({}), operator({})
    assert feed(one, 1, 10, 12, 11) == [MIN_TIMESTAMP_MS, 6, 8]
    assert feed(one, 2, 40) == [MIN_TIMESTAMP_MS]
    assert feed(other, 3, 7) == [MIN_TIMESTAMP_MS]
    parts = [part for each in (one, other) for part in each.snapshot(CheckpointId(1)).parts]
    assert {(part.state, part.kind, part.mode) for part in parts} == {
        (LATEST, StateKind.UNION, PartMode.FULL)
    }
    restored = operator({LATEST: [part.write() for part in parts]})
    assert feed(restored, 3, 9) == [3]
    assert feed(restored, 1, 20, 13) == [8, 16]


def moved(rows: rh.DataStream) -> Mapping[str, rh.DataStream]:
    """Return the old event time next to a new one, a day later."""
    later = rows.with_columns(at=col("at") + timedelta(days=1)).with_event_time(FIVE)
    return {"old": windows(rows)["counts"], **windows(later)}


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_event_time_downstream_of_a_source_equals_that_at_the_source(seed: int) -> None:
    """Check windows and late rows, of rows that pass a filter, with crashes and other parallelisms."""
    splits = 1 + seed % 4

    def run(faults: testing.Faults | None, *parallelisms: int) -> dict[str, list[tuple[object, ...]]]:
        done = testing.simulate(
            lambda env: windows(behind_it(env, splits)),
            seed=seed,
            faults=faults,
            parallelism=parallelisms[0],
            parallelisms=parallelisms,
            task=TaskConfig(batch_rows=(1, 16, 500)[seed % 3]),
            checkpoint=CheckpointConfig(interval_ms=60),
        )
        return {name: sorted_rows(rows) for name, rows in done.rows.items()}

    found = run(None, 1 + seed % 3, 3, 2)
    assert found == expected(splits)
    assert found == run(testing.Faults(until_us=0), 1)
    assert found["late"]


def expected(splits: int) -> dict[str, list[tuple[object, ...]]]:
    """Compute the result by a loop: per split the rows in order, per window those that are not late."""
    counts: dict[tuple[int, datetime], int] = {}
    late: list[tuple[object, ...]] = []
    for split in range(splits):
        latest: datetime | None = None
        for index in range(ROWS // splits + (split < ROWS % splits)):
            n, at = index * splits + split, moment(split, index)
            if n % 7 == 3:
                continue
            start = at.replace(second=0, microsecond=0)
            end = start + timedelta(minutes=1)
            passed = None if latest is None else latest - timedelta(seconds=5, milliseconds=1)
            if passed is not None and end - timedelta(milliseconds=1) <= passed:
                late.append((index % 4, n, at))
            else:
                counts[index % 4, start] = counts.get((index % 4, start), 0) + 1
            latest = at if latest is None else max(latest, at)
    made = [(user, at, at + timedelta(minutes=1), count) for (user, at), count in counts.items()]
    return {"counts": sorted(made), "late": sorted(late, key=lambda row: row)}


@pytest.mark.parametrize("splits", [1, 3])
def test_old_and_new_event_time_exist_side_by_side(splits: int) -> None:
    done = testing.simulate(
        lambda env: moved(at_the_source(env, splits)), seed=splits, faults=testing.Faults(until_us=0)
    )
    old = sorted_rows(done.rows["old"])
    later = [(user, start + DAY, end + DAY, n) for user, start, end, n in old]  # type: ignore[operator]
    assert sorted_rows(done.rows["counts"]) == later


DAY = timedelta(days=1)
