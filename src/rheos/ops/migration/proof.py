"""The proof of a move: the query and the job continue over the same input, and their rows are compared.

copy of the checkpoint ─ query, until now ─ its rows ─────────────────────┐
                             └ its last positions                         ├─ compared
savepoint ─ job, up to these positions ─ rows of its sink ────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan
from rheos.ops.forks.reservations import Reservation
from rheos.ops.migration.job_tail import run_job_tail
from rheos.ops.migration.query_import import QueryImport
from rheos.ops.migration.query_tail import run_tail
from rheos.ops.migration.spark_program import SparkQuery
from rheos.ops.migration.tail_comparison import TailComparison, compare_tails
from rheos.runtimes.host.scratch import OwnedFolder


@dataclass(frozen=True)
class Proof:
    """The rows that the query and the job emit over the same input after the checkpoint."""

    mode: str
    """Output mode of the query."""
    rows_read: Mapping[str, int]
    """Number of rows that the job has read, by the name of the source."""
    compared: TailComparison
    reservations: Sequence[Reservation]
    """Reasons for a difference that are not in the move."""
    query: pa.Table = field(repr=False)
    """All rows that the query has emitted after the checkpoint."""
    job: pa.Table = field(repr=False)
    """All rows that the sink of the job would have received."""

    @property
    def holds(self) -> bool:
        """Whether rows were compared, and none differs."""
        return self.compared.alike and self.compared.same > 0

    def explained(self) -> Iterator[str]:
        """Yield the counts, and the first difference with its key, as lines."""
        rows, compared = self.compared.difference, self.compared
        read = ", ".join(f"{count:,} rows of {source!r}" for source, count in self.rows_read.items())
        by = f" by {', '.join(rows.key)}" if rows.key else ""
        yield f"compared{by} in mode {self.mode}, over {read} after the checkpoint"
        yield f"  same {compared.same:,}, only in the query {rows.only_old:,}, only in the job " + (
            f"{rows.only_new:,}, changed {rows.changed:,}"
        )
        if compared.rounded:
            yield f"  {compared.rounded:,} of the same differ in the last digits of floats"
        for reason, count in compared.left_out.items():
            yield f"  left out: {count:,} {reason}"
        for side, names in (("query", rows.columns_gone), ("job", rows.columns_added)):
            if names:
                yield f"  only the {side} has the columns {', '.join(names)}"
        if rows.cast:
            yield f"  compared as strings, because their types differ: {', '.join(rows.cast)}"
        if self.holds:
            yield "the job continues the query: it emits the same rows"
            return
        if compared.alike:
            yield "nothing is proved: neither emits a row that can be compared"
            return
        for row in rows.rows.head(1).to_dicts():
            yield from _explained_difference(row, rows.key)
        for reservation in self.reservations:
            yield f"  a difference may have another reason: {reservation}"


def _explained_difference(row: Mapping[str, Any], key: Sequence[str]) -> Iterator[str]:
    shown = row["old"] or row["new"]
    of = ", ".join(f"{name}={shown[name]}" for name in key)
    place = f"  first difference{f', {of}' if of else ''}"
    match row["difference"]:
        case "changed":
            yield place
            for name in row["fields"]:
                yield f"    {name}: {row['old'][name]} in the query, {row['new'][name]} in the job"
        case "only old":
            yield f"{place}: only the query emits {shown}"
        case _:
            yield f"{place}: only the job emits {shown}"


def prove(
    found: QueryImport,
    plan: PhysicalPlan,
    query: SparkQuery,
    *,
    rows: int | None = None,
    key: Sequence[str] = (),
) -> Proof:
    """Compare the query and the job over the input after the checkpoint.

    Args:
        found: The parts of the checkpoint, all of which can be moved.
        plan: The plan of the job.
        query: The query. It runs on a copy of the checkpoint, in this process.
        rows: Number of rows after which the query stops at the end of a batch; None: all rows that are
            available now.
        key: Columns by which rows are compared; by default, the key of the job's sink.

    Returns:
        The comparison.

    Raises:
        ConfigurationError: A part cannot be moved, no input follows the checkpoint, the job has several
            sinks, or there is no key.
        ProgramError: The query fails.
        RheosError: An error of the job.
    """
    folder = OwnedFolder("rheos-proof-")
    try:
        copy, savepoint = Path(folder.path, "checkpoint"), Path(folder.path, "savepoint")
        found.write(str(savepoint))
        of_query = run_tail(query, found.checkpoint.folder, copy, rows)
        of_job = run_job_tail(plan, str(savepoint), of_query.end)
    finally:
        folder.close()
    if not any(of_job.rows_read.values()):
        raise ConfigurationError(
            "no row follows the checkpoint, so the query and the job cannot be compared",
            hint="let some input arrive after the query has stopped, and run this again",
        )
    if len(of_job.outputs) != 1:
        names = ", ".join(sorted(output.of.name for output in of_job.outputs.values()))
        raise ConfigurationError(
            f"a query has one output, but the job has {len(of_job.outputs)} sinks: {names}",
            hint="compare with a program that has only the sink of the query",
        )
    (output,) = of_job.outputs.values()
    compared = compare_tails(output, of_query, query.mode, tuple(key))
    return Proof(
        query.mode, of_job.rows_read, compared, of_job.reservations, of_query.emitted, output.rows
    )
