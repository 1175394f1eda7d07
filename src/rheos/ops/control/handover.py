"""Takes a running job over from its driver, at one checkpoint; and hands it back.

The log decides which of the two drivers continues (docs/protocols/upgrade.md). This module passes
messages between them, and lets users find the driver that runs the job.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import assert_never

from rheos.core.checkpoint.driver_note import Driver
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.standby import LOOK_EVERY_MS, Standby, StandbyView
from rheos.core.errors import CheckpointError, ConfigurationError, RheosError, TransportError
from rheos.core.printable import printable_lines
from rheos.core.protocol.ids import JobKey
from rheos.ops.control.commands import JobClient
from rheos.ops.control.driver_note import HeldNote, driver_of, process_of, take_from
from rheos.ops.control.handover_turn import HandoverTurn, take_turn
from rheos.ops.control.processes import Liveness, liveness
from rheos.ops.control.registry import LOST, JobRecord, Registry, find_ended, find_waiting
from rheos.ops.control.running_jobs import find_running
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.job_operations import GetSuccession, HandoverRequest, TakeJob, WithdrawWait

_LOOK_S = 0.05
_READY_WITHIN_S = 120.0
_PREPARED_WITHIN_S = 600.0
"""Longest time for which the state is restored ahead. After that, the handover begins all the same."""
_HAND_OVER_WITHIN_S = 600.0
_ANSWER_WITHIN_S = 5.0
"""Time for a driver that waits to report its situation."""
_TURN_WITHIN_S = 30.0
"""Longest time for which a rollback waits for a command that hands the job over."""


def find_job_to_hand_over(wanted: str) -> JobRecord:
    """Return the running job that `wanted` names.

    Raises:
        ConfigurationError: it does not run. The error names what continues the job after an
            interrupted handover, or how the job has ended here.
        TransportError: its checkpoint directory cannot be read.
    """
    try:
        return find_running(wanted)
    except ConfigurationError:
        waiting = find_waiting(wanted, Registry().records())
        explained = _ended_here(wanted) if waiting is None else _interruption(waiting)
        if explained is None:
            raise
    raise explained


def _ended_here(wanted: str) -> ConfigurationError | None:
    """Return the error for a job that has ended on this machine; None if the name fits no such job."""
    with contextlib.suppress(ConfigurationError):
        if (ended := find_ended(wanted, Registry())) is not None:
            how = "was lost" if ended.state == LOST else f"has ended ({ended.state})"
            return ConfigurationError(
                f"the job {ended.job!r} does not run here: its driver, {ended.process}, {how}",
                hint="start it with `rheos run FILE`: it continues from its newest checkpoint",
            )
    return None


def _interruption(waiting: JobRecord) -> ConfigurationError | None:
    """Return the error for a job that no driver on this machine runs, and for which one waits. None if
    that driver runs it now, has ended, or does not answer."""
    try:
        situation = JobClient(waiting, _ANSWER_WITHIN_S).ask(GetSuccession(checked=False)).situation
    except RheosError:
        return None
    match situation:
        case Situation.OTHER_RUNS | Situation.NAMED | Situation.OFFERED | Situation.TAKEN:
            return ConfigurationError(
                f"the job {waiting.job!r} is being handed over, and no driver runs it at the moment: "
                f"{waiting.process} continues it if the other driver does not",
                hint="repeat the command when `rheos jobs` shows the job as running, after two minutes "
                "at most",
            )
        case Situation.CONFIRMED:
            return ConfigurationError(
                f"no driver on this machine runs the job {waiting.job!r}: the driver that continued it "
                f"after the upgrade has ended. {waiting.process} is kept ready with the earlier "
                "program, and only takes over a job that runs",
                hint="start either program with `rheos run FILE`: it continues from the newest "
                "checkpoint",
            )
        case Situation.OWN | Situation.FINISHED | None:
            return None
        case other:
            assert_never(other)


def find_predecessor(config: JobConfig) -> JobRecord:
    """Return the running job that this driver succeeds.

    Raises:
        ConfigurationError: it does not run, or the program is that of another job.
        TransportError: its checkpoint directory cannot be read.
    """
    assert config.succeeds is not None
    running = find_job_to_hand_over(config.succeeds)
    if running.key != config.key:
        raise ConfigurationError(
            f"the program runs the job {config.job!r} in {config.checkpoint_dir}, which is not the "
            f"running job {config.succeeds!r}: {running}",
            hint="give both versions the same job name and checkpoint directory",
        )
    if config.succeeds_driver not in (None, running.driver):
        raise ConfigurationError(
            f"another driver runs the job {config.job!r} than when this command compared the programs: "
            f"{running.process}",
            hint="run the command again, so that it compares with the program that runs now",
        )
    return running


def take_over(
    job: JobHandle, note: HeldNote, running: JobRecord, keep_s: float, claimed: Callable[[], None]
) -> None:
    """Wait until the driver of `job` has claimed the job that `running` runs.

    Args:
        job: handle of this driver, which waits for the job.
        note: this driver's note, which is not held yet.
        running: the job's driver.
        keep_s: time in seconds for which that driver is kept ready.
        claimed: called at once when this driver has claimed the job.

    Raises:
        RheosError: the job was not handed over, and this driver has ended.
    """
    refusal = _request(job, note, running, keep_s)
    standby, looked = Standby(), 0.0
    while (situation := _situation(job)) is not None:
        if refusal is not None and not isinstance(refusal, TransportError):
            job.ask(WithdrawWait())  # It ends, unless the log names it (UP5).
        now = time.monotonic()
        if situation is Situation.OTHER_RUNS and now >= looked + LOOK_EVERY_MS / 1000:
            looked = now
            if isinstance(refusal, TransportError):
                refusal = _replaced(note, running) or refusal
            _look(standby, note, job)
        if _has_ended(job):
            if refusal is not None:
                raise refusal
            job.wait(0)
            raise CheckpointError(f"the job {running.job!r} has ended under another driver")
        time.sleep(_LOOK_S)
    claimed()


def _request(job: JobHandle, note: HeldNote, running: JobRecord, keep_s: float) -> RheosError | None:
    """Request the handover. Return the error with which it failed, if it did."""
    owner = _ready(job)
    if (replaced := _replaced(note, running)) is not None:
        return replaced
    _say(f"handing over {running.job!r} from {running.process}")
    try:
        request = HandoverRequest(successor=owner, keep_s=keep_s)
        JobClient(running, _HAND_OVER_WITHIN_S).ask(request)
    except RheosError as error:
        return error
    job.ask(TakeJob())
    return None


def _replaced(note: HeldNote, running: JobRecord) -> CheckpointError | None:
    """Return an error if a driver that is neither `running` nor this one runs the job now. None also if
    that is unknown."""
    try:
        present = note.present()
    except OSError:
        return None
    if present is None or present.released or present.owner == note.owner:
        return None
    process = process_of(present)
    if process is None or process.is_same(running.process) or driver_of(present) is Driver.DEAD:
        return None
    return CheckpointError(
        f"the job {running.job!r} was not handed over: another driver has continued it meanwhile, "
        f"{process}",
        hint="run the command again",
    )


def _ready(job: JobHandle) -> str:
    """Return the id of this driver when it has compared its program with the newest checkpoint, and its
    slots have restored one (UP10). Raise the error if the program does not fit."""
    began = time.monotonic()
    while True:
        answer = job.ask(GetSuccession())
        waited_s = time.monotonic() - began
        if answer.is_ready and (answer.is_prepared or waited_s > _PREPARED_WITHIN_S):
            return answer.owner
        if _has_ended(job):
            job.wait(0)
        if not answer.is_ready and waited_s > _READY_WITHIN_S:
            job.cancel()
            raise TransportError("this driver could not read the log of the job in time")
        time.sleep(_LOOK_S)


def _look(standby: Standby, note: HeldNote, job: JobHandle) -> None:
    """Act as a standby while the log does not name this driver (UP4)."""
    with contextlib.suppress(OSError):
        present = note.present()
        driver = Driver.UNKNOWN if present is None else driver_of(present)
        match standby.look(present, driver, time.monotonic_ns() // 1_000_000):
            case StandbyView.TAKES_OVER:
                job.ask(take_from(present))
            case StandbyView.OVER:
                job.ask(WithdrawWait())
            case StandbyView.BEHIND:
                pass
            case other:
                assert_never(other)


def waiting_drivers(record: JobRecord) -> list[JobRecord]:
    """Return the other drivers on this machine that wait for the job of `record`: its successor, and
    those that are kept ready."""
    others = (each for each in Registry().records() if each.key == record.key and each.stands_by)
    return [each for each in others if each.endpoint and each.driver != record.driver]


def watch_successor(
    job: JobHandle,
    note: HeldNote,
    ended: Callable[[float], bool],
    successors: Sequence[JobRecord] = (),
) -> bool:
    """Wait until the job runs here again, after it was handed over, or until this driver has ended.

    Args:
        job: handle of the driver that handed the job over.
        note: its note, which the successor has replaced or will replace.
        ended: waits up to the given seconds, and returns whether the driver has ended.
        successors: the drivers on this machine that waited for the job when it was handed over.

    Returns:
        Whether the job runs here again.
    """
    while not ended(_LOOK_S * 5):
        situation = _situation(job)
        if situation is None:
            return True
        if situation in (Situation.OFFERED, Situation.TAKEN):
            with contextlib.suppress(OSError):
                if _are_dead(successors) or _has_left(note):
                    job.ask(TakeJob())
    return False


def _are_dead(drivers: Sequence[JobRecord]) -> bool:
    """Return whether the processes of all these drivers have ended. False without drivers: the
    successor may run on another machine."""
    return bool(drivers) and all(liveness(each.process) is Liveness.DEAD for each in drivers)


def _has_left(note: HeldNote) -> bool:
    """Return whether the driver that has replaced the note no longer runs. Raise OSError."""
    present = note.present()
    if present is None or present.owner == note.owner:
        return False
    return present.released or driver_of(present) is Driver.DEAD


def roll_back(wanted: str, keep_s: float) -> str:
    """Hand a job back to the driver that was kept ready. Return a description of that driver.

    Raises:
        ConfigurationError: the job does not run here, no driver is kept ready, or another command hands
            the job over.
        CheckpointError: the kept program does not fit the state, or the job was not handed over.
        TransportError: a driver does not answer.
    """
    with _next_turn(find_job_to_hand_over(wanted), f"rheos rollback {wanted}"):
        running = find_job_to_hand_over(wanted)
        kept = kept_driver(running.key, running)
        owner = _kept_ready(JobClient(kept), running)
        JobClient(running, _HAND_OVER_WITHIN_S).ask(HandoverRequest(successor=owner, keep_s=keep_s))
        JobClient(kept).ask(TakeJob())
    return str(kept.process)


def _next_turn(running: JobRecord, command: str) -> HandoverTurn:
    """Take the turn. Wait while the command that has just upgraded the job still has it."""
    began = time.monotonic()
    while True:
        try:
            return take_turn(running, command)
        except ConfigurationError:
            if time.monotonic() - began > _TURN_WITHIN_S:
                raise
        time.sleep(_LOOK_S)


def _kept_ready(kept: JobClient, running: JobRecord) -> str:
    """Return the id of a driver that was kept ready, when its slots have restored a recent checkpoint
    (UP10). Meanwhile the job continues."""
    began = time.monotonic()
    is_announced = False
    while True:
        try:
            answer = kept.ask(GetSuccession())
        except CheckpointError as misfit:
            raise CheckpointError(
                f"the job {running.job!r} was not handed back: the earlier program does not fit its "
                f"state: {misfit.what}",
                hint="stop the job with a savepoint, and start the earlier program from it; "
                "--allow-dropped drops state that it does not have",
                detail=misfit.detail,
            ) from None
        if answer.is_prepared or time.monotonic() - began > _PREPARED_WITHIN_S:
            return answer.owner
        if not is_announced:
            is_announced = True
            _say(f"waiting until the earlier program has restored the state of {running.job!r}")
        time.sleep(_LOOK_S)


def kept_driver(key: JobKey, running: JobRecord) -> JobRecord:
    """Return the driver of a job that was kept ready. Raise ConfigurationError if no driver was."""
    for record in reversed(Registry().records()):
        if record.key == key and record.stands_by and record.endpoint:
            return record
    raise ConfigurationError(
        f"no earlier version of the job {running.job!r} is kept ready on this machine",
        hint=f"hand the job over to the earlier program instead: rheos upgrade {running.job} FILE",
    )


def _situation(job: JobHandle) -> Situation | None:
    return job.ask(GetSuccession(checked=False)).situation


def _has_ended(job: JobHandle) -> bool:
    return job.status().state.is_over


def _say(what: str) -> None:
    print(printable_lines(what), file=sys.stderr, flush=True)
