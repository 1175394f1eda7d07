"""Updating tables: current rows, previous rows, duplicates, ranks, and what refuses changelogs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.connectors.redis.sink import RedisSink
from rheos.core.aggregates.segments import Segments
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.graph.changelog import Changes
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.changelog.dedup import LATE, DedupOperator, DedupSpec, FirstCell
from rheos.core.operators.changelog.rekeying import RekeyingSpec
from rheos.core.operators.sink import SinkSpec
from rheos.core.protocol.elements import TS, WM, WatermarkMark
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import MemorySink, OperatorExample, check_example
from tests.core.operators.contexts import StillClock, context

ORDERS = pa.schema(
    [("id", pa.int64()), ("state", pa.string()), ("cents", pa.int64()), ("op", pa.string())]
)


def order(id: int, state: str | None, cents: int | None, op: str = "update_after") -> dict[str, Any]:
    return {"id": id, "state": state, "cents": cents, "op": op}


SCRIPT = [
    order(1, "new", 10, "insert"),
    order(2, "new", None, "insert"),
    order(1, "paid", 10),
    order(2, None, None, "delete"),
    order(1, "paid", 10),
    order(2, "paid", 7, "insert"),
]


def shown(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in columns) for row in rows), key=repr)


def collected(build: Any, rows: list[dict[str, Any]], schema: pa.Schema, on: str | None = None) -> Any:
    """Run a whole program; return its results in the order of the rows."""
    env = rh.Environment(1, runtime="simulated")
    watermark = None if on is None else rh.Watermark.monotonic(on=on)
    build(env.from_source(rh.collection(rows, schema=schema), watermark=watermark)).collect("out")
    return env.execute("changes").collected["out"].to_pylist()


def test_the_previous_row_is_emitted_before_the_new_one() -> None:
    example = OperatorExample(lambda orders: orders.retractions(), ORDERS, SCRIPT, upserts_by=("id",))
    came = check_example(example)["out"]
    assert shown(came, "id", "state", "op") == [
        (1, "new", "insert"),
        (1, "new", "update_before"),
        (1, "paid", "update_after"),
        (2, "new", "delete"),
        (2, "new", "insert"),
        (2, "paid", "insert"),
    ]


def test_an_aggregate_of_a_changelog_counts_current_rows() -> None:
    def states(orders: rh.DataStream) -> rh.DataStream:
        by_state = orders.upserts(key="id").retractions().key_by("state")
        return by_state.table(
            n=rh.agg.count(),
            cents=rh.agg.sum("cents"),
            of=rh.agg.count("cents"),
            mean=rh.agg.mean("cents"),
        )

    assert [tuple(row.values()) for row in collected(states, SCRIPT, ORDERS)] == [
        ("new", 1, 10, 1, 10.0, "insert"),
        ("new", 2, 10, 1, 10.0, "update_after"),
        ("new", 1, None, 0, None, "update_after"),
        ("paid", 1, 10, 1, 10.0, "insert"),
        ("new", 0, None, 0, None, "delete"),
        ("paid", 2, 17, 2, 8.5, "update_after"),
    ]


def test_an_updating_table_is_restored_and_rescaled_in_memory_and_on_disk() -> None:
    def table(rows: rh.DataStream) -> rh.DataStream:
        changes = rows.transformation.with_changes(rh_changes()).stream
        return changes.key_by("state").table(n=rh.agg.count(), of=rh.agg.sum("cents"))

    back = [order(1, "new", 10, "update_before"), order(1, "paid", 10), order(1, "paid", 10, "delete")]
    came = check_example(OperatorExample(table, ORDERS, [SCRIPT[0], *back]))["out"]
    assert shown(came, "state", "n", "of", "op") == [
        ("new", 0, None, "delete"),
        ("new", 1, 10, "insert"),
        ("paid", 0, None, "delete"),
        ("paid", 1, 10, "insert"),
    ]


MEASURED = pa.schema(
    [("id", pa.int64()), ("at", pa.string()), ("x", pa.float64()), ("op", pa.string())]
)


def measured(id: int, at: str, x: float, op: str = "insert") -> dict[str, Any]:
    return {"id": id, "at": at, "x": x, "op": op}


def by_place(rows: rh.DataStream) -> rh.DataStream:
    changes = rows.transformation.with_changes(rh_changes()).stream
    return changes.key_by("at").table(n=rh.agg.count(), x=rh.agg.sum("x"))


def test_an_emptied_key_starts_from_scratch() -> None:
    nan = float("nan")
    script = [
        measured(1, "a", nan),
        measured(2, "b", 1e17),
        measured(3, "b", 0.25),
        measured(1, "a", nan, "delete"),
        measured(2, "b", 1e17, "delete"),
        measured(3, "b", 0.25, "delete"),
        measured(4, "a", 0.5),
        measured(4, "a", 0.5, "delete"),
        measured(5, "b", 0.5),
        measured(6, "a", 2.0),
        measured(7, "a", 1.0),
    ]
    came = check_example(OperatorExample(by_place, MEASURED, script))["out"]
    wanted = {("a", 1, 0.5, "insert"), ("b", 1, 0.5, "insert"), ("a", 1, 2.0, "insert")}
    assert wanted | {("a", 2, 3.0, "update_after")} <= set(shown(came, "at", "n", "x", "op"))


def test_keys_that_restart_within_a_batch_behave_as_row_by_row() -> None:
    draw = np.random.default_rng(5)
    there: list[tuple[int, str, float]] = []
    script = []
    for id in range(400):
        if there and draw.random() < 0.5:
            script.append(measured(*there.pop(int(draw.integers(len(there)))), "delete"))
        else:
            there.append(
                (id, "abc"[int(draw.integers(3))], float(draw.choice([0.5, 1.0, float("inf")])))
            )
            script.append(measured(*there[-1]))
    came = collected(by_place, script, MEASURED)
    of: dict[str, list[float]] = {}
    for row, given in zip(script, came, strict=True):
        values = of.setdefault(row["at"], [0, 0.0])
        sign = 1 if row["op"] == "insert" else -1
        values[0] += sign
        values[1] += sign * row["x"]
        expected = values[1] if values[0] else None
        assert given["n"] == values[0]
        assert repr(given["x"]) == repr(expected)
        if not values[0]:
            del of[row["at"]]


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_removed_keys_leave_nothing_in_state(backend: Any) -> None:
    from rheos.core.operators.changelog import table

    made: list[Any] = []

    class Watched(table.TableOperator):
        def close(self) -> None:
            [part] = self.savepoint(self.snapshot(CheckpointId(9)))
            written = part.write()
            tables = [written] if isinstance(written, pa.Table) else list(written)
            made.append((len(self.state), sum(table.num_rows for table in tables)))
            super().close()

    rows = [
        measured(n, str(n), 0.1, op)
        for start in range(0, 9_000, 3_000)
        for op in ("insert", "delete")
        for n in range(start, start + 3_000)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "TableOperator", Watched)
        env = rh.Environment(1, runtime="simulated", state=backend)
        by_place(
            env.from_source(rh.collection([*rows, measured(1, "left", 1.0)], schema=MEASURED))
        ).collect("out")
        assert env.execute("gone").collected["out"].num_rows == 18_001
    [(in_memory, stored)] = made
    assert stored == 1
    assert in_memory < (6_100 if backend == "memory" else 9_100)


def rh_changes() -> Any:
    from rheos.core.graph.changelog import Changes

    return Changes(("id",), retracts=True)


def test_a_missing_row_cannot_be_retracted() -> None:
    def table(rows: rh.DataStream) -> rh.DataStream:
        changes = rows.transformation.with_changes(rh_changes()).stream
        return changes.key_by("state").table(n=rh.agg.count())

    with pytest.raises(InputError, match="a change retracts a row that does not exist") as raised:
        collected(table, [order(1, "new", 10, "update_before")], ORDERS)
    assert "test_changelog.py" in str(raised.value)
    assert "'new'" in str(raised.value)


def test_names_of_changes_in_other_systems_are_accepted() -> None:
    said = ["snapshot", "update", "c", "d", "+U"]
    rows = [order(n, "x", 1, op) for n, op in enumerate(said)]
    came = collected(lambda orders: orders.upserts(key="id"), rows, ORDERS)
    assert [row["op"] for row in came] == ["insert", "update_after", "insert", "delete", "update_after"]
    with pytest.raises(rh.RheosError, match="does not say whether the row is inserted") as raised:
        collected(
            lambda orders: orders.upserts(key="id", on_truncate="fail"),
            [order(1, "x", 1, "truncate")],
            ORDERS,
        )
    assert "'truncate'" in str(raised.value.record)
    assert "'snapshot'" in str(raised.value.hint)


CLICKS = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("at", pa.int64())])
CAME = [(1, 0), (2, 1), (1, 4), (1, 9), (1, 10), WatermarkMark(9), (1, 8), (2, 25), (1, 30), (1, 19)]
CLICKED: list[Any] = [
    step if isinstance(step, WatermarkMark) else {"id": step[0], "n": n, "at": step[1]}
    for n, step in enumerate(CAME)
]


def test_deduplication_keeps_the_first_row_of_a_key() -> None:
    def first(clicks: rh.DataStream) -> dict[str, rh.DataStream]:
        kept = clicks.key_by("id").dedup(within="10ms")
        return {"kept": kept, "late": kept.side_output("late")}

    came = check_example(OperatorExample(first, CLICKS, CLICKED, on="at"))
    assert shown(came["kept"], "id", "at") == [(1, 0), (1, 10), (1, 30), (2, 1), (2, 25)]
    assert shown(came["late"], "id", "at") == [(1, 8)]


def test_deduplication_by_event_time_keeps_the_first_row_by_time() -> None:
    def first(clicks: rh.DataStream) -> dict[str, rh.DataStream]:
        kept = clicks.key_by("id").dedup(within="10ms", order="event_time")
        return {"kept": kept, "late": kept.side_output("late")}

    rows = [(2, 3), (1, 4), (2, 1), (1, 0), WatermarkMark(4), (1, 3), (1, 12), (1, 9), (1, 10)]
    came: list[Any] = [
        step if isinstance(step, WatermarkMark) else {"id": step[0], "n": n, "at": step[1]}
        for n, step in enumerate(rows)
    ]
    found = check_example(OperatorExample(first, CLICKS, came, on="at"))
    assert shown(found["kept"], "id", "at") == [(1, 0), (1, 10), (2, 1)]
    assert shown(found["late"], "id", "at") == [(1, 3)]


def test_deduplication_emits_the_last_row_of_a_key_as_upserts() -> None:
    def last(clicks: rh.DataStream) -> rh.DataStream:
        return clicks.key_by("id").dedup("last", within="10ms")

    came = check_example(OperatorExample(last, CLICKS, CLICKED, on="at"))["out"]
    assert shown(came, "id", "at", "op") == [
        (1, 0, "insert"),
        (1, 10, "update_after"),
        (1, 30, "insert"),
        (1, 4, "update_after"),
        (1, 9, "update_after"),
        (2, 1, "insert"),
        (2, 25, "insert"),
    ]


def test_deduplication_by_event_time_needs_event_time() -> None:
    rows = rh.Environment().from_source(rh.collection([{"id": 1}]))
    with pytest.raises(rh.ProgramError, match="event_time"):
        rows.key_by("id").dedup(order="event_time")
    with pytest.raises(rh.ProgramError, match="order='time' is not known"):
        rows.key_by("id").dedup(order="time")  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", ["first", "last"])
def test_rows_without_a_time_are_new_once(keep: Any) -> None:
    def kept(clicks: rh.DataStream) -> rh.DataStream:
        return clicks.key_by("id").dedup(keep)

    rows = [row for row in CLICKED if isinstance(row, dict)]
    came = check_example(OperatorExample(kept, CLICKS, rows))["out"]
    assert shown(came, "n") == [
        (n,) for n in ([0, 1] if keep == "first" else [0, 1, 2, 3, 4, 6, 7, 8, 9])
    ]


def test_keys_expire_as_time_passes() -> None:
    env = rh.Environment(1, runtime="simulated")
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64())])
    rows = [{"id": n, "at": n} for n in range(9_000)]
    stream = env.from_source(
        rh.collection(rows, schema=schema), watermark=rh.Watermark.monotonic(on="at")
    )
    stream.key_by("id").dedup(within="100ms").name("once").collect("once")
    from rheos.core.operators.changelog import dedup

    forgotten = []
    forget = dedup.DedupOperator._forget

    def noted(self: Any, through: int) -> None:
        had = len(self.state)
        forget(self, through)
        forgotten.append(had - len(self.state))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedup.DedupOperator, "_forget", noted)
        assert env.execute("once").collected["once"].num_rows == 9_000
    assert sum(forgotten) > 7_000


def test_rows_of_an_idle_split_are_late_if_their_key_has_expired() -> None:
    """Check this also for a split that becomes active again after a restart."""
    hidden = [pa.field(TS, pa.int64()), pa.field(WM, pa.int64())]
    schema = pa.schema([("id", pa.int64()), *hidden])
    spec = DedupSpec("first", 10, by_time=True)

    def operator() -> DedupOperator:
        return DedupOperator(context(schema, {MAIN: schema, LATE: schema}, keys=("id",)), spec)

    def given(operator: DedupOperator, id: int, at: int) -> list[str]:
        rows = pa.RecordBatch.from_pylist([{"id": id, TS: at, WM: -5}], schema)
        return [out.tag for out in operator.on_batch(0, rows)]

    before = operator()
    before.open({})
    assert given(before, 1, 0) == [MAIN]
    list(before.on_watermark(3))
    list(before.on_watermark(9))
    assert given(before, 1, 4) == []
    list(before.on_watermark(30))
    assert given(before, 1, 4) == [LATE]
    assert given(before, 1, 31) == [MAIN]
    assert before.ctx.counters == {"late_purged": 1}
    snapshot = before.snapshot(CheckpointId(1))
    for parts in (snapshot.parts, before.savepoint(snapshot)):
        after = operator()
        after.open({part.state: [part.write()] for part in parts})
        assert given(after, 2, 30) == [LATE]
        assert given(after, 1, 35) == []
        assert given(after, 2, 31) == [MAIN]


def test_rows_of_a_key_in_one_batch_see_the_previous_row() -> None:
    draw = np.random.default_rng(3)
    for _ in range(50):
        slots = draw.integers(0, 4, 40).astype(np.int32)
        times = draw.integers(0, 60, 40)
        cell = FirstCell(7)
        cell.grow(4)
        got = cell.run(Segments(slots, 4), pa.array(times)).to_pylist()
        until: dict[int, int] = {}
        wanted = []
        for slot, time in zip(slots.tolist(), times.tolist(), strict=True):
            is_new = time >= until.get(slot, 0)
            wanted.append(int(is_new))
            if is_new:
                until[slot] = time + 7
        assert got == wanted


BIDS = pa.schema([("item", pa.string()), ("user", pa.int64()), ("price", pa.float64())])


def test_top_n_of_an_updating_table() -> None:
    schema = pa.schema(
        [("shop", pa.string()), ("item", pa.int64()), ("n", pa.int64()), ("op", pa.string())]
    )
    script = [
        {"shop": "rom", "item": 1, "n": 5, "op": "insert"},
        {"shop": "rom", "item": 2, "n": 7, "op": "insert"},
        {"shop": "rom", "item": 3, "n": 1, "op": "insert"},
        {"shop": "rom", "item": 2, "n": None, "op": "delete"},
        {"shop": "rom", "item": 3, "n": 9, "op": "update_after"},
    ]
    example = OperatorExample(
        lambda rows: rows.key_by("shop").top_n(2, by="n"), schema, script, upserts_by=("shop", "item")
    )
    came = check_example(example)["out"]
    assert shown(came, "rank", "item", "op") == [
        (1, 1, "insert"),
        (1, 1, "update_after"),
        (1, 1, "update_before"),
        (1, 1, "update_before"),
        (1, 2, "update_after"),
        (1, 2, "update_before"),
        (1, 3, "update_after"),
        (2, 1, "insert"),
        (2, 1, "update_after"),
        (2, 1, "update_before"),
        (2, 3, "update_after"),
        (2, 3, "update_before"),
    ]


def test_nan_is_greatest_a_null_has_no_rank_and_ties_go_by_the_columns() -> None:
    rows = [
        {"item": "tea", "user": user, "price": price}
        for user, price in ((1, None), (2, float("nan")), (4, 3.0), (3, 3.0), (5, 3.0))
    ]
    came = collected(lambda bids: bids.key_by("item").top_n(2, by="price"), rows, BIDS)
    there: dict[int, int] = {}
    for row in came:
        if row["op"] in ("insert", "update_after"):
            there[row["rank"]] = row["user"]
    assert there == {1: 2, 2: 3}


# --- what is refused, and how changes reach a sink --------------------------------------------------


def upserts() -> rh.DataStream:
    env = rh.Environment(2, runtime="simulated")
    return env.from_source(rh.collection(SCRIPT, schema=ORDERS)).upserts(key="id")


REDIS = rh.redis.sink("redis://localhost:1", key="order:{id}")


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (
            lambda s: s.map(lambda row: row, returns=ORDERS),
            "the operator takes plain rows, but these are upserts by id: some of them delete others",
        ),
        (lambda s: s.key_by("state").running(n=rh.agg.count()), "takes plain rows"),
        (lambda s: s.key_by("state").table(n=rh.agg.count()), "the previous version of a row is not"),
        (
            lambda s: s.retractions().key_by("state").table(m=rh.agg.variance("cents")),
            "cannot retract a row",
        ),
        (lambda s: s.key_by("state").top_n(1, by="cents"), "may move a row to another key, and the"),
        (lambda s: s.filter(col("cents") > 3), "may read only the key"),
        (lambda s: s.retractions().filter(col("op") != "delete"), "any column except 'op'"),
        (lambda s: s.select("state", "op"), r"select\(\) drops 'id'"),
        (lambda s: s.with_columns(id=col("id") + 1), "changes the values of 'id'"),
        (lambda s: s.union(s.as_rows()), "cannot unite"),
        (lambda s: s.as_rows().retractions(), "needs upserts, but these are rows"),
        (lambda s: s.rebalance().filter(col("id") > 1), "and repartitioning them would lose the"),
        (lambda s: s.filter(col("id") > 1).set_parallelism(2), "a changelog cannot be repartitioned"),
        (lambda s: s.sink_to(rh.files.sink("out/")), "cannot update or delete rows that it has"),
        (
            lambda s: s.sink_to(rh.redis.sink("redis://localhost:1", key="{state}")),
            "the key of the sink is state",
        ),
        (lambda s: s.sink_to(REDIS, parallelism=1), "leave out parallelism"),
        (
            lambda s: s.retractions().filter(col("state") == "new").select("id", "op").sink_to(REDIS),
            "may keep a row and drop a later update of it",
        ),
        (
            lambda s: (r := s.retractions()).union(r.filter(col("cents") > 8)).sink_to(REDIS),
            "may keep a row and drop a later update of it",
        ),
    ],
)
def test_operators_without_support_for_changelogs_refuse_them_at_their_line(
    build: Any, what: str
) -> None:
    with pytest.raises(ProgramError, match=what) as raised:
        build(upserts())
    assert "test_changelog.py" in str(raised.value)


def test_changes_reach_a_sink_by_key_as_newest_rows_and_deletes() -> None:
    stream = upserts().retractions().filter(col("id") != 8).with_columns(twice=col("cents") * 2)
    stream.sink_to(REDIS, name="redis")
    node = next(n for n in stream._program.nodes() if isinstance(n.spec, SinkSpec))
    assert isinstance(node.spec, SinkSpec)
    assert isinstance(node.spec.sink, RedisSink)
    assert node.spec.sink.layout.delete == "deleted"
    columns = stream._program.type_of(node.inputs[0]).schema
    assert columns.names == ["id", "state", "cents", "twice", "deleted"]
    rows = rh.DataStream(stream._program, node.inputs[0])
    held = MemorySink()
    rows.sink_to(held, name="held")
    env = rh.Environment(1, runtime="simulated")
    taken = env.from_source(rh.collection(SCRIPT, schema=ORDERS)).upserts(key="id")
    pair, sink = taken.retractions()._for_sink(REDIS, rh_changes())
    assert isinstance(sink, RedisSink)
    pair.collect("rows")
    came = env.execute("rows").collected["rows"].to_pylist()
    assert [(row["id"], row["state"], row["deleted"]) for row in came] == [
        (1, "new", False),
        (2, "new", False),
        (1, "paid", False),
        (2, "new", True),
        (2, "paid", False),
    ]


def test_lists_are_expanded_to_rows() -> None:
    schema = pa.schema([("k", pa.string()), ("tags", pa.list_(pa.string())), ("at", pa.int64())])
    rows = [
        {"k": "a", "tags": ["x", None], "at": 1},
        {"k": "b", "tags": [], "at": 2},
        {"k": "c", "tags": None, "at": 3},
        {"k": "d", "tags": ["y"], "at": 4},
    ]
    example = OperatorExample(lambda s: s.explode("tags", rank="nth"), schema, rows, on="at")
    came = check_example(example)["out"]
    assert shown(came, "k", "tags", "nth") == [("a", "x", 1), ("a", None, 2), ("d", "y", 1)]
    with pytest.raises(SchemaError, match="takes a list, and 'k' is string"):
        collected(lambda s: s.explode("k"), rows, schema)


def folded(key: str) -> Any:
    """Return the program that folds changes with retractions by another key."""
    return lambda rows: rows.transformation.with_changes(Changes((), True)).stream.upserts(key=key)


def test_the_newest_row_that_was_not_retracted_is_the_row_of_a_key() -> None:
    script = [
        order(1, "new", 1, "insert"),
        order(2, "new", 2, "insert"),
        order(3, "new", 3, "insert"),
        order(1, "new", 1, "update_before"),
        order(1, "new", 9),
        order(3, "new", 3, "delete"),
        order(1, "new", 9, "update_before"),
        order(1, "paid", 9),
        order(2, "new", 2, "delete"),
    ]
    came = check_example(OperatorExample(folded("state"), ORDERS, script))["out"]
    assert shown(came, "state", "id", "cents", "op") == [
        ("new", 1, 1, "insert"),
        ("new", 1, 9, "update_after"),
        ("new", 2, 2, "delete"),
        ("new", 2, 2, "update_after"),
        ("new", 2, 2, "update_after"),
        ("new", 3, 3, "update_after"),
        ("paid", 1, 9, "insert"),
    ]


def test_the_changes_of_a_key_may_arrive_in_any_order_between_subtasks() -> None:
    old, new = order(1, "a", 1, "insert"), order(1, "b", 1, "insert")
    gone = order(1, "a", 1, "delete")
    for rows in ([old, new, gone], [old, gone, new], [new, old, gone]):
        last = collected(folded("id"), rows, ORDERS)[-1]
        assert (last["state"], last["op"]) in {("b", "update_after"), ("b", "insert")}


def test_a_retraction_of_a_row_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(InputError, match="retracts a row that does not exist"):
        collected(folded("id"), [order(1, "a", 1, "delete")], ORDERS)


class StepClock(StillClock):
    ms = 0

    def now_ms(self) -> int:
        return self.ms


def test_rows_of_a_key_expire_after_their_last_change() -> None:
    clock = StepClock()
    ctx = replace(context(ORDERS, ORDERS, keys=("id",)), clock=clock)
    operator = RekeyingSpec(1000).operator(ctx)
    operator.open({})
    ops = []
    for at, op in (
        (0, "insert"),
        (900, "insert"),
        (1800, "delete"),
        (2800, "delete"),
        (2900, "insert"),
    ):
        clock.ms = at
        batch = pa.RecordBatch.from_pylist([order(1, "a", 1, op)], ORDERS)
        ops += [row["op"] for out in operator.on_batch(0, batch) for row in out.batch.to_pylist()]
    assert ops == ["insert", "update_after", "update_after", "delete", "insert"]


def test_a_retracted_row_of_upserts_is_a_deletion_of_its_key() -> None:
    script = [order(1, "new", 1, "+I"), order(1, "new", 1, "-U"), order(2, "new", 1, "+U")]
    came = collected(lambda rows: rows.upserts(key="id"), script, ORDERS)
    assert shown(came, "id", "op") == [(1, "delete"), (1, "insert"), (2, "update_after")]
