"""Checkpoints that fail, take long, or do not complete."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.metrics.health import FindingKind, Severity
from rheos.runtimes.health.moment import FOR, DetectedFinding, JobMoment, health_check, number

SLOW_MS = 5_000
LATE_INTERVALS = 3
LATE_MS = 30_000
STUCK_INTERVALS = 5
STUCK_MS = 120_000
_PARTS: dict[Metric, str] = {
    f.ALIGN: (
        "aligning barriers: rows wait upstream of a slow operator. Remove the backpressure, or set "
        "unaligned_after"
    ),
    f.SYNC: "in the synchronous part, while processing is paused: check the operators with large state",
    f.ASYNC: "writing state: the checkpoint directory is slow, or the state is large",
}


def stuck_after_ms(config: CheckpointConfig) -> float:
    """Return the time without a complete checkpoint after which output counts as stuck."""
    return max(STUCK_INTERVALS * _period_ms(config), STUCK_MS)


def _period_ms(config: CheckpointConfig) -> float:
    return (config.interval_ms or 0) + config.min_pause_ms


@health_check(
    FindingKind.SLOW_CHECKPOINTS,
    means="no checkpoint has completed for three intervals, and for at least 30 s; or the newest "
    "took longer than the interval, and longer than 5 s. The job is stuck after five "
    "intervals, and at least two minutes",
    cause="barriers wait for rows (backpressure), state is large, or the directory is slow",
    remedy="remove the backpressure, set `unaligned_after`, or lengthen the interval",
)
def _slow_checkpoints(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect checkpoints that take longer than their interval, or neither complete nor fail."""
    status, config = seen.status, seen.checkpoint
    if not seen.runs or config.interval_ms is None or status.checkpoint_failure is not None:
        return
    period_ms = _period_ms(config)
    ages_ms = [number(reading) for reading in seen.of(f.SINCE_CHECKPOINT)]
    age_ms, took_ms = max(ages_ms, default=0.0), status.last_checkpoint_ms or 0
    if age_ms >= max(LATE_INTERVALS * period_ms, LATE_MS):
        yield DetectedFinding(
            severity=Severity.STUCK if age_ms >= stuck_after_ms(config) else Severity.DEGRADED,
            what=f"no checkpoint has completed for {FOR}, although the interval is "
            f"{config.interval_ms / 1000:g} s. Sinks that publish with checkpoints publish "
            "nothing",
            what_to_do="`rheos events --trace` shows which subtasks have acknowledged the open "
            "checkpoint; the others still process rows, or do not respond",
            for_ms=age_ms,
        )
    elif took_ms > max(period_ms, SLOW_MS):
        yield DetectedFinding(
            severity=Severity.DEGRADED,
            what=f"the newest checkpoint took {took_ms / 1000:.1f} s, longer than the interval of "
            f"{config.interval_ms / 1000:g} s",
            what_to_do=_longest_part(seen),
        )


def _longest_part(seen: JobMoment) -> str:
    parts = {metric: max(map(number, seen.of(metric)), default=0.0) for metric in _PARTS}
    longest = max(parts, key=lambda metric: parts[metric])
    if not parts[longest]:
        return "`rheos checkpoints` shows the cost of each checkpoint"
    return f"most of the time, {parts[longest] / 1000:.1f} s, was spent {_PARTS[longest]}"


@health_check(
    FindingKind.CHECKPOINTS,
    means="the newest checkpoint failed. The job is stuck if none has completed for several "
    "intervals, and for at least two minutes",
    cause="the checkpoint directory cannot be written (its disk is full, or its server is "
    "unavailable), a subtask did not acknowledge in time, or a sink could not stage its rows",
    remedy="free some space, or make the directory reachable; the next checkpoint then completes",
)
def _checkpoints(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect that checkpoints fail."""
    status = seen.status
    if status.checkpoint_failure is None or status.state.is_over:
        return
    ages_ms = [number(reading) for reading in seen.of(f.SINCE_CHECKPOINT)]
    stuck = max(ages_ms, default=0.0) >= stuck_after_ms(seen.checkpoint)
    yield DetectedFinding(
        severity=Severity.STUCK if stuck else Severity.DEGRADED,
        what=f"the newest checkpoint failed: {status.checkpoint_failure} "
        f"({status.checkpoints_failed:,} have failed so far; {status.checkpoints_completed:,} "
        "are complete)",
        what_to_do=(
            "the job continues, and would restart from the newest complete "
            "checkpoint. Sinks that publish with checkpoints publish nothing in the "
            "meantime"
        ),
    )
