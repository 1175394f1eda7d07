"""A standby driver: it is listed, waits, and takes the job over or ends with it."""

from __future__ import annotations

import sys
from time import sleep
from uuid import uuid4

from rheos.core.checkpoint.driver_note import DriverNote
from rheos.core.checkpoint.events import Outcome
from rheos.core.errors import CheckpointError, JobFailedError, RheosError
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.printable import printable_lines
from rheos.core.redaction import redacted
from rheos.ops.control.driver_note import HeldNote
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.ops.control.standby_slots import StandbySlots
from rheos.ops.control.started_program import StartedProgram
from rheos.runtimes.driver.collected_results import CollectedResults, EarlierResults
from rheos.runtimes.driver.status import OUTCOMES
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.job import JobConfig, JobResult, JobState, JobStatus
from rheos.runtimes.job_handle import WithoutCheckpoints


def stand_by(
    note: HeldNote,
    plan: PhysicalPlan,
    config: JobConfig,
    runtime: str,
    program: StartedProgram | None,
    slots: StandbySlots | None = None,
) -> DriverNote | None:
    """Wait until this driver has the job, and return None. If the job has ended under another driver,
    return that driver's note. `rheos jobs` lists this driver meanwhile, and `slots` restore the job's
    checkpoints. Raise their RheosError."""
    clock = SystemClock()
    registry = Registry()
    record = JobRecord(
        key=config.key,
        driver=uuid4().hex[:12],
        job=config.job,
        name=plan.name,
        process=this_process(),
        runtime=runtime,
        checkpoint_dir=config.checkpoint_dir and redacted(config.checkpoint_dir),
        started_ms=clock.now_ms(),
        endpoint="",
        token="",
        program=program,
        stands_by=True,
    )
    drivers: list[str] = []

    def behind(driver: str) -> None:
        if not drivers:
            registry.add(record)
        drivers.append(driver)
        _say(f"standing by: {driver} runs the job {config.job!r}")

    def pause(seconds: float) -> None:
        sleep(seconds)
        if slots is not None and drivers and not note.held:
            slots.keep()

    try:
        ended = note.stand_by(clock, pause, behind)
    finally:
        registry.remove(record)
    if ended is not None and ended.outcome is not None:
        _say(f"the job {config.job!r} {_ENDED[ended.outcome]} under {ended.driver}")
    elif drivers:
        _say(f"{drivers[-1]} was lost: taking over the job {config.job!r}")
    return ended


def _say(what: str) -> None:
    print(printable_lines(what), file=sys.stderr, flush=True)


_ENDED = {
    Outcome.FINISHED: "has finished",
    Outcome.CANCELLED: "was cancelled",
    Outcome.STOPPED: "was stopped",
    Outcome.FAILED: "has failed",
}


class FormerStandbyJob(WithoutCheckpoints):
    """A JobHandle of a job that has ended under another driver while this one was its standby."""

    def __init__(self, plan: PhysicalPlan, config: JobConfig, note: DriverNote) -> None:
        assert note.outcome is not None
        self._job = config.job
        self._outcome = note.outcome
        self._driver = note.driver
        self._status = JobStatus(
            job=config.job,
            name=plan.name,
            state=OUTCOMES[note.outcome],
            attempt=0,
            running_s=0.0,
            records_per_s=0.0,
            watermark_ms=None,
            checkpoints_completed=0,
            checkpoints_failed=0,
            last_checkpoint_ms=None,
            restarts=0,
            busy_ratio=0.0,
            backpressure_ratio=0.0,
        )
        self._collected = EarlierResults(config.job, CollectedResults(plan).names())

    def status(self) -> JobStatus:
        return self._status

    def wait(self, timeout_s: float | None = None) -> JobResult:
        if self._status.state is JobState.FAILED:
            raise JobFailedError(
                f"the job {self._job!r} failed under {self._driver}",
                hint="see the output of that driver; this standby did not restart the job, because "
                "it would fail again",
            )
        return JobResult(self._status, self._collected)

    def cancel(self) -> None:
        pass

    def metrics(self) -> MetricsReport:
        raise self._ended()

    def _refused(self, refusal: RheosError) -> RheosError:
        return self._ended()

    def _ended(self) -> CheckpointError:
        return CheckpointError(f"the job {self._job!r} {_ENDED[self._outcome]} under {self._driver}")
