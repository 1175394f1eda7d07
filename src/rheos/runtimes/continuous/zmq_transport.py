"""The exchange between machines: Arrow IPC over ZeroMQ.

Each subtask has two sockets, both ROUTERs. It binds one, on which it receives frames. The other
connects to every peer; on it the subtask sends frames and receives credits. So a turn looks at two
sockets, however many peers there are, and each peer takes two descriptors. The sockets' own buffers are
unbounded: credits are the bound, and only the job's own processes are admitted (`security.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import zmq

from rheos.core.errors import TransportError
from rheos.core.protocol import wire
from rheos.core.protocol.ids import Attempt
from rheos.runtimes.continuous.admission import Admission
from rheos.runtimes.continuous.framed_transport import FramedTransport, Part
from rheos.runtimes.continuous.security import Security
from rheos.runtimes.host.sockets import listen

_MAX_SELECTED = 1024
"""Lowest descriptor number that `select` does not accept."""
_MAX_CREDIT_BYTES = 4096
"""Maximum size of a frame that arrives on the connecting socket. A credit is smaller, but not every
frame of a handshake."""


class ZmqTransport(FramedTransport):
    """A FramedTransport over ZeroMQ."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        *,
        attempt: Attempt,
        subtask: int,
        token: bytes,
        schemas: Mapping[int, pa.Schema],
        initial_credits: int,
        parallelism: int,
        where: str,
        security: Security | None,
    ) -> None:
        """Listen at `where` (see `rheos.runtimes.host.sockets.listen`) and set `address`."""
        super().__init__(
            attempt=attempt,
            subtask=subtask,
            token=token,
            schemas=schemas,
            initial_credits=initial_credits,
        )
        self._context = context
        self._router = self._socket()
        self._admission: Admission | None = None
        if security is None:
            self.address = listen(self._router, where, wire.MAX_FRAME_BYTES)
        else:
            self._admission = Admission(
                context, self._router, security, where, wire.MAX_FRAME_BYTES, parallelism
            )
            self.address = self._admission.address
        self._connecting = self._socket()
        self._connecting.setsockopt(zmq.MAXMSGSIZE, _MAX_CREDIT_BYTES)
        if security is not None:
            security.connecting(self._connecting)
        self._identities: dict[int, bytes] = {}
        self._subtasks: dict[bytes, int] = {}
        """Subtask of each peer, by the identity of its connection."""
        self._waker = Waker(context)
        self._poller = zmq.Poller()
        self._descriptors: list[int] = []
        for arriving in (self._router, self._connecting, self._waker.woken):
            self._listen_to(arriving)

    def _socket(self) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        socket.set_hwm(0)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.IDENTITY, _identity(self._token, self._attempt, self._subtask))
        return socket

    def connect(self, addresses: Sequence[str]) -> None:
        for subtask, address in enumerate(addresses):
            if subtask != self._subtask:
                identity = _identity(self._token, self._attempt, subtask)
                # It names the next connection, so frames may be sent before the peer has answered.
                self._connecting.setsockopt(zmq.CONNECT_ROUTING_ID, identity)
                self._connecting.connect(address)
                self._identities[subtask] = identity
                self._subtasks[identity] = subtask

    def _listen_to(self, socket: zmq.Socket[bytes]) -> None:
        self._poller.register(socket, zmq.POLLIN)
        self._descriptors.append(socket.fileno())

    def waker(self) -> Callable[[], None]:
        return self._waker

    def _sleep(self, timeout_us: int) -> None:
        if self._admission is not None:
            self._admission.check()
        if not self._poller.poll(0):
            # ZeroMQ's own poll counts in milliseconds. It has found nothing, so the sockets'
            # descriptors become readable as soon as something happens.
            if max(self._descriptors) < _MAX_SELECTED:
                select.select(self._descriptors, (), (), timeout_us / 1e6)
            else:
                self._poller.poll(-(-timeout_us // 1000))
        while True:
            try:
                self._waker.woken.recv(zmq.NOBLOCK)
            except zmq.Again:
                return

    def strangers(self) -> int:
        return self._dropped + (self._admission.refused if self._admission is not None else 0)

    def _put(self, receiver: int, header: bytes, payload: pa.Buffer | None) -> None:
        send = self._connecting.send
        send(self._identities[receiver], zmq.SNDMORE | zmq.NOBLOCK)
        if payload is None:
            send(header, zmq.NOBLOCK)
            return
        send(header, zmq.SNDMORE | zmq.NOBLOCK)
        send(payload, zmq.NOBLOCK, copy=False)

    def _take(self, max_frames: int) -> Iterator[Sequence[Part]]:
        for _ in range(max_frames):
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            # The first frame is the connection's identity.
            yield [frame.buffer for frame in frames[1:]]

    def _put_credit(self, sender: int, credit: bytes) -> None:
        try:
            self._router.send_multipart([self._identities[sender], credit], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            raise TransportError(f"subtask {sender} is gone: it does not accept credit") from error

    def _take_credits(self) -> Iterator[tuple[int, bytes]]:
        while True:
            try:
                identity, *credit = self._connecting.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield self._subtasks[identity], b"".join(credit)

    def close(self) -> None:
        self._waker.close()
        if self._admission is not None:
            self._admission.close()
        for socket in (self._router, self._connecting):
            socket.close(linger=0)


class Waker:
    """A function that wakes the main loop from any thread. It locks: sockets serve one thread at a
    time."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.woken: zmq.Socket[bytes] = context.socket(zmq.PULL)
        self.woken.bind("inproc://wake")
        self._socket: zmq.Socket[bytes] = context.socket(zmq.PUSH)
        self._socket.set_hwm(1)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect("inproc://wake")
        self._lock = threading.Lock()
        self._closed = False

    def __call__(self) -> None:
        with self._lock:
            if self._closed:
                return
            # One pending wake-up is enough.
            with contextlib.suppress(zmq.Again):
                self._socket.send(b"", zmq.NOBLOCK)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._socket.close()
            self.woken.close()


def _identity(token: bytes, attempt: Attempt, subtask: int) -> bytes:
    """Return the identity by which peers know the subtask's connection. Nobody can guess it. A socket
    ignores the second of two connections with the same identity."""
    of = b"%d/%d" % (attempt, subtask)
    return b"r" + hashlib.blake2s(of, key=token, digest_size=16).digest()
