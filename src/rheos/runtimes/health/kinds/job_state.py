"""Findings about the job: it failed, does not run, restarts, or its driver or a subtask hangs."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import FindingKind, Severity
from rheos.runtimes.health.moment import (
    FOR,
    DetectedFinding,
    JobMoment,
    health_check,
    number,
    span,
    times,
)
from rheos.runtimes.job import JobState

WHAT_TO_DO = (
    "`rheos logs` shows the full error, with the line, the record and what to do. Fix the "
    "cause and start the job again: it resumes from its newest checkpoint"
)


@health_check(
    FindingKind.FAILED,
    means="the job has ended with an error, and its restart strategy does not restart it",
    cause="an error of a function or of the data, or more failures than the restart strategy allows",
    remedy="fix the cause that the error names, and start the job again",
)
def _failed(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect a job that has failed and is not restarted."""
    if seen.status.state is JobState.FAILED:
        yield DetectedFinding(
            severity=Severity.FAILING,
            what=f"the job failed: {(seen.status.failure or 'unknown').splitlines()[0]}",
            what_to_do=WHAT_TO_DO,
            for_ms=(seen.now_us - seen.state_us) / 1000,
        )


FAILING_AFTER_MS = 60_000


@health_check(
    FindingKind.NOT_RUNNING,
    means="the job is between two attempts, or has not started within 60 s; its health is failing "
    "after 60 s",
    cause="a restart or a rescale is in progress; slots are missing; a server that the job needs at "
    "its start does not respond",
    remedy="add the missing slots to the cluster, or start the server",
)
def _not_running(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect a job that does not run at the moment, because it starts or waits for a restart."""
    status, for_ms = seen.status, (seen.now_us - seen.state_us) / 1000
    waits = status.state is JobState.RESTARTING
    if not waits and (status.state is not JobState.STARTING or for_ms < FAILING_AFTER_MS):
        return
    cause = f": {status.failure.splitlines()[0]}" if status.failure else ""
    state = "is not running, and is being restarted" if waits else "has not started"
    yield DetectedFinding(
        severity=Severity.FAILING if for_ms >= FAILING_AFTER_MS else Severity.DEGRADED,
        what=f"the job {state}, for {FOR}{cause}",
        what_to_do="check that slots are free, and that the servers that the job needs at its start "
        "respond. `rheos logs` shows each try",
        for_ms=for_ms,
    )


DEGRADED_US = 120_000_000
"""Time after a restart for which the job counts as degraded."""
STREAK_RESTARTS = 3
STREAK_GAP_US = 120_000_000
"""Longest time between two restarts of one streak."""
STREAK_US = 30_000_000
"""Duration of a streak after which the job counts as failing: short outages cause several restarts."""
STREAK_OVER_US = 60_000_000


@health_check(
    FindingKind.RESTARTS,
    means="the job has restarted, or another driver has taken it over, within the last hour. Its "
    "health is failing if it restarts repeatedly for at least 30 s; degraded for two minutes "
    "after a restart; then it is a note",
    cause="a worker or its machine was lost, an error led to a restart, or a server was unavailable "
    "for longer than its sink waits",
    remedy="read the cause; if it recurs, fix it",
)
def _restarts(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect a running job that has restarted within the last hour."""
    if not seen.runs or not seen.restarts_us:
        return
    newest_us, count = seen.restarts_us[-1], len(seen.restarts_us)
    if _is_again_and_again(seen):
        severity = Severity.FAILING
    elif seen.now_us - newest_us < DEGRADED_US:
        severity = Severity.DEGRADED
    else:
        severity = Severity.NOTE
    by_cause = sorted((r.at[0], number(r)) for r in seen.of(f.RESTARTS))
    counted = ", ".join(f"{cause} {total:,.0f} times" for cause, total in by_cause)
    last = (seen.status.failure or seen.earlier_cause or "unknown").splitlines()[0]
    ago = span((seen.now_us - newest_us) / 1000)
    yield DetectedFinding(
        severity=severity,
        what=(
            f"the job has restarted {times(count)} in the last hour, the last time {ago} ago, and "
            f"is running again. The last cause: {last}"
        )
        + (f" (so far: {counted})" if counted else ""),
        what_to_do="`rheos logs` shows the full error, with the line, the record and what to do",
        for_ms=(seen.now_us - seen.restarts_us[0]) / 1000,
    )


def _is_again_and_again(seen: JobMoment) -> bool:
    """Return whether the newest restarts are a streak that continues."""
    streak = [seen.restarts_us[-1]]
    for each in reversed(seen.restarts_us[:-1]):
        if streak[-1] - each > STREAK_GAP_US:
            break
        streak.append(each)
    lasts_us = streak[0] - streak[-1]
    goes_on = seen.now_us - streak[0] < STREAK_OVER_US
    return goes_on and len(streak) >= STREAK_RESTARTS and lasts_us >= STREAK_US


DRIVER_STANDS_MS = 10_000


@health_check(
    FindingKind.DRIVER,
    means="the driver's main loop has not run for 10 s",
    cause="a call of the driver blocks: to the checkpoint directory, or to a server while it recovers",
    remedy="make the server or the directory respond; otherwise restart the driver, which resumes the "
    "job from its newest checkpoint",
)
def _driver(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect a driver whose main loop hangs."""
    if seen.stepped_us is None or seen.status.state.is_over:
        return
    for_ms = (seen.now_us - seen.stepped_us) / 1000
    if for_ms < DRIVER_STANDS_MS:
        return
    calls = [reading.at[0] for reading in seen.of(f.DRIVER_WAIT)]
    where = f" ({calls[0]})" if calls else ""
    yield DetectedFinding(
        severity=Severity.STUCK,
        what=f"the driver has been blocked for {FOR}: it waits for a call, such as one to a server "
        f"or to the checkpoint directory{where}. No checkpoint completes in the meantime",
        what_to_do=(
            "check that the checkpoint directory responds, and the servers that the "
            "job publishes to. The driver continues when the call returns"
        ),
        for_ms=for_ms,
    )


SILENT_MS = 8_000
"""Time without a report after which a subtask is a finding. Subtasks report about once a second."""


@health_check(
    FindingKind.SILENT,
    means="a subtask, which reports every second, has not reported for 8 s",
    cause="a function of the program does not return, or the process or its machine is frozen",
    remedy="profile the subtask; check what its functions wait for",
)
def _silent(seen: JobMoment) -> Iterator[DetectedFinding]:
    """Detect subtasks that do not report."""
    if not seen.runs:
        return
    for reading in seen.of(f.REPORT_AGE):
        subtask, age_ms = int(reading.at[0]), number(reading)
        if age_ms >= SILENT_MS:
            yield DetectedFinding(
                severity=Severity.STUCK,
                what=f"subtask {subtask} has not reported for {FOR}: it is blocked in a call, such "
                "as one of the program's functions, or its process is frozen",
                what_to_do=(
                    f"profile subtask {subtask}, which shows where it is blocked: `rheos "
                    "profile`. Check the servers that its functions and lookups use"
                ),
                for_ms=age_ms,
                subtask=subtask,
            )
