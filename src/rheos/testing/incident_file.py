"""Writes a recorded incident as a file for pytest: `incident_test`."""

from __future__ import annotations

import json
import os
import re
import textwrap
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, assert_never

import pyarrow as pa

from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.operators.sink import SinkSpec
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.debugging.call_watcher import GivenRow
from rheos.ops.debugging.deliveries import Rows
from rheos.ops.debugging.incident import (
    DeliveryResult,
    EmittedRow,
    Incident,
    MissingRow,
    RaisedError,
    smallest,
)
from rheos.ops.debugging.program_part import KeyPart
from rheos.ops.debugging.recorded_lookups import UsedAnswers
from rheos.ops.debugging.sink_path import SinkPath
from rheos.ops.forks.job_program import working_as
from rheos.testing.incident_lookups import answer_lines
from rheos.testing.incident_pseudonyms import anonymous
from rheos.testing.incident_timeline import IncidentTimeline, start_of
from rheos.testing.incidents import encoded_state
from rheos.testing.recorded_incident import RecordedIncident, row_in_types

_LINE_CHARS = 88


@dataclass(frozen=True)
class IncidentTest:
    """The test of an incident."""

    text: str
    """Content of the file."""
    symptom: str
    """The wrong result, in one line."""
    rows: int
    """Number of rows that the test has."""
    rows_before: int
    """Number of rows that had arrived."""
    is_smallest: bool
    """Whether each row is needed; False if time was up."""
    of_missing_row: bool = False
    """Whether the wrong result is that a row is missing. Its rows may lead to the missing one."""


def incident_test(
    recorded: RecordedIncident,
    file: Path,
    *,
    expected: Mapping[str, Any] | None = None,
    pseudonyms: bool = False,
    keep: Collection[str] = (),
    within_s: float = 60.0,
    random: Random | None = None,
) -> IncidentTest:
    """Return a test with the fewest rows that lead to the error or the wrong row of an incident.

    Args:
        recorded: The incident.
        file: The file that the test will be written to. The program is named relative to it.
        expected: Right values of some columns of the wrong row. The test then also demands the right
            row.
        pseudonyms: Whether to replace strings, bytes and numbers.
        keep: Columns whose values are not replaced.
        within_s: Time after which the search for a smaller test ends, in seconds.
        random: Source of the other values; by default one that cannot be guessed.

    Returns:
        The test. It has been run: it fails.

    Raises:
        ConfigurationError: The result depends on values that were to be replaced, or that a test cannot
            express; or the expected row is not another one.
    """
    with working_as(recorded.started):
        incident = recorded.incident
        right = _right_values(incident, expected)
        is_missing = isinstance(incident.symptom, MissingRow)
        deadline = time.monotonic() + within_s
        few = smallest(
            incident,
            lambda: time.monotonic() > deadline,
            stateless=pseudonyms,
            keeps_state=right is not None,
        )
        is_smallest = time.monotonic() <= deadline
        if pseudonyms:
            few = anonymous(few, keep, random or SystemRandom(), is_smallest=is_smallest)
            _check_unchanged(incident, few, right)
        given = list(few.run())
        count = sum(isinstance(each, Rows) for each in few.deliveries)
        heading = _Heading.of(few, given)
        text = "".join(_lines(few, given, heading, recorded, file, right, count))
    return IncidentTest(text, heading.symptom, count, recorded.rows, is_smallest, is_missing)


# --- the right row ------------------------------------------------------------------------------------


def _right_values(incident: Incident, expected: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the expected values in the types of the columns."""
    if expected is None:
        return None
    planned, symptom = incident.part.planned, incident.symptom
    if not isinstance(symptom, EmittedRow):
        raise ConfigurationError(
            "the operator fails instead of emitting a wrong row, so no row can be expected",
            site=planned.site,
            operator=planned.name,
            hint="leave out --expect, or name the wrong row: --result",
        )
    right = row_in_types(incident.part, symptom.output, expected)
    if right.items() <= symptom.row.items():
        raise ConfigurationError(
            f"the row already has the expected values {json.dumps(dict(expected))}",
            site=planned.site,
            operator=planned.name,
            hint="name the right values, which the wrong row does not have: --expect",
        )
    return right


def _check_unchanged(before: Incident, after: Incident, right: Mapping[str, Any] | None) -> None:
    """Check that pseudonyms have not changed the values that are wrong."""
    if right is None:
        return
    assert isinstance(before.symptom, EmittedRow)
    assert isinstance(after.symptom, EmittedRow)
    old, new = before.symptom.row, after.symptom.row
    if changed := [name for name in right if old[name] != new[name]]:
        planned = before.part.planned
        raise ConfigurationError(
            f"the expected value of {', '.join(changed)} belongs to the original input: from other "
            "values the program computes another result",
            site=planned.site,
            operator=planned.name,
            hint="keep the columns from which it is computed with --keep; or leave out --expect, and "
            "write the right row into the test yourself: wanted=[...]",
        )


# --- the file -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Heading:
    symptom: str
    """The wrong result as a sentence."""
    name: str
    """The wrong result as words for the name of a function."""

    @staticmethod
    def of(incident: Incident, given: Sequence[DeliveryResult]) -> _Heading:
        part, error = incident.part, given[-1].error if given else None
        match incident.symptom:
            case RaisedError(kind=kind):
                what = error.what if isinstance(error, RheosError) else kind
                return _Heading(f"{part.label} fails: {what}", f"{part.planned.id} raises {kind}")
            case EmittedRow(row) | MissingRow(row):
                is_missing = isinstance(incident.symptom, MissingRow)
                shown = ", ".join(f"{name}={value!r}" for name, value in row.items())
                of = part.planned.name if isinstance(part, SinkPath) else part.planned.id
                what = f"{part.label} {part.verbs[is_missing]} {shown}"
                return _Heading(what, f"{'missing ' * is_missing}row of {of}")
            case _:
                assert_never(incident.symptom)


def _lines(
    incident: Incident,
    given: Sequence[DeliveryResult],
    heading: _Heading,
    recorded: RecordedIncident,
    file: Path,
    right: Mapping[str, Any] | None,
    count: int,
) -> Iterator[str]:
    """Yield the lines of the file."""
    is_missing = isinstance(incident.symptom, MissingRow)
    part = "may lead to it" if is_missing else "are needed for it"
    needed = f"{count} of {recorded.rows} rows {part}"
    first = textwrap.fill(f"{heading.symptom}.", _LINE_CHARS)
    first = first.replace("\\", "\\\\").replace('"""', "'''")
    yield f'"""{first}\n\n{needed if count < recorded.rows else "All rows count"}. '
    yield 'The test fails until the program is mended.\n"""\n\nfrom rheos import testing\n\n\n'
    name = re.sub(r"\W+", "_", heading.name).strip("_").lower()[:60]
    yield f"def test_{name}() -> None:\n    testing.check_incident(\n"
    for each in _arguments(incident, given, recorded.started, file, right):
        yield f"        {each}{'' if '  # ' in each.splitlines()[-1] else ','}\n"
    yield "    )\n"


def _arguments(
    incident: Incident,
    given: Sequence[DeliveryResult],
    started: StartedProgram,
    file: Path,
    right: Mapping[str, Any] | None,
) -> Iterator[str]:
    """Yield the arguments of `check_incident` as Python code."""
    here, part = file.resolve().parent, incident.part
    yield _quoted(Path(os.path.relpath(started.file, here)).as_posix())
    state: Mapping[str, Sequence[pa.Table]] = {}
    match part:
        case KeyPart(keyed=keyed, begins=begins):
            clock_ms, groups = begins.clock_ms, begins.groups
            state = {name: list(tables) for name, tables in begins.state.items()}
            state = {name: of for name, of in state.items() if any(each.num_rows for each in of)}
            yield f"operator={_quoted(keyed.planned.id)}"
            if keyed.columns:
                yield f"key={_literal(keyed.values)}"
        case SinkPath(sink=sink):
            clock_ms, groups = part.clock_ms, 0
            sinks = [each.name for each in part.plan.operators() if isinstance(each.spec, SinkSpec)]
            yield f"sink={_quoted(sink.name if sinks.count(sink.name) == 1 else sink.id)}"
        case _:
            raise AssertionError(f"no argument of a test describes {part!r}")
    start = start_of(incident.deliveries, clock_ms)
    notation = IncidentTimeline(part, start)
    timeline = "".join(f"            {line}\n" for line in _steps(incident, given, notation))
    yield f'timeline=r"""\n{timeline}        """'
    yield f"start={_quoted(start.isoformat())}"
    yield f"clock={_quoted(datetime.fromtimestamp(clock_ms / 1000, UTC).isoformat())}"
    if state:
        yield f"state={{\n{''.join(_state_lines(state))}        }}"
        yield f"groups={groups}"
    if used := part.lookup_answers:
        yield f"lookups={{\n{''.join(_lookup_lines(used, start))}        }}"
    if isinstance(incident.symptom, EmittedRow):
        row = GivenRow(dict(incident.symptom.row), incident.symptom.output)
        unwanted = f"unwanted=[{_quoted(notation.output_row(row))}]"
        if right is None:
            yield f"{unwanted},  # wanted=[...] also checks the right rows"
        else:
            yield unwanted
            good = GivenRow({**row.row, **right}, row.output)
            yield f"wanted=[{_quoted(notation.output_row(good))}]"
    if isinstance(incident.symptom, MissingRow):
        missing = GivenRow(dict(incident.symptom.row), "")
        yield f"wanted=[{_quoted(notation.output_row(missing))}]"
    yield from _started(started, here)


def _steps(
    incident: Incident, given: Sequence[DeliveryResult], notation: IncidentTimeline
) -> Iterator[str]:
    """Yield the lines of the timeline, and mark the step that leads to the wrong result."""
    results = iter(given)
    is_marked = False
    for line in notation.lines(incident.deliveries):
        result = None if line.startswith("~") else next(results, None)
        if is_marked or result is None or not incident.is_shown_by(result):
            yield line
        else:
            is_marked = True
            yield f"{line}  # leads to the {'error' if result.error is not None else 'wrong row'}"


def _literal(values: Mapping[str, Any]) -> str:
    """Return a key as Python code. Other values than numbers and strings are written as strings."""
    plain = (
        (name, repr(value) if isinstance(value, int | float) else _quoted(str(value)))
        for name, value in values.items()
    )
    return "{" + ", ".join(f"{_quoted(name)}: {value}" for name, value in plain) + "}"


def _quoted(text: str) -> str:
    """Return a string as a literal of Python, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _state_lines(state: Mapping[str, Sequence[pa.Table]]) -> Iterator[str]:
    for name, tables in state.items():
        yield f"            {_quoted(name)}: [\n"
        for text in encoded_state(tables):
            parts = [repr(text[at : at + _LINE_CHARS]) for at in range(0, len(text), _LINE_CHARS)]
            yield "".join(f"                {part}\n" for part in parts)[:-1] + ",\n"
        yield "            ],\n"


def _lookup_lines(used: Sequence[UsedAnswers], start: datetime) -> Iterator[str]:
    for planned, answers in used:
        yield f"            {_quoted(planned.id)}: [\n"
        for line in answer_lines(planned, answers, start):
            yield f"                {_quoted(line)},\n"
        yield "            ],\n"


def _started(started: StartedProgram, here: Path) -> Iterator[str]:
    if started.arguments:
        yield f"arguments={started.arguments!r}"
    if started.parameters:
        yield f"parameters={started.parameters!r}"
    if Path(started.folder) != Path(started.file).parent:
        yield f"folder={_quoted(Path(os.path.relpath(started.folder, here)).as_posix())}"
