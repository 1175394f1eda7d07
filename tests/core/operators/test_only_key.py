"""A table with one row for all rows: it has the row without any input, too, exactly once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.api.changelogs import added_table
from rheos.core.graph.changelog import OP, Changes
from rheos.core.operators.changelog.table import TableOperator, TableSpec
from rheos.testing import OperatorExample, check_example
from tests.core.operators.contexts import context

SCHEMA = pa.schema([("k", pa.int64()), ("id", pa.int64()), ("x", pa.float64()), (OP, pa.string())])
AGGREGATES = {"n": rh.agg.count(), "total": rh.agg.sum("x"), "most": rh.agg.max("x")}


def _row(id: int, x: float, op: str) -> dict[str, Any]:
    return {"k": 0, "id": id, "x": x, OP: op}


def _made(n: int, total: float | None, most: float | None, op: str) -> dict[str, Any]:
    return {"k": 0, "n": n, "total": total, "most": most, OP: op}


def _table(rows: rh.DataStream) -> rh.DataStream:
    changes = rows.transformation.with_changes(Changes(("k", "id"), retracts=True)).stream
    return added_table(changes.key_by("k").transformation, AGGREGATES, (0,)).stream


@pytest.mark.parametrize(
    ("rows", "made"),
    [
        ([], [_made(0, None, None, "insert")]),
        ([_row(1, 2.5, "insert")], [_made(1, 2.5, 2.5, "insert")]),
        (
            [_row(1, 2.5, "insert"), _row(1, 2.5, "delete"), _row(2, 1.0, "insert")],
            [
                _made(1, 2.5, 2.5, "insert"),
                _made(0, None, None, "update_after"),
                _made(1, 1.0, 1.0, "update_after"),
            ],
        ),
    ],
)
def test_the_row_survives_snapshots_and_rescaling(
    rows: list[dict[str, Any]], made: list[dict[str, Any]]
) -> None:
    check_example(OperatorExample(_table, SCHEMA, rows), {"out": made})


def test_one_subtask_emits_the_row_of_no_input() -> None:
    output = pa.schema([("k", pa.int64()), ("n", pa.int64()), (OP, pa.string())])
    spec = TableSpec({"n": rh.agg.count()}, of_changes=False, only_key=(0,))
    found = []
    for subtask in range(4):
        op = TableOperator(context(SCHEMA, output, keys=("k",), subtask=subtask, parallelism=4), spec)
        op.open({})
        found += [row for out in op.on_end() for row in out.batch.to_pylist()]
    assert found == [{"k": 0, "n": 0, OP: "insert"}]


def test_the_batch_runtime_emits_the_row_once() -> None:
    output = pa.schema([("k", pa.int64()), ("n", pa.int64()), (OP, pa.string())])
    op = TableOperator(
        context(SCHEMA, output, keys=("k",)),
        TableSpec({"n": rh.agg.count()}, of_changes=False, only_key=(0,)),
    )
    op.open({})
    batch = pa.RecordBatch.from_pylist([_row(1, 2.5, "insert")], SCHEMA)
    assert [out.batch.num_rows for out in op.on_batch(0, batch)] == [1]
    op.next_keys()
    assert [*op.on_end()] == []
