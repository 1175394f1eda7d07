"""Writes the incident of a debugged key as a file for pytest: `incident_test`."""

from __future__ import annotations

import json
import os
import re
import textwrap
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pyarrow as pa

from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.protocol.elements import HIDDEN_PREFIX, Batch
from rheos.core.state.keys import Key
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.debugging.debugged_key import KeyOfOperator
from rheos.ops.debugging.debugging import Debugged
from rheos.ops.debugging.deliveries import Delivery, Rows, pieces
from rheos.ops.debugging.incident import (
    DeliveryResult,
    EmittedRow,
    Incident,
    RaisedError,
    Symptom,
    incident_of,
    smallest,
)
from rheos.ops.debugging.pseudonyms import Pseudonyms
from rheos.ops.forks.job_program import working_as
from rheos.testing.incident_timeline import IncidentTimeline, start_of
from rheos.testing.incidents import encoded_state

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
    """Number of rows that had arrived at the operator for the key."""
    is_smallest: bool
    """Whether each row is needed; False if time was up."""


def incident_test(
    debugged: Debugged,
    file: Path,
    *,
    result: Mapping[str, Any] | None = None,
    must_fail: bool = False,
    pseudonyms: bool = False,
    keep: Collection[str] = (),
    within_s: float = 60.0,
    random: Random | None = None,
) -> IncidentTest:
    """Return a test with the fewest rows that lead to an error or a result of a debugged key.

    Args:
        debugged: The key.
        file: The file that the test will be written to. The program is named relative to it.
        result: Some columns of the wrong row. If None, the error that ended the replay is wrong, or the
            last row that the operator emitted.
        must_fail: Whether only an error counts.
        pseudonyms: Whether to replace strings, bytes and numbers.
        keep: Columns whose values are not replaced.
        within_s: Time after which the search for a smaller test ends, in seconds.
        random: Source of the other values; by default one that cannot be guessed.

    Returns:
        The test. It has been run: it fails.

    Raises:
        ConfigurationError: The replay has no such result; or the result depends on values that were to
            be replaced, or that a test cannot express.
    """
    origin = debugged.origin
    with working_as(origin.started):
        rows = [piece for each in origin.delivered.deliveries for piece in pieces(each)]
        found = incident_of(origin.plan, origin.keyed, origin.begins, rows, EmittedRow({}, ""))
        found = _with_symptom(found, result, must_fail)
        if not found.shows():
            raise ConfigurationError(
                "the result does not occur again when the key's rows are replayed alone",
                site=debugged.site,
                operator=debugged.name,
                hint="see `rheos debug --trace` for the reasons why a replay may differ",
            )
        deadline = time.monotonic() + within_s
        few = smallest(found, lambda: time.monotonic() > deadline, stateless=pseudonyms)
        is_smallest = time.monotonic() <= deadline
        if pseudonyms:
            few = _anonymous(few, keep, random or SystemRandom())
        given = list(few.run())
        text, symptom = _text(few, given, origin.started, file, rows_before=debugged.rows)
    count = sum(isinstance(each, Rows) for each in few.deliveries)
    return IncidentTest(text, symptom, count, debugged.rows, is_smallest)


def _with_symptom(incident: Incident, result: Mapping[str, Any] | None, must_fail: bool) -> Incident:
    """Return the incident with its error, or its last row with these values."""
    given = list(incident.run())
    symptom: Symptom | None = None
    for each in given:
        for row in () if must_fail else each.rows:
            if result is None or result.items() <= row.row.items():
                symptom = EmittedRow(row.row, row.output)
        if each.error is not None and result is None:
            symptom = RaisedError.of(each.error)
    if symptom is None:
        planned = incident.keyed.planned
        what = "emitted no row" if result is None else f"emitted no row with {json.dumps(dict(result))}"
        raise ConfigurationError(
            f"in this replay the operator raised no error and {what}",
            site=planned.site,
            operator=planned.name,
            hint="replay more with --from an earlier checkpoint; `rheos debug --trace` prints the rows",
        )
    return replace(incident, symptom=symptom)


# --- pseudonyms ---------------------------------------------------------------------------------------


def _anonymous(incident: Incident, keep: Collection[str], random: Random) -> Incident:
    planned = incident.keyed.planned
    if incident.begins.state:
        raise ConfigurationError(
            "the result depends on the key's state in the checkpoint, which cannot be anonymised",
            site=planned.site,
            operator=planned.name,
            hint="begin at an earlier checkpoint, before the first row of the key: --from",
        )
    columns = list(dict.fromkeys(name for port in planned.ports for name in _values_of(port.schema)))
    if unknown := sorted(set(keep) - set(columns)):
        raise ConfigurationError(
            f"no input of the operator has the column {unknown[0]!r}",
            site=planned.site,
            operator=planned.name,
            hint=f"its columns are {', '.join(columns)}",
        )
    changed = _replaced(incident, set(columns) - set(keep), random)
    if changed is not None:
        return changed
    # Collect the columns that together do not change the result. The others matter.
    free: set[str] = set()
    for name in columns:
        if name not in keep and _replaced(incident, {*free, name}, random) is not None:
            free.add(name)
    needed = [name for name in columns if name not in free]
    raise ConfigurationError(
        f"the result depends on the values of {', '.join(needed)}, so they cannot be replaced",
        site=planned.site,
        operator=planned.name,
        hint=f"keep them if they are not confidential: --keep {','.join(needed)}",
    )


def _replaced(incident: Incident, columns: Collection[str], random: Random) -> Incident | None:
    """Return the incident with other values in these columns; None if it no longer occurs."""
    values = []
    for each in incident.deliveries:
        if isinstance(each, Rows):
            for name in columns:
                if name in each.batch.schema.names:
                    column = each.batch.column(name)
                    values.append((column[0].as_py(), column.type))
    pseudonyms = Pseudonyms(values, random)
    deliveries = tuple(_with_pseudonyms(each, columns, pseudonyms) for each in incident.deliveries)
    keyed = KeyOfOperator(incident.keyed.planned, _key(incident.keyed, columns, pseudonyms))
    place = _place(incident, list(incident.run()))
    other = replace(incident, keyed=keyed, deliveries=deliveries)
    given = list(other.run())
    if place is None:
        return other if other.shows() else None
    delivery, number = place
    if len(given) <= delivery or len(given[delivery].rows) <= number:
        return None
    row = given[delivery].rows[number]
    assert isinstance(incident.symptom, EmittedRow)
    if row.output != incident.symptom.output:
        return None
    return replace(other, symptom=EmittedRow(row.row, row.output))


def _place(incident: Incident, given: Sequence[DeliveryResult]) -> tuple[int, int] | None:
    """Return the delivery that led to the wrong row, and the row's number; None for an error."""
    if not isinstance(incident.symptom, EmittedRow):
        return None
    for delivery, each in enumerate(given):
        for number, row in enumerate(each.rows):
            if incident.is_shown_by(DeliveryResult([row], None)):
                return delivery, number
    raise AssertionError("an incident shows its symptom")


def _values_of(schema: pa.Schema) -> Iterator[str]:
    return (name for name in schema.names if not name.startswith(HIDDEN_PREFIX))


def _with_pseudonyms(delivery: Delivery, columns: Collection[str], pseudonyms: Pseudonyms) -> Delivery:
    if not isinstance(delivery, Rows):
        return delivery
    batch: Batch = delivery.batch
    arrays = [
        pa.array([pseudonyms.of(batch.column(field.name)[0].as_py())], field.type)
        if field.name in columns
        else batch.column(field.name)
        for field in batch.schema
    ]
    return replace(delivery, batch=pa.RecordBatch.from_arrays(arrays, schema=batch.schema))


def _key(keyed: KeyOfOperator, columns: Collection[str], pseudonyms: Pseudonyms) -> Key:
    def part(name: str, value: Any) -> Any:
        try:
            return pseudonyms.of(value) if name in columns else value
        except KeyError:
            return value  # No row of it is left.

    parts = tuple(part(name, value) for name, value in keyed.values.items())
    return parts[0] if len(parts) == 1 else parts


# --- the file -----------------------------------------------------------------------------------------


def _text(
    incident: Incident,
    given: Sequence[DeliveryResult],
    started: StartedProgram,
    file: Path,
    *,
    rows_before: int,
) -> tuple[str, str]:
    """Return the content of the file, and what is wrong."""
    planned = incident.keyed.planned
    start = start_of(incident.deliveries, incident.begins.clock_ms)
    notation = IncidentTimeline(planned, start)
    clock = datetime.fromtimestamp(incident.begins.clock_ms / 1000, UTC)
    here = file.resolve().parent
    program = Path(os.path.relpath(started.file, here)).as_posix()
    timeline = "".join(f"            {line}\n" for line in notation.lines(incident.deliveries))
    arguments = [
        _quoted(program),
        f"operator={_quoted(planned.id)}",
        f"key={_literal(incident.keyed.values) if incident.keyed.columns else None}",
        f'timeline=r"""\n{timeline}        """',
        f"start={_quoted(start.isoformat())}",
        f"clock={_quoted(clock.isoformat())}",
    ]
    state = {name: list(tables) for name, tables in incident.begins.state.items()}
    state = {name: tables for name, tables in state.items() if any(each.num_rows for each in tables)}
    if state:
        arguments += [
            f"state={{\n{''.join(_state_lines(state))}        }}",
            f"groups={incident.begins.groups}",
        ]
    symptom, problem = _symptom(incident, given, notation)
    if isinstance(incident.symptom, EmittedRow):
        row = incident.symptom
        text = notation.output_row(next(r for g in given for r in g.rows if _is(incident, r)))
        arguments.append(f"unwanted=[{_quoted(text)}],  # wanted=[...] also checks the right rows")
        assert row.output == incident.symptom.output
    arguments += _started(started, here)
    called = "".join(f"        {each}{'' if '  # ' in each else ','}\n" for each in arguments)
    count = sum(isinstance(each, Rows) for each in incident.deliveries)
    name = re.sub(r"\W+", "_", problem).strip("_").lower()[:60]
    heading = textwrap.fill(f"{symptom}.", _LINE_CHARS).replace("\\", "\\\\").replace('"""', "'''")
    rows = (
        f"{count} of {rows_before} rows are needed for it" if count < rows_before else "All rows count"
    )
    return (
        f'"""{heading}\n\n{rows}. The test fails until the program is mended.\n"""\n\n'
        "from rheos import testing\n\n\n"
        f"def test_{name}() -> None:\n    testing.check_incident(\n{called}    )\n",
        symptom,
    )


def _is(incident: Incident, row: Any) -> bool:
    return incident.is_shown_by(DeliveryResult([row], None))


def _symptom(
    incident: Incident, given: Sequence[DeliveryResult], notation: IncidentTimeline
) -> tuple[str, str]:
    """Return what is wrong, as a sentence and as words for a name."""
    planned = incident.keyed.planned
    of = f"operator {planned.name!r}"
    error: RheosError | None = given[-1].error if given else None
    match incident.symptom:
        case RaisedError(kind=kind):
            what = error.what if error is not None else kind
            return f"{of} fails: {what}", f"{planned.id} raises {kind}"
        case EmittedRow(row, _):
            shown = ", ".join(f"{name}={value!r}" for name, value in row.items())
            return f"{of} emits {shown}", f"row of {planned.id}"


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


def _started(started: StartedProgram, here: Path) -> Iterator[str]:
    if started.arguments:
        yield f"arguments={started.arguments!r}"
    if started.parameters:
        yield f"parameters={started.parameters!r}"
    if Path(started.folder) != Path(started.file).parent:
        yield f"folder={_quoted(Path(os.path.relpath(started.folder, here)).as_posix())}"
