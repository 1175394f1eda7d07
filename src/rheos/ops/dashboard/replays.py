"""What runs a job's program once more is asked of a process of its own, beside the one that answers.

So a program that takes all memory, changes its folder or never ends does not touch the dashboard. The
process is `rheos.cli.replay_process`, which lies above and uses what the command uses. It reads one
request from its input, and writes one answer. It runs with the interpreter, in the folder and with the
environment of the job. A guard (`replay_guard`) bounds its time and its memory, and ends it with the
dashboard; its answer is bounded, and a job is asked one thing at a time.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from math import ceil
from typing import Annotated, Literal

import msgspec
import psutil

from rheos.core.errors import ConfigurationError, InternalError, TransportError
from rheos.core.protocol.error_data import ErrorData
from rheos.ops.control.processes import Liveness, liveness
from rheos.ops.control.registry import JobRecord, home_folder
from rheos.ops.dashboard.arguments import ProgramFile, SavepointPath, Text, Values
from rheos.ops.dashboard.replay_guard import GuardExit, surroundings

MAX_ANSWER_BYTES = 16 << 20
MAX_REQUEST_BYTES = 64 << 10
_COMMAND = (sys.executable, "-P", "-m", "rheos.cli.replay_process")
"""With `-P`, modules in the folder of the job cannot replace those that Rheos imports."""
_MOST_AT_ONCE = 4
"""Over all jobs: each has the rows that it reads in memory."""

CheckpointNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class _Replayed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seconds: _Seconds = 120.0
    """For how long it may take."""


class WhyRequest(_Replayed, frozen=True, kw_only=True, rename={"for_": "for"}):
    sink: Text
    """Its name, or its id."""
    row: Values
    """The values of some of its columns."""
    rows: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3
    """So many of the newest that have them are explained."""
    for_: Text | None = None
    """How far event time is to go beyond the checkpoint's, such as "10m"; null: all there is now."""
    from_savepoint: SavepointPath | None = None
    """The folder of a savepoint that the job's log names, in place of its checkpoints."""
    from_start: bool = False


class DebugRequest(_Replayed, frozen=True, kw_only=True, rename={"from_": "from"}):
    key: Text | Values
    """Its value as text, or its values by column."""
    operator: Text | None = None
    from_: CheckpointNumber | None = None
    """The number of a checkpoint that the job keeps; null: its newest."""
    until: CheckpointNumber | None = None
    """That of a later one, up to which input is read; null: all there is now."""


class ForkRequest(_Replayed, frozen=True, kw_only=True, rename={"for_": "for"}):
    file: ProgramFile | None = None
    """The changed program: a path within the folder in which the job was started; null: the same."""
    parameters: dict[Text, Text] = {}
    """Other values of the program's parameters."""
    for_: Text | None = None
    key: list[Text] = []
    """The columns by which rows are held against each other; none: those of the last key_by."""
    from_savepoint: SavepointPath | None = None
    """As for `why`."""
    allow_dropped: bool = False
    new_aggregates: Literal["null", "since"] | None = None
    samples: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 10


class WhyNotRequest(_Replayed, frozen=True, kw_only=True):
    operator: Text
    key: Text | None = None
    window: Text | None = None


ReplayRequest = WhyRequest | DebugRequest | ForkRequest | WhyNotRequest


class AskedReplay(msgspec.Struct, frozen=True):
    """What the process is asked."""

    operation: str
    job: str
    """The key of its record."""
    request: msgspec.Raw


class AnsweredReplay(msgspec.Struct, frozen=True):
    """What it gives: one of the two."""

    found: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: ErrorData | None = None


class BusyError(ConfigurationError):
    """Something else is asked beside just now."""


class ReplayProcesses:
    """Safe for threads. To be closed: then what is under way ends."""

    def __init__(self, memory_bytes: int | None = None) -> None:
        """`memory_bytes`: how much one replay may take; None: as `default_memory_bytes`."""
        self._memory_bytes = default_memory_bytes() if memory_bytes is None else memory_bytes
        self._lock = threading.Lock()
        self._at_work: dict[str, subprocess.Popen[bytes] | None] = {}
        """The guards by the key of the job; None before it is started."""
        self._closed = False

    def ask(self, operation: str, job: JobRecord, request: ReplayRequest) -> msgspec.Raw:
        """Return JSON, as the command's; waits for it.

        Raises:
            BusyError: this job, or several others, are asked just now.
            TransportError: it took too long.
            ConfigurationError: it took too much memory, or cannot run here.
            RheosError: what the process says.
        """
        asked = AskedReplay(operation, job.key, msgspec.Raw(msgspec.json.encode(request)))
        with self._alone(job):
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
        if answered.error is not None:
            raise answered.error.error()
        if isinstance(answered.found, msgspec.UnsetType):
            raise InternalError("the process of the replay gave an empty answer")
        return answered.found

    def close(self) -> None:
        """End what is under way."""
        with self._lock:
            self._closed = True
            for process in self._at_work.values():
                if process is not None:
                    process.terminate()

    @contextlib.contextmanager
    def _alone(self, job: JobRecord) -> Iterator[None]:
        with self._lock:
            if self._closed or job.key in self._at_work or len(self._at_work) >= _MOST_AT_ONCE:
                whose = (
                    "this job is running a replay"
                    if job.key in self._at_work
                    else "several jobs are running replays"
                )
                raise BusyError(
                    f"{whose} for an earlier request",
                    hint="wait until it has finished",
                )
            self._at_work[job.key] = None
        try:
            yield
        finally:
            with self._lock:
                del self._at_work[job.key]

    def _run(self, job: JobRecord, asked: bytes, seconds: float) -> tuple[bytes, int]:
        """Return what the replay has written, and the guard's exit code."""
        read, held = os.pipe()
        # While this process lives, it holds the other end of the guard's pipe.
        limits = [str(each) for each in (read, os.getpid(), ceil(seconds), self._memory_bytes)]
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "rheos.ops.dashboard.replay_guard",
                    *limits,
                    *_command(job),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(read,),
                start_new_session=True,
            )
        except BaseException:
            os.close(held)
            raise
        finally:
            os.close(read)
        with self._lock:
            self._at_work[job.key] = process
            if self._closed:
                process.terminate()
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(surroundings(_folder(job), _environment(job)) + asked)
                    process.stdin.close()
                data = process.stdout.read(MAX_ANSWER_BYTES + 1)
            finally:
                os.close(held)
                with self._lock:
                    self._at_work[job.key] = None  # Nobody else signals it from here on.
                code: int = process.wait()
        return data, code


def default_memory_bytes() -> int:
    """Return 4 GiB, or half of the machine's memory where that is less."""
    return min(4 << 30, int(psutil.virtual_memory().total) // 2)


def _command(job: JobRecord) -> tuple[str, ...]:
    """Return what runs the replay: the job's own interpreter."""
    interpreter = "" if job.program is None else job.program.interpreter
    return (interpreter or _COMMAND[0], *_COMMAND[1:])


def _folder(job: JobRecord) -> str | None:
    """Return the folder in which the job was started; None where that is not here."""
    folder = None if job.program is None else job.program.folder
    return folder if folder is not None and os.path.isdir(folder) else None


def _environment(job: JobRecord) -> dict[str, str]:
    """Return the environment that the job's driver was started with, so that the program finds what it
    finds there; the dashboard's own where the system does not show it."""
    found: dict[str, str] = {}
    if job.program is not None and liveness(job.process) is Liveness.ALIVE:
        with contextlib.suppress(psutil.Error, OSError):
            found = psutil.Process(job.process.pid).environ()
    return {**(found or os.environ), "PYTHONBREAKPOINT": "0", "RHEOS_HOME": str(home_folder())}
