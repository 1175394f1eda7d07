"""Output of a job's status: live at a terminal, otherwise a line at intervals; a table at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rheos.core.metrics.health import HealthState, JobHealth
from rheos.core.printable import printable
from rheos.core.protocol.durations import duration_text
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rheos.runtimes.dropped_rows import dropped_rows
from rheos.runtimes.job import JobState, JobStatus, JobWait, LatencyStatus, OperatorStatus

_LINE_EVERY_S = 5.0
_OVER = (JobState.FINISHED, JobState.CANCELLED, JobState.STOPPED, JobState.FAILED)
_COLOURS = {
    JobState.STARTING: "yellow",
    JobState.RUNNING: "green",
    JobState.RESTARTING: "yellow",
    JobState.FINISHED: "green",
    JobState.CANCELLED: "yellow",
    JobState.STOPPED: "green",
    JobState.FAILED: "red",
}


def moment_text(ms: int) -> str:
    """Return ms since the epoch as text: 2026-11-24T04:00:00.000Z."""
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def watermark_text(watermark_ms: int | None, now_ms: int) -> str:
    """Return the watermark, and its lag compared with the wall clock."""
    if watermark_ms is None or watermark_ms <= MIN_TIMESTAMP_MS:
        return "none"
    if watermark_ms >= MAX_TIMESTAMP_MS:
        return "end of input"
    try:
        at = datetime.fromtimestamp(watermark_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{watermark_ms} ms"
    text = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    lag_ms = now_ms - watermark_ms
    return f"{text} ({duration_text(lag_ms)} behind)" if lag_ms >= 0 else f"{text} (ahead)"


def rate_text(status: JobStatus) -> str:
    """Return the rate in records per second, or a message that no row was read so far."""
    has_read = any(operator.records_out or operator.records_in for operator in status.operators)
    return (
        f"{status.records_per_s:,.0f} records/s" if has_read or status.records_per_s else "no rows yet"
    )


def checkpoints_text(status: JobStatus) -> str:
    parts = [f"{status.checkpoints_completed:,} completed"]
    if status.checkpoints_failed:
        parts.append(f"{status.checkpoints_failed:,} failed")
    if status.last_checkpoint_ms is not None:
        parts.append(f"the last took {duration_text(status.last_checkpoint_ms)}")
    return ", ".join(parts)


def latency_text(latency: LatencyStatus) -> str:
    """Return the measured latency and the settings chosen for the latency objective."""
    return (
        f"latency {latency.found_ms:,.1f} of {latency.objective_ms:g} ms with batches of "
        f"{latency.batch_rows:,} rows, buffer timeout {latency.buffer_timeout_ms:.1f} ms"
    )


def scaling_text(status: JobStatus) -> str:
    """Return the job's parallelism, and the reason for it."""
    scaling = status.scaling
    if scaling is None:
        return ""
    last = "" if scaling.last_change is None else f"; {scaling.last_change}"
    return f"parallelism {status.parallelism} of {scaling.bounds}: {scaling.meaning}{last}"


def failure_text(status: JobStatus) -> str:
    """Return why a job is restarting: the first line of the error; empty if it is not."""
    if status.state is not JobState.RESTARTING or not status.failure:
        return ""
    return status.failure.splitlines()[0]


def waiting_text(wait: JobWait, now_ms: int) -> str:
    """Return what the job waits for and for how long, in one line."""
    return f"waiting for {duration_text(max(now_ms - wait.since_ms, 0))}: {wait.what}"


def _is_ill(health: JobHealth) -> bool:
    return health.state is not HealthState.HEALTHY


def status_line(status: JobStatus, now_ms: int) -> str:
    """Return the status in one line, for a log."""
    failure = failure_text(status)
    return ", ".join(
        [
            f"{status.name}: {status.state.value} for {duration_text(status.running_s * 1000)}",
            rate_text(status),
            f"watermark {watermark_text(status.watermark_ms, now_ms)}",
            f"checkpoints: {checkpoints_text(status)}",
            f"busy {status.busy_ratio:.0%}",
            f"back-pressure {status.backpressure_ratio:.0%}",
            f"restarts {status.restarts:,}",
            *([latency_text(status.latency)] if status.latency else []),
            *([scaling_text(status)] if status.scaling else []),
            *([f"unauthenticated peers rejected {status.strangers:,}"] if status.strangers else []),
            *([f"because of: {failure}"] if failure else []),
            *([status.health.headline] if status.health and _is_ill(status.health) else []),
            *(waiting_text(wait, now_ms) for wait in status.waits[:1]),
        ]
    )


def status_view(status: JobStatus, now_ms: int) -> Group:
    """Return the status in a few lines, for a terminal."""
    view = Table.grid(padding=(0, 3))
    view.add_row(
        Text(status.name, style="bold"),
        Text(status.state.value, style=_COLOURS[status.state]),
        f"for {duration_text(status.running_s * 1000)}",
        f"restarts {status.restarts:,}",
    )
    view.add_row(
        rate_text(status),
        f"busy {status.busy_ratio:.0%}",
        f"back-pressure {status.backpressure_ratio:.0%}",
        f"watermark {watermark_text(status.watermark_ms, now_ms)}",
    )
    view.add_row("checkpoints", *checkpoints_text(status).split(", "))
    if status.latency:
        view.add_row(*latency_text(status.latency).split(" with "))
    below = [Text(scaling_text(status))] if status.scaling else []
    if status.stage is not None:
        below.append(Text(f"slots: tasks of one {status.stage}"))
    if failure := failure_text(status):
        below.append(Text(failure, style="red"))
    if status.health is not None and _is_ill(status.health):
        below.append(Text(printable(status.health.headline), style="yellow"))
    below += [Text(waiting_text(wait, now_ms), style="yellow") for wait in status.waits]
    return Group(view, *below)


def final_table(status: JobStatus) -> Group:
    """Return the outcome of a job: a summary line, and its operators with their counters."""
    head = Text.assemble(
        (status.name, "bold"),
        " ",
        (status.state.value, _COLOURS[status.state]),
        f" after {duration_text(status.running_s * 1000)}, restarts {status.restarts:,}, "
        f"checkpoints: {checkpoints_text(status)}",
    )
    table = Table()
    table.add_column("operator", overflow="fold")
    table.add_column("records in", justify="right")
    table.add_column("records out", justify="right")
    table.add_column("counted")
    for operator in status.operators:
        counted = ", ".join(_metrics(operator))
        table.add_row(
            Text(operator.name), f"{operator.records_in:,}", f"{operator.records_out:,}", Text(counted)
        )
    dropped = dropped_rows(status.operators)
    below = [] if dropped is None else [Text(printable(dropped), style="yellow")]
    return Group(head, table, *below) if status.operators else Group(head)


def _metrics(operator: OperatorStatus) -> Iterator[str]:
    """Yield the operator's counters, and the accumulators and gauges of its function."""
    for name, count in sorted(operator.counters.items()):
        yield f"{name} {count:,}"
    for name, added in sorted(operator.accumulated.items()):
        if added.mean is not None:
            median = added.quantile(0.5)
            middle = f"mean {added.mean:.4g}" if median is None else f"median {median:.4g}"
            yield f"{name} {added.n:,}: {added.least:.4g} to {added.most:.4g}, {middle}"
    for name, shown in sorted(operator.gauges.items()):
        yield f"{name} {shown:.4g}"


class StatusDisplay:
    """Display of a program's jobs while they run. Any thread may call its listeners."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._latest: dict[str, JobStatus | None] = {}
        self._line_at: dict[str, float] = {}
        self._live: Live | None = None

    def __enter__(self) -> StatusDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def listener(self, name: str) -> Callable[[JobStatus], None]:
        """Return a function that shows the status of the job with this name."""
        with self._lock:
            self._latest[name] = None
            if self._console.is_terminal and self._live is None:
                self._live = Live(
                    get_renderable=self._view,
                    console=self._console,
                    refresh_per_second=4,
                    transient=True,
                    # The program's output goes above the status, unless it is redirected to a pipe.
                    redirect_stdout=sys.stdout.isatty(),
                )
                self._live.start()
        return lambda status: self._show(name, status)

    def _show(self, name: str, status: JobStatus) -> None:
        with self._lock:
            self._latest[name] = status
            if self._console.is_terminal or status.state in _OVER:
                return
            now = time.monotonic()
            if now >= self._line_at.get(name, now):
                self._line_at[name] = now + _LINE_EVERY_S
                line = status_line(status, time.time_ns() // 1_000_000)
                at = datetime.now().strftime("%H:%M:%S")
                self._console.print(f"{at} {line}", markup=False, highlight=False, soft_wrap=True)

    def _view(self) -> Group:
        now_ms = time.time_ns() // 1_000_000
        return Group(
            *(
                Text(f"{name}: starting") if status is None else status_view(status, now_ms)
                for name, status in list(self._latest.items())
                if status is None or status.state not in _OVER
            )
        )
