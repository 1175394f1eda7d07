"""The driver's end of the control channel: admits workers, and keeps their leases."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import zmq

from rheos.core.errors import RheosError, TransportError, WorkerLostError, unexpected
from rheos.core.protocol import control
from rheos.core.protocol.decoding import MalformedError
from rheos.core.protocol.ids import Attempt
from rheos.runtimes.continuous.admission import Admission
from rheos.runtimes.continuous.control import (
    MAX_MESSAGE_BYTES,
    FromDriver,
    FromWorker,
    Heartbeat,
    Join,
    JoinRefused,
    Left,
    Order,
    RestoredAhead,
    Welcome,
    body_of,
    framed,
    from_worker,
    heartbeat_s,
    wait_ms,
)
from rheos.runtimes.continuous.leases import Leases
from rheos.runtimes.continuous.security import Security
from rheos.runtimes.host.sockets import listen


@dataclass(frozen=True, slots=True)
class AllJoined:
    """An event: every worker of the attempt has joined, and was sent the addresses of the others."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Silent:
    """An event: a worker was silent for the heartbeat timeout, or Spark has started its task again.
    Reported once per worker."""

    attempt: Attempt
    subtask: int
    error: RheosError


class WorkerProcess(NamedTuple):
    pid: int
    """Process id; 0 if unknown."""
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host}" if self.pid else "an unknown process"


_LOST_AFTER_HEARTBEATS = 4
"""Heartbeats that a worker may miss after Spark has started its task again. Then it is lost; until then
the new task is taken for a speculative copy."""


FromServer: TypeAlias = control.ToMaster | AllJoined | Silent | RestoredAhead | Left


class ControlServer:
    """The driver's end of the control channel. A separate thread listens, admits workers and keeps the
    leases, even while the master writes to a slow store.

    Only the master's thread may call methods that are not "for any thread". `where` is as in
    `rheos.runtimes.host.sockets.listen`, `timeout_ms` the heartbeat timeout. Two channels of a driver
    share the event `arrived`: a wait ends when either has a message. `poll` raises errors of the
    thread.
    """

    def __init__(
        self,
        where: str,
        token: bytes,
        version: str,
        security: Security | None,
        timeout_ms: int,
        peers: int = 0,
        arrived: threading.Event | None = None,
    ) -> None:
        self._token = token
        self._version = version
        self._timeout_s = timeout_ms / 1000
        self._every_s = heartbeat_s(timeout_ms)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._admission: Admission | None = None
        if security is None:
            self.address = listen(self._socket, where, MAX_MESSAGE_BYTES)
        else:
            self._admission = Admission(
                self._context, self._socket, security, where, MAX_MESSAGE_BYTES, peers
            )
            self.address = self._admission.address
        self._dropped = 0
        self._failure: RheosError | None = None
        self._wake: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
        self._wake.set_hwm(1)
        self._wake.bind("inproc://driver")
        self._woken: zmq.Socket[bytes] = self._context.socket(zmq.PULL)
        self._woken.connect("inproc://driver")
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._inbox: queue.SimpleQueue[FromServer] = queue.SimpleQueue()
        self._arrived = arrived or threading.Event()
        self._closing = False

        self.processes: dict[int, WorkerProcess] = {}
        """Processes of the workers that have joined the attempt, by subtask. For any thread."""

        # Only the thread uses the fields below.
        self._attempt = Attempt(0)
        self._expected = 0
        self._workers: dict[int, bytes] = {}
        self._addresses: dict[int, str] = {}
        self._leases = Leases(self._timeout_s)
        """Leases of all workers, except for abandoned ones."""
        self._copies: dict[bytes, tuple[int, float]] = {}
        """Subtask of each task that joined after another one of its subtask, and the time."""
        self._ending = False
        """Whether the attempt's workers were asked to leave."""
        self._beat = 0.0
        self._thread = threading.Thread(target=self._run, name="rheos-control", daemon=True)
        self._thread.start()

    # --- for the master ---------------------------------------------------------------------------

    def expect(self, attempt: Attempt, parallelism: int) -> None:
        """Accept only workers of this attempt from now on."""
        self._order(lambda: self._expect(attempt, parallelism))

    def send(self, message: control.ToTask | Order, subtask: int | None = None) -> None:
        """Send a message to one subtask, or to all that have joined."""
        self._order(lambda: self._send(message, subtask))

    def wait(self, timeout_ms: int) -> None:
        """Return when `poll` has an event, after `wake`, or after the time."""
        self._arrived.wait(timeout_ms / 1000)
        # Clear it before anything is read: whatever arrives from now on ends the next wait.
        self._arrived.clear()

    def wake(self) -> None:
        """End the current or the next `wait`. For any thread."""
        self._arrived.set()

    def poll(self) -> list[FromServer]:
        """Return the events since the last call, in order, without waiting. Raise the error that ended
        the thread."""
        if self._failure is not None:
            raise self._failure
        messages: list[FromServer] = []
        while not self._inbox.empty():
            messages.append(self._inbox.get())
        return messages

    def strangers(self) -> int:
        """Return the number of dropped frames and connections of unauthenticated peers. For any
        thread."""
        return self._dropped + (self._admission.refused if self._admission is not None else 0)

    def close(self) -> None:
        """Send the remaining messages, then end the thread."""
        self._order(self._close)
        self._thread.join(3.0)
        self._wake.close(linger=0)
        self._context.term()

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.put(order)
        # One pending wake-up is enough.
        with contextlib.suppress(zmq.Again):
            self._wake.send(b"", zmq.NOBLOCK)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        """Run the thread. If it fails, the master and the job fail with its error."""
        try:
            self._serve()
        except Exception as error:
            self._failure = error if isinstance(error, RheosError) else unexpected(error)
            self._arrived.set()
        finally:
            if self._admission is not None:
                self._admission.close()
            self._socket.close()
            self._woken.close(linger=0)

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._woken, zmq.POLLIN)
        before = time.monotonic()
        while not self._closing:
            due = min(self._beat + self._every_s, self._leases.due())
            poller.poll(wait_ms(due, time.monotonic()))
            # Orders first: an attempt is expected before its workers join.
            while self._woken.poll(0):
                self._woken.recv()
            while not self._orders.empty():
                self._orders.get()()
            now = time.monotonic()
            if now - before > self._every_s + 1.0:
                # This process was paused: the workers' messages of that time have not been read yet.
                self._leases.extend_all(now)
            before = now
            while self._socket.poll(0):
                self._read(self._socket.recv_multipart(), now)
            if self._admission is not None:
                self._admission.check()
            self._give_up_silent(now)
            self._give_up_repeated(now)
            if now - self._beat >= self._every_s:
                self._beat = now
                self._send_all(Heartbeat(self._attempt))

    def _close(self) -> None:
        self._closing = True

    def _expect(self, attempt: Attempt, parallelism: int) -> None:
        self._refuse_copies()
        self._attempt, self._expected, self._ending = attempt, parallelism, False
        self._workers, self._addresses = {}, {}
        self._leases.clear()
        self.processes = {}

    def _emit(self, message: FromServer) -> None:
        self._inbox.put(message)
        self._arrived.set()

    def _read(self, frames: list[bytes], now: float) -> None:
        """Read a message. Drop frames of unauthenticated peers (EX3). Abandon a worker of the job that
        sends an unreadable message."""
        try:
            body = body_of(self._token, frames[1], "a worker") if len(frames) == 2 else None
            if body is None:
                self._dropped += 1
            else:
                self._take(frames[0], from_worker.decode(body), now)
        except (TransportError, MalformedError) as error:
            self._give_up(frames[0], TransportError(f"a worker sent an unreadable message: {error}"))

    def _give_up(self, identity: bytes, error: RheosError) -> None:
        """Abandon a worker; its attempt is over. If it has not joined, try to send it the reason."""
        if identity in self._leases:
            self._leases.end(identity)
            subtask = next(i for i, worker in self._workers.items() if worker == identity)
            self._emit(Silent(self._attempt, subtask, error))
        elif identity not in self._workers.values():
            self._refuse(identity, self._attempt, error.what)

    def _take(self, identity: bytes, message: FromWorker, now: float) -> None:
        if isinstance(message, Join):
            self._admit(identity, message, now)
        elif message.attempt == self._attempt and identity in self._leases:
            self._leases.heard(identity, now)
            if not isinstance(message, Heartbeat):
                self._emit(message)

    def _give_up_silent(self, now: float) -> None:
        """Abandon workers that have been silent for the heartbeat timeout. Their attempt is over."""
        for identity in self._leases.silent(now):
            subtask = next(i for i, worker in self._workers.items() if worker == identity)
            error = TransportError(
                f"subtask {subtask} at {self._addresses[subtask]} ({self.processes[subtask]}) "
                f"has not reported for {self._timeout_s:g} s: its process is frozen or unreachable",
                hint="if calls hold Python's lock for longer, or machines pause, raise "
                "heartbeat_timeout",
            )
            self._give_up(identity, error)

    def _give_up_repeated(self, now: float) -> None:
        """Give up workers whose tasks Spark has started again, if they have been silent since then.

        In an ordinary stage Spark repeats a failed task, and may run a copy of a slow one. A copy never
        takes part: it waits until Spark or the end of the attempt ends it.
        """
        within_s = _LOST_AFTER_HEARTBEATS * self._every_s
        for subtask, since in list(self._copies.values()):
            identity = self._workers[subtask]
            heard = self._leases.heard_at(identity)
            if heard is not None and now - max(heard, since) > within_s:
                lost = WorkerLostError(
                    f"worker {subtask} lost: Spark has started its task again",
                    subtask=subtask,
                    hint="check the executor's log: its process ended, or the executor was removed",
                )
                self._give_up(identity, lost)

    def _refuse_copies(self) -> None:
        copies, self._copies = self._copies, {}
        for identity in copies:
            self._refuse(identity, self._attempt, "the attempt is over")

    def _admit(self, identity: bytes, join: Join, now: float) -> None:
        reason = None
        if join.attempt != self._attempt or self._ending:
            reason = "the attempt is over"
        elif join.version != self._version:
            reason = f"it has Rheos {join.version}, but the driver {self._version}"
        if reason is not None:
            self._refuse(identity, join.attempt, reason)
            return
        if join.subtask in self._workers:
            self._copies[identity] = (join.subtask, now)
            return
        self._workers[join.subtask] = identity
        self._addresses[join.subtask] = join.address
        self.processes[join.subtask] = WorkerProcess(join.pid, join.host)
        self._leases.heard(identity, now)
        if len(self._workers) == self._expected:
            addresses = [self._addresses[i] for i in range(self._expected)]
            self._send_all(Welcome(self._attempt, addresses))
            self._emit(AllJoined(self._attempt))

    def _send(self, message: control.ToTask | Order, subtask: int | None) -> None:
        if subtask is None:
            self._send_all(message)
        elif subtask in self._workers:
            self._socket.send_multipart([self._workers[subtask], framed(self._token, message)])

    def _refuse(self, identity: bytes, attempt: Attempt, reason: str) -> None:
        self._socket.send_multipart([identity, framed(self._token, JoinRefused(attempt, reason))])

    def _send_all(self, message: FromDriver) -> None:
        data = framed(self._token, message, to_all=True)
        for identity in self._workers.values():
            self._socket.send_multipart([identity, data])
        if isinstance(message, Heartbeat):
            for identity in self._copies:
                self._socket.send_multipart([identity, data])
        elif isinstance(message, control.Cancel):
            self._ending = True
            self._refuse_copies()
