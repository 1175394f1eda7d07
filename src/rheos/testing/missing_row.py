"""The incident of a row that a sink should receive, and does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rheos.core.errors import ConfigurationError
from rheos.core.graph.nodes import MAIN
from rheos.core.protocol.shown_rows import rows_values
from rheos.ops.debugging.deliveries import Rows
from rheos.ops.debugging.incident import MissingRow, incident_of
from rheos.ops.debugging.sink_path import SinkPath
from rheos.ops.forks.job_program import working_as
from rheos.ops.lineage.why_query import SinkReplay, WhyQuestion, sink_replay
from rheos.testing.recorded_incident import RecordedIncident, source_deliveries
from rheos.testing.related_rows import MAX_ROWS, ExpectedRow, needed_rows, related_rows


def incident_of_missing_row(question: WhyQuestion) -> RecordedIncident:
    """Return the incident of a row that does not arrive at a sink.

    It has no state: the input is read from its beginning, or from a savepoint on. The rows that a test
    of it must keep are marked (`Rows.stays`).

    Args:
        question: Its row has all columns of the sink.

    Raises:
        ConfigurationError: The row is incomplete, or arrives; no row of the input or more than 1000
            may lead to it; or an operator on the path, other than a lookup, needs an outside system.
            The errors of `why` are raised, too.
    """
    replay = sink_replay(question)
    with working_as(replay.started):
        path = SinkPath(replay.plan, replay.sink, replay.run.clock_ms)
        row = _whole_row(replay, path)
        expected = ExpectedRow.of(replay.row, path, replay.run, replay.answers)
        numbers = related_rows(expected)
        shown = json.dumps(dict(question.row))
        if not numbers:
            raise ConfigurationError(
                f"0 rows of the input may lead to {shown}",
                site=replay.sink.site,
                hint="check the spelling; if the input was deleted, no test can be written",
            )
        needed = needed_rows(expected, numbers)
        if len(needed.rows) > MAX_ROWS:
            raise ConfigurationError(
                f"{len(needed.rows):,} rows of the input may lead to {shown}",
                site=replay.sink.site,
                hint=f"a test has up to {MAX_ROWS:,}: read less, with --from-savepoint and --for",
            )
        end = len(replay.run.ledger.rows)
        symptom = MissingRow(row, needed.identity)
        everything = incident_of(path, source_deliveries(replay.run, path, end, needed=needed), symptom)
        related = source_deliveries(replay.run, path, end, numbers, needed=needed)
        found = incident_of(path, related, symptom)
        in_place = symptom.emitted_in_place(everything.run())
        if symptom.emitted_in_place(found.run()) != in_place:
            # Other rows matter, too: those of other keys in one function, for example.
            found = everything
        found = replace(found, symptom=replace(symptom, in_place=in_place))
        if not found.shows():
            raise ConfigurationError(
                f"the sink receives {shown}, so the row is not missing",
                site=replay.sink.site,
                hint="to explain it, run `rheos why` with --row and without --as-test",
            )
    rows = sum(isinstance(each, Rows) for each in everything.deliveries)
    return RecordedIncident(replay.started, found, rows)


def _whole_row(replay: SinkReplay, path: SinkPath) -> Mapping[str, Any]:
    """Return the missing row with the values that a test compares."""
    columns = path.outputs[MAIN]
    if absent := [name for name in columns.names if name not in replay.row]:
        raise ConfigurationError(
            f"the missing row has no value for {', '.join(absent)}",
            site=replay.sink.site,
            hint="without --row, --expect names all columns of the missing row",
        )
    (row,) = rows_values(pa.RecordBatch.from_pylist([dict(replay.row)], schema=columns))
    return row
