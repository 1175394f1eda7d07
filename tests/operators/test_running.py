"""Running aggregates against a loop, over cuts into batches, snapshots and other parallelisms."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.errors import CheckpointError, InputError
from rheos.graph import aggregates as agg
from rheos.graph.aggregates import Agg
from rheos.graph.nodes import RunningSpec
from rheos.operators.running import STATE, RunningOperator, running_schema
from rheos.protocol.elements import TS, visible
from rheos.protocol.ids import CheckpointId
from rheos.state.key_groups import key_groups, subtask_of
from tests.operators.contexts import context

SCHEMA = pa.schema(
    [("k", pa.int64()), ("v", pa.float64()), ("n", pa.int32()), ("s", pa.string()), (TS, pa.int64())]
)
AGGREGATES = {
    "rows": agg.count(),
    "values": agg.count("v"),
    "total": agg.sum("v"),
    "whole": agg.sum("n"),
    "least": agg.min("v"),
    "most": agg.max("n"),
    "first": agg.min("s"),
    "last": agg.max("s"),
    "mean": agg.mean("n"),
}


def operator(
    schema: pa.Schema = SCHEMA,
    aggregates: dict[str, Agg] | None = None,
    keys: tuple[str, ...] = ("k",),
    **more: Any,
) -> RunningOperator:
    aggregates = AGGREGATES if aggregates is None else aggregates
    hidden = [field for field in schema if field.name == TS]
    output = pa.schema([*running_schema(visible(schema), aggregates), *hidden])
    return RunningOperator(context(schema, output, keys=keys, **more), RunningSpec(aggregates))


def run(op: RunningOperator, batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        for out in op.on_batch(0, batch):
            out.batch.validate(full=True)
            rows += out.batch.to_pylist()
    return rows


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: dict[int, list[dict[str, Any]]] = {}
    result = []
    for row in rows:
        past = seen.setdefault(row["k"], [])
        past.append(row)
        values = {name: [r[name] for r in past if r[name] is not None] for name in ("v", "n", "s")}
        result.append(
            {key: value for key, value in row.items() if key != TS}
            | {
                "rows": len(past),
                "values": len(values["v"]),
                "total": sum(values["v"]) if values["v"] else None,
                "whole": sum(values["n"]) if values["n"] else None,
                "least": min(values["v"], default=None),
                "most": max(values["n"], default=None),
                "first": min(values["s"], default=None),
                "last": max(values["s"], default=None),
                "mean": sum(values["n"]) / len(values["n"]) if values["n"] else None,
                TS: row[TS],
            }
        )
    return result


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.integers(-3, 3),
            "v": st.none() | st.integers(-9, 9).map(lambda n: n / 8),
            "n": st.none() | st.integers(-(2**31), 2**31 - 1),
            "s": st.none() | st.text("abc", max_size=3),
            TS: st.integers(0, 100),
        }
    ),
    max_size=40,
)


def cut(rows: list[dict[str, Any]], sizes: list[int]) -> list[pa.RecordBatch]:
    batches, at = [], 0
    for size in [*sizes, len(rows)]:
        batches.append(pa.RecordBatch.from_pylist(rows[at : at + size], SCHEMA))
        at += size
    return batches


@given(ROWS, st.lists(st.integers(0, 12), max_size=5))
def test_every_row_leaves_with_the_values_of_a_loop(
    rows: list[dict[str, Any]], sizes: list[int]
) -> None:
    assert run(operator(), cut(rows, sizes)) == expected(rows)


def restored(ops: Sequence[RunningOperator], **more: Any) -> RunningOperator:
    """An operator with the rows of its key groups out of what others have written."""
    new = operator(**more)
    owned = list(new.ctx.key_groups)
    tables = []
    for op in ops:
        for part in op.snapshot(CheckpointId(1)).parts:
            assert part.state == STATE
            table = part.write()
            groups = table.column("key_group").to_pylist()
            assert groups == sorted(groups)
            tables.append(table.filter(pa.array([group in owned for group in groups], pa.bool_())))
    new.open({STATE: tables})
    return new


@given(ROWS, ROWS)
def test_a_restored_operator_goes_on_at_another_parallelism(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    def split(rows: list[dict[str, Any]], parallelism: int) -> list[list[pa.RecordBatch]]:
        batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
        owners = subtask_of(key_groups(batch, ["k"], 128), parallelism, 128).tolist()
        return [
            [batch.filter(pa.array([owner == subtask for owner in owners], pa.bool_()))]
            for subtask in range(parallelism)
        ]

    ops = [operator(subtask=i, parallelism=2) for i in range(2)]
    for op, batches in zip(ops, split(before, 2), strict=True):
        run(op, batches)
    ops = [restored(ops, subtask=i, parallelism=3) for i in range(3)]
    # Twice, so that what was restored is written again whole.
    ops = [restored(ops, subtask=i, parallelism=3) for i in range(3)]
    rows = [row for op, b in zip(ops, split(after, 3), strict=True) for row in run(op, b)]

    def by_content(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(repr(sorted(row.items())) for row in rows)

    assert by_content(rows) == by_content(expected(before + after)[len(before) :])


def test_a_snapshot_is_not_touched_by_later_rows() -> None:
    op = operator()
    row = {"k": 1, "v": 1.0, "n": 2, "s": "b", TS: 0}
    run(op, cut([row], []))
    part = op.snapshot(CheckpointId(1)).parts[0]
    run(op, cut([row | {"s": "a"}, row | {"k": 2}], []))
    table = part.write()
    assert table.num_rows == 1
    assert table.column("agg.rows.count").to_pylist() == [1]
    assert table.column("agg.first.best").to_pylist() == ["b"]


@pytest.mark.parametrize(
    ("kind", "values", "least", "most"),
    [
        (pa.float64(), [math.nan, 2.0, 1.0], [math.nan, 2.0, 1.0], [math.nan, 2.0, 2.0]),
        (pa.float32(), [-0.5, None, 1.5], [-0.5, -0.5, -0.5], [-0.5, -0.5, 1.5]),
        (pa.uint64(), [2**64 - 1, 0], [2**64 - 1, 0], [2**64 - 1] * 2),
        (pa.int8(), [None, -128, 127], [None, -128, -128], [None, -128, 127]),
        (pa.bool_(), [True, False], [True, False], [True, True]),
        (pa.date32(), [dt.date(2020, 1, 2), dt.date(2020, 1, 1)], None, [dt.date(2020, 1, 2)] * 2),
        (pa.timestamp("us"), [dt.datetime(2020, 1, 2)] * 2, None, None),
        (pa.decimal128(5, 1), [Decimal("1.5"), Decimal("-2.0")], None, [Decimal("1.5")] * 2),
        (pa.string_view(), ["b", "a"], None, ["b", "b"]),
        (pa.dictionary(pa.int8(), pa.string()), ["b", "a"], None, ["b", "b"]),
        (pa.binary(), [b"b", b"\xff"], [b"b", b"b"], [b"b", b"\xff"]),
    ],
)
def test_extremes_keep_the_type(
    kind: pa.DataType, values: list[Any], least: list[Any] | None, most: list[Any] | None
) -> None:
    schema = pa.schema([("k", pa.string()), ("v", kind)])
    op = operator(schema, {"least": agg.min("v"), "most": agg.max("v")})
    batch = pa.record_batch([pa.array(["x"] * len(values)), pa.array(values, kind)], schema=schema)
    rows = run(op, [batch.slice(i, 1) for i in range(len(values))])
    assert repr([row["least"] for row in rows]) == repr(values if least is None else least)
    assert repr([row["most"] for row in rows]) == repr(values if most is None else most)
    whole = run(operator(schema, {"least": agg.min("v"), "most": agg.max("v")}), [batch])
    assert repr(whole) == repr(rows)


def test_an_aggregate_may_replace_a_column() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.int64()), (TS, pa.int64())])
    op = operator(schema, {"v": agg.sum("v")})
    rows = run(op, [pa.RecordBatch.from_pylist([{"k": 1, "v": 2, "w": 3, TS: 4}] * 2, schema)])
    assert [list(row.items()) for row in rows] == [
        [("k", 1), ("w", 3), ("v", 2), (TS, 4)],
        [("k", 1), ("w", 3), ("v", 4), (TS, 4)],
    ]


def test_a_null_key_names_column_and_record() -> None:
    row = {"k": None, "v": 1.0, "n": 2, "s": "b", TS: 0}
    with pytest.raises(InputError, match="the key column 'k' is null") as caught:
        run(operator(), cut([row], []))
    assert caught.value.record is not None
    assert "'s': 'b'" in caught.value.record


def test_changed_programs_meet_their_old_state() -> None:
    old = operator(aggregates={"rows": agg.count(), "a": agg.sum("v")})
    run(old, cut([{"k": 1, "v": 1.5, "n": 2, "s": "b", TS: 0}], []))
    table = old.snapshot(CheckpointId(1)).parts[0].write()
    row = {"k": 1, "v": 1.0, "n": 2, "s": "b", TS: 0}

    more = operator(aggregates={"a": agg.sum("v"), "a.b": agg.count()})
    more.open({STATE: [table]})
    assert run(more, cut([row], []))[0]["a"] == 2.5
    assert run(more, cut([row], []))[0]["a.b"] == 2

    with pytest.raises(CheckpointError, match="'a' was another aggregate"):
        operator(aggregates={"a": agg.mean("v")}).open({STATE: [table]})
    with pytest.raises(CheckpointError, match="not keyed by 's'"):
        operator(keys=("s",)).open({STATE: [table]})
