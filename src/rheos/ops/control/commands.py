"""What a command says to a running job, and what the job answers.

A request is one frame to the endpoint of the job's record: the record's token, then MessagePack; the
answer is one frame. What comes from a socket stays plain values: nothing is unpickled.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
import zmq

from rheos.core.errors import CheckpointError, RheosError, TransportError
from rheos.core.metrics.event_log import JobEvent
from rheos.core.metrics.history_files import HistoryView
from rheos.core.metrics.model import JobFigures
from rheos.core.plan.outline import PlanOutline
from rheos.core.protocol.decoding import BoundedDecoder, MalformedError
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.stacks import StackProfile
from rheos.ops.control.processes import Liveness, liveness
from rheos.ops.control.registry import JobRecord
from rheos.runtimes.job import CheckpointInfo, JobStatus

MAX_REQUEST_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_POLL_MS = 500


# --- requests -----------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    job: JobId


class GetStatus(Request, frozen=True):
    pass


class GetCheckpoints(Request, frozen=True):
    pass


class GetFigures(Request, frozen=True):
    pass


class GetHistory(Request, frozen=True):
    pass


class GetEvents(Request, frozen=True):
    pass


class GetStory(Request, frozen=True):
    pass


class GetPlan(Request, frozen=True):
    pass


class GetSettings(Request, frozen=True):
    pass


class TakeSavepoint(Request, frozen=True):
    directory: str | None
    """Absolute, or a URL: the driver's working directory is not the caller's."""


class StopWithSavepoint(Request, frozen=True):
    directory: str | None
    drain: bool


class RescaleJob(Request, frozen=True):
    parallelism: int


class ProfileSubtask(Request, frozen=True):
    subtask: int
    for_ms: int


class CancelJob(Request, frozen=True):
    pass


AnyRequest: TypeAlias = (
    GetStatus
    | GetCheckpoints
    | GetFigures
    | GetHistory
    | GetEvents
    | GetStory
    | GetPlan
    | GetSettings
    | TakeSavepoint
    | StopWithSavepoint
    | RescaleJob
    | ProfileSubtask
    | CancelJob
)


# --- answers ------------------------------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    pass


class Status(Answer, frozen=True):
    status: JobStatus


class CheckpointList(Answer, frozen=True):
    checkpoints: list[CheckpointInfo]


class TheFigures(Answer, frozen=True):
    figures: JobFigures


class TheHistory(Answer, frozen=True):
    history: HistoryView


class TheEvents(Answer, frozen=True):
    events: list[JobEvent]


class TheStory(Answer, frozen=True):
    lines: list[str]


class ThePlan(Answer, frozen=True):
    plan: PlanOutline


class TheSettings(Answer, frozen=True):
    settings: dict[str, str]


class SavepointTaken(Answer, frozen=True):
    directory: str


class WidthChanged(Answer, frozen=True):
    pass


class TheProfile(Answer, frozen=True):
    profile: StackProfile


class Cancelled(Answer, frozen=True):
    pass


class Refused(Answer, frozen=True):
    """The error that came of it."""

    error: ErrorData

    @classmethod
    def of(cls, error: RheosError) -> Refused:
        return cls(error=ErrorData.of(error))


AnyAnswer: TypeAlias = (
    Status
    | CheckpointList
    | TheFigures
    | TheHistory
    | TheEvents
    | TheStory
    | ThePlan
    | TheSettings
    | SavepointTaken
    | WidthChanged
    | TheProfile
    | Cancelled
    | Refused
)

encode = msgspec.msgpack.Encoder().encode
request_decoder: BoundedDecoder[AnyRequest] = BoundedDecoder(AnyRequest, max_bytes=MAX_REQUEST_BYTES)
answer_decoder: BoundedDecoder[AnyAnswer] = BoundedDecoder(AnyAnswer, max_bytes=MAX_ANSWER_BYTES)


# --- the asking side ----------------------------------------------------------------------------


class JobClient:
    """Speaks to one running job, from any process of the same user on the same host.

    Every call raises the RheosError that the job answered with, or TransportError where none came
    within `timeout_s`, or the job ended meanwhile."""

    def __init__(self, record: JobRecord, timeout_s: float = 30.0) -> None:
        self._record = record
        self._timeout_s = timeout_s

    def status(self) -> JobStatus:
        answer = self._ask(GetStatus(job=self._record.job))
        assert isinstance(answer, Status)
        return answer.status

    def checkpoints(self) -> list[CheckpointInfo]:
        answer = self._ask(GetCheckpoints(job=self._record.job))
        assert isinstance(answer, CheckpointList)
        return answer.checkpoints

    def figures(self) -> JobFigures:
        answer = self._ask(GetFigures(job=self._record.job))
        assert isinstance(answer, TheFigures)
        return answer.figures

    def history(self) -> HistoryView:
        answer = self._ask(GetHistory(job=self._record.job))
        assert isinstance(answer, TheHistory)
        return answer.history

    def events(self) -> list[JobEvent]:
        answer = self._ask(GetEvents(job=self._record.job))
        assert isinstance(answer, TheEvents)
        return answer.events

    def story(self) -> list[str]:
        answer = self._ask(GetStory(job=self._record.job))
        assert isinstance(answer, TheStory)
        return answer.lines

    def plan(self) -> PlanOutline:
        answer = self._ask(GetPlan(job=self._record.job))
        assert isinstance(answer, ThePlan)
        return answer.plan

    def settings(self) -> dict[str, str]:
        answer = self._ask(GetSettings(job=self._record.job))
        assert isinstance(answer, TheSettings)
        return answer.settings

    def savepoint(self, directory: str | None) -> str:
        answer = self._ask(TakeSavepoint(job=self._record.job, directory=directory))
        assert isinstance(answer, SavepointTaken)
        return answer.directory

    def stop(self, directory: str | None, *, drain: bool) -> str:
        answer = self._ask(StopWithSavepoint(job=self._record.job, directory=directory, drain=drain))
        assert isinstance(answer, SavepointTaken)
        return answer.directory

    def rescale(self, parallelism: int) -> None:
        """Returns when the job runs with it."""
        self._ask(RescaleJob(job=self._record.job, parallelism=parallelism))

    def profile(self, subtask: int, for_ms: int) -> StackProfile:
        """Returns when that time is over."""
        answer = self._ask(ProfileSubtask(job=self._record.job, subtask=subtask, for_ms=for_ms))
        assert isinstance(answer, TheProfile)
        return answer.profile

    def cancel(self) -> None:
        """Returns when the job has stopped."""
        self._ask(CancelJob(job=self._record.job))

    def _ask(self, request: AnyRequest) -> AnyAnswer:
        record = self._record
        lives = liveness(record.process)
        if lives is Liveness.ELSEWHERE:
            raise TransportError(
                f"the job {record.job!r} runs as {record.process}, and can be asked only there",
                hint="run the command on that host",
            )
        if not record.endpoint.startswith("ipc://"):
            raise TransportError(
                f"the job {record.job!r} listens at {record.endpoint}: its rheos is another",
                hint="use the command of the version of rheos that runs the job",
            )
        context = zmq.Context(1)
        socket: zmq.Socket[bytes] = context.socket(zmq.REQ)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.MAXMSGSIZE, MAX_ANSWER_BYTES)
            socket.connect(record.endpoint)
            socket.send(record.token.encode() + encode(request))
            data = self._received(socket)
        finally:
            socket.close()
            context.term()
        try:
            answer = answer_decoder.decode(data)
        except MalformedError as error:
            raise TransportError(
                f"the job {record.job!r} gave an answer that cannot be read: {error}",
                hint="use the command of the version of rheos that runs the job",
            ) from error
        if isinstance(answer, Refused):
            raise answer.error.error()
        return answer

    def _received(self, socket: zmq.Socket[bytes]) -> bytes:
        left_ms = round(self._timeout_s * 1000)
        while not socket.poll(min(_POLL_MS, max(left_ms, 0))):
            left_ms -= _POLL_MS
            if liveness(self._record.process) is Liveness.DEAD:
                raise CheckpointError(
                    f"the job {self._record.job!r} has ended without an answer",
                    hint="its own output says why",
                )
            if left_ms <= 0:
                raise TransportError(
                    f"the job {self._record.job!r} ({self._record.process}) has not answered "
                    f"within {self._timeout_s:g} s",
                    hint="what was asked for may still be done; look by `rheos jobs` and "
                    "`rheos checkpoints`, or give it longer with --timeout",
                )
        return socket.recv()
