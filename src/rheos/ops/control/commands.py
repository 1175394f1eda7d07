"""The client of a running job, and the messages on the job's control socket.

A request is one frame to the endpoint of the job's record: the record's token, then MessagePack of the
job's id and an operation of the table `JOB_OPERATIONS`. The answer is one frame. Nothing is unpickled.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, TypeVar, Union

import msgspec
import zmq

from rheos.core.errors import CheckpointError, RheosError, TransportError
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import PlanOutline
from rheos.core.protocol.decoding import BoundedDecoder, MalformedError
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ids import JobId
from rheos.ops.control.processes import Liveness, liveness
from rheos.ops.control.registry import JobRecord
from rheos.runtimes.job import JobStatus
from rheos.runtimes.job_operations import (
    CancelJob,
    GetMetrics,
    GetPlan,
    GetSettings,
    GetStatus,
    JobMethods,
    answer_type,
)
from rheos.runtimes.operation_contract import JobOperation

T = TypeVar("T")

MAX_REQUEST_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_POLL_MS = 500


class Returned(msgspec.Struct, Generic[T], frozen=True, tag=True):
    """The result of the operation."""

    value: T


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The error that the operation raised."""

    error: ErrorData

    @classmethod
    def of(cls, error: RheosError) -> Refused:
        return cls(error=ErrorData.of(error))


encode = msgspec.msgpack.Encoder().encode


def encoded_request(job: JobId, operation: JobOperation[Any]) -> bytes:
    """Return the encoded request of an operation, without the token."""
    return encode((job, operation))


@cache
def request_decoder(
    operations: tuple[type[JobOperation[Any]], ...],
) -> BoundedDecoder[tuple[JobId, JobOperation[Any]]]:
    """Return the decoder of requests for any of these operations."""
    request: Any = Union[operations]  # noqa: UP007
    return BoundedDecoder(tuple[JobId, request], max_bytes=MAX_REQUEST_BYTES)


@cache
def answer_decoder(operation: type[JobOperation[T]]) -> BoundedDecoder[Returned[T] | Refused]:
    """Return the decoder of the answers to an operation."""
    answered: Any = Returned
    return BoundedDecoder(answered[answer_type(operation)] | Refused, max_bytes=MAX_ANSWER_BYTES)


# --- the client ---------------------------------------------------------------------------------


class JobClient(JobMethods):
    """Client of one running job, in any process of the same user on the same host.

    Every call raises the RheosError with which the job refused. If no answer comes within `timeout_s`,
    it raises TransportError; if the job ends meanwhile, CheckpointError.
    """

    def __init__(self, record: JobRecord, timeout_s: float = 30.0) -> None:
        self._record = record
        self._timeout_s = timeout_s

    def status(self) -> JobStatus:
        """Return the current status of the job."""
        return self.ask(GetStatus())

    def metrics(self) -> MetricsReport:
        """Return all current metrics of the job."""
        return self.ask(GetMetrics())

    def plan(self) -> PlanOutline:
        """Return the running plan."""
        return self.ask(GetPlan())

    def settings(self) -> dict[str, str]:
        """Return the job's settings, by the names of `rh.Settings`."""
        return self.ask(GetSettings())

    def cancel(self) -> None:
        """Stop the job without a savepoint. Return when it has stopped."""
        self.ask(CancelJob())

    def ask(self, operation: JobOperation[T]) -> T:
        """Return the job's answer to an operation."""
        record = self._record
        lives = liveness(record.process)
        if lives is Liveness.ELSEWHERE:
            raise TransportError(
                f"the job {record.job!r} runs as {record.process}, and accepts commands only there",
                hint="run the command on that host",
            )
        if not record.endpoint.startswith("ipc://"):
            raise TransportError(
                f"the job {record.job!r} listens at {record.endpoint}, but uses another version "
                "of Rheos",
                hint="use the command of the version of Rheos that runs the job",
            )
        context = zmq.Context(1)
        socket: zmq.Socket[bytes] = context.socket(zmq.REQ)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.MAXMSGSIZE, MAX_ANSWER_BYTES)
            socket.connect(record.endpoint)
            socket.send(record.token.encode() + encoded_request(record.job, operation))
            data = self._received(socket)
        finally:
            socket.close()
            context.term()
        try:
            answer: Returned[T] | Refused = answer_decoder(type(operation)).decode(data)
        except MalformedError as error:
            raise TransportError(
                f"the job {record.job!r} sent an unreadable answer: {error}",
                hint="use the command of the version of Rheos that runs the job",
            ) from error
        if isinstance(answer, Refused):
            raise answer.error.error()
        return answer.value

    def _received(self, socket: zmq.Socket[bytes]) -> bytes:
        left_ms = round(self._timeout_s * 1000)
        while not socket.poll(min(_POLL_MS, max(left_ms, 0))):
            left_ms -= _POLL_MS
            if liveness(self._record.process) is Liveness.DEAD:
                raise CheckpointError(
                    f"the job {self._record.job!r} ended before it answered",
                    hint="its output shows the reason",
                )
            if left_ms <= 0:
                raise TransportError(
                    f"the job {self._record.job!r} ({self._record.process}) has not answered "
                    f"for {self._timeout_s:g} s",
                    hint="the request may still complete; check with `rheos jobs` and `rheos "
                    "checkpoints`, or wait longer with --timeout",
                )
        return socket.recv()
