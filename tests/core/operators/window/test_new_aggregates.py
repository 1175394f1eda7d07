"""An aggregate that is added to a program while windows are open: null for them, or the value since
then. The expected result is computed from the rows of each window: plain Python determines them, and
windows without an upgrade aggregate them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos import agg
from rheos.core.aggregates import KINDS
from rheos.core.aggregates.contract import Agg, RowsState
from rheos.core.checkpoint.compatibility import Verdict, compare, refusals
from rheos.core.errors import CheckpointError
from rheos.core.graph.windows import Session, Sliding, Tumbling, Window
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.state_config import NewAggregates, StateConfig
from tests.core.operators.window.harness import Bench, deltas_wherever_they_can_be

NULL, SINCE = NewAggregates.NULL, NewAggregates.SINCE
SCHEMA = pa.schema({"k": pa.string(), "v": pa.int64(), "ts": pa.int64()})
OPERATOR = OperatorId("w")
Row: TypeAlias = dict[str, Any]

EACH: dict[str, Agg] = {
    "count": agg.count("v"),
    "sum": agg.sum("v"),
    "min": agg.min("v"),
    "max": agg.max("v"),
    "mean": agg.mean("v"),
    "variance": agg.variance("v"),
    "stddev": agg.stddev("v"),
    "first": agg.first("v"),
    "last": agg.last("v"),
    "quantile": agg.quantile("v", 0.5),
    "count_distinct": agg.count_distinct("v"),
    "sum_distinct": agg.sum_distinct("v"),
    "mean_distinct": agg.mean_distinct("v"),
    "collect": agg.collect("v"),
    "top_k": agg.top_k("v", 2),
    "expression": agg.expression(pl.col("v").max() - pl.col("v").min()),
    "approx_count_distinct": agg.approx_count_distinct("v"),
    "approx_quantile": agg.approx_quantile("v", 0.5),
}


def test_every_kind_of_aggregate_is_tested() -> None:
    """Check that EACH has every kind of aggregate, so that all tests of this file include it."""
    assert {one.kind for one in EACH.values()} == set(KINDS)


@dataclass(frozen=True)
class Program:
    window: Window
    aggregates: dict[str, Agg]
    lateness_ms: int = 0

    def bench(self, new: NewAggregates | None = None, parallelism: int = 1) -> Bench:
        bench = Bench.of_aggregates(
            self.window,
            self.aggregates,
            SCHEMA,
            parallelism=parallelism,
            lateness_ms=self.lateness_ms,
        )
        inside = bench.make

        def make(subtask: int, of: int) -> WindowOperator:
            made = inside(subtask, of)
            ctx = replace(made.ctx, state=StateConfig(new_aggregates=new))
            return WindowAggregateOperator(ctx, made._spec)

        bench.make = make
        return bench


WINDOWS = {
    "tumbling": Tumbling("20ms"),
    "sliding": Sliding("20ms", every="5ms"),
    "sessions": Session("6ms"),
}


def windows_of(window: Window, rows: Sequence[Row]) -> dict[tuple[str, int, int], list[Row]]:
    """Return the rows of each key and window, by its bounds."""
    found: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    if isinstance(window, Session):
        of_key: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row["ts"]):
            of_key[row["k"]].append(row)
        for key, its in of_key.items():
            session: list[Row] = []
            for row in [*its, None]:
                if session and (row is None or row["ts"] > session[-1]["ts"] + 6):
                    found[key, session[0]["ts"], session[-1]["ts"] + 6] = session
                    session = []
                if row is not None:
                    session.append(row)
        return found
    every = 5 if window == WINDOWS["sliding"] else 20
    for row in rows:
        for start in range(row["ts"] // every * every, row["ts"] - 20, -every):
            found[row["k"], start, start + 20].append(row)
    return found


def values_of(aggregates: dict[str, Agg], rows: Sequence[Row]) -> dict[str, Any]:
    """Return the values of rows in a single unchanged window; without rows, those of nulls, except for
    aggregates that keep rows."""
    bench = Program(Tumbling("1s"), aggregates).bench()
    bench.rows([*rows] or [{"k": "k", "v": None, "ts": 0}])
    (row,) = bench.end()
    return {
        name: None if not rows and isinstance(aggregate.windowed(SCHEMA), RowsState) else row[name]
        for name, aggregate in aggregates.items()
    }


def value_of(aggregate: Agg, rows: Sequence[Row]) -> Any:
    return values_of({"x": aggregate}, rows)["x"]


def drawn_rows(rng: Random, since_ms: int, until_ms: int, count: int) -> list[Row]:
    return [
        {
            "k": rng.choice("abcd"),
            "v": rng.choice([None, *range(-5, 9)]),
            "ts": rng.randrange(since_ms, until_ms),
        }
        for _ in range(count)
    ]


def last_of(out: Sequence[Row]) -> dict[tuple[str, int, int], Row]:
    """Return the last result of each key and window."""
    return {
        (
            row["k"],
            *(round(row[name].timestamp() * 1000) for name in ("window_start", "window_end")),
        ): row
        for row in out
    }


def shown(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("mode", "deltas"), [(NULL, True), (SINCE, False)])
@pytest.mark.parametrize("window", WINDOWS)
def test_open_closed_and_new_windows(window: str, mode: NewAggregates, deltas: bool) -> None:
    """Check all kinds together, each time at another parallelism, with restarts after the upgrade."""
    rng = Random(f"{window} {mode} {deltas}")
    before = Program(WINDOWS[window], {"n": agg.count()}, lateness_ms=8)
    after = replace(before, aggregates={"n": agg.count(), **EACH})
    with deltas_wherever_they_can_be() if deltas else nullcontext():
        bench = before.bench(parallelism=2)
        old = drawn_rows(rng, 0, 60, 30)
        bench.rows(old)
        bench.watermark(25)
        bench.make = after.bench(mode).make
        bench.restart(3)
        closed = len(bench.out)
        new = drawn_rows(rng, 40, 120, 45)
        bench.rows(new[:15])
        bench.make = after.bench().make  # From now on the state knows it by itself.
        bench.restart(1)
        bench.rows(new[15:30])
        bench.restart(2)
        bench.watermark(70)
        bench.rows([row for row in new[30:] if row["ts"] > 70])
        bench.end()
    new = [*new[:30], *(row for row in new[30:] if row["ts"] > 70)]
    got = last_of(bench.out[closed:])
    expected = windows_of(WINDOWS[window], [*old, *new])
    of_old = {id(row) for row in old}
    kinds = {"open": 0, "new": 0}
    for at, row in got.items():
        rows = expected[at]
        assert row["n"] == len(rows)
        since = [one for one in rows if id(one) not in of_old]
        is_open = len(since) < len(rows)
        kinds["open" if is_open else "new"] += 1
        null = is_open and mode is NULL
        wanted = dict.fromkeys(EACH) if null else values_of(EACH, since)
        for name in EACH:
            assert shown(row[name]) == shown(wanted[name]), f"{name} at {at} of {rows}, since {since}"
    assert min(kinds.values()) >= 3
    # What had closed is as it was given, and nothing is given of it again.
    assert {end for _, _, end in got if end <= 26 - 8} == set()


@pytest.mark.parametrize("name", EACH)
def test_each_kind_alone(name: str) -> None:
    """Check each kind alone, so that no other aggregate keeps what it needs; and its finding."""
    for mode in NewAggregates:
        before = Program(Tumbling("20ms"), {"n": agg.count()})
        after = replace(before, aggregates={"n": agg.count(), "x": EACH[name]})
        bench = before.bench()
        shapes = bench.shapes()
        bench.rows([{"k": "a", "v": 7, "ts": 1}, {"k": "b", "v": 7, "ts": 1}])
        new = after.bench(mode)
        found = compare({OPERATOR: shapes}, {OPERATOR: new.shapes()}, {})
        assert {one.verdict for one in found if one.verdict is not Verdict.SAME} == {Verdict.NEW}
        refused = refusals(found, allow_dropped=True)
        assert refused is not None
        assert "--new-aggregates null" in str(refused)
        assert "--new-aggregates since" in str(refused)
        assert refusals(found, allow_dropped=False, new_aggregates=mode) is None
        bench.checkpoint()
        written = dict(bench.chains)
        bench.make = after.bench().make
        with pytest.raises(CheckpointError, match="lacks"):
            bench.restore(written, 1)
        bench.make = new.make
        bench.restore(written, 1)
        since = [{"k": "a", "v": value, "ts": 5 + value} for value in (1, 3)]
        bench.rows([*since, {"k": "a", "v": 4, "ts": 25}])
        got = {(row["k"], row["window_end"].microsecond // 1000): row["x"] for row in bench.end()}
        in_open = {"a": since, "b": []}
        for key, rows in in_open.items():
            wanted = None if mode is NULL else value_of(EACH[name], rows)
            assert shown(got[key, 20]) == shown(wanted)
        assert shown(got["a", 40]) == shown(value_of(EACH[name], [{"k": "a", "v": 4, "ts": 25}]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (agg.mean("v"), agg.variance("v")),
        (agg.variance("v"), agg.stddev("v")),
        (agg.sum("v"), agg.mean("v")),
        (agg.first("v"), agg.last("v")),
        (agg.min("v"), agg.max("v")),
        (agg.count_distinct("v"), agg.sum_distinct("v")),
    ],
    ids=str,
)
def test_state_of_another_aggregate_gives_the_whole_value_or_none(before: Agg, after: Agg) -> None:
    """Check that the value is complete if all it needs was kept, and otherwise null: never partial."""
    rows = [{"k": "a", "v": value, "ts": value} for value in (1, 2, 5)]
    more = [{"k": "a", "v": 9, "ts": 9}]
    old = Program(Tumbling("20ms"), {"x": before})
    new = Program(Tumbling("20ms"), {"x": before, "y": after})
    bench = old.bench()
    bench.rows(rows)
    found = compare({OPERATOR: bench.shapes()}, {OPERATOR: new.bench().shapes()}, {})
    whole = refusals(found, allow_dropped=False) is None
    bench.make = new.bench(NULL).make
    bench.restart(1)
    bench.rows(more)
    (row,) = bench.end()
    assert row["x"] == value_of(before, [*rows, *more])
    assert row["y"] == (value_of(after, [*rows, *more]) if whole else None)


def test_an_upgrade_after_an_upgrade() -> None:
    """Check a second upgrade: what its aggregate needs may be kept by one of the first, but windows
    lack it all the same."""
    programs = [
        Program(Tumbling("20ms"), {"n": agg.count()}),
        Program(Tumbling("20ms"), {"n": agg.count(), "v": agg.variance("v")}),
        Program(Tumbling("20ms"), {"n": agg.count(), "v": agg.variance("v"), "s": agg.stddev("v")}),
        Program(Tumbling("20ms"), {"n": agg.count(), "renamed": agg.stddev("v")}),
    ]
    bench = programs[0].bench()
    for at, program in enumerate(programs):
        bench.make = program.bench(NULL).make
        bench.restart(1 + at % 2)
        bench.rows([{"k": "a", "v": at, "ts": at}, {"k": "a", "v": at, "ts": 20 + at}])
    assert [(row["n"], row["renamed"]) for row in bench.end()] == [(4, None), (4, None)]


def test_expressions_over_new_columns_are_null() -> None:
    """Check an expression over a new column: it would use rows that lack the column, so its value must
    be null."""
    old = Program(Tumbling("20ms"), {"x": agg.expression(pl.col("v").max())})
    new = replace(old, aggregates={**old.aggregates, "y": agg.expression(pl.col("k").n_unique())})
    bench = old.bench()
    bench.rows([{"k": "a", "v": 1, "ts": 1}])
    found = compare({OPERATOR: bench.shapes()}, {OPERATOR: new.bench().shapes()}, {})
    if all(one.verdict is Verdict.SAME for one in found):
        pytest.skip("the key is kept with the rows")
    assert refusals(found, allow_dropped=False, new_aggregates=NULL) is None
    since = refusals(found, allow_dropped=False, new_aggregates=SINCE)
    assert since is not None
    assert "--new-aggregates null" in str(since.hint)
    bench.make = new.bench(NULL).make
    bench.restart(1)
    bench.rows([{"k": "a", "v": 5, "ts": 2}, {"k": "a", "v": 5, "ts": 30}])
    assert [(row["x"], row["y"]) for row in bench.end()] == [(5, None), (5, 1)]


def test_floats_decimals_and_strings_behave_alike() -> None:
    schema = pa.schema(
        {"k": pa.string(), "f": pa.float64(), "d": pa.decimal128(9, 2), "s": pa.string()}
    )
    of = {
        "f": agg.sum("f"),
        "fm": agg.mean("f"),
        "d": agg.sum("d"),
        "dm": agg.mean("d"),
        "s": agg.max("s"),
    }
    for mode in NewAggregates:
        before = Bench.of_aggregates(rh.Tumbling("20ms"), {"n": agg.count()}, schema)
        before.rows([{"k": "a", "f": 0.5, "d": 2, "s": "z", "ts": 1}])
        after = Bench.of_aggregates(rh.Tumbling("20ms"), {"n": agg.count(), **of}, schema)
        inside = after.make

        def make(subtask: int, parallelism: int, inside: Any = inside, mode: Any = mode) -> Any:
            made = inside(subtask, parallelism)
            ctx = replace(made.ctx, state=StateConfig(new_aggregates=mode))
            return WindowAggregateOperator(ctx, made._spec)

        before.make = make
        before.restart(1)
        before.rows([{"k": "a", "f": 0.25, "d": 3, "s": "b", "ts": 2}])
        (row,) = before.end()
        wanted = (None,) * 5 if mode is NULL else (0.25, 0.25, 3, 3, "b")
        assert (row["n"], *(row[name] for name in of)) == (2, *wanted)
