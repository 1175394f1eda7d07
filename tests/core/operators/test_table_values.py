"""Aggregates over values that are retracted: minimum, maximum and distinct values, compared with a
loop."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos.core.errors import InputError
from rheos.core.graph.changelog import OP, Changes
from rheos.core.operators import running_disk
from rheos.core.operators.changelog.table import TableOperator, TableSpec
from rheos.core.operators.running_retractions import least_over
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.state.rocksdb.files import FILES
from rheos.ops.savepoints.layouts import layout_of
from rheos.testing import OperatorExample, check_example
from tests.core.operators.contexts import context
from tests.core.operators.test_running_disk import Restored, files_of

AGGREGATES = {
    "n": rh.agg.count(),
    "least": rh.agg.min("v"),
    "most": rh.agg.max("v"),
    "values": rh.agg.count_distinct("v"),
    "total": rh.agg.sum_distinct("w"),
    "mean": rh.agg.mean_distinct("w"),
    "heavy": rh.agg.max("w"),
}


def schema_of(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("k", pa.string()), ("v", kind), ("w", pa.int64()), (OP, pa.string())])


SCHEMA = schema_of(pa.float64())


def opened(
    schema: pa.Schema = SCHEMA,
    folder: Path | None = None,
    attempt: int = 1,
    restored: Any = None,
    **more: Any,
) -> TableOperator:
    """Return an operator in memory, or on disk in a folder with hardly a key in memory."""
    of = {**dict.fromkeys(("least", "most"), schema.field("v").type), "mean": pa.float64()}
    fields = [(name, of.get(name, pa.int64())) for name in AGGREGATES]
    output = pa.schema([("k", pa.string()), *fields, (OP, pa.string())])
    ctx = context(schema, output, keys=("k",), **more)
    if folder is not None:
        ctx.state = StateConfig(Backend.ROCKSDB)
        ctx.scratch = str(folder / f"{attempt}-{ctx.subtask}")
        ctx.state_bytes = 0
    op = TableOperator(ctx, TableSpec(AGGREGATES, of_changes=True))
    op.open(restored(op) if restored else {})
    return op


def given_by(op: TableOperator, rows: list[dict[str, Any]], batch_rows: int) -> list[dict[str, Any]]:
    whole = pa.RecordBatch.from_pylist(rows, op.ctx.ports[0].schema)
    return [
        row
        for at in range(0, len(rows), batch_rows)
        for out in op.on_batch(0, whole.slice(at, batch_rows))
        for row in out.batch.to_pylist()
    ]


def drawn(count: int, values: list[Any], seed: int = 1) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    there: list[dict[str, Any]] = []
    rows = []
    for _ in range(count):
        if there and draw.random() < 0.45:
            rows.append(there.pop(int(draw.integers(len(there)))) | {OP: "delete"})
            continue
        v, w = (values[int(draw.integers(len(values)))], int(draw.integers(4)) or None)
        there.append({"k": "ab"[int(draw.integers(2))], "v": v, "w": w, OP: "insert"})
        rows.append(there[-1])
    return rows


def order(value: Any) -> Any:
    return (value != value, value)


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compute the result by a loop. NaN is the greatest value."""
    of: dict[str, tuple[Counter[Any], Counter[Any], list[int]]] = {}
    made = []
    for row in rows:
        vs, ws, n = of.setdefault(row["k"], (Counter(), Counter(), [0]))
        sign = 1 if row[OP] == "insert" else -1
        n[0] += sign
        for there, value in ((vs, row["v"]), (ws, row["w"])):
            if value is not None:
                there[value] += sign
        v, w = [each for each in vs if vs[each]], [each for each in ws if ws[each]]
        op = "delete" if not n[0] else "insert" if n[0] == sign == 1 else "update_after"
        made.append(
            {
                "k": row["k"],
                "n": n[0],
                "least": min(v, key=order, default=None),
                "most": max(v, key=order, default=None),
                "values": len(v),
                "total": sum(w) if w else None,
                "mean": sum(w) / len(w) if w else None,
                "heavy": max(w, default=None),
                OP: op,
            }
        )
    return made


NAN = float("nan")
KINDS = [
    (pa.float64(), [1.5, -2.25, 0.0, 1e300, float("-inf"), NAN, None]),
    (pa.int32(), [7, -(2**31), 2**31 - 1, 0, None]),
    (pa.uint64(), [2**64 - 1, 0, 2**63, None]),
    (pa.string(), ["", "ä", "a", "ab", "\U0001f600", "z", None]),
    (
        pa.decimal128(9, 2),
        [Decimal("-1.25"), Decimal("0.00"), Decimal("300.10"), Decimal("-7.00"), None],
    ),
    (pa.date32(), [date(1960, 2, 29), date(2026, 1, 1), date(1970, 1, 1), None]),
    (pa.bool_(), [True, False, None]),
]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize(("kind", "values"), KINDS, ids=str)
def test_each_result_agrees_with_a_loop(
    kind: pa.DataType, values: list[Any], on_disk: bool, tmp_path: Path
) -> None:
    rows = drawn(120, values)
    wanted = repr(expected(rows))
    for number, batch_rows in enumerate((120, 25, 1)):
        with patch.object(running_disk, "_FEWEST_KEYS", 2):
            op = opened(schema_of(kind), tmp_path if on_disk else None, attempt=number)
            assert repr(given_by(op, rows, batch_rows)) == wanted
            op.close()


def test_the_best_value_may_change_within_a_batch() -> None:
    rows = [
        {"k": "a", "v": v, "w": 1, OP: op}
        for v, op in [
            (5.0, "insert"), (9.0, "insert"), (5.0, "delete"), (5.0, "insert"), (7.0, "insert"),
            (5.0, "delete"), (9.0, "delete"), (7.0, "delete"), (8.0, "insert"),
        ]
    ]  # fmt: skip
    op = opened()
    given_by(op, rows[:2], 2)
    assert [row["least"] for row in given_by(op, rows[2:], 9)] == [9, 5, 5, 7, 7, None, 8]


def test_the_operator_resumes_from_files_at_another_parallelism(tmp_path: Path) -> None:
    rows = drawn(400, [1.0, 2.0, 3.0, 4.0, 5.0])
    wanted = expected(rows)[200:]
    with patch.object(running_disk, "_FEWEST_KEYS", 2):
        first = opened(folder=tmp_path)
        given_by(first, rows[:200], 30)
        files = files_of(first)  # type: ignore[arg-type]
        parts = first.savepoint(first.snapshot(CheckpointId(2)))
        assert [part.state for part in parts] == ["running", "values of v", "values of w"]
        tables = {part.state: [*part.write()] for part in parts}
        first.close()

        def sets(op: Any) -> Any:
            return {FILES: Restored([files], op)}

        for place, restored in enumerate((sets, lambda op: tables)):
            for folder in (None, tmp_path):
                came = []
                for subtask in range(2):
                    op = opened(
                        folder=folder, attempt=2 + place, subtask=subtask, parallelism=2,
                        restored=restored if folder or place else None,
                    )  # fmt: skip
                    if folder is None and not place:
                        op.ctx.scratch = str(tmp_path / "memory")
                        op.open(sets(op))
                    mine = [row for row in rows[200:] if group_owner(row["k"]) == subtask]
                    came += given_by(op, mine, 40)
                    op.close()
                assert sorted(map(repr, came)) == sorted(map(repr, wanted))


def group_owner(key: str) -> int:
    from rheos.core.state.key_groups import groups_of_columns, subtask_of

    return int(subtask_of(groups_of_columns([pa.array([key])], 128), 2, 128)[0])


def test_values_are_read_from_a_savepoint() -> None:
    op = opened()
    given_by(op, [{"k": "a", "v": v, "w": None, OP: "insert"} for v in (1.0, 1.0, 2.5)], 3)
    shapes = TableSpec(AGGREGATES, of_changes=True).states(op.ctx.ports)
    found = {
        part.state: layout_of(part.state, shapes, trusted=True).rows(part.write()).to_pylist()
        for part in op.savepoint(op.snapshot(CheckpointId(1)))
    }
    counted = [{"k": "a", "value": 1.0, "__rows": 2}, {"k": "a", "value": 2.5, "__rows": 1}]
    assert found["values of v"] == counted
    assert found["running"][0]["__min.v"] == 1.0
    assert found["running"][0]["__n.__distinct.v"] == 2


def test_the_operator_is_restored_and_rescaled() -> None:
    def table(rows: rh.DataStream) -> rh.DataStream:
        changes = rows.transformation.with_changes(Changes(("k",), retracts=True)).stream
        return changes.key_by("k").table(low=rh.agg.min("v"), n=rh.agg.count_distinct("w"))

    def of_rows(rows: rh.DataStream) -> rh.DataStream:
        return rows.key_by("k").table(n=rh.agg.count_distinct("w"), low=rh.agg.min("v"))

    rows = drawn(12, [1.0, 2.0, 3.0], seed=3)
    check_example(OperatorExample(table, SCHEMA, rows))
    plain = [{name: value for name, value in row.items() if name != OP} for row in rows]
    check_example(OperatorExample(of_rows, SCHEMA.remove(3), plain))


def test_a_missing_value_cannot_be_retracted() -> None:
    op = opened()
    rows = [{"k": "a", "v": 1.0, "w": 1, OP: "insert"}, {"k": "a", "v": 2.0, "w": 1, OP: "delete"}]
    with pytest.raises(InputError, match="a change retracts a row that does not exist") as raised:
        given_by(op, rows, 2)
    assert "2.0" in str(raised.value)


SPANS = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 20), st.integers(0, 9)), max_size=12)


@given(SPANS)
def test_the_least_number_of_the_spans_at_each_position(spans: list[tuple[int, int, int]]) -> None:
    wanted = [min((n for b, e, n in spans if b <= at < e), default=99) for at in range(20)]
    begins, ends, numbers = np.array(spans, np.int64).reshape(-1, 3).T
    assert least_over(begins, ends, numbers, 20, 99).tolist() == wanted
