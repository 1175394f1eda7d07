"""Every operator declares what bounds its state, and every declared limit ends a job."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
import rheos.core.operators
from rheos.core.errors import InputError
from rheos.core.metrics import declarations as f
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.window.panes import MemoryBudget, PaneStore
from rheos.core.protocol.readings import Reading
from rheos.core.state.key_limit import CountedLimit, KeyContents, KeyLimit
from rheos.core.task.slot_metrics import _operator
from tests.core.operators.state_bounds import BOUNDS

FEW = 10
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = [{"k": "ab"[i % 2], "n": i, "at": BEGIN + timedelta(seconds=i)} for i in range(4 * FEW)]
NUMBERS = pa.schema([("n", pa.int64())])


def kinds() -> Iterator[type]:
    """Return all kinds of operators that a program can have."""
    for module in pkgutil.walk_packages(rheos.core.operators.__path__, "rheos.core.operators."):
        if ".compiled." not in module.name:
            importlib.import_module(module.name)
    found = [OperatorSpec]
    while found:
        kind = found.pop()
        found += kind.__subclasses__()
        if kind.__module__.startswith("rheos.core.operators") and not kind.__abstractmethods__:
            yield kind


def test_every_kind_of_operator_declares_what_bounds_its_state() -> None:
    of_all = set(kinds())
    assert of_all - BOUNDS.keys() == set(), "declare its bound in tests/core/operators/state_bounds.py"
    assert BOUNDS.keys() - of_all == set()


def test_the_page_has_every_bound() -> None:
    page = Path("docs/tuning.md").read_text()
    for bound in dict.fromkeys(BOUNDS.values()):
        if bound.keeps == "nothing":
            continue
        limits = ", ".join(dict.fromkeys(f"`{kept.setting}`" for kept in bound.limits))
        assert f"| {bound.operator} | {bound.keeps} | {bound.by} | {limits} |" in page


class Append(rh.KeyedProcessFunction):
    seen = rh.ListState(int)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Any]:
        self.seen.append(row.n)
        return iter(())


class AppendForAnHour(Append):
    seen = rh.ListState(int, ttl="1h")


class Replace(rh.KeyedProcessFunction):
    seen = rh.ListState(int)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Any]:
        self.seen.replace([*self.seen, row.n])
        return iter(())


class Enter(rh.KeyedProcessFunction):
    seen = rh.MapState(int, int)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Any]:
        self.seen[row.n] = 1
        return iter(())


class EnterForAnHour(Enter):
    seen = rh.MapState(int, int, ttl="1h")


class Nothing(rh.WindowFunction):
    def process(self, records: list[Any], ctx: rh.WindowContext) -> Iterator[Any]:
        return iter(())


def processed(fn: Any) -> Callable[[rh.Environment, rh.DataStream], rh.DataStream]:
    return lambda env, rows: rows.key_by("k").process(fn, returns=NUMBERS)


def windowed(window: Any) -> Callable[[rh.Environment, rh.DataStream], rh.DataStream]:
    return lambda env, rows: rows.key_by("k").window(window).process(Nothing(), returns=NUMBERS)


def queried(query: str) -> Callable[[rh.Environment, rh.DataStream], rh.DataStream]:
    def build(env: rh.Environment, rows: rh.DataStream) -> rh.DataStream:
        env.register("t", rows)
        return env.sql(query)

    return build


def matched(env: rh.Environment, rows: rh.DataStream) -> rh.DataStream:
    many = rh.pattern.begin("a").one_or_more().allow_combinations()
    return rows.key_by("k").detect(many.followed_by("z").where(rh.col("n") < 0).within("1h"))


OF_CHANGES = "(SELECT n, MAX(k) AS k, COUNT(*) AS c FROM t GROUP BY n)"
OVER_FRAME = "SUM(n) OVER (PARTITION BY k ORDER BY at {} PRECEDING AND CURRENT ROW) AS total"

PROGRAMS: dict[str, tuple[KeyContents, Callable[[rh.Environment, rh.DataStream], rh.DataStream]]] = {
    "a list": (KeyContents.ELEMENTS, processed(Append())),
    "a list that expires": (KeyContents.ELEMENTS, processed(AppendForAnHour())),
    "a list that is replaced": (KeyContents.ELEMENTS, processed(Replace())),
    "a map": (KeyContents.ENTRIES, processed(Enter())),
    "a map that expires": (KeyContents.ENTRIES, processed(EnterForAnHour())),
    "a session": (KeyContents.WINDOW_ROWS, windowed(rh.Session("1h"))),
    "a day": (KeyContents.WINDOW_ROWS, windowed(rh.Tumbling("1d", zone="Europe/Berlin"))),
    "values of a session": (
        KeyContents.WINDOW_ROWS,
        lambda env, rows: rows.key_by("k").window(rh.Session("1h")).aggregate(all=rh.agg.collect("n")),
    ),
    "a global window": (
        KeyContents.ELEMENTS,
        lambda env, rows: (
            rows.key_by("k")
            .window(rh.GlobalWindows())
            .trigger(rh.triggers.count(1000))
            .process(Nothing(), returns=NUMBERS)
        ),
    ),
    "a join": (
        KeyContents.JOIN_ROWS,
        lambda env, rows: rows.key_by("k").join(rows.key_by("k"), ttl="forever", suffix="_r"),
    ),
    "OVER rows": (
        KeyContents.OVER_ROWS,
        queried("SELECT k, " + OVER_FRAME.format("ROWS BETWEEN 20") + " FROM t"),
    ),
    "OVER a time": (
        KeyContents.OVER_ROWS,
        queried("SELECT k, " + OVER_FRAME.format("RANGE BETWEEN INTERVAL '1' HOUR") + " FROM t"),
    ),
    "OVER changes": (
        KeyContents.OVER_ROWS,
        queried(f"SELECT k, SUM(c) OVER (PARTITION BY k ORDER BY n) AS total FROM {OF_CHANGES} AS x"),
    ),
    "the first of changes": (
        KeyContents.RANKED_ROWS,
        queried(
            "SELECT * FROM (SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY c DESC) AS place "
            f"FROM {OF_CHANGES} AS x) AS y WHERE place <= 2"
        ),
    ),
    "rows with one key": (
        KeyContents.TABLE_ROWS,
        lambda env, rows: rows.key_by("n").table(of=rh.agg.max("k")).retractions().upserts(key="of"),
    ),
    "different values": (
        KeyContents.VALUES,
        queried("SELECT k, COUNT(DISTINCT n) AS different FROM t GROUP BY k"),
    ),
    "a pattern": (KeyContents.MATCHES, matched),
}


def environment(most: int) -> tuple[rh.Environment, rh.DataStream]:
    state = rh.StateConfig(rows_per_key=most, matches_per_key=most)
    env = rh.Environment(1, runtime="simulated", state=state, batch_rows=4)
    return env, env.from_source(rh.collection(ROWS), watermark=rh.Watermark.monotonic(on="at"))


def test_every_declared_limit_has_a_program() -> None:
    declared = {kept for bound in BOUNDS.values() for kept in bound.limits}
    assert declared == set(KeyContents) == {kept for kept, _ in PROGRAMS.values()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_key_with_too_much_state_ends_the_job(name: str) -> None:
    kept, build = PROGRAMS[name]
    env, rows = environment(FEW)
    build(env, rows).collect("out")
    with pytest.raises(InputError) as caught:
        env.execute("limited")
    error = caught.value
    assert error.what == f"one key has more than {FEW} {kept.noun}"
    assert error.key is not None
    assert error.key.split(", ")[0] in ("'a'", "'b'")
    assert error.operator
    assert error.site is not None
    assert error.site.file == __file__
    assert f"rh.StateConfig({kept.setting}=...)" in (error.hint or "")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "a pattern"])
def test_a_key_may_have_as_much_state_as_the_limit(name: str) -> None:
    env, rows = environment(len(ROWS))
    PROGRAMS[name][1](env, rows).collect("out")
    env.execute("within the limit")


def test_rows_of_other_keys_do_not_count() -> None:
    limit = CountedLimit(KeyLimit(KeyContents.WINDOW_ROWS, most=1000))
    sizes = dict.fromkeys(range(50), 0)
    counted = 0

    def largest(above: int) -> tuple[int, Any]:
        nonlocal counted
        counted += 1
        key = max(sizes, key=lambda key: sizes[key])
        return sizes[key], key

    for step in range(40_000):
        sizes[step % 50] += 1
        limit.add(1, sum(sizes.values()), largest)
    assert counted < 60, "keys are counted seldom"

    def one_key_grows() -> None:
        for _ in range(50_000):
            sizes[7] += 1
            limit.add(1, sum(sizes.values()), largest)

    with pytest.raises(InputError, match="more than 1,000 rows of windows"):
        one_key_grows()
    assert sizes[7] <= 1000 + sum(sizes.values()) // 7


def test_keys_are_counted_only_if_one_may_have_many_rows() -> None:
    pane, keys = ["pane", "until"], ["a", "b"]
    store = PaneStore(pane, lambda frames, by: pl.concat(frames), keys, MemoryBudget(1 << 20))
    assert store.largest(0) is None
    rows = {"a": [*range(999), 7], "b": ["x"] * 1000, "pane": [0] * 1000, "until": [9] * 1000}
    store.add(pl.DataFrame(rows))
    assert store.largest(100) is None
    assert store.largest(1) == (2, (7, "x"))
    store.add(pl.DataFrame({"a": [3] * 200, "b": ["y"] * 200, "pane": [1] * 200, "until": [9] * 200}))
    assert store.largest(100) == (200, (3, "y"))


def test_a_metric_names_the_largest_key() -> None:
    limit = KeyLimit(KeyContents.MATCHES, most=10_000)
    seen = 0
    for size in range(1, 5000):
        if size > limit.due:
            seen += 1
            limit.see(size, ("ann", size))
    assert limit.key.startswith("'ann'")
    assert 4999 - limit.largest <= limit.largest // 8
    assert seen < 60
    few = KeyLimit(KeyContents.ELEMENTS, most=10_000)
    operator: Any = SimpleNamespace(
        ctx=SimpleNamespace(limits=[few, limit]), keys_held=lambda: None, away_ms=lambda: 0
    )
    [reading] = _operator("detect", operator, 0)
    assert reading == Reading(f.LARGEST_KEY.name, ("detect", limit.key), limit.largest)
