"""The launcher of a job's attempts: each is one Spark job, a stage with one task per slot."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark import SparkContext

from rheos.core.checkpoint.events import AttemptEnded, AttemptLost, AttemptRunning, SlotsLeft
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.connectors.contract import Split
from rheos.core.errors import (
    LESS_MEMORY,
    FencedError,
    JobFailedError,
    OutOfMemoryError,
    RheosError,
    TransportError,
    WorkerLostError,
    unexpected,
)
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, OperatorId
from rheos.core.protocol.wire import TOKEN_BYTES
from rheos.runtimes.continuous.control import (
    AHEAD,
    BeginAttempt,
    Left,
    RestoreAhead,
    RestoredAhead,
    wait_ms,
)
from rheos.runtimes.continuous.control_server import AllJoined, ControlServer, Silent
from rheos.runtimes.continuous.preparation_progress import PreparationProgress, SlotsState
from rheos.runtimes.continuous.resources import (
    StageKind,
    available_slots,
    chosen_stage,
    driver_host,
)
from rheos.runtimes.continuous.security import security_of
from rheos.runtimes.continuous.worker import SlotJob
from rheos.runtimes.driver.driver_logs import JOBS
from rheos.runtimes.driver.launcher import LauncherEvent, deployment
from rheos.runtimes.host.interruptible_waits import thread_ended
from rheos.runtimes.host.memory_room import memory_limit, oom_kills
from rheos.runtimes.host.pickling import pack
from rheos.runtimes.host.sockets import SocketFolder, in_folder
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark.client_modules import client_modules, import_ahead
from rheos.runtimes.spark.jvm import check_application
from rheos.runtimes.spark.session import is_local, single_threaded_workers
from rheos.runtimes.spark.shipping import worker_error, worker_task
from rheos.runtimes.spark.worker_exits import signal_of, signal_text

_JOIN_WITHIN_S = 120.0
_LEAVE_WITHIN_S = 8.0
"""Seconds after which Spark cancels an attempt that was requested to stop."""
_SIGNAL_WITHIN_S = 0.5
"""Seconds within which the daemon of Spark's workers reports how a worker has ended."""
_SILENT_LEAVE_WITHIN_S = 1.0
"""Seconds within which the other workers leave, if one is silent."""

_OF_CANCELLATION = (JobFailedError, WorkerLostError, OutOfMemoryError)
"""Errors that have no meaning once Spark was requested to cancel the attempt."""


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """A Spark job with a task for each slot."""

    tag: str
    """Tag by which Spark cancels the job."""


class SparkLauncher:
    """The Launcher of the continuous runtime. All but the Spark jobs runs on the master's thread."""

    def __init__(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        splits: Mapping[OperatorId, Sequence[Split]],
        context: SparkContext,
        directory: str,
        version: str,
        reserved: int = 0,
    ) -> None:
        """Create the launcher. `reserved` is the number of slots for the Spark jobs that publish the
        job's output."""
        self._reserved = reserved
        scaling = config.scaling
        most = None if scaling is None else scaling.most
        self._wanted = max(plan.parallelism, most or 0) + reserved
        self._plan = plan
        self._config = config
        self._splits = splits
        self._context = context
        self._directory = directory
        self._stage = chosen_stage(context)
        JOBS.info("the slots are tasks of one %s", self._stage, extra={"job": config.job})
        self._token = os.urandom(TOKEN_BYTES)
        one_machine = is_local(context)
        self._security = security_of(config.encrypt, self._token, one_machine=one_machine)
        self._folder = SocketFolder() if one_machine else None
        self._server = ControlServer(
            in_folder(self._folder.path) if self._folder else f"tcp://{driver_host(context)}:*",
            self._token,
            version,
            self._security,
            config.heartbeat_timeout_ms,
            plan.parallelism,
        )
        self._ends: queue.SimpleQueue[tuple[_Stage, RheosError | None]] = queue.SimpleQueue()
        self._running: _Stage | None = None
        """Stage of the attempt."""
        self._waiting: _Stage | None = None
        """Stage of the slots that restore checkpoints before an attempt begins."""
        self._ahead: PreparationProgress | None = None
        self._to_prepare: tuple[Restore, int] | None = None
        """Newest request to restore state ahead, until it is carried out, with its parallelism."""
        self._has_imported = False
        """Whether the slots' processes have imported the program."""
        self._client_modules: tuple[str, ...] = ()
        """Modules that slots import before an attempt, if this driver waits for a job."""
        self._stages = 0
        """Number of stages started so far."""
        self._attempt: Attempt | None = None
        self._remaining: set[int] = set()
        """Subtasks of the attempt that have not reported that they have left."""
        self._joined = False
        self._silent = False
        """Whether a worker of the attempt was abandoned. It receives no request to leave."""
        self._join_by = 0.0
        self._cancel_at: float | None = None
        self._cancelled = False
        """Whether Spark was requested to cancel the attempt. Then errors of that are ignored."""
        self._oom_kills = 0
        """Number of processes that the kernel had killed for lack of memory when the attempt began."""

    # --- the contract -----------------------------------------------------------------------------

    def free_slots(self) -> int:
        return available_slots(self._context, self._wanted) - self._reserved

    def launch(self, attempt: Attempt, restore: Restore | None, parallelism: int) -> None:
        assert self._attempt is None, "one attempt at a time"
        stage = self._take_ahead(parallelism)
        payload = b"" if stage else self._payload(attempt, restore, parallelism)
        self._attempt = attempt
        self._remaining = set(range(parallelism))
        self._joined = self._silent = self._cancelled = False
        self._join_by = time.monotonic() + _JOIN_WITHIN_S
        self._cancel_at = None
        if stage is not None:
            self._server.send(BeginAttempt(attempt=AHEAD, next=attempt, restore=restore))
        self._server.expect(attempt, parallelism)
        self._oom_kills = oom_kills()
        self._running = stage or self._start_stage(f"attempt {attempt}", payload, parallelism)

    def prepare_state(self, restore: Restore, parallelism: int) -> None:
        assert self._attempt is None, "slots are prepared before an attempt"
        self._to_prepare = restore, parallelism
        self._prepare_state()

    def _prepare_state(self) -> None:
        """Carry out the newest request, unless `prepare` still needs the slots."""
        if self._to_prepare is None or not self._has_imported:
            return
        (restore, parallelism), self._to_prepare = self._to_prepare, None
        checkpoint = restore.entry.checkpoint
        if self._ahead is None:
            payload = self._payload(AHEAD, restore, parallelism)
            self._ahead = PreparationProgress(parallelism, checkpoint)
            self._server.expect(AHEAD, parallelism)
            self._waiting = self._start_stage("slots ahead of an attempt", payload, parallelism)
        elif self._ahead.state is SlotsState.READY:
            self._ahead.requested(checkpoint)
            self._server.send(RestoreAhead(attempt=AHEAD, restore=restore))

    def is_prepared(self) -> bool:
        ahead = self._ahead
        return self._to_prepare is None and (ahead is None or ahead.are_current())

    def _take_ahead(self, parallelism: int) -> _Stage | None:
        """Return the stage of the waiting slots if an attempt can take them; else release them."""
        stage, ahead = self._waiting, self._ahead
        self._waiting = self._ahead = self._to_prepare = None
        self._has_imported = True
        if stage is None or ahead is None:
            return None
        if ahead.state is SlotsState.READY and ahead.parallelism == parallelism:
            return stage
        self._release(stage)
        return None

    def _release(self, waiting: _Stage) -> None:
        """End slots that wait for an attempt."""
        self._server.send(control.Cancel(attempt=AHEAD, replaced=True))
        self._context.cancelJobsWithTag(waiting.tag)

    def _start_stage(self, what: str, payload: bytes, parallelism: int) -> _Stage:
        """Start a Spark job with a task for each slot, in a thread of its own."""
        self._stages += 1
        stage = _Stage(f"rheos-{self._config.job}-{os.getpid()}-{self._stages}")
        threading.Thread(
            target=self._run_stage,
            args=(stage, what, payload, parallelism),
            name=f"rheos-stage-{self._stages}",
            daemon=True,
        ).start()
        return stage

    def _payload(self, attempt: Attempt, restore: Restore | None, parallelism: int) -> bytes:
        """Return the description of an attempt that every slot receives."""
        plan = replace(self._plan, parallelism=parallelism)
        slot = SlotJob(
            deployment=deployment(plan, self._config, self._splits, attempt, restore),
            checkpoint_dir=self._directory,
            driver=self._server.address,
            heartbeat_timeout_ms=self._config.heartbeat_timeout_ms,
            token=self._token,
            barrier=self._stage.kind is StageKind.BARRIER,
            security=self._security,
            sockets=self._folder.path if self._folder else None,
            log_level=self._config.log_level,
            client_modules=self._client_modules,
        )
        return pack(slot, plan.operators())

    def prepare(self) -> None:
        """Let the slots start their processes and import the program, before the first attempt. For any
        thread. Raise the RheosError of a slot that cannot."""
        parallelism = self._plan.parallelism
        self._client_modules = client_modules()
        payload = self._payload(Attempt(0), None, parallelism)
        errors: list[RheosError | None] = []

        def run() -> None:
            what = f"{self._plan.name}, preparation"
            errors.append(self._stage_error(what, "prepare", payload, parallelism))

        # In a thread of its own, because Spark describes all later jobs of a thread by the last one.
        thread = threading.Thread(target=run, name="rheos-preparation", daemon=True)
        thread.start()
        import_ahead(self._client_modules)  # The driver publishes output of some sinks.
        thread_ended(thread)
        if errors and errors[0] is not None:
            raise errors[0]
        self._has_imported = True
        self._server.wake()

    def send(self, message: control.ToTask, subtask: int | None = None) -> None:
        self._server.send(message, subtask)

    def stop(self, attempt: Attempt) -> None:
        if attempt == self._attempt and self._cancel_at is None:
            # Workers of a cancelled job have received the request before, and take their time.
            self._server.send(control.Cancel(attempt=attempt, replaced=True))
            leave_within_s = _SILENT_LEAVE_WITHIN_S if self._silent else _LEAVE_WITHIN_S
            self._cancel_at = time.monotonic() + (leave_within_s if self._joined else 0.0)

    def wait(self, timeout_ms: int) -> None:
        """Return when something has happened, after `wake`, after the time, or when Spark must cancel
        the attempt."""
        if self._attempt is not None and self._cancel_at is not None:
            timeout_ms = min(timeout_ms, wait_ms(self._cancel_at, time.monotonic()))
        self._server.wait(timeout_ms)

    def wake(self) -> None:
        """End the current or the next `wait`. For any thread."""
        self._server.wake()

    def poll(self) -> list[LauncherEvent]:
        events: list[LauncherEvent] = []
        self._prepare_state()
        for message in self._server.poll():
            match message:
                case RestoredAhead():
                    if self._ahead is not None:
                        self._ahead.restored(message.subtask, message.checkpoint)
                case Left():
                    events.extend(self._note_departure(message))
                case AllJoined(attempt=attempt) if attempt == AHEAD:
                    if self._ahead is not None:
                        self._ahead.state = SlotsState.READY
                case Silent(attempt=attempt) if attempt == AHEAD:
                    self._ahead_failed(message.error)
                case AllJoined():
                    self._joined |= message.attempt == self._attempt
                    events.append(AttemptRunning(message.attempt))
                case Silent():
                    self._silent |= message.attempt == self._attempt
                    if isinstance(message.error, WorkerLostError):
                        self._name_process(message.error)
                    events.append(AttemptLost(message.attempt, message.error))
                case _:
                    events.append(message)
        while not self._ends.empty():
            stage, error = self._ends.get()
            if stage is self._waiting:
                self._ahead_failed(error)
            if stage is not self._running or (ended := self._attempt) is None:
                continue
            self._attempt = self._running = None
            # Spark itself ends the other tasks of a failed stage only after seconds.
            self._server.send(control.Cancel(attempt=ended, replaced=True))
            if error is not None and not (self._cancelled and isinstance(error, _OF_CANCELLATION)):
                if isinstance(error, JobFailedError):
                    check_application(self._context)
                events.append(AttemptLost(ended, error))
            events.append(AttemptEnded(ended))
        events.extend(self._watch())
        return events

    def _note_departure(self, message: Left) -> list[LauncherEvent]:
        """Note that a slot of an attempt that was requested to stop has left."""
        if message.attempt != self._attempt or self._cancel_at is None or not self._remaining:
            return []
        self._remaining.discard(message.subtask)
        return [] if self._remaining else [SlotsLeft(message.attempt)]

    def _ahead_failed(self, error: RheosError | None) -> None:
        """Release the waiting slots. The next attempt starts new ones."""
        if self._ahead is None or self._waiting is None:
            return
        JOBS.info(
            "the slots that wait for the job have failed: %s", error, extra={"job": self._config.job}
        )
        self._ahead.state = SlotsState.FAILED
        self._release(self._waiting)

    def joined(self) -> int:
        return len(self._server.processes)

    def strangers(self) -> int:
        return self._server.strangers()

    def stage(self) -> str | None:
        return str(self._stage)

    def close(self) -> None:
        """End the attempt that still runs, and close the control channel."""
        for stage in (self._running, self._waiting):
            if stage is not None:
                with contextlib.suppress(Exception):  # The JVM may have ended.
                    self._context.cancelJobsWithTag(stage.tag)
        self._server.close()
        if self._folder is not None:
            self._folder.close()

    # --- the Spark job ----------------------------------------------------------------------------

    def _watch(self) -> list[LauncherEvent]:
        """Cancel, through Spark, an attempt whose workers never joined or do not leave."""
        if self._attempt is None or self._running is None:
            return []
        now = time.monotonic()
        late = not self._joined and self._cancel_at is None and now > self._join_by
        overdue = self._cancel_at is not None and now >= self._cancel_at
        if late or overdue:
            self._cancel_at = now + _LEAVE_WITHIN_S
            self._cancelled = True
            check_application(self._context)
            self._context.cancelJobsWithTag(self._running.tag)
        if not late:
            return []
        absent = TransportError(
            f"not all workers of attempt {self._attempt} joined within {_JOIN_WITHIN_S:g} s",
            hint="check that no other Spark job occupies the slots, and that the executors can "
            f"reach {self._server.address}",
        )
        return [AttemptLost(self._attempt, absent)]

    def _run_stage(self, stage: _Stage, what: str, payload: bytes, parallelism: int) -> None:
        """Run a stage's Spark job in its thread. However this ends, the stage's attempt has ended."""
        error: RheosError | None = JobFailedError("the thread of the attempt's Spark job ended")
        try:
            named = f"{self._plan.name}, {what}"
            error = self._stage_error(named, "run", payload, parallelism, stage.tag)
        except Exception as raised:
            error = unexpected(raised)
        finally:
            self._ends.put((stage, error))
            self._server.wake()

    def _stage_error(
        self, description: str, entry: str, payload: bytes, parallelism: int, tag: str | None = None
    ) -> RheosError | None:
        """Run a Spark job with a task for each slot to its end, and return the error by which it
        failed. `entry` is a function of the worker's module."""
        context = self._context
        try:
            if tag is not None:
                context.addJobTag(tag)
            context.setJobDescription(description)
            # Not a DataFrame: Spark takes seconds to plan its first one.
            empty = context.parallelize([], parallelism)
            rows = empty.barrier() if self._stage.kind is StageKind.BARRIER else empty
            with single_threaded_workers(context):
                run = worker_task(f"rheos.runtimes.continuous.worker:{entry}", payload)
                stage = rows.mapPartitions(run)
                stage.id()  # It has an id once its function was passed to Spark.
            stage.collect()
        except Exception as failure:
            error = worker_error(failure)
            if isinstance(error, WorkerLostError):
                self._name_process(error)
                if self._folder is not None:
                    error = self._for_lack_of_memory() or error
            return RheosError(error.what) if isinstance(error, FencedError) else error
        return None

    def _name_process(self, error: WorkerLostError) -> None:
        """Add to the error which process was lost, and the signal that killed it, if known."""
        process = self._server.processes.get(-1 if error.subtask is None else error.subtask)
        if process is None or not process.pid:
            return
        number = signal_of(process.pid, _SIGNAL_WITHIN_S) if self._folder is not None else None
        how = f", killed by {signal_text(number)}" if number is not None else ""
        error.what = error.what.replace(" lost:", f" lost ({process}{how}):", 1)

    def _for_lack_of_memory(self) -> RheosError | None:
        """Return the error of a lost worker of this machine, if the kernel has killed a process for
        lack of memory since the attempt began."""
        killed = oom_kills() - self._oom_kills
        if killed <= 0:
            return None
        many = "a process" if killed == 1 else f"{killed} processes"
        return OutOfMemoryError(
            "a worker process was killed, probably because it ran out of memory: the system, "
            f"which allows {memory_limit() / 1000000000.0:.1f} GB here, has killed {many} for "
            "that reason since the attempt began",
            hint=LESS_MEMORY,
        )
