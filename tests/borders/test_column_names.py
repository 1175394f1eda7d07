"""Names of columns and fields that libraries may interpret: refused, or kept exactly."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rheos as rh
from rheos.core.errors import SchemaError

AT = datetime(2026, 1, 1, tzinfo=UTC)
_MEANINGFUL = st.text(st.sampled_from('*^$.[]{}"`\\/ %\0\n;=?:ab,ü💥'), max_size=6)


def collected(table: pa.Table, program: Any) -> list[dict[str, Any]]:
    env = rh.Environment(parallelism=1, runtime="simulated")
    program(env.from_source(rh.collection(table))).collect("rows")
    rows: list[dict[str, Any]] = env.execute("names").collected["rows"].to_pylist()
    return rows


def usable(table: pa.Table) -> bool:
    try:
        rh.Environment().from_source(rh.collection(table))
    except SchemaError:
        return False
    return True


@settings(max_examples=25, deadline=None)
@given(_MEANINGFUL)
@example("")
@example("*")
@example("^a.*$")
@example("a\0b")
@example("a*b")
def test_a_column_with_any_name_is_found(name: str) -> None:
    table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([10, 20])], names=["ab ", name])
    if not usable(table):
        assert name in ("", "*", "ab ") or "\0" in name or name[:: len(name) - 1 or 1] == "^$"
        return
    column = rh.col(name)
    assert collected(table, lambda rows: rows.filter(column > 10).select(name)) == [{name: 20}]
    totals = collected(table, lambda rows: rows.key_by(name).running(total=rh.agg.sum("ab ")))
    assert {row[name]: row["total"] for row in totals} == {10: 1, 20: 2}


@pytest.mark.parametrize("name", ["", "a*", "a.b", 'a"b', "^a", "a\nb", "{}"])
def test_json_keeps_names_of_columns_and_fields(name: str, tmp_path: Path) -> None:
    within = pa.struct([("z", pa.int64()), (name, pa.timestamp("us", "UTC"))])
    row = {"s": {"z": 1, name: AT}, (name or "n"): 2}
    table = pa.Table.from_pylist([row], pa.schema([("s", within), (name or "n", pa.int64())]))
    env = rh.Environment(parallelism=1, runtime="simulated")
    env.from_source(rh.collection(table)).sink_to(
        rh.files.sink(str(tmp_path), format=rh.formats.json())
    )
    env.execute("names")
    [line] = [line for file in tmp_path.rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert json.loads(line) == {"s": {"z": 1, name: "2026-01-01T00:00:00.000000Z"}, (name or "n"): 2}


@pytest.mark.parametrize("name", ["*", "^a.*$", "a\0b"])
def test_a_field_that_expressions_cannot_find_is_refused(name: str) -> None:
    table = pa.Table.from_pylist([{"s": [{name: 1}]}])
    with pytest.raises(SchemaError, match="a column or field cannot have the name"):
        rh.Environment().from_source(rh.collection(table))
