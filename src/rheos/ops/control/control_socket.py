"""The client of a job's control socket: a request is one frame, and the answer is one frame."""

from __future__ import annotations

import zmq

from rheos.core.errors import CheckpointError, TransportError
from rheos.ops.control.command_messages import MAX_ANSWER_BYTES
from rheos.ops.control.processes import Liveness, liveness
from rheos.ops.control.registry import JobRecord

_POLL_MS = 500


def ask_by_socket(record: JobRecord, request: bytes, timeout_s: float) -> bytes:
    """Send an encoded request to the driver, and return the encoded answer.

    Raises:
        TransportError: the socket is not on this host, is of another version, or does not answer.
        CheckpointError: the job ended before it answered.
    """
    if liveness(record.process) is Liveness.ELSEWHERE:
        raise TransportError(
            f"the job {record.job!r} runs as {record.process}, and its control socket is only there",
            hint="name the job with its checkpoint directory: JOB@DIRECTORY",
        )
    if not record.endpoint.startswith("ipc://"):
        raise TransportError(
            f"the job {record.job!r} listens at {record.endpoint}, but uses another version of Rheos",
            hint="use the command of the version of Rheos that runs the job",
        )
    context = zmq.Context(1)
    socket: zmq.Socket[bytes] = context.socket(zmq.REQ)
    try:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_ANSWER_BYTES)
        socket.connect(record.endpoint)
        socket.send(record.token.encode() + request)
        left_ms = round(timeout_s * 1000)
        while not socket.poll(min(_POLL_MS, max(left_ms, 0))):
            left_ms -= _POLL_MS
            if liveness(record.process) is Liveness.DEAD:
                raise ended(record)
            if left_ms <= 0:
                raise no_answer(record, timeout_s)
        return socket.recv()
    finally:
        socket.close()
        context.term()


def ended(record: JobRecord) -> CheckpointError:
    """Return the error for a job that ended before it answered."""
    return CheckpointError(
        f"the job {record.job!r} ended before it answered", hint="its output shows the reason"
    )


def no_answer(record: JobRecord, timeout_s: float) -> TransportError:
    """Return the error for a job that has not answered in time."""
    return TransportError(
        f"the job {record.job!r} ({record.process}) has not answered for {timeout_s:g} s",
        hint="the request may still complete; check with `rheos jobs` and `rheos "
        "checkpoints`, or wait longer with --timeout",
    )
