"""What runs a job's program once more is asked of a process of its own, beside the one that answers.

So a program that takes all memory, changes its folder or never ends does not touch the dashboard. The
process is `rheos.cli.replay_process`, which lies above and uses what the command uses. It is given one
request on its input, and gives one answer; it may take so long, and its answer be so large, and a job
is asked one thing at a time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Annotated

import msgspec

from rheos.control.registry import JobRecord
from rheos.dashboard.arguments import ProgramFile, SavepointPath, Text, Values
from rheos.errors import ConfigurationError, InternalError, TransportError
from rheos.protocol.error_data import ErrorData

MAX_ANSWER_BYTES = 16 << 20
MAX_REQUEST_BYTES = 64 << 10
_COMMAND = (sys.executable, "-m", "rheos.cli.replay_process")
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

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work: dict[str, subprocess.Popen[bytes] | None] = {}
        """By the key of the job; None before it is started."""
        self._closed = False

    def ask(self, operation: str, job: JobRecord, request: ReplayRequest) -> msgspec.Raw:
        """JSON, as the command's. Waits for it. Raises BusyError, TransportError where it took too
        long, and the RheosError of the process."""
        asked = AskedReplay(operation, job.key, msgspec.Raw(msgspec.json.encode(request)))
        with self._alone(job):
            data, in_time = self._run(job.key, msgspec.json.encode(asked), request.seconds)
        if not in_time:
            raise TransportError(
                f"{operation!r} of the job {job.job!r} took longer than {request.seconds:g} s",
                hint="let it read less, or give it more `seconds`",
            )
        if len(data) > MAX_ANSWER_BYTES:
            raise ConfigurationError(
                f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB",
                hint=f"ask for less, or use the command on its machine: rheos {operation}",
            )
        try:
            answered = msgspec.json.decode(data, type=AnsweredReplay)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InternalError(
                f"the process of the replay ended without an answer: {error}",
                hint="has the machine run out of memory? Let it read less; or use the command there, "
                f"rheos {operation}, which shows what it ends with",
            ) from None
        if answered.error is not None:
            raise answered.error.error()
        if isinstance(answered.found, msgspec.UnsetType):
            raise InternalError("the process of the replay gave an empty answer")
        return answered.found

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for process in self._at_work.values():
                if process is not None:
                    _kill(process)

    @contextlib.contextmanager
    def _alone(self, job: JobRecord) -> Iterator[None]:
        with self._lock:
            if self._closed or job.key in self._at_work or len(self._at_work) >= _MOST_AT_ONCE:
                whose = "this job is" if job.key in self._at_work else "several jobs are"
                raise BusyError(
                    f"{whose} asked something just now that runs its program",
                    hint="wait for that answer",
                )
            self._at_work[job.key] = None
        try:
            yield
        finally:
            with self._lock:
                del self._at_work[job.key]

    def _run(self, key: str, asked: bytes, seconds: float) -> tuple[bytes, bool]:
        """What the process gives, as far as it is looked at; and whether it did so in time."""
        process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONBREAKPOINT": "0"},
            start_new_session=True,
        )
        with self._lock:
            self._at_work[key] = process
            closed = self._closed
        late = threading.Event()

        def end() -> None:
            late.set()
            with self._lock:
                if self._at_work.get(key) is process:
                    _kill(process)

        timer = threading.Timer(0.0 if closed else seconds, end)
        timer.start()
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(asked)
                    process.stdin.close()
                data = process.stdout.read(MAX_ANSWER_BYTES + 1)
            finally:
                timer.cancel()
                _kill(process)
                with self._lock:
                    self._at_work[key] = None  # Whose number it is from here on is not known.
        return data, not late.is_set()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
