"""filter, select and with_columns on batches: rows, types, hidden columns, errors."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import UserFunctionError
from rheos.core.graph.types import empty_frame, from_polars
from rheos.core.operators.expressions import ExpressionOperator, ExpressionSpec
from rheos.core.protocol.elements import TS, WM, visible
from tests.core.operators.contexts import context

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("tags", pa.list_(pa.string())),
        (TS, pa.int64()),
        (WM, pa.int64()),
    ]
)
HIDDEN = [SCHEMA.field(TS), SCHEMA.field(WM)]
ROWS = [
    {"n": 1, "s": "10", "tags": ["a"], TS: 100, WM: 50},
    {"n": 2, "s": "x", "tags": [], TS: 200, WM: 60},
    {"n": None, "s": None, "tags": None, TS: 300, WM: 70},
    {"n": 4, "s": "40", "tags": ["b", "c"], TS: 400, WM: 80},
]

Op = Literal["filter", "select", "with_columns"]


def operator(op: Op, *exprs: pl.Expr, schema: pa.Schema = SCHEMA) -> ExpressionOperator:
    frame = empty_frame(visible(schema)).lazy()
    if op == "filter":
        output = schema
    elif op == "select":
        output = pa.schema([*from_polars(frame.select(exprs).collect_schema()), *HIDDEN])
    else:
        output = pa.schema([*from_polars(frame.with_columns(exprs).collect_schema()), *HIDDEN])
    return ExpressionOperator(context(schema, output), ExpressionSpec(op, exprs))


def run(op: ExpressionOperator, rows: list[dict[str, Any]] = ROWS) -> list[dict[str, Any]]:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    outs = list(op.on_batch(0, batch))
    for out in outs:
        out.batch.validate(full=True)
        assert out.batch.schema == op.ctx.outputs[""].schema
    return [row for out in outs for row in out.batch.to_pylist()]


def test_filter_keeps_whole_rows_and_drops_nulls() -> None:
    assert run(operator("filter", pl.col("n") > 1)) == [ROWS[1], ROWS[3]]
    assert run(operator("filter", pl.col("n") > 1, pl.col("s") != "x")) == [ROWS[3]]


def test_a_filter_may_be_a_constant() -> None:
    assert run(operator("filter", pl.lit(True))) == ROWS
    assert run(operator("filter", pl.lit(False))) == []


def test_a_filter_that_keeps_nothing_emits_nothing() -> None:
    op = operator("filter", pl.col("n") > 100)
    assert list(op.on_batch(0, pa.RecordBatch.from_pylist(ROWS, SCHEMA))) == []


def test_a_filter_that_keeps_all_passes_the_batch_itself() -> None:
    batch = pa.RecordBatch.from_pylist(ROWS[:2], SCHEMA)
    [out] = operator("filter", pl.col("n") > 0).on_batch(0, batch)
    assert out.batch is batch


def test_a_filter_drops_columns_that_are_not_read_downstream() -> None:
    output = SCHEMA.remove(SCHEMA.get_field_index(WM))
    for condition, kept in ((pl.col("n") > 1, [1, 3]), (pl.lit(True), [0, 1, 2, 3])):
        op = ExpressionOperator(context(SCHEMA, output), ExpressionSpec("filter", (condition,)))
        wanted = [{name: ROWS[i][name] for name in output.names} for i in kept]
        assert run(op) == wanted


def test_select_keeps_the_hidden_columns() -> None:
    rows = run(
        operator("select", pl.col("s"), (pl.col("n") * 2).alias("twice"), pl.lit("x").alias("c"))
    )
    assert rows[3] == {"s": "40", "twice": 8, "c": "x", TS: 400, WM: 80}
    assert [row["twice"] for row in rows] == [2, 4, None, 8]


def test_select_accepts_patterns() -> None:
    rows = run(operator("select", pl.all().exclude("tags")))
    assert rows[0] == {"n": 1, "s": "10", TS: 100, WM: 50}


def test_with_columns_replaces_and_adds() -> None:
    rows = run(
        operator("with_columns", pl.col("s").str.len_bytes().alias("n"), pl.lit(1.5).alias("half"))
    )
    assert rows[1] == {"n": 1, "s": "x", "tags": [], "half": 1.5, TS: 200, WM: 60}
    rows = run(operator("with_columns", pl.lit(7).alias("seven")))
    assert [row["seven"] for row in rows] == [7] * 4
    assert [row["tags"] for row in rows] == [row["tags"] for row in ROWS]


def test_computed_texts_and_lists_have_the_declared_type() -> None:
    rows = run(
        operator(
            "select",
            pl.col("s").str.to_uppercase().alias("S"),
            pl.col("tags").list.reverse().alias("t"),
        )
    )
    assert [row["S"] for row in rows] == ["10", "X", None, "40"]
    assert rows[3]["t"] == ["c", "b"]


@pytest.mark.parametrize("bad", [0, 1, 5, 6])
@pytest.mark.parametrize("op", ["select", "with_columns", "filter"])
def test_an_error_names_the_first_record_and_the_expression(op: Op, bad: int) -> None:
    rows: list[dict[str, Any]] = [
        {"n": i, "s": "x" if i >= bad else str(i), "tags": [], TS: i, WM: 0} for i in range(7)
    ]
    failing = pl.col("s").cast(pl.Int64)
    exprs = [failing > 0] if op == "filter" else [pl.col("n").alias("m"), failing.alias("i")]
    with pytest.raises(UserFunctionError) as caught:
        run(operator(op, *exprs), rows)
    error = caught.value
    assert error.what.startswith(f"{op}() failed at")
    assert 'col("s")' in error.what
    assert str(error).startswith("program.py:7: operator 'the operator'")
    assert error.record == repr({"n": bad, "s": "x", "tags": []})


@given(
    st.lists(st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text(max_size=20)), max_size=30),
    st.data(),
)
def test_cutting_batches_changes_nothing(pairs: list[tuple[Any, Any]], data: st.DataObject) -> None:
    rows = [{"n": n, "s": s, "tags": None, TS: i, WM: 0} for i, (n, s) in enumerate(pairs)]
    cut = data.draw(st.integers(0, len(rows)))
    for op in (
        operator("filter", pl.col("s").str.contains("a|b") | (pl.col("n") > 0)),
        operator("with_columns", (pl.col("s") + "!").alias("s"), (pl.col("n") / 3).alias("h")),
    ):
        assert run(op, rows[:cut]) + run(op, rows[cut:]) == run(op, rows)


POINT = pa.struct([("x", pa.int64()), ("name", pa.string()), ("at", pa.struct([("y", pa.int32())]))])
POINTS = [
    {"x": 1, "name": "a", "at": {"y": 1}},
    None,
    {"x": None, "name": "é", "at": None},
    {"x": 4, "name": None, "at": {"y": None}},
]


def test_fields_of_structs_are_the_same_arrays() -> None:
    schema = pa.schema([("point", POINT), *HIDDEN])
    rows = [{"point": point, TS: 1, WM: 0} for point in POINTS]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    point = pl.col("point")
    field = point.struct.field
    exprs = [field("x"), field("name").alias("n"), field("at").struct.field("y"), field("at"), point]
    selecting = operator("select", *exprs, schema=schema)
    for part in (batch, batch.slice(1, 2), batch.slice(3)):
        [out] = selecting.on_batch(0, part)
        out.batch.validate(full=True)
        frame = pl.DataFrame(part.select(["point"]))
        found = pl.DataFrame(out.batch.select(["x", "n", "y", "at", "point"]))
        assert found.equals(frame.select(exprs))
    names, before = batch.column("point").field("name"), pa.RecordBatch.column
    whole = batch.slice(0, 1)
    [out] = selecting.on_batch(0, whole)
    assert before(out.batch, "n").buffers()[2].address == names.buffers()[2].address
