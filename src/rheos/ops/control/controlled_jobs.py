"""A wrapper around a runtime on a real cluster. Any shell can find its jobs and send them commands, and
a job that another driver already runs is refused."""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import msgspec
import pyarrow as pa

from rheos.core.checkpoint.events import Outcome
from rheos.core.errors import FencedError, RheosError
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import PlanOutline
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.printable import printable_lines
from rheos.core.redaction import redacted
from rheos.ops.control.alert_webhook import AlertWebhook
from rheos.ops.control.driver_note import HeldNote, NoteKeeper, predecessor_of
from rheos.ops.control.handover import (
    find_predecessor,
    take_over,
    waiting_drivers,
    watch_successor,
)
from rheos.ops.control.job_logs import LogFile, log_path
from rheos.ops.control.mailbox import Mailbox
from rheos.ops.control.plan_drawing import picture
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, Registry
from rheos.ops.control.server import CommandServer
from rheos.ops.control.standby_driver import FormerStandbyJob, stand_by
from rheos.ops.control.standby_slots import PreparedJob, StandbySlots
from rheos.ops.control.started_program import StartedProgram, started_program
from rheos.ops.control.termination import TERMINATION
from rheos.ops.openlineage.emitter import LineageEmitter
from rheos.ops.openlineage.events import lineage_of
from rheos.runtimes.driver.status import OUTCOMES
from rheos.runtimes.host.io import SystemClock
from rheos.runtimes.host.stores import check_writable, open_store
from rheos.runtimes.job import AlertConfig, JobConfig, JobResult, JobStatus
from rheos.runtimes.job_handle import JobHandle, Runtime
from rheos.runtimes.job_operations import HandoverRequest
from rheos.runtimes.operation_contract import DriverOperation

EVERY_S = 1.0


class DisplayHandle(Protocol):
    """Handle that IPython returns for a displayed object."""

    def update(self, obj: Any, **kwargs: Any) -> None: ...


class LiveDisplay:
    """The live display of a job in a notebook. Only the newest is updated; older ones stay
    unchanged."""

    def __init__(self, bundle: Callable[[], dict[str, str]], ended: Callable[[float], bool]) -> None:
        """Begin without a display. `bundle` returns the content to display, by MIME type. `ended` waits
        up to the given seconds for the end of the job, and returns whether the job has ended."""
        self._bundle = bundle
        self._ended = ended
        self._newest: DisplayHandle | None = None

    def show(self) -> None:
        """Show the job and keep the display updated. IPython calls it, so it is installed."""
        from IPython.display import display

        untyped: Any = display
        shown = untyped(self._bundle(), raw=True, display_id=True)
        self._newest = shown
        threading.Thread(target=self._keep, args=(shown,), name="rheos-notebook", daemon=True).start()

    def _keep(self, shown: DisplayHandle) -> None:
        over = False
        while not over and shown is self._newest:
            over = self._ended(EVERY_S)
            if shown is self._newest:
                shown.update(self._bundle(), raw=True)


T = TypeVar("T")


class RealRuntime(Runtime, Protocol):
    """A runtime whose jobs accept commands."""

    def settle(self, job: JobHandle, config: JobConfig) -> None:
        """Prepare what users expect in addition to the job, but the job does not need. It is called
        once for each job of `submit`, from the job's thread, when commands can find the job."""
        ...


class ControlledRuntime:
    """The runtime `name`, with the job's note, its record and its command server around each job."""

    def __init__(self, name: str, runtime: RealRuntime) -> None:
        self._name = name
        self._runtime = runtime

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> JobHandle:
        """Start the job. Raise ConfigurationError also if another driver runs it. With
        `config.standby`, wait until that driver is gone, or return a handle of the ended job."""
        program = started_program(plan.context.parameters.over, config.command)
        config = replace(config, driver=str(this_process()))
        if config.succeeds is not None:
            return self._succeed(plan, config, listener, program)
        with ExitStack() as undo:
            keeper: NoteKeeper | None = None
            slots: StandbySlots | None = None
            if config.checkpoint_dir is not None:  # Otherwise no other driver could run it.
                note = _note(config, config.checkpoint_dir)
                if not config.standby:
                    note.acquire(SystemClock(), time.sleep, config.checkpoint_dir, watching=_say)
                else:
                    if config.checkpoint.restore_ahead:
                        slots = self._standby_slots(plan, config, listener, note)
                        undo.callback(slots.close)
                    ended = stand_by(note, plan, config, self._name, program, slots)
                    if ended is not None:
                        return FormerStandbyJob(plan, config, ended)
                config = replace(config, predecessor=predecessor_of(note.previous))
                keeper = NoteKeeper(note)
                undo.callback(keeper.close)
            log = None
            if config.log_level is not None:
                log = LogFile(config.key, config.job)
                undo.callback(log.close)
            handle = None if slots is None else slots.claim(note, time.sleep)
            if handle is None:
                handle = self._runtime.submit(plan, config, listener)
            undo.pop_all()
        lineage = _started_lineage(plan, config, handle)
        outline = PlanOutline.of(plan)
        job = ControlledJob(handle, outline, config, self._name, keeper, program, log, lineage)
        self._settle(job, handle, config)
        return job

    def _standby_slots(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None,
        note: HeldNote,
    ) -> StandbySlots:
        """Return the slots of a standby. The listener receives nothing while another driver runs the
        job."""

        def listen(status: JobStatus) -> None:
            if listener is not None and note.held:
                listener(status)

        waiting = replace(config, succeeds=config.job)
        return StandbySlots(lambda: self._runtime.submit(plan, waiting, listen))

    def _succeed(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None,
        program: StartedProgram | None,
    ) -> JobHandle:
        """Start a driver that waits for a running job, and let the job be handed over to it."""
        running = find_predecessor(config)
        note = _note(config, str(config.checkpoint_dir))
        handle = self._runtime.submit(plan, config, listener)
        outline = PlanOutline.of(plan)
        job = ControlledJob(handle, outline, config, self._name, program=program, waits=True)
        try:
            if isinstance(handle, PreparedJob):
                handle.prepare()
            take_over(handle, note, running, config.keep_ms / 1000, lambda: job.runs_here(note))
        except BaseException:
            job.cancel()
            with suppress(BaseException):
                job.wait(0)
            raise
        self._settle(job, handle, config)
        return job

    def _settle(self, job: ControlledJob, handle: JobHandle, config: JobConfig) -> None:
        try:
            self._runtime.settle(handle, config)
        except KeyboardInterrupt:
            job.cancel()
            raise


class ControlledJob(JobHandle):
    """A JobHandle that passes calls on to the runtime's own handle, `job`."""

    def __init__(
        self,
        job: JobHandle,
        plan: PlanOutline,
        config: JobConfig,
        runtime: str,
        note: NoteKeeper | None = None,
        program: StartedProgram | None = None,
        log: LogFile | None = None,
        lineage: LineageEmitter | None = None,
        *,
        waits: bool = False,
    ) -> None:
        """Let commands reach `job`. If `waits`, another driver runs the job so far."""
        self.job = job
        self._waits = waits
        self._lineage = lineage
        self._plan = plan
        self._display = LiveDisplay(self._mimebundle, self._has_ended)
        self._log = log
        self._program = program
        self._config = config
        self._note = note
        self._closing = threading.Lock()
        self._closed = False
        self._finish_noted = False
        self._leaves = False
        """Whether the job ends because its process does: another driver may resume it."""
        self._registry = Registry()
        self._record: JobRecord | None = None
        """Record of the job; None if it could not be written."""
        self._server: CommandServer | None = None
        self._mailbox: Mailbox | None = None
        """Mailbox for commands from other hosts; None without a checkpoint directory."""
        self._alerts = None if config.alerts is None else self._made_alerts(config.alerts, plan.name)
        try:
            self._open(plan, runtime)
        except Exception as error:
            what = f"the job {config.job!r} runs, but commands cannot reach it: {error}"
            print(printable_lines(what), file=sys.stderr)
        if config.termination_grace_ms:
            TERMINATION.add(self, config.termination_grace_ms / 1000)

    def _made_alerts(self, config: AlertConfig, name: str) -> AlertWebhook:
        names = {"key": self._config.key, "job": self._config.job, "name": name}
        job = {**names, "host": this_process().host}
        alerts = AlertWebhook(config, job, self.job.status, SystemClock())
        alerts.start()
        return alerts

    def _open(self, plan: PlanOutline, runtime: str) -> None:
        token = secrets.token_urlsafe(24)
        place = self._config.checkpoint_dir
        # Commands go to this object, not to the job: so its `wait` is called even if nobody else waits.
        self._server = CommandServer(self, plan, self._config, token)
        record = self._record = JobRecord(
            key=self._config.key,
            driver=uuid4().hex[:12],
            job=self._config.job,
            name=plan.name,
            process=this_process(),
            runtime=runtime,
            checkpoint_dir=place and redacted(place),
            started_ms=SystemClock().now_ms(),
            endpoint=self._server.endpoint,
            token=token,
            log=None if self._log is None else str(log_path(self._config.key)),
            stands_by=self._waits,
            program=self._program,
        )
        try:
            self._registry.add(record)
        finally:
            # It shows the job's end even if no command can arrive.
            self._server.start()
        self._open_mailbox(record)

    def _open_mailbox(self, record: JobRecord) -> None:
        if self._note is not None and self._note.note.held:
            self._mailbox = Mailbox(self._note.note.store, record, self._note.note.owner)
            self._mailbox.start()

    def runs_here(self, note: HeldNote) -> None:
        """Let commands find this driver, because the log has given it the job."""
        note.take()
        self._note = NoteKeeper(note)
        if self._log is None and self._config.log_level is not None:
            self._log = LogFile(self._config.key, self._config.job)
        record = self._list(stands_by=False)
        if record is not None:
            self._open_mailbox(record)

    def _list(self, *, stands_by: bool) -> JobRecord | None:
        """List this driver as the one that runs the job, or as one that is kept ready."""
        if self._record is not None:
            now_ms = SystemClock().now_ms()
            log = None if self._log is None else str(log_path(self._config.key))
            self._record = msgspec.structs.replace(
                self._record, stands_by=stands_by, started_ms=now_ms, log=log
            )
            with suppress(OSError):
                self._registry.add(self._record)
        return self._record

    def _stand_aside(self, successors: Sequence[JobRecord]) -> None:
        """List this driver as one that is kept ready, and wait until the job is handed back, or it has
        ended."""
        if self._note is None:
            return
        note = self._note.note
        self._list(stands_by=True)
        if self._mailbox is not None:
            self._mailbox.close()
        if watch_successor(self.job, note, self._has_ended, successors):
            self.runs_here(note)

    def __repr__(self) -> str:
        return f"<Job {self.status().summary}>"

    def _repr_html_(self) -> str:
        """Return a static picture, for notebooks that cannot update one."""
        return picture(self._plan, self.status(), self.metrics())

    def _ipython_display_(self) -> None:
        """Show a live picture if the job is the last value of a notebook cell."""
        self._display.show()

    def _mimebundle(self) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _has_ended(self, within_s: float) -> bool:
        try:
            self.job.wait(within_s)
        except TimeoutError:
            return False
        except Exception:
            return True  # The caller that waits for the job receives its error.
        return True

    def status(self) -> JobStatus:
        status = self.job.status()
        strangers = self._server.strangers if self._server is not None else 0
        return replace(status, strangers=status.strangers + strangers) if strangers else status

    def wait(self, timeout_s: float | None = None) -> JobResult:
        try:
            result = self.job.wait(timeout_s)
        except (TimeoutError, KeyboardInterrupt):
            raise
        except BaseException:
            self._close()
            raise
        self._close()
        if self._leaves:
            TERMINATION.exit_program()
        if result.status.finished_before and not self._finish_noted:
            self._finish_noted = True
            directory = redacted(str(self._config.checkpoint_dir))
            what = (
                f"the job {self._config.job!r} in {directory} has already finished, so nothing "
                "was run. To run it again, use another name or checkpoint directory"
            )
            print(printable_lines(what), file=sys.stderr)
        return result

    def cancel(self) -> None:
        self.job.cancel()
        if self._note is not None:
            # It has stopped: even if nobody waits for its result, it can be started again.
            self._note.close(self._outcome() or Outcome.CANCELLED)

    def leave(self, within_s: float) -> None:
        self._leaves = True
        if self._config.termination_savepoint:
            with suppress(RheosError):
                self.job.stop()
        self.job.leave(within_s)
        with suppress(BaseException):
            self.wait(0)

    def ask(self, operation: DriverOperation[T]) -> T:
        hands_over = isinstance(operation, HandoverRequest)
        # The record of a driver that dies during the request is gone afterwards.
        successors = waiting_drivers(self._record) if hands_over and self._record is not None else []
        answer = self.job.ask(operation)
        if hands_over:
            aside = partial(self._stand_aside, successors)
            threading.Thread(target=aside, name="rheos-handover", daemon=True).start()
        return answer

    def take_collected(self) -> Mapping[str, pa.Table]:
        return self.job.take_collected()

    def metrics(self) -> MetricsReport:
        return self.job.metrics()

    def _outcome(self) -> Outcome | None:
        """Return the job's outcome. Return None if its driver has failed, was replaced or had to
        end, and the job continues."""
        if self._leaves:
            return None
        with suppress(Exception):
            try:
                self.job.wait(0)
            except FencedError:
                return None
        state = self.job.status().state
        return next((outcome for outcome, of in OUTCOMES.items() if of is state), None)

    def _close(self) -> None:
        """Remove the job's record, once the job has ended. Return when it is gone, whichever thread was
        first."""
        with self._closing:
            if not self._closed:
                self._closed = True
                TERMINATION.remove(self)
                if self._note is not None:
                    self._note.close(self._outcome())
                if self._log is not None:
                    self._log.close()
                # Remove it last: a user who sees that the record is gone may start the job again.
                if self._record is not None:
                    status = self.job.status()
                    events = self.job.events()
                    self._registry.ended(self._record, status.state.value, status.failure, events)
                if self._alerts is not None:
                    self._alerts.close()
                if self._lineage is not None:
                    self._lineage.close(self._outcome(), self.job.status().failure)
        if self._server is not None and self._server.close() and self._mailbox is not None:
            self._mailbox.close()


def _note(config: JobConfig, directory: str) -> HeldNote:
    # Nothing depends on the note, so it need not be durable at once.
    store = open_store(directory, durable=False)
    if config.standby:
        # Otherwise the problem would appear when the job is taken over.
        check_writable(store, directory)
    return HeldNote(store, config.job, this_process(), uuid4().hex, SystemClock().now_ms())


def _started_lineage(plan: PhysicalPlan, config: JobConfig, job: JobHandle) -> LineageEmitter | None:
    if config.lineage is None:
        return None
    lineage = lineage_of(plan, config.lineage, config.key, config.origins)
    emitter = LineageEmitter(config.lineage, lineage, job.status, SystemClock())
    emitter.start()
    return emitter


def _say(driver: str) -> None:
    what = f"the job was last run by {driver}: checking whether it still is"
    print(printable_lines(what), file=sys.stderr)
