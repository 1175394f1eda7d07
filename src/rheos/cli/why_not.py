"""`rheos why-not`: the reasons why a window or timer of a running job has not fired yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from rheos.cli.jobs import console, reported
from rheos.cli.status import moment_text
from rheos.core.checkpoint.checkpoint_copies import newest_checkpoint
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.protocol.durations import duration_text
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.moments import moment_ms, parsed_moment
from rheos.ops.control.commands import JobClient
from rheos.ops.control.registry import JobRecord
from rheos.ops.control.running_jobs import find_running
from rheos.ops.control.watermark_delay import DelayedEdge, WatermarkDelay, held_back
from rheos.ops.savepoints.pending_by_key import OpenWindow, PendingForKey, kept_for_key
from rheos.runtimes.health.moment import SplitStanding
from rheos.runtimes.host.stores import open_store

_SHOWN = 5


@dataclass(frozen=True)
class AwaitedFiring:
    """Window or timer whose delay is to be explained."""

    what: str
    """ "window" or "timer"."""
    start_ms: int | None
    end_ms: int
    """End of a window, which is exclusive; or time of a timer."""
    asked: bool

    @property
    def needs_ms(self) -> int:
        """Return the watermark at which it fires."""
        return self.end_ms - 1 if self.what == "window" else self.end_ms


@dataclass(frozen=True)
class WaitExplanation:
    """Everything that is known about a window or timer."""

    at_ms: int
    """Time of the answer, by the driver's wall clock."""
    held: WatermarkDelay
    key: str | None
    kept: PendingForKey | None
    not_kept: str
    """Reason why the state is unknown; empty if it is known."""
    due: AwaitedFiring | None

    @property
    def open_windows(self) -> list[OpenWindow]:
        """Return the windows that have not fired."""
        fired_ms = self.held.watermark_ms
        windows = self.kept.windows if self.kept else ()
        return [each for each in windows if fired_ms is None or each.end_ms - 1 > fired_ms]

    @property
    def has_fired(self) -> bool:
        mark = self.held.watermark_ms
        return self.due is not None and mark is not None and mark >= self.due.needs_ms


def show_why_not(job: str, operator: str, key: str | None, window: str | None, as_json: bool) -> int:
    def show() -> int:
        answered = why_not(job, operator, key, window)
        if as_json:
            print(json.dumps(why_not_object(answered), indent=2))
        else:
            for line in _lines(answered):
                console().print(Text(line))
        return 0

    return reported(show)


def why_not(job: str, operator: str, key: str | None, window: str | None) -> WaitExplanation:
    """Return why the operator has not emitted a row for the key or window.

    Raises ConfigurationError, and TransportError if the job does not answer.
    """
    span = None if window is None else _span(window)
    record = find_running(job)
    client = JobClient(record)
    metrics = client.metrics()
    held = held_back(client.plan(), metrics, client.history(), operator)
    kept, why = _pending_for_key(record, held, key)
    return WaitExplanation(metrics.at_ms, held, key, kept, why, _due(span, held, kept))


def _span(window: str) -> tuple[int, int | None]:
    """Return the window's start, and its end if the user specified it. Raise ConfigurationError if it
    is invalid."""
    first, slash, last = window.partition("/")
    span = _moment(first, window), _moment(last, window) if slash else None
    if span[1] is not None and span[1] <= span[0]:
        raise ConfigurationError(f"the window {window!r} ends before it starts", hint=_WRITE_WINDOW)
    return span


_WRITE_WINDOW = "write its start, or START/END: 2026-11-24T04:00:00Z, or ms since the epoch"


def _moment(text: str, window: str) -> int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return moment_ms(parsed_moment(text))
    except ValueError:
        raise ConfigurationError(f"{window!r} is not a window", hint=_WRITE_WINDOW) from None


def _pending_for_key(
    record: JobRecord, held: WatermarkDelay, key: str | None
) -> tuple[PendingForKey | None, str]:
    if record.checkpoint_dir is None:
        return None, "the job has no readable checkpoint directory"
    try:
        checkpoint = newest_checkpoint(open_store(record.checkpoint_dir, make=False), record.job)
    except RheosError as error:
        return None, error.what
    return kept_for_key(checkpoint, OperatorId(held.operator.id), key_columns(key)), ""


def key_columns(key: str | None) -> Mapping[str, str] | str | None:
    if key is None or "=" not in key:
        return key
    parts = (part.partition("=") for part in key.split(","))
    return {name.strip(): value for name, _, value in parts}


def _due(
    span: tuple[int, int | None] | None, held: WatermarkDelay, kept: PendingForKey | None
) -> AwaitedFiring | None:
    if span is not None:
        start_ms, end_ms = span
        size_ms = None if kept is None else kept.window_size_ms
        if end_ms is None and size_ms is None:
            raise ConfigurationError(
                "the end of the window is unknown: windows of this operator differ in size, or "
                "there is no checkpoint yet",
                hint="write --window START/END",
            )
        return AwaitedFiring("window", start_ms, end_ms or start_ms + (size_ms or 0), asked=True)
    if kept is None:
        return None
    mark = held.watermark_ms
    dues = [AwaitedFiring("window", w.start_ms, w.end_ms, asked=False) for w in kept.windows]
    dues += [AwaitedFiring("timer", None, at_ms, asked=False) for at_ms in kept.timers_ms]
    left = [due for due in dues if mark is None or due.needs_ms > mark]
    return min(left, key=lambda due: due.needs_ms, default=None)


# --- output as text
# -------------------------------------------------------------------------------------


def _lines(found: WaitExplanation) -> Iterator[str]:
    held = found.held
    yield f"operator {held.operator.name!r} ({held.operator.id}), {held.operator.site}"
    yield from _of_watermark(found)
    if found.has_fired:
        yield "now holding back the watermark:"
    yield from _of_holders(held)
    yield from map(_of_edge, held.delayed)
    yield ""
    yield from _of_state(found)
    if held.late:
        went = f"to the side output {held.late_goes_to!r}" if held.late_goes_to else "nowhere: dropped"
        yield f"{held.late:,} rows were late in this attempt, and went {went}"
    else:
        yield "no row was late in this attempt"


def _of_watermark(found: WaitExplanation) -> Iterator[str]:
    held, due = found.held, found.due
    if held.watermark_ms is None:
        yield "it has received no watermark yet"
    elif held.watermark_ms >= MAX_TIMESTAMP_MS:
        yield "its input has ended, so every window has fired"
    else:
        where = "" if held.subtask is None else f" in subtask {held.subtask}, which has the lowest"
        since = ""
        if held.since_ms is not None:
            stands_ms = max(found.at_ms - held.since_ms, 0)
            began = moment_text(held.since_ms)
            since = f"; it has not advanced since {began} or earlier ({duration_text(stands_ms)})"
        yield f"its watermark is {moment_text(held.watermark_ms)}{where}{since}"
    if due is None:
        return
    what = f"the timer of {moment_text(due.end_ms)}"
    if due.what == "window":
        start = "" if due.start_ms is None else f"{moment_text(due.start_ms)} to "
        what = f"the window {start}{moment_text(due.end_ms)}"
    if found.has_fired:
        yield f"{what} is in the past: it has fired, unless all of its rows were late"
    elif held.watermark_ms is None:
        yield f"{what} fires at watermark {moment_text(due.needs_ms)}"
    else:
        further = duration_text(due.needs_ms - held.watermark_ms)
        yield f"{what} fires at {moment_text(due.needs_ms)}: the watermark must advance {further} more"


def _of_holders(held: WatermarkDelay) -> Iterator[str]:
    for split in held.holding[:_SHOWN]:
        yield f"held back by {_split(split)}"
    if len(held.holding) > _SHOWN:
        yield f"and by {len(held.holding) - _SHOWN:,} more splits with the same watermark"
    if held.waiting_splits:
        yield f"held back by {held.waiting_splits:,} splits that are not being read yet"
    if not held.holding and not held.waiting_splits:
        yield (
            "no split is known to hold it back: all are idle or finished, or there are too "
            "many to report"
        )
    if held.idle:
        longest = max(held.idle, key=lambda split: split.stands_ms)
        yield (
            f"{len(held.idle):,} splits are idle and do not hold it back, {longest.split!r} of "
            f"{longest.source!r} for {duration_text(longest.stands_ms)}"
        )


def _split(split: SplitStanding) -> str:
    at = (
        "has emitted no row yet"
        if split.watermark_ms is None
        else f"is at {moment_text(split.watermark_ms)}"
    )
    stands = duration_text(split.stands_ms)
    return (
        f"split {split.split!r} of {split.source!r}, subtask {split.subtask}: it {at}, and has "
        f"not advanced for {stands}"
    )


def _of_edge(edge: DelayedEdge) -> str:
    came = "none" if edge.receiver_ms is None else moment_text(edge.receiver_ms)
    went = moment_text(edge.sender_ms)
    return (
        f"{edge.sender!r} is at {went} and {edge.receiver!r} at {came}: {edge.queued_batches:,} "
        f"batches are queued between them, and {edge.receiver!r} is busy {edge.busy:.0%}"
    )


def _of_state(found: WaitExplanation) -> Iterator[str]:
    kept, due = found.kept, found.due
    if kept is None:
        yield f"its state is unknown: {found.not_kept}"
        return
    ago = duration_text(max(found.at_ms - kept.taken_ms, 0))
    begin = f"in checkpoint {kept.checkpoint} ({ago} ago)"
    of_key = "" if found.key is None else f" of key {found.key!r}"
    windows = found.open_windows
    of_windows = kept.window_size_ms is not None or bool(kept.windows)
    if windows or kept.timers_ms:
        yield f"{begin} there are {len(windows):,} open windows{of_key}, {len(kept.timers_ms):,} timers"
        if due is not None and due.asked and due.start_ms is not None and not found.has_fired:
            inside = any(due.start_ms <= each.start_ms < due.end_ms for each in windows)
            yield f"the window has {'rows' if inside else 'no row'}{of_key} there"
    elif kept.rows and not of_windows:
        yield f"{begin} there is state{of_key}, but no timer"
    elif found.key is None:
        yield f"{begin} no window is open"
    else:
        yield (
            f"{begin} there is no state{of_key}: the row has not arrived, was late, or its "
            "window has fired"
        )
    if kept.unread:
        yield f"not examined: {', '.join(kept.unread)}"


def why_not_object(found: WaitExplanation) -> dict[str, Any]:
    held, due = found.held, found.due
    mark = held.watermark_ms
    return {
        "operator": {"id": held.operator.id, "name": held.operator.name, "site": held.operator.site},
        "at_ms": found.at_ms,
        "watermark_ms": mark,
        "subtask": held.subtask,
        "since_ms": held.since_ms,
        "due": None
        if due is None
        else {
            "what": due.what,
            "start_ms": due.start_ms,
            "end_ms": due.end_ms,
            "fires_at_ms": due.needs_ms,
            "further_ms": None if mark is None else max(due.needs_ms - mark, 0),
            "has_fired": found.has_fired,
        },
        "holding": [asdict(split) for split in held.holding],
        "idle": [asdict(split) for split in held.idle],
        "waiting_splits": held.waiting_splits,
        "delayed": [asdict(edge) for edge in held.delayed],
        "late": held.late,
        "late_goes_to": held.late_goes_to,
        "key": found.key,
        "state": None
        if found.kept is None
        else {
            "checkpoint": found.kept.checkpoint,
            "taken_ms": found.kept.taken_ms,
            "keyed_by": list(found.kept.columns),
            "rows": found.kept.rows,
            "open_windows": [asdict(window) for window in found.open_windows],
            "timers_ms": list(found.kept.timers_ms),
            "not_looked_into": list(found.kept.unread),
        },
        "no_state_because": found.not_kept or None,
    }
