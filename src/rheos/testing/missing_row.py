"""The incident of a row that a sink should receive, and does not.

Its rows are those that may lead to the missing one: they belong to the key of an operator that the
missing row names. Without one of them the row is missing, too, so no search can find which are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from rheos.core.errors import ConfigurationError
from rheos.core.graph.nodes import MAIN
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.shown_rows import rows_values
from rheos.ops.debugging.deliveries import Rows
from rheos.ops.debugging.incident import MissingRow, incident_of
from rheos.ops.debugging.sink_path import SinkPath
from rheos.ops.forks.job_program import working_as
from rheos.ops.lineage.why_query import SinkReplay, WhyQuestion, sink_replay
from rheos.testing.recorded_incident import RecordedIncident, source_deliveries

_MAX_ROWS = 1000


def incident_of_missing_row(question: WhyQuestion) -> RecordedIncident:
    """Return the incident of a row that does not arrive at a sink.

    It has no state: the input is read from its beginning, or from a savepoint on.

    Args:
        question: Its row has all columns of the sink.

    Raises:
        ConfigurationError: The row is incomplete, or arrives; no row of the input or more than 1000
            may lead to it; or an operator on the path needs an outside system. The errors of `why` are
            raised, too.
    """
    replay = sink_replay(question)
    with working_as(replay.started):
        path = SinkPath(replay.plan, replay.sink, replay.run.clock_ms)
        symptom = MissingRow(_whole_row(replay, path))
        numbers = _RelatedRows(replay, path).numbers()
        shown = json.dumps(dict(question.row))
        if not 0 < len(numbers) <= _MAX_ROWS:
            raise ConfigurationError(
                f"{len(numbers):,} rows of the input may lead to {shown}",
                site=replay.sink.site,
                hint="check the spelling; if the input was deleted, no test can be written"
                if not numbers
                else f"a test has up to {_MAX_ROWS:,}: read less, with --from-savepoint and --for",
            )
        end = len(replay.run.ledger.rows)
        everything = source_deliveries(replay.run, path, end)
        found = incident_of(path, source_deliveries(replay.run, path, end, numbers), symptom)
        if not found.shows() or not incident_of(path, everything, symptom).shows():
            raise ConfigurationError(
                f"the sink receives {shown}, so the row is not missing",
                site=replay.sink.site,
                hint="to explain it, run `rheos why` with --row and without --as-test",
            )
    rows = sum(each.batch.num_rows for each in everything if isinstance(each, Rows))
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


class _RelatedRows:
    """The search for source rows that may lead to the missing row."""

    def __init__(self, replay: SinkReplay, path: SinkPath) -> None:
        self._row, self._answers = replay.row, replay.answers
        self._ledger, self._places = replay.run.ledger, replay.run.operators
        self._sources = path.sources
        upstream = path.upstream
        self._keyed = [
            each
            for each in replay.plan.operators()
            if each.id in upstream and any(port.keys for port in each.ports)
        ]

    def numbers(self) -> set[int]:
        """Return the numbers of the source rows.

        They are those of the keys that the missing row names, and those that a join combines with them.
        If it names no key, they are those that agree with it in the columns that they share.
        """
        names = {name for each in self._keyed for port in each.ports for name in port.keys}
        names &= set(self._row)
        of_key = [
            row
            for each in self._keyed
            for row, key in self._arrivals(each)
            if names.issuperset(key) and all(self._row[name] == value for name, value in key.items())
        ]
        found = {*self._answers.input_rows(*of_key), *self._agreeing_rows(names or set(self._row))}
        for each in self._keyed:
            if len(each.ports) > 1:
                found |= self._joined_rows(each, found)
        return found

    def _arrivals(self, planned: PlannedOperator) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the number and the key of each row that arrived at an operator."""
        for arrival in self._ledger.arrivals(self._places[planned.id]):
            row = self._ledger.rows[arrival.row]
            if keys := planned.ports[arrival.port].keys:
                yield arrival.row, {name: row.value(name) for name in keys}

    def _agreeing_rows(self, names: set[str]) -> Iterator[int]:
        """Yield the rows of sources that agree with the missing row in all of these columns that they
        have. They may be dropped before an operator receives them."""
        columns = {
            self._places[source.id]: names.intersection(source.outputs[MAIN].schema.names)
            for source in self._sources
        }
        for number, row in enumerate(self._ledger.rows):
            shared = columns.get(row.place)
            if shared and row.tag == MAIN and all(row.value(at) == self._row[at] for at in shared):
                yield number

    def _joined_rows(self, planned: PlannedOperator, found: set[int]) -> set[int]:
        """Return the source rows that arrive at a join with the key of one of the found rows."""
        arrivals = [(row, repr(list(key.values()))) for row, key in self._arrivals(planned)]
        keys = {key for row, key in arrivals if not found.isdisjoint(self._answers.input_rows(row))}
        return set(self._answers.input_rows(*(row for row, key in arrivals if key in keys)))
