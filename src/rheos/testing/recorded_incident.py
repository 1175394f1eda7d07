"""Incidents as they were recorded: what arrived at a key's operator (`rheos debug`), or came from the
sources upstream of a sink (`rheos why`)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, assert_never

from rheos.core.errors import ConfigurationError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.origins import NoRow, OneRow, RowsOfWindow, SameRow
from rheos.core.operators.window.pane_columns import END, START
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, TS, Batch
from rheos.core.protocol.moments import moment_ms
from rheos.core.protocol.shown_rows import rows_values
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.debugging.debugging import Debugged
from rheos.ops.debugging.deliveries import Delivery, Rows, WatermarkAdvance
from rheos.ops.debugging.incident import (
    EmittedRow,
    Incident,
    RaisedError,
    Symptom,
    incident_of,
    row_watermark_ms,
)
from rheos.ops.debugging.program_part import KeyPart, ProgramPart
from rheos.ops.debugging.sink_path import SinkPath
from rheos.ops.forks.job_program import working_as
from rheos.ops.lineage.answer import Answers, WayStep
from rheos.ops.lineage.traced_run import TracedRun
from rheos.ops.lineage.why_query import TracedAnswer, WhyQuestion, column_value, traced_answers
from rheos.testing.related_rows import (
    MAX_ROWS,
    ExpectedRow,
    NeededRows,
    has_timers,
    needed_rows,
    related_rows,
)


@dataclass(frozen=True)
class RecordedIncident:
    """An incident of a job, with all rows that may have led to it."""

    started: StartedProgram
    incident: Incident
    rows: int
    """Number of rows that had arrived."""


def row_in_types(part: ProgramPart, output: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return some fields of an output row, which the user wrote as JSON, in the types of the columns.

    Raises:
        ConfigurationError: The output has no such column, or the column cannot have the value.
    """
    columns, site = part.outputs[output], part.planned.site
    owner = f"the {part.label}"
    return {name: column_value(columns, name, value, owner, site) for name, value in row.items()}


# --- one key of an operator -----------------------------------------------------------------------


def incident_of_key(
    debugged: Debugged,
    result: Mapping[str, Any] | None = None,
    *,
    must_fail: bool = False,
    has_right_row: bool = False,
) -> RecordedIncident:
    """Return the incident of a debugged key.

    Args:
        debugged: The key.
        result: Some columns of the wrong row. If None, the error that ended the replay is wrong, or the
            last row that the operator emitted.
        must_fail: Whether only an error counts.
        has_right_row: Whether the test will demand the right row, too. The rows from which the mended
            program may make it are marked, so that the test keeps them (`Rows.stays`).

    Raises:
        ConfigurationError: The replay has no such result, or too many rows may lead to the right one.
    """
    origin = debugged.origin
    with working_as(origin.started):
        part = KeyPart(origin.plan, origin.keyed, origin.begins)
        found = incident_of(part, origin.delivered.deliveries, EmittedRow({}, ""))
        found = _with_symptom(found, result, must_fail)
        if not found.shows():
            raise ConfigurationError(
                "the result does not occur again when the key's rows are replayed alone",
                site=debugged.site,
                operator=debugged.name,
                hint="see `rheos debug --trace` for the reasons why a replay may differ",
            )
        if has_right_row and isinstance(found.symptom, EmittedRow):
            found = _with_rows_of_right_row(found, found.symptom.row)
    return RecordedIncident(origin.started, found, debugged.rows)


def _with_rows_of_right_row(incident: Incident, row: Mapping[str, Any]) -> Incident:
    """Mark the deliveries from which the mended operator may make the right row: up to the wrong row,
    all rows of its key, or all in its window. Raise ConfigurationError if there are too many."""
    planned, deliveries = incident.part.planned, incident.deliveries
    origin = planned.spec.origin()
    if isinstance(origin, NoRow | SameRow | OneRow):
        return incident
    end = 1 + max(at for at, result in enumerate(incident.run()) if incident.is_shown_by(result))
    window = [moment_ms(row[name]) for name in (START, END) if isinstance(row.get(name), datetime)]

    def may_lead(batch: Batch) -> bool:
        if not isinstance(origin, RowsOfWindow) or len(window) < 2 or TS not in batch.schema.names:
            return True
        return window[0] <= int(batch.column(TS)[0].as_py()) < window[1]

    marked = [
        replace(each, stays=isinstance(each, Rows) and at < end and may_lead(each.batch))
        for at, each in enumerate(deliveries)
    ]
    count = sum(each.stays for each in marked)
    if count > MAX_ROWS:
        raise ConfigurationError(
            f"{count:,} rows may lead to the right row",
            site=planned.site,
            operator=planned.name,
            hint=f"a test has up to {MAX_ROWS:,}: replay less, with --from a later checkpoint; or "
            "leave out --expect",
        )
    fires = isinstance(deliveries[end - 1], WatermarkAdvance)
    needed = NeededRows((), frozenset(), has_timers(planned.spec), last_watermark=fires)
    return replace(incident, deliveries=tuple(_with_needed_watermarks(marked, needed)))


def _with_symptom(incident: Incident, result: Mapping[str, Any] | None, must_fail: bool) -> Incident:
    """Return the incident with its error, or its last row with these values."""
    part = incident.part
    wanted = {} if result is None else _by_output(part, result)
    symptom: Symptom | None = None
    for each in incident.run():
        for row in () if must_fail else each.rows:
            fields = wanted.get(row.output)
            if result is None or (fields is not None and fields.items() <= row.row.items()):
                symptom = EmittedRow(row.row, row.output)
        if each.error is not None and result is None:
            symptom = RaisedError.of(each.error)
    if symptom is None:
        what = "emitted no row" if result is None else f"emitted no row with {json.dumps(dict(result))}"
        raise ConfigurationError(
            f"in this replay the operator raised no error and {what}",
            site=part.planned.site,
            operator=part.planned.name,
            hint="replay more with --from an earlier checkpoint; `rheos debug --trace` prints the rows",
        )
    return replace(incident, symptom=symptom)


def _by_output(part: ProgramPart, result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields in the column types of each output that has all of them. Raise
    ConfigurationError if none has."""
    fitting = [tag for tag, columns in part.outputs.items() if set(result) <= set(columns.names)]
    if not fitting:
        row_in_types(part, next(iter(part.outputs)), result)  # It names the missing column.
    return {tag: row_in_types(part, tag, result) for tag in fitting}


# --- a row of a sink --------------------------------------------------------------------------------


def incident_of_row(
    question: WhyQuestion, expected: Mapping[str, Any] | None = None
) -> RecordedIncident:
    """Return the incident of the newest row of a sink that matches.

    It begins without state: at the newest checkpoint after which the rows of the sources alone lead to
    the row.

    Args:
        question: The question, with some fields of the wrong row.
        expected: Right values of some columns. The rows from which the mended program may make the
            right row are marked, so that a test keeps them (`Rows.stays`).

    Raises:
        ConfigurationError: No row matches, or state of every checkpoint has contributed to it; or an
            operator on its path, other than a lookup, needs an outside system. The errors of `why` are
            raised, too.
    """
    dependent: TracedAnswer | None = None
    for answer in traced_answers(question):
        with working_as(answer.started):
            path = SinkPath(answer.plan, answer.sink, answer.run.clock_ms)
            row = answer.run.ledger.rows[answer.newest]
            (values,) = rows_values(row.batch.slice(row.at, 1))
            symptom = EmittedRow(values, "")
            rows, needed, until = frozenset(answer.input_rows), None, answer.newest
            if expected is not None:
                right = {**values, **row_in_types(path, "", expected)}
                rows, needed = _rows_of_right_row(right, path, answer)
                until = len(answer.run.ledger.rows)
            everything = source_deliveries(answer.run, path, until, needed=needed)
            found = incident_of(path, source_deliveries(answer.run, path, until, rows, needed), symptom)
            if not found.shows():
                # Rows that the explanation does not list may matter: those that advance event time.
                found = incident_of(path, everything, symptom)
            if found.shows():
                count = sum(isinstance(each, Rows) for each in everything)
                return RecordedIncident(answer.started, found, count)
        dependent = answer
    assert dependent is not None, "an answer was found, or `traced_answers` raises"
    raise _needs_state(dependent, question)


def _rows_of_right_row(
    row: Mapping[str, Any], path: SinkPath, answer: TracedAnswer
) -> tuple[frozenset[int], NeededRows]:
    """Return the rows that may lead to the right row or have led to the wrong one, and those of them
    that stay."""
    wrong = frozenset(answer.input_rows)
    answers = Answers(answer.run.ledger, answer.run.watched, None)
    right = ExpectedRow.of(row, path, answer.run, answers)
    related = wrong | related_rows(right)
    needed = needed_rows(right, related, answer.newest)
    rows = needed.rows | wrong
    # The right row may arrive after the wrong one.
    firings = [each for step in answer.result.rows[0].steps for each in step.firings]
    waits = any(each.watermark_ms is not None for each in firings) or max(rows) > answer.newest
    return related, replace(needed, rows=rows, last_watermark=waits)


def _needs_state(answer: TracedAnswer, question: WhyQuestion) -> ConfigurationError:
    steps = answer.result.rows[0].steps
    last = next((step for step in reversed(steps) if step.before), None)
    if last is None:
        return ConfigurationError(
            "the row does not occur again when the rows of its sources are replayed alone",
            site=answer.sink.site,
            hint="the reservations that `rheos why` prints at its end may be the reason",
        )
    job, name = shlex.quote(question.job), shlex.quote(last.id)
    return ConfigurationError(
        f"state of {last.operator!r} in the checkpoint contributed to the row",
        site=last.site,
        hint=("" if question.from_start else "read all input with --from-start; or ")
        + "make a test of one operator with its state: "
        f"rheos debug {job} --operator {name} --key {_key_text(last)} --as-test FILE",
    )


def _key_text(step: WayStep) -> str:
    keys = [firing.key for firing in step.firings if firing.key]
    return (
        shlex.quote(",".join(f"{name}={value}" for name, value in keys[-1].items())) if keys else "KEY"
    )


def source_deliveries(
    run: TracedRun,
    path: SinkPath,
    until: int,
    only: Collection[int] | None = None,
    needed: NeededRows | None = None,
) -> Sequence[Delivery]:
    """Return what the sources had emitted when a row arrived, and the event time that all of them had
    reached.

    Args:
        run: The run in which it arrived.
        path: The way from the sources.
        until: Number of the row.
        only: Numbers of the rows to return; None: all.
        needed: What a search for fewer rows must keep.
    """
    ledger = run.ledger
    ports = {run.operators[source.id]: port for port, source in enumerate(path.sources)}
    timed = [place for place, port in ports.items() if TS in path.inputs[port].schema.names]
    chosen = None if only is None else frozenset(only)
    staying = frozenset[int]() if needed is None else needed.rows
    numbers = [
        number for number, row in enumerate(ledger.rows) if row.place in ports and row.tag == MAIN
    ]
    after = next((number for number in numbers if number > until), len(ledger.rows))
    events: list[tuple[int, int, Delivery]] = [
        (number, 1, Rows(ports[row.place], row.batch.slice(row.at, 1), False, number in staying))
        for number in numbers
        for row in [ledger.rows[number]]
        if number < after and (chosen is None or number in chosen)
    ]
    reached: dict[int, int | None] = dict.fromkeys(timed or ports, MIN_TIMESTAMP_MS)
    for time in ledger.times:
        if time.before <= after and time.place in reached:
            reached[time.place] = time.watermark_ms
            active = [ms for ms in reached.values() if ms is not None]
            if active and min(active) > MIN_TIMESTAMP_MS:
                events.append((time.before, 0, WatermarkAdvance(min(active))))
    found = [each for _, _, each in sorted(events, key=itemgetter(0, 1))]
    if needed is None:
        return list(_rising(found))
    ports_in_time = {ports[place] for place in timed}
    return list(_with_needed_watermarks(list(_rising(_as_rows_see(found, ports_in_time))), needed))


def _rising(deliveries: Iterable[Delivery]) -> Iterator[Delivery]:
    """Yield the rows, and before each row the last watermark, if it is a new one."""
    reached_ms, last = MIN_TIMESTAMP_MS, None
    for each in deliveries:
        if isinstance(each, WatermarkAdvance):
            if each.watermark_ms > reached_ms:
                reached_ms, last = each.watermark_ms, each
            continue
        if last is not None:
            yield last
            last = None
        yield each
    if last is not None:
        yield last


def _with_needed_watermarks(deliveries: Sequence[Delivery], needed: NeededRows) -> Iterator[Delivery]:
    """Yield the deliveries, and mark the watermarks that stay: the last one, and those that may make a
    later row late."""
    found: list[Delivery] = []
    earliest_ms: int | None = None
    """Lowest event time of the staying rows that follow."""
    is_last = needed.last_watermark
    for each in reversed(deliveries):
        match each:
            case WatermarkAdvance(watermark_ms):
                makes_late = earliest_ms is not None and earliest_ms < watermark_ms
                found.append(replace(each, stays=is_last or makes_late or needed.watermarks))
                is_last = False
            case Rows(batch=batch):
                if each.stays and TS in batch.schema.names:
                    at_ms = int(batch.column(TS)[0].as_py())
                    earliest_ms = at_ms if earliest_ms is None else min(earliest_ms, at_ms)
                found.append(each)
            case _:
                assert_never(each)
    yield from reversed(found)


def _as_rows_see(deliveries: Sequence[Delivery], timed: Collection[int]) -> Iterator[Delivery]:
    """Yield the deliveries, and before each row the advance to the lowest watermark that it and the
    following rows of each source see. A source reads several rows before it reports its event time.

    Args:
        deliveries: The deliveries.
        timed: Ports of the sources with event time.
    """
    found: list[Delivery] = []
    lowest_ms: dict[int, int] = {}
    """Lowest watermark that a following row sees, by port."""
    for each in reversed(deliveries):
        found.append(each)
        if isinstance(each, Rows) and each.port in timed:
            seen_ms = row_watermark_ms(each.batch)
            lowest_ms[each.port] = min(seen_ms, lowest_ms.get(each.port, seen_ms))
            if len(lowest_ms) == len(timed):
                found.append(WatermarkAdvance(min(lowest_ms.values())))
    yield from reversed(found)
