"""The control channel between the driver and its workers: joining, messages, leases.

A worker says `Join`; once all have, the driver sends each a `Welcome` with everyone's data address.
Then the two exchange the messages of `rheos.protocol.control`. The driver's heartbeat renews the
workers' lease; the worker's own tells the driver when its main loop last stepped.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec
import zmq

from rheos.protocol import control
from rheos.protocol.ids import Attempt
from rheos.runtimes.continuous.security import Security

HEARTBEAT_MS = 500
LEASE_MS = 15_000
"""A worker that has not heard of its driver for so long stops by itself."""

_GRACE_S = 5.0
"""How long a worker that was told to stop may take before its process ends without it."""


class Join(msgspec.Struct, frozen=True, tag=True):
    """A worker is there, and takes data at `address`."""

    attempt: Attempt
    subtask: int
    token: bytes
    address: str
    version: str


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """All workers are there; `addresses` is by subtask."""

    attempt: Attempt
    addresses: list[str]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The driver does not want the worker: its attempt is over, or its version another."""

    attempt: Attempt
    reason: str


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    attempt: Attempt
    step_us: int = 0


FromDriver = control.ToTask | Welcome | Refused | Heartbeat
FromWorker = control.ToMaster | Join | Heartbeat

from_driver = msgspec.msgpack.Decoder(FromDriver)
from_worker = msgspec.msgpack.Decoder(FromWorker)


class ControlClient:
    """The worker's end. A thread of its own keeps the lease while the main loop works."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        driver: str,
        join: Join,
        security: Security | None,
        wake: Callable[[], None],
    ) -> None:
        self._join = join
        self._wake = wake
        self._inbox: deque[control.ToTask] = deque()
        self._joined = threading.Event()
        self._answer: Welcome | Refused | None = None
        self.step_us = 0
        """Set by the main loop at each step."""
        self._outbox: zmq.Socket[bytes] = context.socket(zmq.PUSH)
        self._outbox.bind("inproc://control")
        self._outgoing: zmq.Socket[bytes] = context.socket(zmq.PULL)
        self._outgoing.connect("inproc://control")
        self._socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 2000)
        if security is not None:
            security.secure(self._socket, server=False)
        self._socket.connect(driver)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rheos-control", daemon=True)

    def start(self) -> Welcome | Refused | None:
        """Joins, and waits for the others; None where the driver never answered within the lease."""
        self._thread.start()
        self._joined.wait()
        return self._answer

    def send(self, message: control.ToMaster) -> None:
        """Called by the main thread only."""
        self._outbox.send(control.encode(message))

    def receive(self) -> list[control.ToTask]:
        """The driver's messages since the last call. Called by the main thread."""
        messages = []
        while self._inbox:
            messages.append(self._inbox.popleft())
        return messages

    def close(self) -> None:
        """Lets what was sent go out, then ends the thread."""
        self._closing.set()
        self._thread.join(3.0)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._outgoing, zmq.POLLIN)
        self._socket.send(msgspec.msgpack.encode(self._join))
        heard = beat = time.monotonic()
        stop_by: float | None = None
        while True:
            poller.poll(50)
            self._forward()
            if self._closing.is_set():
                self._forward()
                self._socket.close()
                return
            now = time.monotonic()
            while self._socket.poll(0):
                heard = now
                if self._take(from_driver.decode(self._socket.recv())):
                    stop_by = stop_by or now + _GRACE_S
            if now - beat >= HEARTBEAT_MS / 1000:
                beat = now
                pulse = Heartbeat(self._join.attempt, self.step_us)
                self._socket.send(msgspec.msgpack.encode(pulse))
            if now - heard > LEASE_MS / 1000 and stop_by is None:
                stop_by = now + _GRACE_S
                self._stop()
            if stop_by is not None and now > stop_by:
                # The main loop does not come back: the process ends, and its output with it.
                os._exit(70)

    def _forward(self) -> None:
        while self._outgoing.poll(0):
            self._socket.send(self._outgoing.recv())

    def _take(self, message: FromDriver) -> bool:
        """Whether the message tells the worker to leave."""
        if message.attempt != self._join.attempt:
            return False
        if isinstance(message, Heartbeat):
            return False
        if isinstance(message, Welcome | Refused):
            self._answer = message
            self._joined.set()
            return isinstance(message, Refused)
        self._inbox.append(message)
        self._wake()
        return isinstance(message, control.Cancel)

    def _stop(self) -> None:
        self._inbox.append(control.Cancel(attempt=self._join.attempt))
        self._joined.set()
        self._wake()


class ControlServer:
    """The driver's end. Used by one thread."""

    def __init__(self, host: str, token: bytes, version: str, security: Security | None) -> None:
        self._token = token
        self._version = version
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 1000)
        if security is not None:
            security.secure(self._socket, server=True)
        self.address = f"tcp://{host}:{self._socket.bind_to_random_port(f'tcp://{host}')}"
        self._attempt = Attempt(0)
        self._expected = 0
        self._workers: dict[int, bytes] = {}
        self._addresses: dict[int, str] = {}
        self._beat = 0.0
        self.steps_us: dict[int, int] = {}
        """When each subtask's main loop last stepped, by its own clock."""

    def expect(self, attempt: Attempt, parallelism: int) -> None:
        """From now on only workers of this attempt are heard."""
        self._attempt, self._expected = attempt, parallelism
        self._workers, self._addresses, self.steps_us = {}, {}, {}

    @property
    def complete(self) -> bool:
        """Whether all workers of the attempt have joined."""
        return len(self._workers) == self._expected > 0

    def poll(self, timeout_ms: int) -> list[control.ToMaster]:
        """The workers' messages, after at most `timeout_ms`; answers joins and keeps the leases."""
        messages: list[control.ToMaster] = []
        if self._socket.poll(timeout_ms):
            while self._socket.poll(0):
                identity, data = self._socket.recv_multipart()
                message = from_worker.decode(data)
                if isinstance(message, Join):
                    self._admit(identity, message)
                elif message.attempt != self._attempt:
                    continue
                elif isinstance(message, Heartbeat):
                    self._note_step(identity, message.step_us)
                else:
                    messages.append(message)
        now = time.monotonic()
        if now - self._beat >= HEARTBEAT_MS / 1000:
            self._beat = now
            self._send_all(Heartbeat(self._attempt))
        return messages

    def _note_step(self, identity: bytes, step_us: int) -> None:
        for subtask, worker in self._workers.items():
            if worker == identity:
                self.steps_us[subtask] = step_us

    def _admit(self, identity: bytes, join: Join) -> None:
        reason = None
        if join.token != self._token or join.attempt != self._attempt:
            reason = "the attempt is over"
        elif join.subtask in self._workers:
            reason = f"subtask {join.subtask} has joined already: Spark has started it twice"
        elif join.version != self._version:
            reason = f"it has Rheos {join.version}, and the driver {self._version}"
        if reason is not None:
            refusal = msgspec.msgpack.encode(Refused(join.attempt, reason))
            self._socket.send_multipart([identity, refusal])
            return
        self._workers[join.subtask] = identity
        self._addresses[join.subtask] = join.address
        if self.complete:
            addresses = [self._addresses[i] for i in range(self._expected)]
            self._send_all(Welcome(self._attempt, addresses))

    def send(self, message: control.ToTask, subtask: int | None = None) -> None:
        """To one subtask, or to all that have joined."""
        if subtask is None:
            self._send_all(message)
        elif subtask in self._workers:
            self._socket.send_multipart([self._workers[subtask], control.encode(message)])

    def _send_all(self, message: FromDriver) -> None:
        data = msgspec.msgpack.encode(message)
        for identity in self._workers.values():
            self._socket.send_multipart([identity, data])

    def close(self) -> None:
        self._socket.close()
        self._context.term()
