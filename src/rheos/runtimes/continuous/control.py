"""The control channel between the driver and its workers: joining, messages, leases.

A worker says `Join`; once all have, the driver sends each a `Welcome` with everyone's data address.
Then the two exchange the messages of `rheos.protocol.control`, and a `Heartbeat` each, from threads of
their own: neither a slow function nor a slow store silences them. Who has not heard of the other for
the heartbeat timeout gives it up: the driver ends the attempt, the worker its process. So a worker that
was frozen, or cut off, and comes back leaves at once, whatever waits to be read (CP6).

A message is one frame: the job's token, the version of this protocol, MessagePack. Whoever reads one
compares the token before anything else, and drops and counts what has another (EX3).
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import zmq

from rheos.errors import InternalError, RheosError, TransportError
from rheos.host.sockets import is_of, listen
from rheos.protocol import control
from rheos.protocol.decoding import BoundedDecoder, MalformedError
from rheos.protocol.ids import Attempt
from rheos.runtimes.continuous.door import Door
from rheos.runtimes.continuous.security import Security

_HEARTBEATS = 5
"""How many fit into the timeout, at least."""
_HEARTBEAT_S = 0.5

_POLL_MS = 50
_GRACE_S = 5.0
"""How long a worker that was asked to stop may take before its process ends without it."""


def heartbeat_s(timeout_ms: int) -> float:
    """The time between heartbeats."""
    return min(_HEARTBEAT_S, timeout_ms / 1000 / _HEARTBEATS)


class Join(msgspec.Struct, frozen=True, tag=True):
    """A worker is there, and takes data at `address`."""

    attempt: Attempt
    subtask: int
    address: str
    version: str


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """All workers are there; `addresses` is by subtask."""

    attempt: Attempt
    addresses: list[str]


class JoinRefused(msgspec.Struct, frozen=True, tag="Refused"):
    """The driver does not want the worker: its attempt is over, or its version another."""

    attempt: Attempt
    reason: str


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    attempt: Attempt


FromDriver = control.ToTask | Welcome | JoinRefused | Heartbeat
FromWorker = control.ToMaster | Join | Heartbeat

CONTROL_VERSION = b"\x02"
MAX_MESSAGE_BYTES = 256 << 20
"""A message that is larger is not sent: the other end's socket would end the connection."""

_from_driver: BoundedDecoder[FromDriver] = BoundedDecoder(FromDriver, max_bytes=MAX_MESSAGE_BYTES)
_from_worker: BoundedDecoder[FromWorker] = BoundedDecoder(FromWorker, max_bytes=MAX_MESSAGE_BYTES)
_encode = msgspec.msgpack.Encoder().encode


def framed(token: bytes, message: FromDriver | FromWorker) -> bytes:
    """The frame of a message. Raises TransportError where it is too large."""
    frame = token + CONTROL_VERSION + _encode(message)
    if len(frame) > MAX_MESSAGE_BYTES:
        raise TransportError(
            f"a {type(message).__name__} of {len(frame)} bytes is too large for the control channel",
            hint="a checkpoint's small parts and what sinks have staged travel in it: raise the "
            "parallelism, so that each subtask has less of them",
        )
    return frame


def _body(token: bytes, frame: bytes, of: str) -> bytes | None:
    """What lies behind the token and the version; None where a stranger has sent the frame. Raises
    TransportError where the other end has another version."""
    if not is_of(token, frame):
        return None
    version = frame[len(token) : len(token) + 1]
    if version != CONTROL_VERSION:
        raise TransportError(
            f"{of} speaks version {version.hex() or '?'} of the control protocol, and this process "
            f"version {CONTROL_VERSION.hex()}",
            hint="install the same version of Rheos on the driver and every worker",
        )
    return frame[len(token) + 1 :]


class ControlClient:
    """The worker's end. A thread of its own keeps the lease while the main loop works."""

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
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rheos-control", daemon=True)

    def start(self) -> Welcome | JoinRefused | None:
        """Joins, and waits for the others; None where the driver never answered within the lease.
        Raises TransportError where it speaks another version."""
        self._thread.start()
        self._joined.wait()
        if self._failure is not None:
            raise self._failure
        return self._answer

    def send(self, message: control.ToMaster) -> None:
        """Called by the main thread only."""
        self._outbox.send(framed(self._token, message))

    def receive(self) -> list[control.ToTask]:
        """The driver's messages since the last call. Called by the main thread. Raises what ended the
        thread that keeps the lease."""
        if self._failure is not None:
            raise self._failure
        messages = []
        while self._inbox:
            messages.append(self._inbox.popleft())
        return messages

    def close(self) -> None:
        """Lets what was sent go out, then ends the thread."""
        self._closing.set()
        self._thread.join(3.0)
        self._outbox.close(linger=0)
        if not self._thread.is_alive():
            self._outgoing.close(linger=0)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        """Where it fails, the main loop fails by it: without a lease the slot must not go on."""
        try:
            self._keep_lease()
        except Exception as error:
            self._failure = error if isinstance(error, RheosError) else InternalError.of(error)
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
            poller.poll(_POLL_MS)
            self._forward()
            if self._closing.is_set():
                self._forward()
                return
            now = time.monotonic()
            # What waits to be read comes too late where this process stood still for so long.
            if now - heard > timeout_s and stop_by is None:
                stop_by = now + _GRACE_S
                self._stop()
            while self._socket.poll(0):
                body = _body(self._token, self._socket.recv(), "the driver")
                if body is None:
                    continue
                heard = now
                if self._take(_decoded_here(body)):
                    stop_by = stop_by or now + _GRACE_S
            if now - beat >= every_s:
                beat = now
                self._socket.send(framed(self._token, Heartbeat(self._join.attempt)))
            if stop_by is not None and now > stop_by:
                # The main loop does not come back: the process ends, and its output with it.
                os._exit(70)

    def _forward(self) -> None:
        while self._outgoing.poll(0):
            self._socket.send(self._outgoing.recv())

    def _take(self, message: FromDriver) -> bool:
        """Whether the message asks the worker to leave."""
        if message.attempt != self._join.attempt:
            return False
        if isinstance(message, Heartbeat):
            return False
        if isinstance(message, Welcome | JoinRefused):
            self._answer = message
            self._joined.set()
            return isinstance(message, JoinRefused)
        self._inbox.append(message)
        self._wake()
        return isinstance(message, control.Cancel)

    def _stop(self) -> None:
        self._inbox.append(control.Cancel(attempt=self._join.attempt))
        self._joined.set()
        self._wake()


def _decoded_here(body: bytes) -> FromDriver:
    try:
        return _from_driver.decode(body)
    except MalformedError as error:
        raise TransportError(f"the driver sent what cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class AllJoined:
    """Every worker of the attempt is there, and knows of the others."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Silent:
    """A worker was not heard of for the heartbeat timeout. Reported once for each."""

    attempt: Attempt
    subtask: int
    error: TransportError


FromServer: TypeAlias = control.ToMaster | AllJoined | Silent


class ControlServer:
    """The driver's end: a thread of its own listens, admits and keeps the leases, so that they hold
    also while the master writes to a slow store. The methods are for one thread, the master's.

    `where` is as in `rheos.host.sockets.listen`, `timeout_ms` the heartbeat timeout. What fails the
    thread is raised by `poll`.
    """

    def __init__(
        self,
        where: str,
        token: bytes,
        version: str,
        security: Security | None,
        timeout_ms: int,
        peers: int = 0,
    ) -> None:
        self._token = token
        self._version = version
        self._timeout_s = timeout_ms / 1000
        self._every_s = heartbeat_s(timeout_ms)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._door: Door | None = None
        if security is None:
            self.address = listen(self._socket, where, MAX_MESSAGE_BYTES)
        else:
            self._door = Door(self._context, self._socket, security, where, MAX_MESSAGE_BYTES, peers)
            self.address = self._door.address
        self._dropped = 0
        self._failure: RheosError | None = None
        self._wake: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
        self._wake.set_hwm(1)
        self._wake.bind("inproc://driver")
        self._woken: zmq.Socket[bytes] = self._context.socket(zmq.PULL)
        self._woken.connect("inproc://driver")
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._inbox: queue.SimpleQueue[FromServer] = queue.SimpleQueue()
        self._arrived = threading.Event()
        self._closing = False

        # All that follows is the thread's own.
        self._attempt = Attempt(0)
        self._expected = 0
        self._workers: dict[int, bytes] = {}
        self._addresses: dict[int, str] = {}
        self._heard: dict[bytes, float] = {}
        """When each worker was last heard of; without those that were given up."""
        self._beat = 0.0
        self._thread = threading.Thread(target=self._run, name="rheos-control", daemon=True)
        self._thread.start()

    # --- for the master ---------------------------------------------------------------------------

    def expect(self, attempt: Attempt, parallelism: int) -> None:
        """From now on only workers of this attempt are heard."""
        self._order(lambda: self._expect(attempt, parallelism))

    def send(self, message: control.ToTask, subtask: int | None = None) -> None:
        """To one subtask, or to all that have joined."""
        self._order(lambda: self._send(message, subtask))

    def wait(self, timeout_ms: int) -> None:
        """Returns when there is something to `poll`, or after the time."""
        self._arrived.wait(timeout_ms / 1000)

    def poll(self) -> list[FromServer]:
        """What has come since the last call, in order. Does not wait. Raises what failed the thread."""
        self._arrived.clear()
        if self._failure is not None:
            raise self._failure
        messages: list[FromServer] = []
        while not self._inbox.empty():
            messages.append(self._inbox.get())
        return messages

    def strangers(self) -> int:
        """How many frames and connections of strangers were dropped so far. For any thread."""
        return self._dropped + (self._door.refused if self._door is not None else 0)

    def close(self) -> None:
        """Lets what was sent go out, then ends the thread."""
        self._order(self._close)
        self._thread.join(3.0)
        self._wake.close(linger=0)
        self._context.term()

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.put(order)
        # Where one wake-up waits already, it is enough.
        with contextlib.suppress(zmq.Again):
            self._wake.send(b"", zmq.NOBLOCK)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        """Where it fails, the master fails by it, and the job with that: never in silence."""
        try:
            self._serve()
        except Exception as error:
            self._failure = error if isinstance(error, RheosError) else InternalError.of(error)
            self._arrived.set()
        finally:
            if self._door is not None:
                self._door.close()
            self._socket.close()
            self._woken.close(linger=0)

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._woken, zmq.POLLIN)
        before = time.monotonic()
        while not self._closing:
            poller.poll(_POLL_MS)
            # Orders first: an attempt is expected before its workers come.
            while self._woken.poll(0):
                self._woken.recv()
            while not self._orders.empty():
                self._orders.get()()
            now = time.monotonic()
            if now - before > self._every_s + 1.0:
                # It was this process that stood still: what the workers said meanwhile is on its way.
                self._heard = dict.fromkeys(self._heard, now)
            before = now
            while self._socket.poll(0):
                self._read(self._socket.recv_multipart(), now)
            if self._door is not None:
                self._door.check()
            self._give_up_silent(now)
            if now - self._beat >= self._every_s:
                self._beat = now
                self._send_all(Heartbeat(self._attempt))

    def _close(self) -> None:
        self._closing = True

    def _expect(self, attempt: Attempt, parallelism: int) -> None:
        self._attempt, self._expected = attempt, parallelism
        self._workers, self._addresses, self._heard = {}, {}, {}

    def _emit(self, message: FromServer) -> None:
        self._inbox.put(message)
        self._arrived.set()

    def _read(self, frames: list[bytes], now: float) -> None:
        """EX3: strangers are dropped. A worker of ours that says what cannot be read is given up."""
        try:
            body = _body(self._token, frames[1], "a worker") if len(frames) == 2 else None
            if body is None:
                self._dropped += 1
            else:
                self._take(frames[0], _from_worker.decode(body), now)
        except (TransportError, MalformedError) as error:
            self._give_up(frames[0], TransportError(f"a worker sent what cannot be read: {error}"))

    def _give_up(self, identity: bytes, error: TransportError) -> None:
        """Its attempt is over. A worker that has not joined is sent the reason, if it can read it."""
        if identity in self._heard:
            del self._heard[identity]
            subtask = next(i for i, worker in self._workers.items() if worker == identity)
            self._emit(Silent(self._attempt, subtask, error))
        elif identity not in self._workers.values():
            self._refuse(identity, self._attempt, error.what)

    def _take(self, identity: bytes, message: FromWorker, now: float) -> None:
        if isinstance(message, Join):
            self._admit(identity, message, now)
        elif message.attempt == self._attempt and identity in self._heard:
            self._heard[identity] = now
            if not isinstance(message, Heartbeat):
                self._emit(message)

    def _give_up_silent(self, now: float) -> None:
        """A worker that was given up is heard no more: its attempt is over."""
        for identity, heard in list(self._heard.items()):
            if now - heard > self._timeout_s:
                subtask = next(i for i, worker in self._workers.items() if worker == identity)
                error = TransportError(
                    f"subtask {subtask} at {self._addresses[subtask]} was not heard of for "
                    f"{self._timeout_s:g} s: its process stands still, or cannot be reached",
                    hint="where calls hold Python's lock for longer, or machines pause, raise "
                    "heartbeat_timeout",
                )
                self._give_up(identity, error)

    def _admit(self, identity: bytes, join: Join, now: float) -> None:
        reason = None
        if join.attempt != self._attempt:
            reason = "the attempt is over"
        elif join.subtask in self._workers:
            reason = f"subtask {join.subtask} has joined already: Spark has started it twice"
        elif join.version != self._version:
            reason = f"it has Rheos {join.version}, and the driver {self._version}"
        if reason is not None:
            self._refuse(identity, join.attempt, reason)
            return
        self._workers[join.subtask] = identity
        self._addresses[join.subtask] = join.address
        self._heard[identity] = now
        if len(self._workers) == self._expected:
            addresses = [self._addresses[i] for i in range(self._expected)]
            self._send_all(Welcome(self._attempt, addresses))
            self._emit(AllJoined(self._attempt))

    def _send(self, message: control.ToTask, subtask: int | None) -> None:
        if subtask is None:
            self._send_all(message)
        elif subtask in self._workers:
            self._socket.send_multipart([self._workers[subtask], framed(self._token, message)])

    def _refuse(self, identity: bytes, attempt: Attempt, reason: str) -> None:
        self._socket.send_multipart([identity, framed(self._token, JoinRefused(attempt, reason))])

    def _send_all(self, message: FromDriver) -> None:
        data = framed(self._token, message)
        for identity in self._workers.values():
            self._socket.send_multipart([identity, data])
