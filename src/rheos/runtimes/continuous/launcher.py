"""The launcher of a job's attempts: each is one Spark job, a stage with one task per slot."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
    RestoredAhead,
    wait_ms,
)
from rheos.runtimes.continuous.control_server import AllJoined, ControlServer, Silent
from rheos.runtimes.continuous.prepared_slots import PreparedSlots, SlotStage
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
        widest = max(plan.parallelism, most or 0)
        self._wanted = widest * (2 if config.checkpoint.restore_ahead else 1) + reserved
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
        self._version = version
        self._arrived = threading.Event()
        self._server = self._new_server()
        """Control channel of the attempt."""
        self._other_server: ControlServer | None = None
        """Control channel of slots next to an attempt. The two change places when an attempt takes
        them."""
        self._ends: queue.SimpleQueue[tuple[SlotStage, RheosError | None]] = queue.SimpleQueue()
        self._running: SlotStage | None = None
        """Stage of the attempt."""
        self._ahead = PreparedSlots(
            config.job,
            room=self._lacking,
            start=self._start_ahead,
            cancel=lambda stage: context.cancelJobsWithTag(stage.tag),
            now_us=lambda: time.monotonic_ns() // 1000,
        )
        self._client_modules: tuple[str, ...] = ()
        """Modules that slots import before an attempt, if this driver waits for a job."""
        self._stages = 0
        """Number of stages started so far."""
        self._attempt: Attempt | None = None
        self._parallelism = 0
        """Parallelism of the attempt."""
        self._is_prepared = False
        """Whether the slots of the attempt have restored state before it began."""
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
        stage = self._take_ahead(attempt, restore, parallelism)
        payload = b"" if stage else self._payload(attempt, restore, parallelism, self._server)
        self._attempt, self._parallelism = attempt, parallelism
        self._is_prepared = stage is not None
        self._remaining = set(range(parallelism))
        self._joined = self._silent = self._cancelled = False
        self._join_by = time.monotonic() + _JOIN_WITHIN_S
        self._cancel_at = None
        self._server.expect(attempt, parallelism)
        self._oom_kills = oom_kills()
        self._running = stage or self._start_stage(
            f"attempt {attempt}", payload, parallelism, self._server
        )

    def prepare_state(self, restore: Restore, parallelism: int) -> None:
        self._ahead.request(restore, parallelism)

    def has_prepared(self) -> bool:
        return self._ahead.has_prepared()

    def not_prepared(self) -> str | None:
        return self._ahead.not_prepared()

    def is_prepared(self) -> bool:
        return self._ahead.are_current()

    def _take_ahead(
        self, attempt: Attempt, restore: Restore | None, parallelism: int
    ) -> SlotStage | None:
        """Return the stage of the waiting slots if the attempt can take them; else release them."""
        begin = BeginAttempt(attempt=AHEAD, next=attempt, restore=restore)
        stage = self._ahead.take(begin, parallelism)
        if stage is not None and stage.server is not self._server:
            self._server, self._other_server = stage.server, self._server
        return stage

    def _lacking(self, parallelism: int) -> str | None:
        """Return why Spark cannot run more slots of this number next to the attempt; None if it can."""
        if self._attempt is None:
            return None  # The slots take those of the attempt that follows.
        needed = self._parallelism + parallelism + self._reserved
        have = available_slots(self._context, self._wanted)
        if have >= needed:
            return None
        return (
            f"no slots restore its state ahead, because the master {self._context.master!r} has {have} "
            f"slots, and {needed} are needed. Add slots, or leave out restore_ahead"
        )

    def _start_ahead(self, restore: Restore, parallelism: int) -> SlotStage:
        server = self._server
        if self._attempt is not None:
            server = self._other_server = self._other_server or self._new_server()
        payload = self._payload(AHEAD, restore, parallelism, server)
        server.expect(AHEAD, parallelism)
        return self._start_stage("slots ahead of an attempt", payload, parallelism, server)

    def _new_server(self) -> ControlServer:
        folder, config = self._folder, self._config
        return ControlServer(
            in_folder(folder.path) if folder else f"tcp://{driver_host(self._context)}:*",
            self._token,
            self._version,
            self._security,
            config.heartbeat_timeout_ms,
            self._plan.parallelism,
            self._arrived,
        )

    def _servers(self) -> list[ControlServer]:
        return [server for server in (self._server, self._other_server) if server is not None]

    def _start_stage(
        self, what: str, payload: bytes, parallelism: int, server: ControlServer
    ) -> SlotStage:
        """Start a Spark job with a task for each slot, in a thread of its own."""
        self._stages += 1
        stage = SlotStage(f"rheos-{self._config.job}-{os.getpid()}-{self._stages}", server)
        threading.Thread(
            target=self._run_stage,
            args=(stage, what, payload, parallelism),
            name=f"rheos-stage-{self._stages}",
            daemon=True,
        ).start()
        return stage

    def _payload(
        self, attempt: Attempt, restore: Restore | None, parallelism: int, server: ControlServer
    ) -> bytes:
        """Return the description of an attempt that every slot receives."""
        plan = replace(self._plan, parallelism=parallelism)
        slot = SlotJob(
            deployment=deployment(plan, self._config, self._splits, attempt, restore),
            checkpoint_dir=self._directory,
            driver=server.address,
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
        payload = self._payload(Attempt(0), None, parallelism, self._server)
        errors: list[RheosError | None] = []

        def run() -> None:
            what = f"{self._plan.name}, preparation"
            stage = SlotStage("", self._server)
            errors.append(self._stage_error(stage, what, "prepare", payload, parallelism))

        # In a thread of its own, because Spark describes all later jobs of a thread by the last one.
        thread = threading.Thread(target=run, name="rheos-preparation", daemon=True)
        thread.start()
        import_ahead(self._client_modules)  # The driver publishes output of some sinks.
        thread_ended(thread)
        if errors and errors[0] is not None:
            raise errors[0]
        self._ahead.may_start = True
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
        self._ahead.carry_out()
        for message in [message for server in self._servers() for message in server.poll()]:
            match message:
                case RestoredAhead():
                    self._ahead.restored(message.subtask, message.checkpoint)
                case Left():
                    events.extend(self._note_departure(message))
                case AllJoined(attempt=attempt) if attempt == AHEAD:
                    self._ahead.joined()
                case Silent(attempt=attempt) if attempt == AHEAD:
                    self._ahead.failed(message.error)
                case AllJoined():
                    self._joined |= message.attempt == self._attempt
                    events.append(AttemptRunning(message.attempt, prepared=self._is_prepared))
                case Silent():
                    self._silent |= message.attempt == self._attempt
                    if isinstance(message.error, WorkerLostError):
                        self._name_process(message.error, self._server)
                    events.append(AttemptLost(message.attempt, message.error))
                case _:
                    events.append(message)
        while not self._ends.empty():
            stage, error = self._ends.get()
            self._ahead.ended(stage, error)
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

    def joined(self) -> int:
        return len(self._server.processes)

    def strangers(self) -> int:
        return sum(server.strangers() for server in self._servers())

    def stage(self) -> str | None:
        return str(self._stage)

    def close(self) -> None:
        """End the attempt that still runs, and close the control channel."""
        for stage in (self._running, self._ahead.stage):
            if stage is not None:
                with contextlib.suppress(Exception):  # The JVM may have ended.
                    self._context.cancelJobsWithTag(stage.tag)
        for server in self._servers():
            server.close()
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

    def _run_stage(self, stage: SlotStage, what: str, payload: bytes, parallelism: int) -> None:
        """Run a stage's Spark job in its thread. However this ends, the stage's attempt has ended."""
        error: RheosError | None = JobFailedError("the thread of the attempt's Spark job ended")
        try:
            named = f"{self._plan.name}, {what}"
            error = self._stage_error(stage, named, "run", payload, parallelism)
        except Exception as raised:
            error = unexpected(raised)
        finally:
            self._ends.put((stage, error))
            self._server.wake()

    def _stage_error(
        self, stage: SlotStage, description: str, entry: str, payload: bytes, parallelism: int
    ) -> RheosError | None:
        """Run a Spark job with a task for each slot to its end, and return the error by which it
        failed. `entry` is a function of the worker's module."""
        context = self._context
        try:
            if stage.tag:
                context.addJobTag(stage.tag)
            context.setJobDescription(description)
            # Not a DataFrame: Spark takes seconds to plan its first one.
            empty = context.parallelize([], parallelism)
            rows = empty.barrier() if self._stage.kind is StageKind.BARRIER else empty
            with single_threaded_workers(context):
                run = worker_task(f"rheos.runtimes.continuous.worker:{entry}", payload)
                tasks = rows.mapPartitions(run)
                tasks.id()  # It has an id once its function was passed to Spark.
            tasks.collect()
        except Exception as failure:
            error = worker_error(failure)
            if isinstance(error, WorkerLostError):
                self._name_process(error, stage.server)
                if self._folder is not None:
                    error = self._for_lack_of_memory() or error
            return RheosError(error.what) if isinstance(error, FencedError) else error
        return None

    def _name_process(self, error: WorkerLostError, server: ControlServer) -> None:
        """Add to the error which process was lost, and the signal that killed it, if known."""
        process = server.processes.get(-1 if error.subtask is None else error.subtask)
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
