"""CP22: state of one program under another: the findings, and what operators make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.checkpoint.compatibility import Finding, Verdict, compare, refusals
from rheos.core.errors import CheckpointError
from rheos.core.operators.contract import Operator
from rheos.core.operators.shapes import state_shapes
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PlannedOperator
from rheos.core.plan.planner import make_plan
from rheos.core.protocol.elements import SWM, TS, WM, visible
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.state_config import NewAggregates
from tests.core.operators.contexts import context
from tests.sql.data import registered

INT, TEXT = pa.int64(), pa.string()
Transform = Callable[[rh.KeyedStream], rh.DataStream]
MIGRATES, UNREADABLE, DROPPED = Verdict.MIGRATES, Verdict.UNREADABLE, Verdict.DROPPED
SAME, NEW = Verdict.SAME, Verdict.NEW


@dataclass(frozen=True)
class Version:
    """One version of a program: a keyed operator over rows with these columns."""

    transform: Transform
    v: pa.DataType = INT
    k: pa.DataType = TEXT
    more: Mapping[str, pa.DataType] | None = None
    keys: tuple[str, ...] = ("k",)

    @property
    def schema(self) -> pa.Schema:
        columns = {"k": self.k, "v": self.v, "t": pa.int64()} | dict(self.more or {})
        return pa.schema(columns)

    def planned(self) -> PlannedOperator:
        env = rh.Environment(1, runtime="simulated")
        source = rh.collection(self.schema.empty_table())
        rows = env.from_source(source, watermark=rh.Watermark.monotonic(on="t"))
        self.transform(rows.key_by(*self.keys)).uid("op").sink_to(rh.print_sink())
        plan = make_plan(
            env._program.graph(), name="job", parallelism=1, max_parallelism=16, prunes=False
        )
        (one,) = (
            operator
            for operator in plan.operators()
            if not isinstance(operator.spec, SourceSpec | SinkSpec)
        )
        return one


class Run:
    """Run of a version, which may begin with the state of another."""

    def __init__(self, version: Version, before: Run | None = None) -> None:
        self.operator = version.planned()
        self.schema = self.operator.ports[0].schema
        outputs = {tag: output.schema for tag, output in self.operator.outputs.items()}
        ctx = context(self.schema, outputs)
        ctx.ports, ctx.outputs, ctx.max_parallelism = self.operator.ports, self.operator.outputs, 16
        self.running: Operator = self.operator.spec.operator(ctx)
        self.running.open({} if before is None else before.stored())

    def feed(self, *rows: tuple[Any, ...], port: int = 0) -> list[dict[str, Any]]:
        """Return rows as (k, v, t, more columns), none of them late. All ports have the same
        columns."""
        names = visible(self.schema).names
        dicts = [dict(zip(names, row, strict=True)) for row in rows]
        hidden = [one | {TS: one["t"], WM: -(2**62), SWM: one["t"] - 1} for one in dicts]
        return self._taken(self.running.on_batch(port, pa.RecordBatch.from_pylist(hidden, self.schema)))

    def to(self, watermark_ms: int) -> list[dict[str, Any]]:
        return self._taken(self.running.on_watermark(watermark_ms))

    def _taken(self, outs: Iterator[Any]) -> list[dict[str, Any]]:
        return [
            {name: value for name, value in row.items() if not name.startswith("__")}
            for out in outs
            for row in out.batch.to_pylist()
        ]

    def stored(self) -> dict[str, list[pa.Table]]:
        snapshot = self.running.snapshot(CheckpointId(1))
        found: dict[str, list[pa.Table]] = {}
        for part in self.running.savepoint(snapshot):
            written = part.write()
            tables = [written] if isinstance(written, pa.Table) else list(written)
            if any(table.num_rows for table in tables):
                found[part.state] = tables
        return found


def told(old: Version, new: Version) -> list[Finding]:
    before, after = state_shapes([old.planned()]), state_shapes([new.planned()])
    return compare(before, after, {})


def differences(old: Version, new: Version) -> dict[str, Verdict]:
    """Return the differences by "state" or "state field", without equal ones."""
    return {
        f"{finding.state} {finding.field}".strip(): finding.verdict
        for finding in told(old, new)
        if finding.verdict is not SAME
    }


def refused(old: Version, new: Version) -> CheckpointError | None:
    return refusals(told(old, new), allow_dropped=False)


# --- running aggregates -------------------------------------------------------------------------------


def running(**aggregates: Any) -> Transform:
    return lambda keyed: keyed.running(**aggregates)


ALL = {
    "n": rh.agg.count(),
    "total": rh.agg.sum("v"),
    "mean": rh.agg.mean("v"),
    "low": rh.agg.min("v"),
    "high": rh.agg.max("v"),
}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint8(), pa.int64()),
        (pa.int32(), pa.float64()),
        (pa.float32(), pa.float64()),
    ],
    ids=str,
)
def test_running_aggregates_of_a_wider_type_resume(old: pa.DataType, new: pa.DataType) -> None:
    before, after = Version(running(**ALL), v=old), Version(running(**ALL), v=new)
    assert UNREADABLE not in differences(before, after).values()
    first = Run(before)
    first.feed(("a", 3, 1), ("a", 7, 2), ("b", None, 3))
    second = Run(after, first)
    row_of_a, row_of_b = second.feed(("a", 1000, 4), ("b", 1000, 5))
    assert {name: row_of_a[name] for name in ALL} == {
        "n": 3,
        "total": 1010,
        "mean": pytest.approx(1010 / 3),
        "low": 3,
        "high": 1000,
    }
    # What had no value yet begins with the first, however wide it is.
    assert (row_of_b["low"], row_of_b["high"], row_of_b["total"]) == (1000, 1000, 1000)


@pytest.mark.parametrize(
    ("old", "new"),
    [(pa.int64(), pa.int32()), (pa.float64(), pa.int64()), (pa.int64(), pa.float32())],
    ids=str,
)
def test_running_aggregates_of_a_narrower_type_are_refused(old: pa.DataType, new: pa.DataType) -> None:
    before, after = Version(running(**ALL), v=old), Version(running(**ALL), v=new)
    assert UNREADABLE in differences(before, after).values()
    assert refused(before, after) is not None


def test_new_aggregates_start_empty_and_removed_ones_are_dropped() -> None:
    before = Version(running(n=rh.agg.count(), low=rh.agg.min("v")))
    after = Version(running(n=rh.agg.count(), total=rh.agg.sum("v")))
    assert differences(before, after) == {"running low": DROPPED, "running total": NEW}
    assert refused(before, after) is None
    first = Run(before)
    first.feed(("a", 3, 1))
    assert Run(after, first).feed(("a", 5, 2)) == [{"k": "a", "v": 5, "t": 2, "n": 2, "total": 5}]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rh.agg.min("v"), rh.agg.max("v")),
        (rh.agg.sum("v"), rh.agg.sum("t")),
        (rh.agg.sum("v"), rh.agg.mean("v")),
        (rh.agg.count(), rh.agg.count("v")),
    ],
    ids=str,
)
def test_another_aggregate_under_an_old_name_is_refused(old: Any, new: Any) -> None:
    before, after = Version(running(x=old)), Version(running(x=new))
    assert differences(before, after) == {"running x": UNREADABLE}
    assert f"was {old}, is now {new}" in str(refused(before, after))
    # It would go on with what is not its own, or fail.
    first, fresh = Run(before), Run(after)
    for run in (first, fresh):
        run.feed(("a", 3, 1), ("a", 8, 2), ("a", None, 9))
    try:
        went_on = Run(after, first).feed(("a", 5, 10))
    except CheckpointError:
        return
    assert went_on != fresh.feed(("a", 5, 10))


# --- keys ---------------------------------------------------------------------------------------------

KEYED: dict[str, Transform] = {
    "running": running(n=rh.agg.count()),
    "window": lambda keyed: keyed.window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count()),
    "reduce": lambda keyed: keyed.reduce(lambda a, b: b._replace(v=a.v + b.v)),
}


@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize(("old", "new"), [(pa.int32(), pa.int64()), (pa.uint8(), pa.int16())], ids=str)
def test_keys_may_change_their_width(kind: str, old: pa.DataType, new: pa.DataType) -> None:
    before, after = Version(KEYED[kind], k=old), Version(KEYED[kind], k=new)
    assert UNREADABLE not in differences(before, after).values()
    first = Run(before)
    first.feed((7, 1, 1), (8, 1, 1))
    second = Run(after, first)
    out = second.feed((7, 1, 2)) + second.to(100)
    by_key = {row["k"]: row.get("n", row.get("v")) for row in out}
    assert by_key[7] == 2
    assert by_key.get(8, 1) == 1


@pytest.mark.parametrize("kind", KEYED)
@pytest.mark.parametrize(
    "after",
    [
        Version(running(), k=pa.int64()),
        Version(running(), keys=("k", "v")),
        Version(running(), keys=("v",)),
    ],
    ids=["another type", "one more", "another column"],
)
def test_other_keys_are_refused(kind: str, after: Version) -> None:
    before = Version(KEYED[kind])
    after = Version(KEYED[kind], k=after.k, keys=after.keys)
    assert UNREADABLE in differences(before, after).values()
    assert "was by k: string" in str(refused(before, after))


# --- windows ------------------------------------------------------------------------------------------


def windows(window: Any = None, lateness: str = "0s", **aggregates: Any) -> Transform:
    return lambda keyed: (
        keyed.window(window or rh.Tumbling("10ms"))
        .allowed_lateness(lateness)
        .aggregate(**(aggregates or WINDOWED))
    )


WINDOWED = {
    "n": rh.agg.count(),
    "low": rh.agg.min("v"),
    "kinds": rh.agg.count_distinct("v"),
    "median": rh.agg.quantile("v", 0.5),
}


@pytest.mark.parametrize(
    ("old", "new"),
    [(pa.int8(), pa.int64()), (pa.int32(), pa.float64()), (pa.float32(), pa.float64())],
    ids=str,
)
def test_windows_over_a_wider_column_resume(old: pa.DataType, new: pa.DataType) -> None:
    before, after = Version(windows(), v=old), Version(windows(), v=new)
    assert set(differences(before, after).values()) == {MIGRATES}
    first = Run(before)
    first.feed(("a", 3, 1), ("a", 7, 2), ("b", 1, 3))
    second = Run(after, first)
    second.feed(("a", 3, 4), ("a", 1000, 5))
    rows = {row["k"]: row for row in second.to(9)}
    assert {name: rows["a"][name] for name in WINDOWED} == {
        "n": 4,
        "low": 3,
        "kinds": 3,
        "median": 5.0,
    }
    assert rows["b"]["low"] == 1


def test_windows_may_need_less_than_they_did() -> None:
    before, after = Version(windows()), Version(windows(n=rh.agg.count()))
    assert differences(before, after) == {
        "totals min.v": DROPPED,
        "values.v": DROPPED,
        "distinct.v": DROPPED,
    }
    assert refused(before, after) is None
    first = Run(before)
    first.feed(("a", 3, 1))
    second = Run(after, first)
    second.feed(("a", 3, 2))
    assert [row["n"] for row in second.to(9)] == [2]


@pytest.mark.parametrize("gained", ["low", "kinds", "median"])
def test_an_aggregate_that_open_windows_lack_is_refused(gained: str) -> None:
    before = Version(windows(n=rh.agg.count()))
    after = Version(windows(n=rh.agg.count(), x=WINDOWED[gained]))
    assert list(differences(before, after).values()) == [NEW]
    assert "open windows lack the value of a new aggregate" in str(refused(before, after))
    first = Run(before)
    first.feed(("a", 3, 1))
    with pytest.raises(CheckpointError):
        Run(after, first)


@pytest.mark.parametrize(
    "window", [rh.Tumbling("20ms"), rh.Sliding("10ms", every="5ms"), rh.Tumbling("10ms", offset="1ms")]
)
def test_other_window_bounds_are_refused(window: Any) -> None:
    before, after = Version(windows()), Version(windows(window))
    assert set(differences(before, after).values()) == {UNREADABLE}
    first = Run(before)
    first.feed(("a", 3, 1))
    with pytest.raises(CheckpointError, match="windows of 10 ms"):
        Run(after, first)


def test_lateness_may_shrink() -> None:
    before, after = Version(windows(lateness="20ms")), Version(windows())
    assert differences(before, after) == {"fired lateness": MIGRATES}
    first = Run(before)
    first.feed(("a", 3, 1))
    first.to(9)
    second = Run(after, first)
    second.feed(("a", 3, 12))
    assert [row["n"] for row in second.to(100)] == [1]


def test_a_longer_lateness_is_refused() -> None:
    before, after = Version(windows()), Version(windows(lateness="20ms"))
    assert differences(before, after) == {"fired lateness": UNREADABLE}
    first = Run(before)
    first.feed(("a", 3, 1), ("a", 3, 2))
    assert [row["n"] for row in first.to(9)] == [2]
    # What would be given of a window that had two rows and gets a third.
    assert [row["n"] for row in Run(after, first).feed(("a", 3, 4))] != [3]


def test_a_window_function_cannot_take_over_from_aggregates() -> None:
    class Count(rh.WindowFunction):
        def process(self, records: list[Any], ctx: rh.WindowContext) -> Iterator[dict[str, Any]]:
            yield {"k": records[0].k, "n": len(records)}

    made = pa.schema({"k": pa.string(), "n": pa.int64()})
    before = Version(windows(n=rh.agg.count()))
    after = Version(lambda keyed: keyed.window(rh.Tumbling("10ms")).process(Count(), returns=made))
    assert differences(before, after) == {"totals": DROPPED, "rows": UNREADABLE}
    wide = Version(after.transform, v=pa.float64(), more={"note": pa.string()})
    assert differences(after, wide) == {"rows v": MIGRATES, "rows note": MIGRATES}
    first = Run(after)
    first.feed(("a", 3, 1))
    second = Run(wide, first)
    second.feed(("a", 0.5, 2, "new"))
    assert second.to(9) == [{"k": "a", "n": 2}]


# --- windows with a trigger ---------------------------------------------------------------------------


class Every(rh.Trigger):
    """Trigger that fires at every second row, and at the end."""

    n = rh.ValueState(int, default=0)

    def on_element(self, record: Any, ctx: rh.TriggerContext) -> rh.TriggerResult:
        self.n.value += 1
        fires = self.n.value % 2 == 0
        return rh.TriggerResult.FIRE if fires else rh.TriggerResult.CONTINUE

    def on_event_time(self, timestamp: int, ctx: rh.TriggerContext) -> rh.TriggerResult:
        return rh.TriggerResult.FIRE

    def clear(self, ctx: rh.TriggerContext) -> None:
        self.n.clear()


class EveryFromHundred(Every):
    n = rh.ValueState(float, default=100.0)  # type: ignore[arg-type]


class EveryNoting(Every):
    noted = rh.ValueState(str, default="")


class Values(rh.WindowFunction):
    def process(self, records: list[Any], ctx: rh.WindowContext) -> Iterator[dict[str, Any]]:
        yield {"k": ctx.key, "until": ctx.window.end_ms, "values": [float(one.v) for one in records]}


VALUES = pa.schema({"k": TEXT, "until": INT, "values": pa.list_(pa.float64())})


def fired_by(trigger: rh.Trigger, window: Any = None) -> Transform:
    return lambda keyed: (
        keyed.window(window or rh.Tumbling("100ms")).trigger(trigger).process(Values(), returns=VALUES)
    )


@pytest.mark.parametrize(
    ("old", "new", "differ", "at_once"),
    [
        (rh.triggers.count(3), rh.triggers.count(3), {}, {"a": [1, 2, 3]}),
        (rh.triggers.count(3), rh.triggers.count(2), {}, {"a": [1, 2, 3], "b": [5, 6]}),
        (Every(), Every(), {}, {"b": [5, 6]}),
        (Every(), EveryNoting(), {"trigger_noted": NEW}, {"b": [5, 6]}),
        (Every(), EveryFromHundred(), {"trigger_n": MIGRATES}, {"b": [5, 6]}),
    ],
    ids=["count", "fewer", "own", "with more state", "with a wider state"],
)
def test_windows_resume_with_the_state_of_their_trigger(
    old: rh.Trigger, new: rh.Trigger, differ: dict[str, Verdict], at_once: dict[str, list[float]]
) -> None:
    before, after = Version(fired_by(old)), Version(fired_by(new))
    assert differences(before, after) == differ
    first = Run(before)
    first.feed(("a", 1, 1), ("a", 2, 2), ("b", 5, 3))
    second = Run(after, first)
    fired = second.feed(("a", 3, 4), ("b", 6, 5))
    assert {row["k"]: row["values"] for row in fired} == at_once


def test_removed_state_of_a_trigger_is_dropped_only_if_allowed() -> None:
    before, after = Version(fired_by(EveryNoting())), Version(fired_by(Every()))
    assert differences(before, after) == {"trigger_noted": DROPPED}
    assert "no longer has it" in str(refused(before, after))
    assert refusals(told(before, after), allow_dropped=True) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"v": pa.int32()}, {"v": pa.float64()}),
        ({}, {"more": {"note": TEXT}}),
        ({"more": {"note": TEXT}}, {}),
    ],
    ids=["wider", "one more column", "one column less"],
)
def test_records_of_windows_with_a_trigger_fit_other_columns(old: Any, new: Any) -> None:
    before, after = Version(fired_by(Every()), **old), Version(fired_by(Every()), **new)
    assert set(differences(before, after).values()) == {MIGRATES}
    first = Run(before)
    first.feed(("a", 1, 1, *("x" for _ in before.more or ())))
    second = Run(after, first)
    fired = second.feed(("a", 2, 2, *("y" for _ in after.more or ())))
    assert fired == [{"k": "a", "until": 100, "values": [1, 2]}]


def test_open_windows_with_a_trigger_keep_their_bounds() -> None:
    before = Version(fired_by(Every()))
    after = Version(fired_by(Every(), rh.Tumbling("50ms")))
    first = Run(before)
    first.feed(("a", 1, 1))
    second = Run(after, first)
    assert second.feed(("a", 2, 2), ("a", 3, 3)) == [{"k": "a", "until": 50, "values": [2, 3]}]
    assert second.to(99)[-1] == {"k": "a", "until": 100, "values": [1]}


# --- functions of two streams -------------------------------------------------------------------------


class Both(rh.KeyedCoProcessFunction):
    """Counts the rows of both streams by key."""

    left = rh.ValueState(int, default=0)
    right = rh.ValueState(int, default=0)

    def process_element1(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, Any]]:
        self.left.value += 1
        yield {"k": row.k, "n": float(self.left.value), "of": float(self.right.value)}

    def process_element2(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, Any]]:
        self.right.value += 1
        yield from ()


class BothWider(Both):
    left = rh.ValueState(float, default=0.5)  # type: ignore[arg-type]
    noted = rh.ValueState(str, default="")


class BothNarrower(Both):
    left = rh.ValueState(bool, default=False)


def connected(function: rh.KeyedCoProcessFunction) -> Transform:
    returns = pa.schema({"k": TEXT, "n": pa.float64(), "of": pa.float64()})
    return lambda keyed: keyed.connect(keyed).process(function, returns=returns)


def test_functions_of_two_streams_resume_with_state_of_both() -> None:
    before = Version(connected(Both()))
    after = Version(connected(BothWider()), v=pa.float64(), more={"note": TEXT})
    assert differences(before, after) == {"left": MIGRATES, "noted": NEW}
    first = Run(before)
    first.feed(("a", 1, 1), ("a", 1, 2))
    first.feed(("a", 1, 3), port=1)
    second = Run(after, first)
    second.feed(("a", 1.0, 4, "x"), ("b", 1.0, 4, "x"), port=1)
    assert second.feed(("a", 1.0, 5, "x"), ("b", 1.0, 6, "x")) == [
        {"k": "a", "n": 3, "of": 2},
        {"k": "b", "n": 1.5, "of": 1},
    ]


def test_unreadable_or_removed_state_of_two_streams_is_refused() -> None:
    before = Version(connected(Both()))
    assert differences(before, Version(connected(BothNarrower()))) == {"left": UNREADABLE}
    assert "no longer has it" in str(refused(Version(connected(BothWider())), before))


# --- rows that are held, and reduced ------------------------------------------------------------------


class Tell(rh.KeyedProcessFunction):
    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, Any]]:
        yield {"said": repr(tuple(row))}


def ordered(keyed: rh.KeyedStream) -> rh.DataStream:
    return keyed.process(Tell(), order="event_time", returns=pa.schema({"said": pa.string()}))


def arrival(keyed: rh.KeyedStream) -> rh.DataStream:
    return keyed.process(Tell(), returns=pa.schema({"said": pa.string()}))


def test_buffered_rows_gain_lose_and_widen_columns() -> None:
    before = Version(ordered, v=pa.int32(), more={"old": pa.int64()})
    after = Version(ordered, v=pa.float64(), more={"new": pa.string()})
    assert differences(before, after) == {
        "held v": MIGRATES,
        "held old": DROPPED,
        "held new": MIGRATES,
    }
    assert refused(before, after) is None
    first = Run(before)
    first.feed(("a", 3, 1, 0))
    second = Run(after, first)
    second.feed(("a", 0.5, 2, "x"))
    assert [row["said"] for row in second.to(9)] == ["('a', 3.0, 1, None)", "('a', 0.5, 2, 'x')"]


@pytest.mark.parametrize("narrow", [pa.int32(), pa.string(), pa.bool_()], ids=str)
def test_buffered_rows_of_another_type_are_refused(narrow: pa.DataType) -> None:
    before, after = Version(ordered), Version(ordered, v=narrow)
    assert differences(before, after) == {"held v": UNREADABLE}


def test_buffered_rows_are_dropped_only_if_allowed() -> None:
    before, after = Version(ordered), Version(arrival)
    assert differences(before, after)["held"] is DROPPED
    assert "no longer has it" in str(refused(before, after))
    assert refusals(told(before, after), allow_dropped=True) is None


def reduced(keyed: rh.KeyedStream) -> rh.DataStream:
    return keyed.reduce(lambda a, b: b._replace(v=a.v + b.v))


def test_reduced_rows_lose_columns_and_widen() -> None:
    before = Version(reduced, v=pa.int32(), more={"old": pa.int64()})
    after = Version(reduced, v=pa.float64())
    assert differences(before, after) == {"reduced v": MIGRATES, "reduced old": DROPPED}
    first = Run(before)
    first.feed(("a", 3, 1, 0))
    assert Run(after, first).feed(("a", 0.5, 2)) == [{"k": "a", "v": 3.5, "t": 2}]


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({"more": {"note": TEXT}}, UNREADABLE),
        ({"v": pa.float64()}, MIGRATES),
        ({"v": TEXT}, UNREADABLE),
    ],
    ids=["one more column", "wider", "another type"],
)
def test_rows_that_are_ranked_must_have_the_same_columns(changed: Any, verdict: Verdict) -> None:
    """Check this because such rows were reported as readable, and the operator failed on the first
    row."""
    ranked: Transform = lambda keyed: keyed.top_n(2, by="v")  # noqa: E731
    before, after = Version(ranked), Version(ranked, **changed)
    assert set(differences(before, after).values()) == {verdict}
    if verdict is MIGRATES:
        first = Run(before)
        first.feed(("a", 3, 1), ("a", 4, 1))
        out = Run(after, first).feed(("a", 3.5, 2))
        assert [row["v"] for row in out] == [3, 3.5]


def test_a_table_that_retracts_cannot_gain_an_aggregate() -> None:
    """Check this because the aggregate would subtract rows that it has never counted."""
    table = "SELECT auction, COUNT(*) AS n FROM ({}) GROUP BY auction"
    changing = table.format(
        "SELECT auction, bidder, MAX(price) AS price FROM bids GROUP BY auction, bidder"
    )
    more = ("COUNT(*) AS n", "COUNT(*) AS n, COUNT(DISTINCT bidder) AS bidders")
    found = compare(kept_by(changing), kept_by(changing.replace(*more)), {})
    refusal = refusals(found, allow_dropped=True, new_aggregates=NewAggregates.SINCE)
    assert refusal is not None
    assert "may be retracted" in str(refusal.detail)
    stays = table.format("SELECT * FROM bids")
    found = compare(kept_by(stays), kept_by(stays.replace(*more)), {})
    assert refusals(found, allow_dropped=False) is None


def kept_by(query: str) -> Any:
    env = rh.Environment()
    registered(env)
    env.sql(query).collect("found")
    return state_shapes(env.plan().operators())


def test_reduced_rows_cannot_gain_columns() -> None:
    before, after = Version(reduced), Version(reduced, more={"new": pa.int64()})
    assert differences(before, after) == {"reduced new": UNREADABLE}


# --- sources ------------------------------------------------------------------------------------------


def source_changes(old: Any, new: Any) -> list[tuple[Verdict, str]]:
    def shapes(source: Any) -> Any:
        env = rh.Environment(1, runtime="simulated")
        env.from_source(source, uid="rows").sink_to(rh.print_sink())
        return state_shapes(env.plan().operators())

    return [(finding.verdict, finding.text) for finding in compare(shapes(old), shapes(new), {})]


def numbers(**settings: Any) -> Any:
    return rh.generator(lambda block: {"n": block.index()}, **settings)


def test_a_source_may_be_reconfigured_but_not_replaced() -> None:
    same = [(SAME, "source positions")]
    assert source_changes(numbers(count=9), numbers(count=99, rate_per_s=1)) == same
    jsonl = rh.files.source("in/*.jsonl", schema=pa.schema({"n": pa.int64()}))
    more = rh.files.source(["in/*.jsonl", "more/*.jsonl"], schema=pa.schema({"n": pa.float64()}))
    assert source_changes(jsonl, more) == same
    assert source_changes(numbers(splits=2), numbers(splits=3)) == [
        (
            UNREADABLE,
            "was written by GeneratorSource of 2 splits, and is read by GeneratorSource of 3 splits",
        )
    ]
    assert [verdict for verdict, _ in source_changes(numbers(), jsonl)] == [UNREADABLE]


# --- a time to live -----------------------------------------------------------------------------------


def lately(ttl: Any) -> Transform:
    class Lately(rh.KeyedProcessFunction):
        last = rh.ValueState(int, ttl=ttl)

        def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, Any]]:
            yield {"last": self.last.value}
            self.last.value = row.v

    returns = pa.schema({"last": pa.int64()})
    return lambda keyed: keyed.process(Lately(), order="event_time", returns=returns)


def test_another_time_to_live_applies_to_stored_state() -> None:
    before = Run(Version(lately("1h")))
    before.feed(("a", 1, 0), ("b", 2, 50))
    assert before.to(50) == [{"last": None}, {"last": None}]
    assert differences(Version(lately("1h")), Version(lately("60ms"))) == {"last ttl": MIGRATES}
    after = Run(Version(lately("60ms")), before)
    after.feed(("a", 3, 60), ("b", 3, 100))
    assert after.to(100) == [{"last": None}, {"last": 2}]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (None, "1h", "now has a time to live, but the stored entries have no update time"),
        ("1h", None, "no longer has a time to live, but the stored entries are written with one"),
        ("1h", rh.TimeToLive("1h", time="processing_time"), "used event_time"),
    ],
)
def test_state_of_unknown_age_is_refused(old: Any, new: Any, what: str) -> None:
    refusal = refused(Version(lately(old)), Version(lately(new)))
    assert refusal is not None
    assert "the changed program cannot read the stored state" in refusal.what
    assert what in str(refusal.detail)
