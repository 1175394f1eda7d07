"""The worker's end of the control channel: joins the attempt, and keeps the lease."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import zmq

from rheos.core.errors import RheosError, TransportError, unexpected
from rheos.core.protocol import control
from rheos.core.protocol.decoding import MalformedError
from rheos.runtimes.continuous.control import (
    MAX_MESSAGE_BYTES,
    FromDriver,
    Heartbeat,
    Join,
    JoinRefused,
    Left,
    Order,
    RestoredAhead,
    Welcome,
    body_of,
    framed,
    from_driver,
    heartbeat_s,
    wait_ms,
)
from rheos.runtimes.continuous.security import Security

T = TypeVar("T")

_LAST = b""
"""The last message; sent by the main thread."""
_GRACE_S = 5.0
"""Time that a worker may take to stop on request, before its process ends anyway."""


class ControlClient:
    """The worker's end. A separate thread keeps the lease while the main loop works."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        driver: str,
        token: bytes,
        join: Join,
        security: Security | None,
        wake: Callable[[], None],
        timeout_ms: int,
    ) -> None:
        self._join = join
        self._token = token
        self._failure: RheosError | None = None
        self._wake = wake
        self._timeout_ms = timeout_ms
        self._inbox: deque[control.ToTask] = deque()
        self._orders: deque[Order] = deque()
        self._joined = threading.Event()
        self._answer: Welcome | JoinRefused | None = None
        self._outbox: zmq.Socket[bytes] = context.socket(zmq.PUSH)
        self._outbox.bind("inproc://control")
        self._outgoing: zmq.Socket[bytes] = context.socket(zmq.PULL)
        self._outgoing.connect("inproc://control")
        self._socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 2000)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        if security is not None:
            security.connecting(self._socket)
        self._socket.connect(driver)
        self._thread = threading.Thread(target=self._run, name="rheos-control", daemon=True)

    def start(self) -> Welcome | JoinRefused | None:
        """Join, and wait for the other workers. Return None if the driver does not answer within the
        lease. Raise TransportError if it uses another version of the protocol."""
        self._thread.start()
        self._joined.wait()
        if self._failure is not None:
            raise self._failure
        return self._answer

    def send(self, message: control.ToMaster | RestoredAhead | Left) -> None:
        """Send a message to the driver. Only the main thread may call it."""
        self._outbox.send(framed(self._token, message))

    def receive(self) -> list[control.ToTask]:
        """Return the driver's messages since the last call. Only the main thread may call it. Raise the
        error that ended the lease's thread."""
        if self._failure is not None:
            raise self._failure
        return _drained(self._inbox)

    def orders(self) -> list[Order]:
        """Return the orders since the last call that precede an attempt. Only the main thread may call
        it."""
        return _drained(self._orders)

    def close(self) -> None:
        """Send the remaining messages, then end the thread."""
        with contextlib.suppress(zmq.Again):  # If the thread has failed, nobody receives it.
            self._outbox.send(_LAST, zmq.NOBLOCK)
        self._thread.join(3.0)
        self._outbox.close(linger=0)
        if not self._thread.is_alive():
            self._outgoing.close(linger=0)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        """Run the thread. If it fails, the main loop fails, as a slot must not run without a lease."""
        try:
            self._keep_lease()
        except Exception as error:
            self._failure = error if isinstance(error, RheosError) else unexpected(error)
        finally:
            self._socket.close()
            self._joined.set()
            self._wake()

    def _keep_lease(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._outgoing, zmq.POLLIN)
        self._socket.send(framed(self._token, self._join))
        timeout_s, every_s = self._timeout_ms / 1000, heartbeat_s(self._timeout_ms)
        heard = beat = time.monotonic()
        stop_by: float | None = None
        while True:
            leave_by = heard + timeout_s if stop_by is None else stop_by
            poller.poll(wait_ms(min(beat + every_s, leave_by), time.monotonic()))
            if self._forward():
                return
            now = time.monotonic()
            # This process was paused for so long that the messages in its socket are outdated.
            if now - heard > timeout_s and stop_by is None:
                stop_by = now + _GRACE_S
                self._stop()
            while self._socket.poll(0):
                body = body_of(self._token, self._socket.recv(), "the driver")
                if body is None:
                    continue
                heard = now
                if self._take(_decoded_here(body)):
                    stop_by = stop_by or now + _GRACE_S
            if now - beat >= every_s:
                beat = now
                self._socket.send(framed(self._token, Heartbeat(self._join.attempt)))
            if stop_by is not None and now > stop_by:
                # The main loop hangs: end the process, and with it its output.
                os._exit(70)

    def _forward(self) -> bool:
        """Send the waiting frames. Return whether the last one was sent."""
        while self._outgoing.poll(0):
            frame = self._outgoing.recv()
            if frame == _LAST:
                return True
            self._socket.send(frame)
        return False

    def _take(self, message: FromDriver) -> bool:
        """Take a message in. Return whether it requests that the worker leaves."""
        if message.attempt != self._join.attempt:
            return False
        if isinstance(message, Heartbeat):
            return False
        if isinstance(message, Welcome | JoinRefused):
            self._answer = message
            self._joined.set()
            return isinstance(message, JoinRefused)
        if isinstance(message, Order):
            self._orders.append(message)
            self._wake()
            return False
        self._inbox.append(message)
        self._wake()
        return isinstance(message, control.Cancel)

    def _stop(self) -> None:
        self._inbox.append(control.Cancel(attempt=self._join.attempt))
        self._joined.set()
        self._wake()


def _drained(queue: deque[T]) -> list[T]:
    """Remove and return the messages of a queue to which the other thread adds."""
    messages = []
    while queue:
        messages.append(queue.popleft())
    return messages


def _decoded_here(body: bytes) -> FromDriver:
    try:
        return from_driver.decode(body)
    except MalformedError as error:
        raise TransportError(f"the driver sent an unreadable message: {error}") from error
