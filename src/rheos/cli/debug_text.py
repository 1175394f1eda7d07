"""Output of a replayed key as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rheos.cli.status import moment_text
from rheos.core.protocol.durations import duration_text
from rheos.ops.debugging.debugging import Debugged
from rheos.ops.debugging.key_replay import DebugStep
from rheos.ops.debugging.key_state import KeyState, Row, StateChange

_PANE = ("pane_start", "pane_end", "first_window_end")


def heading(debugged: Debugged) -> Iterator[str]:
    up_to = "now" if debugged.until is None else f"checkpoint {debugged.until}"
    read = ", ".join(f"{rows:,} rows of {name!r}" for name, rows in debugged.rows_read.items())
    yield (
        f"{key_text(debugged)} of {debugged.name} ({debugged.operator}, {debugged.site}), from "
        f"checkpoint {debugged.checkpoint} of {debugged.job} to {up_to}: {debugged.rows:,} of {read}"
    )
    yield "state in the checkpoint"
    yield from state_lines(debugged.state)
    yield from (f"  cannot be shown: {why}" for why in debugged.unread)


def key_text(debugged: Debugged) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in debugged.key.items())


def state_lines(state: KeyState) -> Iterator[str]:
    if not state:
        yield "  nothing"
    for name, of in state.items():
        for row in of.rows:
            yield f"  {_place(name, row)}{_values(_without_place(row))}"


def step_lines(step: DebugStep, inputs: int) -> Iterator[str]:
    """Yield the lines of a step. `inputs` is the number of inputs of the operator."""
    yield f"{step.number:>4}  {_step_text(step, inputs)}"
    yield from (f"        {_change(change)}" for change in step.changes)
    yield from (f"        counted {name}: {n}" for name, n in step.counted.items())
    for emitted in step.out:
        yield f"      {emitted.output}> {_json(emitted.row)}"
    if step.error is not None:
        yield from (f"      ! {line}" for line in str(step.error).splitlines())


def _step_text(step: DebugStep, inputs: int) -> str:
    parts = [step.kind.value]
    if step.port is not None and inputs > 1:
        parts.append(f"of input {step.port}")
    if step.row is not None:
        parts.append(_json(step.row))
    if step.event_time_ms is not None:
        parts.append(f"at {moment_text(step.event_time_ms)}")
    mark = None if step.watermark_ms is None else moment_text(step.watermark_ms)
    if step.row is None and step.event_time_ms is None:
        return f"{parts[0]} {mark}"
    return " ".join(parts) + (", no watermark yet" if mark is None else f", watermark {mark}")


def _change(change: StateChange) -> str:
    before, after = change.before, change.after
    row = after if before is None else before
    assert row is not None
    place = _place(change.state, row)
    if before is None or after is None:
        sign = "+" if before is None else "-"
        return f"{place}{sign} {_values(_without_place(row))}".rstrip()
    if before.keys() == {"value"} | (before.keys() & {"position", "map_key"}):
        return f"{place}{_plain(before['value'])} -> {_plain(after['value'])}"
    news = [name for name in before if before[name] != after.get(name)]
    return place + ", ".join(f"{n} {_plain(before[n])} -> {_plain(after.get(n))}" for n in news)


def _place(state: str, row: Row) -> str:
    """Return a label that identifies the row within the state."""
    if "position" in row:
        return f"{state}[{row['position']}]: "
    if "map_key" in row:
        return f"{state}[{_plain(row['map_key'])}]: "
    if row.keys() >= set(_PANE):
        return f"{state} {_plain(row['pane_start'])} to {_plain(row['pane_end'])}: "
    return f"{state}: "


def _without_place(row: Row) -> dict[str, Any]:
    found = ("position", "map_key", *_PANE) if row.keys() >= set(_PANE) else ("position", "map_key")
    return {name: value for name, value in row.items() if name not in found}


def _values(row: Row) -> str:
    if row.keys() == {"value"}:
        return _plain(row["value"])
    if row.keys() == {"timestamp_ms", "domain"}:
        return f"{moment_text(row['timestamp_ms'])} ({row['domain']} time)"
    return ", ".join(f"{name} {_plain(value)}" for name, value in row.items())


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, default=_as_text, ensure_ascii=False)


def _as_text(value: Any) -> str:
    return _plain(value) if isinstance(value, datetime) else str(value)


# --- accuracy of the replay
# -----------------------------------------------------------------------------


def ending(debugged: Debugged) -> Iterator[str]:
    """Yield lines that tell whether the replay equals the original run, and why it may differ."""
    if debugged.deviation is not None:
        if debugged.deviation:
            yield (
                f"the job's state in checkpoint {debugged.until} was different: replayed -> the job's"
            )
            yield from (f"  {_change(change)}" for change in debugged.deviation)
        else:
            yield (
                f"the state equals the state of the job in checkpoint {debugged.until}, to the last "
                "timer"
            )
    if debugged.clock_timers_ms:
        count, first = len(debugged.clock_timers_ms), moment_text(debugged.clock_timers_ms[0])
        yield f"{count:,} processing-time timers did not fire, the first due at {first}"
    if debugged.reservations:
        yield "the replay may differ from the original run:"
        yield from (f"  {reservation}" for reservation in debugged.reservations)
        clock = f"the clock that functions see is at {moment_text(debugged.clock_ms)}"
        if debugged.clock_off_ms is not None:
            clock += f"; in the job it advanced by {duration_text(debugged.clock_off_ms)}"
        yield f"  {clock}"


# --- JSON -------------------------------------------------------------------------------------------


def debugged_object(debugged: Debugged, steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "job": debugged.job,
        "operator": {"id": debugged.operator, "name": debugged.name, "site": str(debugged.site)},
        "key": dict(debugged.key),
        "checkpoint": debugged.checkpoint,
        "until": debugged.until,
        "rows_read": dict(debugged.rows_read),
        "rows": debugged.rows,
        "state": _state_object(debugged.state),
        "not_shown": debugged.unread,
        "steps": steps,
        "deviation": None
        if debugged.deviation is None
        else [_change_object(change) for change in debugged.deviation],
        "clock_timers_ms": list(debugged.clock_timers_ms),
        "clock_ms": debugged.clock_ms,
        "clock_off_ms": debugged.clock_off_ms,
        "reservations": [
            {"operator": each.operator, "site": str(each.site), "why": each.why}
            for each in debugged.reservations
        ],
    }


def step_object(step: DebugStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "kind": step.kind.value,
        "input": step.port,
        "row": step.row,
        "event_time_ms": step.event_time_ms,
        "watermark_ms": step.watermark_ms,
        "before": _state_object(step.before),
        "after": _state_object(step.after),
        "changes": [_change_object(change) for change in step.changes],
        "out": [{"output": emitted.output, "row": emitted.row} for emitted in step.out],
        "counted": step.counted,
        "error": None if step.error is None else str(step.error),
    }


def _state_object(state: KeyState) -> Mapping[str, Any]:
    return {name: [dict(row) for row in of.rows] for name, of in state.items()}


def _change_object(change: StateChange) -> dict[str, Any]:
    return {"state": change.state, "before": change.before, "after": change.after}


def printed(value: Any) -> str:
    return json.dumps(value, indent=2, default=_as_text)
