"""Lists of values as running aggregates: kept, stored and retracted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.aggregates.segments import Segments
from rheos.core.operators.running_lists import CollectedList, signed_type, signed_values

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int64(), [3, 1, None, 3]),
    "floats": (pa.float64(), [float("nan"), -0.0, 1.5, float("nan")]),
    "strings": (pa.string(), ["a", None, "", "a"]),
    "times": (pa.timestamp("us", "UTC"), [1, 2, None, 1]),
    "structs": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}] * 4),
}


def cell_of(kind: pa.DataType) -> Any:
    form = CollectedList("in").running(pa.schema([("in", signed_type(kind))]))
    cell = form.cell()
    cell.grow(2)
    return cell


def run(cell: Any, kind: pa.DataType, values: list[Any], signs: list[int]) -> list[Any]:
    slots = np.zeros(len(values), np.int32)
    column = signed_values(pa.array(values, kind), np.array(signs))
    found: list[Any] = cell.run(Segments(slots, 2), column).to_pylist()
    return found


@pytest.mark.parametrize("name", KINDS)
def test_values_are_kept_stored_and_retracted(name: str) -> None:
    kind, values = KINDS[name]
    expected = pa.array([value for value in values if value is not None], kind).to_pylist()
    cell = cell_of(kind)
    first = run(cell, kind, values, [1] * len(values))
    assert first[:-1] == [None] * (len(values) - 1), "only the last row of a key has its list"
    assert repr(first[-1]) == repr(expected)
    stored = {part: frozen() for part, frozen in cell.freeze(slice(0, 2)).items()}
    assert repr(CollectedList.running_value(stored, pa.list_(kind)).to_pylist()) == repr([expected, []])
    other = cell_of(kind)
    other.thaw(np.arange(2), stored)
    left = run(other, kind, values[:1], [-1])[-1]
    assert repr(left) == repr(expected[1:])
    assert run(other, kind, values[1:], [-1] * (len(values) - 1))[-1] == []


@pytest.mark.parametrize("state", ["memory", "rocksdb"])
def test_a_table_of_lists_is_the_same_with_every_backend(state: Any) -> None:
    env = rh.Environment(parallelism=2, runtime="simulated", state=state)
    rows = [{"k": n % 3, "v": n % 7, "w": str(n)} for n in range(60)]
    env.register("t", env.from_source(rh.collection(rows), name="t"))
    env.sql(
        "SELECT k, STRING_AGG(w, ',' ORDER BY v DESC, CAST(w AS INT)) AS s, MAX_BY(w, v) AS m FROM t "
        "GROUP BY k"
    ).collect("out")
    last = {row["k"]: row["s"] for row in env.execute("lists").collected["out"].to_pylist()}
    for key, found in last.items():
        mine = [row for row in rows if row["k"] == key]
        ordered = sorted(mine, key=lambda row: (-row["v"], int(row["w"])))
        assert found == ",".join(row["w"] for row in ordered)
    assert len(last) == 3
