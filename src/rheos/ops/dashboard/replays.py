"""Replays of a job's program, in a separate process.

So a program that takes all memory, changes its folder or never ends does not affect the dashboard. The
process is `rheos.cli.replay_process`, which is above this package and uses the same code as the
command. It reads one request from its input, and writes one answer. It runs with the interpreter, the
folder and the environment of the job. A guard (`replay_guard`) limits its time and its memory, and ends
it with the dashboard. Its answer is bounded, and a job has at most one replay at a time.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
import psutil

from rheos.core.errors import ConfigurationError, InternalError, TransportError
from rheos.core.protocol.error_data import ErrorData
from rheos.ops.control.processes import Liveness, liveness
from rheos.ops.control.registry import JobRecord, home_folder
from rheos.ops.dashboard.arguments import ProgramFile, SavepointPath, Text, Values
from rheos.ops.dashboard.guarded_process import GuardedProcess, default_memory_bytes
from rheos.ops.dashboard.replay_guard import GuardExit, surroundings

MAX_ANSWER_BYTES = 16 << 20
MAX_REQUEST_BYTES = 64 << 10
REPLAY_COMMAND = (sys.executable, "-P", "-m", "rheos.cli.replay_process")
"""Start of the command. With `-P`, modules in the folder of the job cannot replace those that Rheos
imports."""
_MOST_AT_ONCE = 4
"""Maximum number of replays over all jobs, because each holds the rows that it reads in memory."""

CheckpointNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class _ReplayAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seconds: _Seconds = 120.0
    """Time limit."""


class WhyRequest(_ReplayAnswer, frozen=True, kw_only=True, rename={"for_": "for"}):
    sink: Text
    """Name or id of the sink."""
    row: Values
    """Values of some of its columns."""
    rows: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3
    """Number of rows to explain: the newest that have the values."""
    for_: Text | None = None
    """Event time to process beyond the checkpoint, such as "10m"; null: all current input."""
    from_savepoint: SavepointPath | None = None
    """Folder of a savepoint that the job's log names, instead of its checkpoints."""
    from_start: bool = False


class DebugRequest(_ReplayAnswer, frozen=True, kw_only=True, rename={"from_": "from"}):
    key: Text | Values
    """Value of the key as a string, or its values by column."""
    operator: Text | None = None
    from_: CheckpointNumber | None = None
    """Number of a checkpoint that the job keeps; null: its newest."""
    until: CheckpointNumber | None = None
    """Number of a later checkpoint up to which input is read; null: all current input."""


class ForkRequest(_ReplayAnswer, frozen=True, kw_only=True, rename={"for_": "for"}):
    file: ProgramFile | None = None
    """Changed program: a path within the folder of the job's start; null: the same program."""
    parameters: dict[Text, Text] = {}
    """New values of the program's parameters."""
    for_: Text | None = None
    key: list[Text] = []
    """Columns by which rows are compared; empty: those of the last key_by."""
    from_savepoint: SavepointPath | None = None
    """Folder of a savepoint, as for `why`."""
    allow_dropped: bool = False
    new_aggregates: Literal["null", "since"] | None = None
    samples: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 10


class WhyNotRequest(_ReplayAnswer, frozen=True, kw_only=True):
    operator: Text
    key: Text | None = None
    window: Text | None = None


ReplayRequest = WhyRequest | DebugRequest | ForkRequest | WhyNotRequest


class AskedReplay(msgspec.Struct, frozen=True):
    """The request to the process."""

    operation: str
    job: str
    """Key of the job's record."""
    request: msgspec.Raw


class AnsweredReplay(msgspec.Struct, frozen=True):
    """The answer of the process: one of the two fields."""

    found: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: ErrorData | None = None

    def result(self) -> msgspec.Raw:
        """Return the answer. Raise the RheosError that the process reports instead."""
        if self.error is not None:
            raise self.error.error()
        if isinstance(self.found, msgspec.UnsetType):
            raise InternalError("the process of the replay returned an empty answer")
        return self.found


class BusyError(ConfigurationError):
    """The refusal of a replay while too many others run."""


class ReplayProcesses:
    """The processes of replays. Safe for threads. `close` ends the running ones."""

    def __init__(self, memory_bytes: int | None = None) -> None:
        """Begin without processes. `memory_bytes` limits one replay; None: `default_memory_bytes`."""
        self._memory_bytes = default_memory_bytes() if memory_bytes is None else memory_bytes
        self._lock = threading.Lock()
        self._at_work: dict[str, subprocess.Popen[bytes] | None] = {}
        """Guards by the job's key; None before the guard is started."""
        self._closed = False

    def ask(self, operation: str, job: JobRecord, request: ReplayRequest) -> msgspec.Raw:
        """Run a replay, wait for it, and return its JSON, which is that of the command.

        Raises:
            BusyError: this job, or several others, are being replayed.
            TransportError: it took too long.
            ConfigurationError: it took too much memory, or cannot run here.
            RheosError: the error that the process reports.
        """
        asked = AskedReplay(operation, job.key, msgspec.Raw(msgspec.json.encode(request)))
        with self._reserve_replay(job):
            data, code = self._run(job, msgspec.json.encode(asked), request.seconds)
        match code:
            case GuardExit.TOO_LATE:
                raise TransportError(
                    f"{operation!r} of the job {job.job!r} took longer than {request.seconds:g} s",
                    hint="reduce the input, or pass more `seconds`",
                )
            case GuardExit.TOO_MUCH_MEMORY:
                raise ConfigurationError(
                    f"{operation!r} of the job {job.job!r} took more than "
                    f"{self._memory_bytes >> 20} MiB of memory",
                    hint="reduce the input (`for`, a newer checkpoint), or start the dashboard with "
                    "a larger --replay-memory",
                )
            case GuardExit.NOT_STARTED:
                raise ConfigurationError(
                    f"the interpreter that runs the job {job.job!r} cannot be started here: "
                    f"{_command(job)[0]}",
                    hint="start the dashboard where the job's driver runs",
                )
        if len(data) > MAX_ANSWER_BYTES:
            raise ConfigurationError(
                f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB",
                hint=f"reduce the request, or use the command on its machine: rheos {operation}",
            )
        try:
            answered = msgspec.json.decode(data, type=AnsweredReplay)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InternalError(
                f"the process of the replay ended without an answer: {error}",
                hint="the machine may have run out of memory: reduce the input; or use the command "
                f"there, rheos {operation}, which shows the error",
            ) from None
        return answered.result()

    def close(self) -> None:
        """End the running replays."""
        with self._lock:
            self._closed = True
            for process in self._at_work.values():
                if process is not None:
                    process.terminate()

    @contextlib.contextmanager
    def _reserve_replay(self, job: JobRecord) -> Iterator[None]:
        with self._lock:
            if self._closed or job.key in self._at_work or len(self._at_work) >= _MOST_AT_ONCE:
                reason = (
                    "this job is running a replay"
                    if job.key in self._at_work
                    else "several jobs are running replays"
                )
                raise BusyError(
                    f"{reason} for an earlier request",
                    hint="wait until it has finished",
                )
            self._at_work[job.key] = None
        try:
            yield
        finally:
            with self._lock:
                del self._at_work[job.key]

    def _run(self, job: JobRecord, asked: bytes, seconds: float) -> tuple[bytes, int]:
        """Return the output of the replay, and the guard's exit code."""
        guarded = GuardedProcess(_command(job), seconds, self._memory_bytes)
        with self._lock:
            self._at_work[job.key] = guarded.guard
            if self._closed:
                guarded.guard.terminate()
        try:
            request = surroundings(_folder(job), _environment(job)) + asked
            data = guarded.ask(request, MAX_ANSWER_BYTES + 1)
        finally:
            with self._lock:
                self._at_work[job.key] = None  # From now on, nobody else signals it.
            code = guarded.wait()
        return data, code


def _command(job: JobRecord) -> tuple[str, ...]:
    """Return the command of the replay, with the job's own interpreter."""
    interpreter = "" if job.program is None else job.program.interpreter
    return (interpreter or REPLAY_COMMAND[0], *REPLAY_COMMAND[1:])


def _folder(job: JobRecord) -> str | None:
    """Return the folder in which the job was started; None if it does not exist here."""
    folder = None if job.program is None else job.program.folder
    return folder if folder is not None and os.path.isdir(folder) else None


def _environment(job: JobRecord) -> dict[str, str]:
    """Return the environment with which the job's driver was started, so that the program finds the
    same variables. If the system does not show it, return the dashboard's own."""
    found: dict[str, str] = {}
    if job.program is not None and liveness(job.process) is Liveness.ALIVE:
        with contextlib.suppress(psutil.Error, OSError):
            found = psutil.Process(job.process.pid).environ()
    return {**(found or os.environ), "PYTHONBREAKPOINT": "0", "RHEOS_HOME": str(home_folder())}
