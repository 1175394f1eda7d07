"""Rows leave in order, in bounded memory, and without a file left on the disk."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from rheos.connectors.table_log import sorted_rows
from rheos.connectors.table_log.sorted_rows import SortedRows

SCHEMA = pa.schema(
    {"s": pa.string(), "n": pa.int64(), "d": pa.date32(), "m": pa.map_(pa.string(), pa.int64())}
)


def drawn(random: Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "s": random.choice(["", "a", "é", None]),
            "n": random.choice([None, *range(5)]),
            "d": date(2026, 3, random.randint(1, 9)),
            "m": [("row", row)],
        }
        for row in range(count)
    ]


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    s, n = row["s"], row["n"]
    return (s is not None, s or "", n is not None, n or 0)


@pytest.mark.parametrize("run_bytes", [1, 2_000, 1 << 20])
def test_rows_leave_in_order(run_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", run_bytes)
    monkeypatch.setattr(sorted_rows, "_TOGETHER_BYTES", 300)
    random = Random(run_bytes)
    sorted_ = SortedRows(["s", "n", "s"])
    for count in (0, 1, 400):
        rows = drawn(random, count)
        for at in range(0, count, 17):
            sorted_.add(pa.RecordBatch.from_pylist(rows[at : at + 17], SCHEMA))
        batches = list(sorted_.drain())
        assert all(batch.schema == SCHEMA for batch in batches)
        assert [row for batch in batches for row in batch.to_pylist()] == sorted(rows, key=key)
    assert list(sorted_.drain()) == []


def test_it_is_full_after_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", 1)
    monkeypatch.setattr(sorted_rows, "MOST_RUNS", 3)
    rows = SortedRows(["n"])
    for n in (3, 1, 2):
        assert not rows.is_full
        rows.add(pa.RecordBatch.from_pydict({"n": [n]}))
    assert rows.is_full
    files = list(rows._runs)
    assert [n for batch in rows.drain() for n in batch["n"].to_pylist()] == [1, 2, 3]
    assert not rows._runs
    assert all(file.closed for file in files)
