"""The rows of a query compared with those of a job, by the output mode of the query.

    append      all rows, as multisets; rows with equal keys in pairs
    update      the last row of each key
    complete    the last row of each key that the job emits: the query also emits the unchanged ones

A job emits a window when it is complete. So of mode update, windows that are still open in the query
are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import ConfigurationError
from rheos.core.graph.changelog import DELETE, OP, UPDATE_BEFORE
from rheos.ops.forks.difference import OutputDifference, difference
from rheos.ops.forks.side import CollectedOutput
from rheos.ops.migration.query_tail import WINDOW, QueryTail

RELATIVE = 1e-9
"""Relative difference up to which floats are equal: their sums depend on the order of rows."""


@dataclass(frozen=True)
class TailComparison:
    """The difference of the rows. In `difference`, the old rows are the query's, and the new ones the
    job's."""

    difference: OutputDifference
    rounded: int
    """Number of pairs of rows whose floats differ only by rounding. They count as same."""
    left_out: Mapping[str, int]
    """Number of rows that were not compared, by the reason."""

    @property
    def alike(self) -> bool:
        """Whether no row differs, and the job has all columns of the query."""
        return not self.difference.rows.height and not self.difference.columns_gone

    @property
    def same(self) -> int:
        """Number of rows that both emit."""
        return self.difference.same + self.rounded


def compare_tails(
    output: CollectedOutput, of_query: QueryTail, mode: str, key: tuple[str, ...]
) -> TailComparison:
    """Compare the rows of the job's sink with those of the query.

    Args:
        output: The rows of the job.
        of_query: The rows of the query.
        mode: The output mode of the query: "append", "update" or "complete".
        key: Columns by which rows are compared; empty for the key of the sink.

    Returns:
        The difference.

    Raises:
        ConfigurationError: A column of the key does not exist in both outputs, or the mode needs a key
            and there is no default.
    """
    latest = mode == "complete" and of_query.batches
    old = _cast(of_query.batches[-1] if latest else of_query.emitted, output.rows.schema)
    new = output.rows
    if not key and (mode != "append" or set(output.key) <= set(old.column_names)):
        key = output.key
    for side, table in (("query", old), ("job", new)):
        missing = [name for name in key if name not in table.column_names]
        if missing:
            raise ConfigurationError(
                f"rows are compared by {', '.join(key)}, but the {side} has no column {missing[0]!r}; "
                f"it has {', '.join(table.column_names)}",
                hint="use equal column names in both programs, or name other columns with --key",
            )
    left_out: dict[str, int] = {}
    if mode != "append":
        if not key:
            raise ConfigurationError(
                f"the output mode {mode} needs a key, but rows of sink {output.of.name!r} have no key",
                hint="name the columns that identify a row with --key",
            )
        old, new = _last(old, key), _last(_upserts(new, old), key)
        if mode == "update":
            old = _without_open(old, of_query.end.fired_ms, left_out)
        old, new = _touched(old, new, key, mode, left_out)
    found = difference(output.of.name, key, old, new)
    kept = found.rows.filter([not _is_rounding(row) for row in found.rows.iter_rows(named=True)])
    return TailComparison(
        replace(found, rows=kept),
        found.rows.height - kept.height,
        {k: n for k, n in left_out.items() if n},
    )


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the query's rows with the types of the job's columns, where they can be converted."""
    for at, name in enumerate(table.column_names):
        if name in schema.names:
            try:
                column = table.column(name).cast(schema.field(name).type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue  # The values are compared as strings.
            table = table.set_column(at, name, column)
    return table


def _upserts(new: pa.Table, old: pa.Table) -> pa.Table:
    """Return a changelog without the rows that retract earlier versions."""
    if OP not in new.column_names or OP in old.column_names:
        return new
    return new.filter(pc.not_equal(new.column(OP), UPDATE_BEFORE))


def _last(table: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return the last row of each key that is not deleted, in the order of these rows."""
    frame = pl.DataFrame(pl.from_arrow(table.select(list(key)))).with_row_index("__turn")
    turns = frame.group_by(list(key), maintain_order=True).agg(pl.col("__turn").last())
    rows = table.take(turns.get_column("__turn").sort().to_arrow())
    if OP not in rows.column_names:
        return rows
    return rows.filter(pc.not_equal(rows.column(OP), DELETE)).drop_columns([OP])


def _without_open(table: pa.Table, fired_ms: int, left_out: dict[str, int]) -> pa.Table:
    if WINDOW[1] not in table.column_names:
        return table
    ends = table.column(WINDOW[1]).cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    closed = table.filter(pc.less_equal(ends, fired_ms))
    left_out["windows that are still open in the query"] = table.num_rows - closed.num_rows
    return closed


def _touched(
    old: pa.Table, new: pa.Table, key: tuple[str, ...], mode: str, left_out: dict[str, int]
) -> tuple[pa.Table, pa.Table]:
    """Leave out keys that one of the two does not emit, because they have not changed."""
    if mode == "complete":
        kept = _with_keys_of(old, new, key)
        left_out["rows of the query that the job has not changed"] = old.num_rows - kept.num_rows
        return kept, new
    if WINDOW[1] in key:
        kept = _with_keys_of(new, old, key)
        left_out["windows that were complete without new rows"] = new.num_rows - kept.num_rows
        return old, kept
    return old, new


def _with_keys_of(table: pa.Table, other: pa.Table, key: tuple[str, ...]) -> pa.Table:
    keys = [pl.DataFrame(pl.from_arrow(each.select(list(key)))) for each in (table, other)]
    found = keys[0].with_row_index("__turn").join(keys[1], on=list(key), how="semi", nulls_equal=True)
    return table.take(found.get_column("__turn").sort().to_arrow())


def _is_rounding(row: Mapping[str, Any]) -> bool:
    """Return whether a changed row differs only by the rounding of floats."""
    if row["difference"] != "changed":
        return False
    pairs = [(row["old"][name], row["new"][name]) for name in row["fields"]]
    return all(
        isinstance(one, float)
        and isinstance(other, float)
        and math.isclose(one, other, rel_tol=RELATIVE)
        for one, other in pairs
    )
