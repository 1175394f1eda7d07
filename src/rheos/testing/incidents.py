"""Tests of incidents: rows that led to an error or a wrong result, as the option `--as-test` of
`rheos debug` and `rheos why` writes them."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from rheos.core.errors import ProgramError
from rheos.core.formats.arrow_bytes import table_bytes, table_of
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.moments import parsed_moment
from rheos.core.site import call_site, located
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.debugging.call_watcher import GivenRow
from rheos.ops.debugging.debugged_key import chosen
from rheos.ops.debugging.incident import DeliveryResult, EmittedRow, Incident
from rheos.ops.debugging.program_part import KeyPart, ProgramPart
from rheos.ops.debugging.recorded_lookups import RecordedLookups
from rheos.ops.debugging.replica import KeyBeginning
from rheos.ops.debugging.sink_path import SinkPath
from rheos.ops.forks.job_program import planned, sink_of, working_as
from rheos.testing.incident_lookups import answers_of
from rheos.testing.incident_timeline import IncidentTimeline

_JOB = JobId("incident")
_MAX_STATE_BYTES = 1 << 28


def check_incident(
    program: str,
    *,
    operator: str | None = None,
    key: Any = None,
    sink: str | None = None,
    timeline: str,
    start: str,
    clock: str | None = None,
    state: Mapping[str, Sequence[str]] | None = None,
    groups: int | None = None,
    lookups: Mapping[str, Sequence[str]] | None = None,
    unwanted: Sequence[str] = (),
    wanted: Sequence[str] = (),
    arguments: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> None:
    """Run a part of a program over the rows of an incident: one operator for one key, or everything
    from the sources to one sink. Sources and sinks are not opened.

    ```python
    def test_total() -> None:
        testing.check_incident(
            "job.py",
            operator="sessions",
            key={"user": "ada"},
            timeline="ada,5@10s",
            start="2026-01-01T12:00:00Z",
            unwanted=["ada,-5"],
        )
    ```

    Args:
        program: the file of the job, relative to the test's.
        operator: id or name of the operator; None if `sink` is passed.
        key: value of the key by column.
        sink: id or name of the sink whose rows are checked. The timeline then contains the rows of the
            sources.
        timeline: rows and watermarks that arrive at the operator or from the sources, in the notation
            of the module `rheos.testing.incident_timeline`.
        start: time from which distances in the timeline are counted.
        clock: wall-clock time that functions see; `start` by default.
        state: state of the key at the beginning, as `encoded_state` returns it.
        groups: number of key groups of that state; those of the program by default.
        lookups: answers of each lookup upstream of the sink, by the id of its operator, in the notation
            of the module `rheos.testing.incident_lookups`.
        unwanted: rows that the operator must not emit, or that must not arrive at the sink.
        wanted: rows that the operator must emit, or that must arrive at the sink.
        arguments: command-line arguments of the program.
        parameters: job parameters of the program.
        folder: working directory of the program, relative to the test's; by default the program's own.

    Raises:
        AssertionError: An unwanted row was emitted, or a wanted one was not.
        RheosError: The operator failed.
        ProgramError: The timeline or a row cannot be parsed, or not exactly one of `operator` and
            `sink` is passed.
    """
    site = call_site()
    here = Path(site.file).resolve().parent
    file = (here / program).resolve()
    started = StartedProgram(
        file=str(file),
        arguments=list(arguments),
        folder=str(file.parent if folder is None else (here / folder).resolve()),
        parameters=dict(parameters or {}),
        digest="",
    )
    with located(site), working_as(started):
        if (operator is None) == (sink is None):
            raise ProgramError(
                "a test of an incident runs one operator or the path to one sink",
                hint="pass either operator= or sink=",
            )
        plan = planned(started)
        begin = _moment(start)
        clock_ms = round((begin if clock is None else _moment(clock)).timestamp() * 1000)
        part: ProgramPart
        if sink is not None:
            record = _recorded_lookups(plan, lookups or {}, begin)
            part = SinkPath(plan, sink_of(plan, sink, "the program"), clock_ms, record)
        else:
            tables = {name: [_decoded(each) for each in of] for name, of in (state or {}).items()}
            begins = KeyBeginning(_JOB, groups or plan.max_parallelism, clock_ms, tables)
            part = KeyPart(plan, chosen(plan, operator, key), begins)
        notation = IncidentTimeline(part, begin)
        deliveries = tuple(notation.deliveries(timeline))
        incident = Incident(part, deliveries, EmittedRow({}, ""))
        absent, present = notation.output_rows(wanted), notation.output_rows(unwanted)
        given = list(incident.run())
    if given and given[-1].error is not None:
        raise given[-1].error
    faults = [
        *(
            f"{part.verbs[0]} {notation.output_row(row)}"
            for row in present
            if _is_in(incident, row, given)
        ),
        *(
            f"{part.verbs[1]} {notation.output_row(row)}"
            for row in absent
            if not _is_in(incident, row, given)
        ),
    ]
    if faults:
        what = f"{part.planned.site}: {part.label} " + " and ".join(faults)
        raise AssertionError("\n".join([what, "", "as it ran:", *_ran(notation, incident, given)]))


def _recorded_lookups(
    plan: PhysicalPlan, lookups: Mapping[str, Sequence[str]], start: datetime
) -> RecordedLookups:
    operators = {str(planned.id): planned for planned in plan.operators()}
    if unknown := sorted(lookups.keys() - operators.keys()):
        raise ProgramError(
            f"the program has no operator {unknown[0]!r}", hint="name the id of a lookup in `lookups=`"
        )
    return RecordedLookups(
        {
            operators[name].id: answers_of(operators[name], lines, start)
            for name, lines in lookups.items()
        }
    )


def encoded_state(tables: Sequence[pa.Table]) -> list[str]:
    """Return tables of a state as strings of ASCII."""
    return [base64.b85encode(zlib.compress(table_bytes(table))).decode() for table in tables]


def _decoded(text: str) -> pa.Table:
    try:
        unpacked = zlib.decompressobj()
        data = unpacked.decompress(base64.b85decode(text), _MAX_STATE_BYTES)
        return table_of(data)
    except (ValueError, zlib.error, pa.ArrowException) as error:
        raise ProgramError(
            f"state= cannot be read: {error}", hint="write the test again: rheos debug --as-test"
        ) from error


def _moment(text: str) -> datetime:
    try:
        return parsed_moment(text)
    except ValueError:
        raise ProgramError(f"{text!r} is not a time", hint="write it as 2026-01-01T12:00:00Z") from None


def _is_in(incident: Incident, row: GivenRow, given: Sequence[DeliveryResult]) -> bool:
    of = replace(incident, symptom=EmittedRow(row.row, row.output))
    return any(map(of.is_shown_by, given))


def _ran(
    notation: IncidentTimeline, incident: Incident, given: Sequence[DeliveryResult]
) -> Iterator[str]:
    lines = notation.lines(incident.deliveries)
    results = iter(given)
    for line in lines:
        rows = [] if line.startswith("~") else [notation.output_row(row) for row in next(results).rows]
        yield f"{line} > {' '.join(rows)}" if rows else line
