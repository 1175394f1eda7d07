"""Checkpoints that fail, take long, or do not complete."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.metrics.health import FindingKind, Severity
from rheos.runtimes.health.moment import FOR, Detected, JobMoment, health_check, number

SLOW_MS = 5_000
LATE_INTERVALS = 3
LATE_MS = 30_000
STUCK_INTERVALS = 5
STUCK_MS = 120_000
_PARTS: dict[Metric, str] = {
    f.ALIGN: "in the alignment of barriers: rows wait in front of a slow operator. Remove the "
    "back-pressure, or set unaligned_after",
    f.SYNC: "in the synchronous part, while processing is paused: look at the operators with much "
    "state",
    f.ASYNC: "in writing state: is the checkpoint directory slow, or the state large?",
}


def stuck_after_ms(config: CheckpointConfig) -> float:
    """Return the time without a complete checkpoint after which output counts as stuck."""
    return max(STUCK_INTERVALS * _period_ms(config), STUCK_MS)


def _period_ms(config: CheckpointConfig) -> float:
    return (config.interval_ms or 0) + config.min_pause_ms


@health_check(
    FindingKind.SLOW_CHECKPOINTS,
    means="no checkpoint has completed for three intervals, and for 30 s at least; or the newest took "
    "longer than the interval, and than 5 s. Stuck after five intervals, and two minutes at least",
    cause="barriers wait for rows (backpressure), state is large, or the directory is slow",
    remedy="remove the back-pressure, set `unaligned_after`, or lengthen the interval",
)
def _slow_checkpoints(seen: JobMoment) -> Iterator[Detected]:
    """Detect checkpoints that take longer than their interval, or do not complete, and do not fail."""
    status, config = seen.status, seen.checkpoint
    if not seen.runs or config.interval_ms is None or status.checkpoint_failure is not None:
        return
    period_ms = _period_ms(config)
    ages_ms = [number(reading) for reading in seen.of(f.SINCE_CHECKPOINT)]
    age_ms, took_ms = max(ages_ms, default=0.0), status.last_checkpoint_ms or 0
    if age_ms >= max(LATE_INTERVALS * period_ms, LATE_MS):
        yield Detected(
            severity=Severity.STUCK if age_ms >= stuck_after_ms(config) else Severity.DEGRADED,
            what=f"no checkpoint has completed for {FOR}, and one is due each "
            f"{config.interval_ms / 1000:g} s. Sinks that publish with checkpoints publish nothing",
            what_to_do="`rheos events --trace` has which subtasks have acknowledged the open one; a "
            "subtask that has not is still working through rows, or does not answer",
            for_ms=age_ms,
        )
    elif took_ms > max(period_ms, SLOW_MS):
        yield Detected(
            severity=Severity.DEGRADED,
            what=f"the newest checkpoint has taken {took_ms / 1000:.1f} s, longer than the interval of "
            f"{config.interval_ms / 1000:g} s",
            what_to_do=_where(seen),
        )


def _where(seen: JobMoment) -> str:
    parts = {metric: max(map(number, seen.of(metric)), default=0.0) for metric in _PARTS}
    longest = max(parts, key=lambda metric: parts[metric])
    if not parts[longest]:
        return "`rheos checkpoints` shows what each checkpoint has cost"
    return f"most of the time, {parts[longest] / 1000:.1f} s, was spent {_PARTS[longest]}"


@health_check(
    FindingKind.CHECKPOINTS,
    means="the newest checkpoint has failed. Stuck where none completes for several intervals, and for "
    "two minutes at least",
    cause="the checkpoint directory cannot be written (its disk is full, its server is away), a "
    "subtask did not acknowledge in time, or a sink could not stage its rows",
    remedy="make room, or make the directory reachable; the next checkpoint then completes by itself",
)
def _checkpoints(seen: JobMoment) -> Iterator[Detected]:
    """Detect that checkpoints fail."""
    status = seen.status
    if status.checkpoint_failure is None or status.state.is_over:
        return
    ages_ms = [number(reading) for reading in seen.of(f.SINCE_CHECKPOINT)]
    stuck = max(ages_ms, default=0.0) >= stuck_after_ms(seen.checkpoint)
    yield Detected(
        severity=Severity.STUCK if stuck else Severity.DEGRADED,
        what=f"the newest checkpoint has failed: {status.checkpoint_failure} "
        f"({status.checkpoints_failed:,} have failed so far; {status.checkpoints_completed:,} are "
        "complete)",
        what_to_do="the job continues, and would start again from the newest complete checkpoint. "
        "Sinks that publish with checkpoints publish nothing meanwhile",
    )
