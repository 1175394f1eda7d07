"""Rows of a query and of a job are compared by the output mode of the query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from rheos.connectors.collect import CollectSink
from rheos.core.errors import ConfigurationError, Site
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.ids import OperatorId
from rheos.ops.forks.side import CollectedOutput
from rheos.ops.migration.query_tail import QueryTail
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.ops.migration.tail_comparison import TailComparison, compare_tails

FIRED = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def compared(
    mode: str,
    batches: list[list[dict[str, Any]]],
    job: list[dict[str, Any]],
    key: tuple[str, ...] = ("k",),
    asked: tuple[str, ...] = (),
) -> TailComparison:
    tables = [pa.Table.from_pylist(batch) for batch in batches]
    end = SparkCheckpoint("", 1, [], int(FIRED.timestamp() * 1000), 0, has_state=True)
    sink = PlannedOperator(
        OperatorId("out"), "out", Site("job.py", 1), SinkSpec(CollectSink()), (), {}, {}
    )
    output = CollectedOutput(sink, key, pa.Table.from_pylist(job))
    return compare_tails(output, QueryTail(tables, tables[0].schema, end), mode, asked)


def counts(found: TailComparison) -> tuple[int, int, int, int]:
    rows = found.difference
    return found.same, rows.only_old, rows.only_new, rows.changed


def test_updates_count_by_the_last_row_of_each_key() -> None:
    batches = [[{"k": 1, "n": 1}, {"k": 2, "n": 1}], [{"k": 1, "n": 3}]]
    job = [{"k": 1, "n": 2}, {"k": 2, "n": 1}, {"k": 1, "n": 3}]
    found = compared("update", batches, job)
    assert counts(found) == (2, 0, 0, 0)
    assert found.alike
    found = compared("update", batches, [*job, {"k": 1, "n": 4}, {"k": 5, "n": 1}])
    assert counts(found) == (1, 0, 1, 1)
    assert not found.alike


def test_a_changelog_counts_by_its_last_versions() -> None:
    job = [
        {"op": "insert", "k": 1, "n": 1},
        {"op": "update_before", "k": 1, "n": 1},
        {"op": "update_after", "k": 1, "n": 3},
        {"op": "insert", "k": 2, "n": 1},
        {"op": "delete", "k": 2, "n": 1},
    ]
    assert counts(compared("update", [[{"k": 1, "n": 3}]], job)) == (1, 0, 0, 0)


def test_a_complete_table_is_compared_where_the_job_has_changed_it() -> None:
    batches = [[{"k": 1, "n": 1}], [{"k": 1, "n": 2}, {"k": 2, "n": 5}]]
    found = compared("complete", batches, [{"k": 1, "n": 2}])
    assert counts(found) == (1, 0, 0, 0)
    assert found.left_out == {"rows of the query that the job has not changed": 1}
    assert counts(compared("complete", batches, [{"k": 1, "n": 3}])) == (0, 0, 0, 1)


def test_windows_that_only_one_side_has_to_emit_are_left_out() -> None:
    def row(key: int, minutes: int, n: int) -> dict[str, Any]:
        end = FIRED + minutes * MINUTE
        return {"k": key, "window_start": end - MINUTE, "window_end": end, "n": n}

    key = ("k", "window_start", "window_end")
    found = compared("update", [[row(1, 0, 2), row(1, 1, 1)]], [row(1, 0, 2), row(2, 0, 7)], key)
    assert counts(found) == (1, 0, 0, 0)
    assert found.left_out == {
        "windows that are still open in the query": 1,
        "windows that were complete without new rows": 1,
    }
    found = compared("append", [[row(1, 0, 2)]], [row(1, 0, 2), row(2, 0, 7)], key)
    assert counts(found) == (1, 0, 1, 0)


def test_values_are_compared_in_the_types_of_the_job() -> None:
    there = FIRED.astimezone(timezone(timedelta(hours=2)))
    found = compared("append", [[{"k": 1, "at": there}]], [{"k": 1, "at": FIRED}])
    assert counts(found) == (1, 0, 0, 0)
    assert not found.difference.cast


def test_sums_of_floats_may_differ_by_rounding() -> None:
    found = compared("update", [[{"k": 1, "x": 0.1 + 0.2}]], [{"k": 1, "x": 0.3}])
    assert counts(found) == (1, 0, 0, 0)
    assert found.rounded == 1
    assert counts(compared("update", [[{"k": 1, "x": 0.30001}]], [{"k": 1, "x": 0.3}])) == (0, 0, 0, 1)


def test_a_column_that_the_job_lacks_is_a_difference() -> None:
    found = compared("append", [[{"k": 1, "n": 1}]], [{"k": 1, "other": 2}])
    assert not found.alike
    assert found.difference.columns_gone == ("n",)


def test_a_key_must_be_in_both() -> None:
    with pytest.raises(ConfigurationError, match="by k, but the query has no column 'k'; it has n"):
        compared("update", [[{"n": 1}]], [{"k": 1, "n": 1}])
    with pytest.raises(ConfigurationError, match="the output mode update needs a key"):
        compared("update", [[{"n": 1}]], [{"n": 1}], key=())
    assert counts(compared("update", [[{"n": 1}]], [{"n": 1}], (), ("n",))) == (1, 0, 0, 0)
    # All rows of the mode append are compared, with or without a key.
    assert counts(compared("append", [[{"n": 1}]], [{"k": 1, "n": 1}])) == (1, 0, 0, 0)
