"""The driver's side of the commands: a thread that answers, and never delays the job."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any

import zmq

from rheos.core.errors import ConfigurationError, RheosError, unexpected
from rheos.core.plan.outline import PlanOutline
from rheos.core.printable import printable_lines
from rheos.core.protocol.decoding import MalformedError
from rheos.ops.control.command_messages import (
    MAX_REQUEST_BYTES,
    Refused,
    Returned,
    encode,
    request_decoder,
)
from rheos.runtimes import job_operations
from rheos.runtimes.host.sockets import SocketFolder, in_folder, is_of, listen
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.operation_contract import AskedJob, JobOperation, Role

_LOOK_EVERY_MS = 250
_MAX_AT_WORK = 8
"""Maximum number of operations that run at a time, without those of the role `LOOK`."""


class CommandServer:
    """The server of a job's commands. It listens at once, in a folder that only this user can enter. It
    answers from `start` until `close`, or until the job has ended.

    Every request must carry the token; others get no answer. The server's thread now and then calls
    `handle.wait(0)` to find out whether the job has ended.
    """

    def __init__(self, handle: JobHandle, plan: PlanOutline, config: JobConfig, token: str) -> None:
        self._handle = handle
        self._asked = AskedJob(handle, plan, dict(config.settings))
        self._decoder = request_decoder(job_operations.JOB_OPERATIONS)
        self._job = config.job
        self._token = token.encode()
        self._at_work = 0
        self._folder = SocketFolder()
        self._context = zmq.Context(1)
        # A ROUTER, not a REP: a request for a savepoint must not delay a request for the status.
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._done: zmq.Socket[bytes] = self._context.socket(zmq.PULL)
        self._done_at = "inproc://done"
        self._closing = False
        self._lock = threading.Lock()
        try:
            self._socket.setsockopt(zmq.LINGER, 1000)
            self.endpoint = listen(self._socket, in_folder(self._folder.path), MAX_REQUEST_BYTES)
            self._done.bind(self._done_at)
        except BaseException:
            self._context.destroy(0)
            self._folder.close()
            raise
        self.strangers = 0
        """Number of requests without the token, or that no client of ours sends. They get no answer."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="rheos-commands", daemon=True)
        self._thread.start()

    def close(self) -> bool:
        """Return True when the thread has ended, or False in the thread itself. An answer that takes
        longer than a moment is lost. May be called again."""
        self._closing = True
        if self._thread is None:
            self._leave()
        elif threading.current_thread() is not self._thread:
            self._hand_over([b""])
            self._thread.join(5.0)
        return threading.current_thread() is not self._thread

    # --- the server's thread ----------------------------------------------------------------------

    def _serve(self) -> None:
        """Serve requests. Whatever fails here, the job continues and accepts commands."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._done, zmq.POLLIN)
        try:
            over = False
            while not self._closing and not over:
                try:
                    self._hear(dict(poller.poll(_LOOK_EVERY_MS)))
                except Exception as error:
                    what = f"a command could not be answered: {unexpected(error)}"
                    print(printable_lines(what, ""), file=sys.stderr)
                over = self._job_is_over()
            self._answer_the_last()
        finally:
            self._leave()

    def _hear(self, ready: dict[Any, int]) -> None:
        if self._done in ready:
            self._pass_on()
        if self._socket in ready:
            self._take(self._socket.recv_multipart())

    def _leave(self) -> None:
        with self._lock:
            self._socket.close()
            self._done.close(0)
        # Waits until the last answers are sent.
        self._context.term()
        self._folder.close()

    def _job_is_over(self) -> bool:
        try:
            self._handle.wait(0.0)
        except TimeoutError:
            return False
        except BaseException:
            return True
        return True

    def _answer_the_last(self) -> None:
        """Answer the client that stopped or cancelled the job, although the job has ended by its
        request."""
        while self._at_work and self._done.poll(2000):
            self._pass_on()

    def _take(self, frames: list[bytes]) -> None:
        request = self._request(frames)
        if request is None:
            self.strangers += 1
        elif request.role is Role.LOOK:
            self._send(frames[0], self._carried_out(request))
        elif self._at_work >= _MAX_AT_WORK and not request.always_admitted:
            self._send(
                frames[0],
                encode(
                    Refused.of(
                        ConfigurationError(
                            f"the job is already answering {self._at_work} commands",
                            hint="wait until one of them has finished",
                        )
                    )
                ),
            )
        else:
            self._at_work += 1
            threading.Thread(
                target=self._work, args=(frames[0], request), name="rheos-command", daemon=True
            ).start()

    def _request(self, frames: list[bytes]) -> JobOperation[Any] | None:
        """Return the requested operation; None for an unauthenticated peer."""
        if len(frames) != 3 or frames[1] or not is_of(self._token, frames[2]):
            return None
        try:
            job, operation = self._decoder.decode(frames[2][len(self._token) :])
        except MalformedError:
            return None
        return operation if job == self._job else None

    def _pass_on(self) -> None:
        frames = self._done.recv_multipart()
        if len(frames) == 2:
            self._at_work -= 1
            self._socket.send_multipart([frames[0], b"", frames[1]])

    def _send(self, to: bytes, answer: bytes) -> None:
        self._socket.send_multipart([to, b"", answer])

    # --- threads of single commands ---------------------------------------------------------------

    def _work(self, to: bytes, request: JobOperation[Any]) -> None:
        self._hand_over([to, self._carried_out(request)])

    def _hand_over(self, frames: list[bytes]) -> None:
        """Pass frames to the server's thread, unless it has ended. A single frame only wakes it."""
        with self._lock:
            if self._done.closed:
                return
            push: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
            with contextlib.closing(push):
                push.connect(self._done_at)
                push.send_multipart(frames)

    def _carried_out(self, operation: JobOperation[Any]) -> bytes:
        """Execute the operation, and return the encoded answer."""
        try:
            return encode(Returned(operation.of_job(self._asked)))
        except RheosError as error:
            return encode(Refused.of(error))
        except BaseException as error:
            # Whatever it is, the client receives it, and the operation counts as done.
            return encode(Refused.of(unexpected(error)))
