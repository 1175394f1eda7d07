"""`rheos why`: the input rows that led to an output row of a job, and the operators in between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from rheos.cli.jobs import console
from rheos.cli.terminal import report
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS
from rheos.ops.lineage.answer import ExplainedRow, SourceRow, StepFiring, WayStep
from rheos.ops.lineage.why_query import WhyResult, why

_FIRINGS_SHOWN = 5


def show_why(
    job: str,
    sink: str,
    row: str,
    *,
    most: int,
    inputs: int,
    for_: str | None,
    against: Path | None,
    checkpoint_dir: str | None,
    from_savepoint: str | None,
    from_start: bool,
    as_json: bool,
) -> int:
    """Print what led to the row; return the exit code."""
    try:
        found = why(
            job,
            sink,
            row_fields(row),
            most=most,
            for_=for_,
            against=against,
            checkpoint_dir=checkpoint_dir,
            from_savepoint=from_savepoint,
            from_start=from_start,
        )
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    if as_json:
        print(json.dumps(why_object(found), indent=2, default=str))
    else:
        shown = console()
        for line in _lines(found, inputs):
            shown.print(Text(line), soft_wrap=True)
    return 0


def row_fields(row: str) -> Mapping[str, Any]:
    """Return some fields of a row, which the user wrote as JSON. Raise ConfigurationError."""
    try:
        fields = json.loads(row)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ConfigurationError(
            f"{row!r} is not a JSON object",
            hint="""write some of its fields as JSON: '{"user": 7}'""",
        )
    return fields


# --- output as text
# -------------------------------------------------------------------------------------


def _lines(found: WhyResult, inputs: int) -> Iterator[str]:
    begun = "its start" if found.checkpoint is None else f"checkpoint {found.checkpoint}"
    read = ", ".join(f"{rows:,} rows of {source!r}" for source, rows in found.rows_read.items())
    yield f"replayed the job {found.job} from {begun}, over {read or 'no rows'}"
    newest = "" if found.matches == len(found.rows) else f"; the newest {len(found.rows)} are shown"
    yield f"{found.matches:,} of the {found.given:,} rows at {found.sink!r} match{newest}"
    for row in found.rows:
        yield ""
        yield from _of_row(row, inputs)
    if found.reservations:
        yield ""
        yield "the replay may differ from the original run:"
        yield from (f"  {reservation}" for reservation in found.reservations)


def _of_row(row: ExplainedRow, inputs: int) -> Iterator[str]:
    at = "" if row.event_time_ms is None else f"  at {_time(row.event_time_ms)}"
    yield f"{_row_text(row.row)}{at}"
    yield "  path"
    width = max(len(step.operator) for step in row.steps)
    for step in row.steps:
        rows = f"{step.rows:,} row{'' if step.rows == 1 else 's'}"
        yield f"    {step.operator:<{width}}  {rows:>8}  {step.site}"
        yield from (f"      {line}" for line in _of_step(step))
    yield f"  from {len(row.inputs):,} input row{'' if len(row.inputs) == 1 else 's'}"
    for input in row.inputs[:inputs]:
        at = "" if input.event_time_ms is None else f"  at {_time(input.event_time_ms)}"
        yield f"    {input.source} {_place(input)}:  {_row_text(input.row)}{at}"
    if len(row.inputs) > inputs:
        yield f"    and {len(row.inputs) - inputs:,} more: --inputs {len(row.inputs)}, or --json"


def _place(input: SourceRow) -> str:
    return input.split if input.unit is None else f"{input.split} {input.unit} {input.place}"


def _of_step(step: WayStep) -> Iterator[str]:
    yield from map(_of_firing, step.firings[:_FIRINGS_SHOWN])
    if len(step.firings) > _FIRINGS_SHOWN:
        yield f"and {len(step.firings) - _FIRINGS_SHOWN:,} more times"
    if step.before:
        yield "state from the checkpoint contributed to it, whose input rows are not known"
    yield from step.doubts


def _of_firing(firing: StepFiring) -> str:
    of = f" of {_row_text(firing.key)}" if firing.key else ""
    what = "it emitted rows"
    if firing.timer_ms is not None:
        what = f"the timer{of} at {_time(firing.timer_ms)} fired"
    elif firing.window is not None:
        start, end = firing.window
        what = f"the window {_time(start)} to {_time(end)}{of} fired"
    elif of:
        what = f"rows{of} were emitted"
    if firing.watermark_ms is None:
        return f"{what} when a row arrived"
    if firing.watermark_ms >= MAX_TIMESTAMP_MS:
        return f"{what} when the input ended"
    return f"{what} at watermark {_time(firing.watermark_ms)}"


def _row_text(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in row.items())


def _value(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def why_object(found: WhyResult) -> dict[str, Any]:
    rows = [
        {
            **asdict(row),
            "exact": row.exact,
            "steps": [{**asdict(step), "site": str(step.site)} for step in row.steps],
        }
        for row in found.rows
    ]
    return {
        "job": found.job,
        "sink": found.sink,
        "checkpoint": found.checkpoint,
        "rows_read": dict(found.rows_read),
        "given": found.given,
        "matches": found.matches,
        "rows": rows,
        "reservations": [
            {"operator": each.operator, "site": str(each.site), "why": each.why}
            for each in found.reservations
        ],
    }
