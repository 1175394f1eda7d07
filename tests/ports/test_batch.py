"""Several ports in batch: each key's rows of both ports by event time, and broadcast rows before all
others."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.graph.nodes import Input
from tests.ports import connected
from tests.ports.paired import SIDES, is_left, pair, paired
from tests.ports.passing import PassingSpec
from tests.ports.ruled import is_rule, rule
from tests.worlds.programs import same

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

_START = datetime(2024, 1, 1, tzinfo=UTC)


def rows(count: int, keys: int) -> list[dict[str, Any]]:
    """Return rows most of which have few keys; times are out of order, and some are equal."""
    return [
        {
            "k": (i * i) % keys if i % 4 else 0,
            "i": i,
            "v": float(i % 7),
            "at": _START + timedelta(milliseconds=(i * 37) % (count // 2)),
        }
        for i in range(count)
    ]


def source(env: rh.Environment, of: list[dict[str, Any]], *, timed: bool = True) -> rh.DataStream:
    schema = pa.schema(
        [("k", pa.int64()), ("i", pa.int64()), ("v", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
    )
    watermark = rh.Watermark.bounded_out_of_orderness("1h", on="at") if timed else None
    return env.from_source(rh.collection(of, schema=schema), watermark)


def collected(env: rh.Environment, stream: rh.DataStream) -> list[dict[str, Any]]:
    stream.collect("out")
    found: list[dict[str, Any]] = env.execute().collected["out"].to_pylist()
    return found


def in_order(of: list[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    """Return key, row, and the number of rows of each side so far: by time, then the left side
    first."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    wanted = []
    for row in sorted(of, key=lambda row: (row["at"], not is_left(row["i"]), row["i"])):
        counts[row["k"]][not is_left(row["i"])] += 1
        wanted.append((row["k"], row["i"], *counts[row["k"]]))
    return wanted


def shown(found: list[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    return [(row["k"], row["i"], row["left"], row["right"]) for row in found]


def test_rows_of_both_ports_are_ordered_by_key_and_time() -> None:
    """Generations have 16 rows, and key 0 alone has many more."""
    of = rows(600, 60)
    env = rh.Environment(3, runtime="batch", batch_rows=4)
    found = collected(env, paired(source(env, of)))
    same(shown(found), in_order(of), "rows")
    assert {row["side"] for row in found} == set(SIDES)


def test_ports_may_share_a_stream_or_have_several() -> None:
    of = rows(90, 7)
    env = rh.Environment(2, runtime="batch")
    all_rows = source(env, of)
    lefts = all_rows.filter(pl.col("i") < 40).union(all_rows.filter(pl.col("i") >= 40))
    found = collected(env, pair(lefts.key_by("k"), all_rows.key_by("k"), all_rows))
    most = {row["k"]: (row["left"], row["right"]) for row in found if row["left"] == row["right"]}
    counts = Counter(row["k"] for row in of)
    assert len(found) == 2 * len(of)
    assert most == {key: (count, count) for key, count in counts.items()}


def test_without_event_time_every_row_arrives_once() -> None:
    of = rows(200, 9)
    env = rh.Environment(2, runtime="batch", batch_rows=4)
    stream = source(env, of, timed=False)
    left, right = (stream.filter(pl.col("i") % 3 > 0), stream.filter(pl.col("i") % 3 == 0))
    found = collected(env, pair(left.key_by("k"), right.key_by("k"), stream, event_time=False))
    same((row["i"] for row in found), (row["i"] for row in of), "rows")
    last = {
        row["k"]: (row["left"], row["right"])
        for row in sorted(found, key=lambda r: r["left"] + r["right"])
    }
    wanted: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in of:
        wanted[row["k"]][not is_left(row["i"])] += 1
    assert last == {key: tuple(counts) for key, counts in wanted.items()}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_broadcast_rows_reach_every_task_before_all_others(parallelism: int) -> None:
    of = rows(600, 60)
    env = rh.Environment(parallelism, runtime="batch", batch_rows=4)
    stream = source(env, of)
    rules = stream.filter(pl.col("i") % 5 == 0).select("i")
    found = collected(env, rule(stream.filter(pl.col("i") % 5 > 0).key_by("k"), rules))
    numbers = [row["i"] for row in of if is_rule(row["i"])]
    own = [row for row in found if row["k"] >= 0]
    wanted: Counter[int] = Counter()
    expected = []
    for row in sorted(of, key=lambda row: (row["at"], row["i"])):
        if not is_rule(row["i"]):
            wanted[row["k"]] += 1
            expected.append((row["k"], row["i"], wanted[row["k"]], len(numbers), 1))
    same(((r["k"], r["i"], r["n"], r["known"], r["most"]) for r in own), expected, "rows")
    told = [(row["i"], row["n"]) for row in found if row["k"] < 0]
    same(told, [(number, 1) for number in numbers] * parallelism, "rules, by each task")


def test_a_separate_broadcast_source_with_fewer_subtasks() -> None:
    env = rh.Environment(4, runtime="batch")
    rules = env.from_source(rh.collection([{"i": number} for number in range(50)]))
    stream = source(env, rows(100, 9))
    ruled = rule(stream.key_by("k"), rules).set_parallelism(2)
    found = collected(env, ruled)
    assert {row["known"] for row in found if row["k"] >= 0} == {50}
    same(
        ((row["i"], row["n"]) for row in found if row["k"] < 0),
        [(number, 1) for number in range(50)] * 2,
        "rules, by each task",
    )


def test_a_broadcast_stream_alone_and_next_to_unkeyed_rows() -> None:
    env = rh.Environment(3, runtime="batch")
    few = env.from_source(rh.collection([{"i": number} for number in range(5)]))
    many = env.from_source(rh.collection([{"i": number} for number in range(100, 140)]))
    copies = Input(few._port.node, broadcast=True)
    alone = connected(PassingSpec(), few, copies, schema=few.schema, event_time=False)
    beside = connected(PassingSpec(), few, copies, many._port, schema=few.schema, event_time=False)
    alone.collect("alone")
    beside.collect("beside")
    found = {name: table.column("i").to_pylist() for name, table in env.execute().collected.items()}
    same(found["alone"], [*range(5)] * 3, "copies")
    same(found["beside"], [*range(5)] * 3 + [*range(100, 140)], "copies, and rows")
