"""Joins of updating tables: the final result is the join of both final tables, in any order of
arrival."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, get_args

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.api.joins import TableHow
from rheos.core.checkpoint.compatibility import compare, refusals
from rheos.core.errors import InputError, ProgramError, UserFunctionError
from rheos.core.graph.changelog import Changes
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Out
from rheos.core.operators.joins import table_join
from rheos.core.operators.joins.table_join import TableJoinOperator, TableJoinSpec
from rheos.core.protocol.elements import SWM, TS, WatermarkMark
from rheos.core.protocol.ids import CheckpointId, OperatorId
from rheos.core.protocol.snapshots import PartMode
from rheos.testing import OperatorExample, Right, check_example
from rheos.testing.harness import Step
from tests.core.operators.contexts import context

LEFT = pa.schema([("k", pa.int64()), ("l", pa.int64()), ("a", pa.string()), ("op", pa.string())])
RIGHT = pa.schema([("k", pa.int64()), ("r", pa.int64()), ("b", pa.float64()), ("op", pa.string())])
PLAIN = [pa.schema([field for field in schema if field.name != "op"]) for schema in (LEFT, RIGHT)]
PUT = ("insert", "update_after")

Rows = Iterable[dict[str, Any]]


def drawn_changes(rng: Random, steps: int, *, upserts: bool = False) -> list[Step]:
    """Generate changes of two tables, as in the columns l and r: rows are inserted, changed and
    deleted. Upserts keep their join key."""
    there: list[dict[int, tuple[int, Any]]] = [{}, {}]
    script: list[Step] = []
    before = -1

    def give(port: int, id: int, row: tuple[int, Any], op: str) -> None:
        named = {"k": row[0], "lr"[port]: id, "ab"[port]: row[1], "op": op}
        script.append(Right(named) if port else named)

    for number in range(steps):
        port = rng.choice([before, before, 0, 1]) if before >= 0 else 0
        if port != before:
            # Batches are cut there: which side comes first is not left to how rows are gathered.
            script.append(WatermarkMark(number))
            before = port
        id = rng.randrange(6)
        old = there[port].get(id)
        value: Any = rng.choice([None, rng.randrange(3)])
        if value is not None:
            value = float(value) if port else f"text {value}"
        row = (id % 2 if upserts else rng.randrange(3), value)
        if old is None:
            give(port, id, row, "insert")
        elif rng.random() < 0.4:
            give(port, id, (old[0], None) if upserts else old, "delete")
            del there[port][id]
            continue
        else:
            if not upserts:
                give(port, id, old, "update_before")
            give(port, id, row, "update_after")
        there[port][id] = row
    return script


def there(script: Iterable[Step], port: int) -> list[dict[str, Any]]:
    """Return the final table of a side."""
    rows: dict[int, dict[str, Any]] = {}
    for step in script:
        if isinstance(step, WatermarkMark) or isinstance(step, Right) != bool(port):
            continue
        row = dict(step.row if isinstance(step, Right) else step)
        if row.pop("op") in PUT:
            rows[row["lr"[port]]] = row
        else:
            rows.pop(row["lr"[port]], None)
    return list(rows.values())


def same_key(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["k"] == other["k"])


def near(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return same_key(one, other) and other["b"] is not None and one["l"] + other["b"] > other["r"]


NEAR = rh.col("l") + rh.col("b") > rh.col("r")
"""The condition of `near` as an expression; keys are equal anyway."""


def joined(left: Rows, right: Rows, how: str, partners: Any = same_key) -> Counter[tuple[Any, ...]]:
    left, right = list(left), list(right)
    found: Counter[tuple[Any, ...]] = Counter()
    if how in ("semi", "anti"):
        for one in left:
            if any(partners(one, other) for other in right) == (how == "semi"):
                found[one["k"], one["l"], one["a"], None, None] += 1
        return found
    for one in left:
        for other in right:
            if partners(one, other):
                found[one["k"], one["l"], one["a"], other["r"], other["b"]] += 1
    if how in ("left", "full"):
        for one in left:
            if not any(partners(one, other) for other in right):
                found[one["k"], one["l"], one["a"], None, None] += 1
    if how in ("right", "full"):
        for other in right:
            if not any(partners(one, other) for one in left):
                found[other["k"], None, None, other["r"], other["b"]] += 1
    return found


def in_the_end(rows: Rows) -> Counter[tuple[Any, ...]]:
    """Apply the changes; no row may be retracted that does not exist."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        key = tuple(row.get(name) for name in "klarb")
        found[key] += 1 if row["op"] == "insert" else -1
        assert found[key] >= 0, f"{row} is retracted, but does not exist"
    return +found


@pytest.mark.thinned(8)
@pytest.mark.parametrize(
    ("how", "partners", "keyed"),
    [
        *((how, same_key, True) for how in ("inner", "left", "right", "full")),
        *((how, near, how in ("semi", "anti")) for how in get_args(TableHow)),
    ],
)
def test_changes_of_both_sides_are_joined(how: Any, partners: Any, keyed: bool) -> None:
    script = drawn_changes(Random(how), 45)

    def build(left: rh.DataStream, right: rh.DataStream) -> rh.DataStream:
        one, other = (
            side.transformation.with_changes(Changes(key if keyed else (), retracts=True))
            for side, key in ((left, ("l",)), (right, ("r",)))
        )
        where = NEAR if partners is near else None
        return one.stream.key_by("k").join(
            other.stream.key_by("k"), how=how, where=where, ttl="forever"
        )

    came = check_example(OperatorExample(build, LEFT, script, right=RIGHT))["out"]
    wanted = joined(there(script, 0), there(script, 1), how, partners)
    assert in_the_end(came) == wanted
    assert wanted
    assert any(row["op"] == "delete" for row in came)


def test_upserts_replace_the_existing_row() -> None:
    script = drawn_changes(Random(7), 60, upserts=True)

    def build(left: rh.DataStream, right: rh.DataStream) -> rh.DataStream:
        one = left.transformation.with_changes(Changes(("k", "l"), retracts=False)).stream.key_by("k")
        other = right.transformation.with_changes(Changes(("k", "r"), retracts=False)).stream.key_by(
            "k"
        )
        return one.join(other, how="full", ttl="forever")

    came = check_example(OperatorExample(build, LEFT, script, right=RIGHT))["out"]
    assert in_the_end(came) == joined(there(script, 0), there(script, 1), "full")


def test_equal_rows_without_a_key_are_counted() -> None:
    rng = Random(11)
    script: list[Step] = []
    rows: tuple[list[Any], list[Any]] = ([], [])
    for number in range(24):
        port = rng.randrange(2)
        row: dict[str, Any] = {"k": rng.randrange(2)}
        row |= {"r": 1, "b": 2.0} if port else {"l": rng.randrange(2), "a": None}
        goes = row in rows[port] and rng.random() < 0.45
        if goes:
            rows[port].remove(row)
        else:
            rows[port].append(row)
        change = {**row, "op": "delete" if goes else "insert"}
        script += [WatermarkMark(number), Right(change) if port else change]

    def build(left: rh.DataStream, right: rh.DataStream) -> rh.DataStream:
        one, other = (
            side.transformation.with_changes(Changes((), retracts=True)).stream.key_by("k")
            for side in (left, right)
        )
        return one.join(other, how="full", where=NEAR, ttl="forever")

    came = check_example(OperatorExample(build, LEFT, script, right=RIGHT))["out"]
    assert in_the_end(came) == joined(*rows, "full", near)
    assert max(joined(*rows, "full", near).values()) > 1


@pytest.mark.thinned(4)
@pytest.mark.parametrize("how", ["inner", "full", "semi", "anti"])
def test_append_only_rows_may_be_equal(how: Any) -> None:
    rng = Random(3)
    script: list[Step] = []
    rows: tuple[list[Any], list[Any]] = ([], [])
    for number in range(30):
        row = {"k": rng.randrange(6)}
        port = rng.randrange(2)
        row |= {"r": 1, "b": 1.5} if port else {"l": 1, "a": "alike"}
        rows[port].append(row)
        script += [WatermarkMark(number), Right(row) if port else row]

    def build(left: rh.DataStream, right: rh.DataStream) -> rh.DataStream:
        return left.key_by("k").join(right.key_by("k"), how=how, ttl="forever")

    came = check_example(OperatorExample(build, PLAIN[0], script, right=PLAIN[1]))["out"]
    if how in ("inner", "semi"):
        assert all("op" not in row for row in came), "what stays is joined to rows that stay"
        came = [{**row, "op": "insert"} for row in came]
    assert in_the_end(came) == joined(*rows, how)


def test_plain_rows_may_have_a_column_op() -> None:
    op = pa.schema([("k", pa.int64()), ("op", pa.string())])
    script: list[Step] = [{"k": 1, "op": "sold"}, WatermarkMark(0), Right({"k": 1, "r": 2, "b": None})]

    def build(left: rh.DataStream, right: rh.DataStream) -> rh.DataStream:
        return left.key_by("k").join(right.key_by("k"), ttl="forever")

    joined_rows = [{"k": 1, "op": "sold", "r": 2, "b": None}]
    check_example(OperatorExample(build, op, script, right=PLAIN[1]), {"out": joined_rows})


# --- the operator by itself ---------------------------------------------------------------------------


def operator(
    how: Any = "inner", *, ttl: str = "forever", batch_rows: int = 1000, where: Any = None
) -> TableJoinOperator:
    env = rh.Environment(1, max_parallelism=128)
    by = rh.Watermark.monotonic(on="l", unit="ms"), rh.Watermark.monotonic(on="r", unit="ms")
    left, right = (
        env.from_source(rh.collection(schema.empty_table()), watermark)
        for schema, watermark in zip((LEFT, RIGHT), by, strict=True)
    )
    one = left.transformation.with_changes(Changes(("l",), retracts=True)).stream.key_by("k")
    other = right.transformation.with_changes(Changes(("r",), retracts=True)).stream.key_by("k")
    one.join(other, how=how, where=where, ttl=ttl).collect("out")
    [planned] = [op for op in env.plan().operators() if isinstance(op.spec, TableJoinSpec)]
    assert isinstance(planned.spec, TableJoinSpec)
    ctx = context(LEFT, planned.outputs[MAIN].schema, keys=("k",), batch_rows=batch_rows)
    ctx.ports = planned.ports
    made = planned.spec.operator(ctx)
    made.open({})
    return made


def batch(join: TableJoinOperator, port: int, rows: list[tuple[Any, ...]], reached: int = 0) -> Any:
    """Return a batch of rows (k, id, value, op)."""
    schema = join.ctx.ports[port].schema
    columns = [list(values) for values in zip(*rows, strict=True)]
    hidden = {TS: columns[1], SWM: [reached] * len(rows)}
    columns += [hidden.get(name, [reached] * len(rows)) for name in schema.names[4:]]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def pairs(outs: Iterable[Out]) -> list[tuple[Any, ...]]:
    return [(row["l"], row["r"], row["op"]) for out in outs for row in out.batch.to_pylist()]


def test_a_key_with_many_rows_emits_bounded_batches() -> None:
    join = operator(batch_rows=64)
    list(join.on_batch(0, batch(join, 0, [(1, id, "a", "insert") for id in range(500)])))
    given = [(1, id, 0.0, "insert") for id in range(40)]
    counts = [out.batch.num_rows for out in join.on_batch(1, batch(join, 1, given))]
    assert sum(counts) == 20_000
    assert max(counts) <= 64


def test_partners_may_appear_and_disappear_within_a_batch() -> None:
    join = operator("left")
    assert pairs(join.on_batch(0, batch(join, 0, [(1, 10, "a", "insert")]))) == [(10, None, "insert")]
    given = [(1, 5, 0.0, "insert"), (1, 5, 0.0, "delete"), (1, 6, 0.0, "insert")]
    assert pairs(join.on_batch(1, batch(join, 1, given))) == [
        (10, None, "delete"),
        (10, 5, "insert"),
        (10, 5, "delete"),
        (10, None, "insert"),
        (10, None, "delete"),
        (10, 6, "insert"),
    ]


def test_a_row_that_moves_to_another_key_retracts_its_pairs() -> None:
    join = operator()
    list(join.on_batch(1, batch(join, 1, [(1, 5, 0.0, "insert"), (2, 6, 0.0, "insert")])))
    given = [
        (1, 10, "a", "insert"),
        (1, 10, "a", "update_before"),
        (2, 10, "b", "update_after"),
    ]
    assert pairs(join.on_batch(0, batch(join, 0, given))) == [
        (10, 5, "insert"),
        (10, 5, "delete"),
        (10, 6, "insert"),
    ]


def test_a_missing_row_cannot_be_retracted() -> None:
    join = operator()
    given = [(1, 10, "a", "insert"), (1, 11, "b", "delete")]
    with pytest.raises(InputError) as raised:
        list(join.on_batch(0, batch(join, 0, given)))
    assert raised.value.what == "a change retracts a row that does not exist"
    assert raised.value.key == "11"
    assert "'l': 11" in str(raised.value.record)


def test_an_expired_row_finds_no_partner_but_its_pairs_remain() -> None:
    join = operator("full", ttl="100ms")
    assert len(pairs(join.on_batch(0, batch(join, 0, [(1, 10, "a", "insert")])))) == 1
    assert pairs(join.on_batch(1, batch(join, 1, [(1, 50, 0.0, "insert")], reached=60))) == [
        (10, None, "delete"),
        (10, 50, "insert"),
    ]
    # At 110 the left row is forgotten: the right one stays, and had a partner.
    assert pairs(join.on_batch(1, batch(join, 1, [(1, 60, 0.0, "insert")], reached=110))) == [
        (None, 60, "insert")
    ]
    assert pairs(join.on_batch(0, batch(join, 0, [(1, 111, "c", "insert")], reached=110))) == [
        (None, 60, "delete"),
        (111, 50, "insert"),
        (111, 60, "insert"),
    ]
    # What is forgotten may be taken back late: nothing is known of it.
    assert pairs(join.on_batch(0, batch(join, 0, [(1, 10, "a", "delete")], reached=110))) == []
    assert sum(map(len, join._sides)) == 3
    list(join.on_watermark(1_000))
    assert sum(map(len, join._sides)) == 0


def test_within_a_batch_rows_are_forgotten_as_the_stream_moves_on() -> None:
    join = operator("inner", ttl="100ms")
    list(join.on_batch(0, batch(join, 0, [(1, 10, "a", "insert")])))
    early = batch(join, 1, [(1, 5, 0.0, "insert")], reached=109)
    both = pa.concat_batches([early, batch(join, 1, [(1, 6, 0.0, "insert")], reached=110)])
    assert pairs(join.on_batch(1, both)) == [(10, 5, "insert")]


def test_expired_rows_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_join, "_TIDY_ROWS", 64)
    join = operator("left")
    for id in range(40):
        rows = [(id, id, "a", "insert"), (id, id, "a", "delete")]
        list(join.on_batch(0, batch(join, 0, rows[:1])))
        list(join.on_batch(0, batch(join, 0, rows[1:])))
    list(join.on_batch(0, batch(join, 0, [(7, 1000 + id, "b", "insert") for id in range(5)])))
    assert join._sides[0].alive == 5
    assert len(join._sides[0]) <= 64
    assert len(join._keys) <= 64
    found = pairs(join.on_batch(1, batch(join, 1, [(7, 1, 0.0, "insert")])))
    assert Counter(found) == Counter(
        [(1000 + id, None, "delete") for id in range(5)] + [(1000 + id, 1, "insert") for id in range(5)]
    )


def test_a_snapshot_contains_the_changes() -> None:
    join = operator("left")
    list(join.on_batch(0, batch(join, 0, [(id % 3, id, "a", "insert") for id in range(300)])))
    first = join.snapshot(CheckpointId(1)).parts
    assert [part.mode for part in first] == [PartMode.FULL, PartMode.FULL]
    list(join.on_batch(0, batch(join, 0, [(0, 0, "a", "delete"), (9, 900, "a", "insert")])))
    left, right = join.snapshot(CheckpointId(2)).parts
    assert left.mode is PartMode.DELTA
    assert sum(table.num_rows for table in left.write()) == 2
    assert right.unchanged


@pytest.mark.parametrize(("old", "new", "fits"), [("inner", "left", False), ("full", "right", True)])
def test_a_changed_program_may_keep_fewer_columns(old: str, new: str, fits: bool) -> None:
    id = OperatorId("join-1")
    before, after = ({id: made._spec.states(made.ctx.ports)} for made in (operator(old), operator(new)))
    refused = refusals(compare(before, after, {}), allow_dropped=not fits)
    assert (refused is None) is fits


def test_numbers_of_partners_under_another_condition_are_refused() -> None:
    id = OperatorId("join-1")
    made = [operator("semi", where=where) for where in (NEAR, NEAR, rh.col("b") > 1)]
    shapes = [{id: each._spec.states(each.ctx.ports)} for each in made]
    assert refusals(compare(shapes[0], shapes[1], {}), allow_dropped=False) is None
    assert refusals(compare(shapes[0], shapes[2], {}), allow_dropped=False) is not None


def test_a_condition_that_fails_names_the_pair() -> None:
    join = operator(where=rh.col("a").cast(pl.Int64) > rh.col("r"))
    list(join.on_batch(0, batch(join, 0, [(1, 10, "7", "insert"), (1, 11, "x", "insert")])))
    with pytest.raises(UserFunctionError) as raised:
        list(join.on_batch(1, batch(join, 1, [(1, 5, 0.0, "insert")])))
    assert "'a': 'x'" in str(raised.value.record)


# --- what is refused ----------------------------------------------------------------------------------


def test_invalid_joins_are_refused_at_their_line() -> None:
    env = rh.Environment(1)
    rows = env.from_source(rh.collection(PLAIN[0].empty_table()))
    others = env.from_source(rh.collection(PLAIN[1].empty_table()))
    left, right = rows.key_by("k"), others.key_by("k")

    def wrong(joined: Callable[[], rh.DataStream]) -> str:
        with pytest.raises(ProgramError) as raised:
            joined()
        assert raised.value.site is not None
        assert raised.value.site.file == __file__
        return str(raised.value)

    assert "an unbounded join keeps every row, because ttl= is not set" in wrong(
        lambda: left.join(right)
    )
    assert "ttl must be greater than 0, not '0s'" in wrong(lambda: left.join(right, ttl="0s"))
    assert "a time to live needs event time" in wrong(lambda: left.join(right, ttl="1d"))
    updated = rows.upserts(key="l", op=None).key_by("k")
    assert ".retractions() before key_by" in wrong(lambda: updated.join(right, ttl="forever"))
    without = left.join(right, "full", ttl="forever").key_by("k")
    lists = pa.schema([("k", pa.int64()), ("many", pa.list_(pa.int64()))]).empty_table()
    nested = env.from_source(rh.collection(lists)).key_by("k")
    without_key = left.join(nested, "full", ttl="forever").key_by("k")
    assert "cannot be compared" in wrong(lambda: without_key.join(right, suffix="_", ttl="forever"))
    assert "unknown column 'x'" in wrong(lambda: left.join(right, where=rh.col("x") > 1, ttl="forever"))
    assert "rows without a key" in wrong(lambda: without.top_n(1, by="l"))
    redis = rh.redis.sink("redis://localhost", key="{k}")
    assert "updates and deletes rows by key" in wrong(
        lambda: left.join(right, "full", ttl="forever").sink_to(redis)
    )


def test_the_result_has_the_keys_of_both_sides() -> None:
    env = rh.Environment(1)
    rows = env.from_source(rh.collection(PLAIN[0].empty_table())).upserts(key="l", op=None)
    others = env.from_source(rh.collection(PLAIN[1].empty_table())).upserts(key="k", op=None)
    pairs = rows.retractions().key_by("k").join(others.key_by("k"), "left", ttl="forever")
    assert pairs._type.changes == Changes(("k", "l"), retracts=True)
