"""The exchange of one subtask with its peers: Arrow IPC over ZeroMQ, with credits.

Each subtask binds one ROUTER, on which it receives, and connects one DEALER to every peer, on which
it sends; credits come back on the DEALER. What a subtask sends to itself is handed over as it is.
The socket's own buffers are unbounded: credits are the bound, and only the job's own processes are let
in (`security.py`). Frames and invariants are described in docs/protocols/exchange.md.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Mapping, Sequence

import pyarrow as pa
import zmq

from rheos.errors import TransportError
from rheos.host.sockets import is_of, listen
from rheos.protocol import wire
from rheos.protocol.elements import Batch, Element, Mark
from rheos.protocol.ids import Attempt, ChannelId
from rheos.runtimes.continuous.admission import Admission
from rheos.runtimes.continuous.security import Security

_NAP_US = 100
_MAX_CREDIT_BYTES = 4096
"""A credit is smaller, but so are not all frames of a handshake."""


class ZmqTransport:
    """A Transport (protocol/ports.py) over sockets. Used by the main thread alone, but for `wake`."""

    def __init__(
        self,
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
        """Listens at once, at `where` (`rheos.host.sockets.listen`); then `address` is known."""
        self._attempt = attempt
        self._subtask = subtask
        self._token = token
        self._schemas = schemas
        self._initial_credits = initial_credits
        self._security = security
        self.context = zmq.Context(1)
        self._router = self._socket(zmq.ROUTER)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._admission: Admission | None = None
        if security is None:
            self.address = listen(self._router, where, wire.MAX_FRAME_BYTES)
        else:
            self._admission = Admission(
                self.context, self._router, security, where, wire.MAX_FRAME_BYTES, parallelism
            )
            self.address = self._admission.address
        self._dropped = 0
        """Frames of strangers."""
        self._peers: dict[int, zmq.Socket[bytes]] = {}
        self._identities: dict[int, bytes] = {}
        self._credits: dict[ChannelId, int] = {}
        self._sent: dict[ChannelId, int] = {}
        self._received: dict[ChannelId, int] = {}
        self._local: deque[tuple[ChannelId, Element]] = deque()
        self._owed: dict[tuple[int, int], int] = {}
        """Credits to give back, by (sender, edge); sent together when the step reads next."""
        self._waker = self.context.socket(zmq.PULL)
        self._waker.bind("inproc://wake")
        self._poller = zmq.Poller()
        self._poller.register(self._router, zmq.POLLIN)
        self._poller.register(self._waker, zmq.POLLIN)

    def _socket(self, kind: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self.context.socket(kind)
        socket.set_hwm(0)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IDENTITY, _identity(self._token, self._attempt, self._subtask))
        return socket

    def connect(self, addresses: Sequence[str]) -> None:
        """Connects to every peer; `addresses` is by subtask. Called once, before anything is sent."""
        for subtask, address in enumerate(addresses):
            if subtask != self._subtask:
                socket = self._socket(zmq.DEALER)
                socket.setsockopt(zmq.MAXMSGSIZE, _MAX_CREDIT_BYTES)
                if self._security is not None:
                    self._security.connecting(socket)
                socket.connect(address)
                self._poller.register(socket, zmq.POLLIN)
                self._peers[subtask] = socket
                self._identities[subtask] = _identity(self._token, self._attempt, subtask)

    def waker(self) -> zmq.Socket[bytes]:
        """A socket by which another thread wakes `wait`: it sends an empty message."""
        socket: zmq.Socket[bytes] = self.context.socket(zmq.PUSH)
        socket.set_hwm(1)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect("inproc://wake")
        return socket

    def wait(self, timeout_us: int) -> None:
        """Returns when something has arrived, a thread has woken us, or the time is over."""
        if self._local:
            return
        self._return_credits()
        if self._admission is not None:
            self._admission.check()
        if timeout_us >= 1000:
            self._poller.poll(timeout_us // 1000)
        elif not self._poller.poll(0):
            # ZeroMQ counts in milliseconds; a shorter wait naps, and looks again soon.
            time.sleep(min(timeout_us, _NAP_US) / 1e6)
        while True:
            try:
                self._waker.recv(zmq.NOBLOCK)
            except zmq.Again:
                return

    # --- the contract -----------------------------------------------------------------------------

    def credits(self, channel: ChannelId) -> int:
        return self._credits.get(channel, self._initial_credits)

    def send(self, channel: ChannelId, batch: Batch) -> None:
        left = self.credits(channel)
        assert left > 0, f"EX1: {channel} has no credit"
        self._credits[channel] = left - 1
        if channel.receiver == self._subtask:
            self._local.append((channel, batch))
            return
        payload = wire.encode_batch(batch)
        if payload.size > wire.MAX_FRAME_BYTES:
            raise TransportError(
                f"a batch of {batch.num_rows} rows takes {payload.size} bytes, and at most "
                f"{wire.MAX_FRAME_BYTES} travel as one",
                hint="lower batch_rows",
            )
        peer = self._peers[channel.receiver]
        peer.send(self._header(channel, wire.FrameKind.BATCH), zmq.SNDMORE | zmq.NOBLOCK)
        peer.send(payload, zmq.NOBLOCK, copy=False)

    def send_mark(self, channel: ChannelId, mark: Mark) -> None:
        if channel.receiver == self._subtask:
            self._local.append((channel, mark))
            return
        kind, value = wire.mark_kind(mark)
        self._peers[channel.receiver].send(self._header(channel, kind, value), zmq.NOBLOCK)

    def _header(self, channel: ChannelId, kind: wire.FrameKind, value: int = 0) -> bytes:
        sequence = self._sent.get(channel, 0)
        self._sent[channel] = sequence + 1
        return wire.encode_header(self._token, self._attempt, channel, sequence, kind, value)

    def receive(self, max_elements: int) -> Sequence[tuple[ChannelId, Element]]:
        self._return_credits()
        self._take_credits()
        elements: list[tuple[ChannelId, Element]] = []
        while self._local and len(elements) < max_elements:
            elements.append(self._local.popleft())
        while len(elements) < max_elements:
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            element = self._decode(frames)
            if element is None:
                self._dropped += 1
            else:
                elements.append(element)
        return elements

    def strangers(self) -> int:
        return self._dropped + (self._admission.refused if self._admission is not None else 0)

    def _decode(self, frames: Sequence[zmq.Frame]) -> tuple[ChannelId, Element] | None:
        """EX3: None where the frame is a stranger's, or of an attempt that is over."""
        if len(frames) < 2 or not is_of(self._token, frames[1].buffer[: wire.TOKEN_BYTES]):
            return None
        header = wire.decode_header(bytes(frames[1].buffer[: wire.HEADER_BYTES + 1]))
        channel = header.channel
        if header.attempt != self._attempt:
            return None
        if channel.receiver != self._subtask or channel.edge not in self._schemas:
            raise TransportError(f"a frame for channel {channel} came to subtask {self._subtask}")
        is_batch = header.kind is wire.FrameKind.BATCH
        if len(frames) != (3 if is_batch else 2):
            raise TransportError(
                f"channel {channel} brought a {header.kind.name} of {len(frames)} parts"
            )
        expected = self._received.get(channel, 0)
        if header.sequence != expected:
            raise TransportError(
                f"channel {channel} brought frame {header.sequence}, not {expected}: one was lost "
                "or doubled"
            )
        self._received[channel] = expected + 1
        if is_batch:
            return channel, wire.decode_batch(frames[2].buffer, self._schemas[channel.edge])
        return channel, wire.mark_of(header)

    def release(self, channel: ChannelId) -> None:
        if channel.sender == self._subtask:
            self._credits[channel] += 1
            return
        key = (channel.sender, channel.edge)
        self._owed[key] = self._owed.get(key, 0) + 1

    def _return_credits(self) -> None:
        if not self._owed:
            return
        for (sender, edge), count in self._owed.items():
            identity = self._identities[sender]
            credit = wire.encode_credit(self._token, self._attempt, edge, count)
            try:
                self._router.send_multipart([identity, credit], zmq.NOBLOCK)
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    raise
                raise TransportError(f"subtask {sender} has gone: it takes no credit back") from error
        self._owed.clear()

    def _take_credits(self) -> None:
        for receiver, socket in self._peers.items():
            while True:
                try:
                    frame = socket.recv(zmq.NOBLOCK)
                except zmq.Again:
                    break
                if not is_of(self._token, frame):
                    self._dropped += 1
                    continue
                attempt, edge, count = wire.decode_credit(frame)
                channel = ChannelId(edge, self._subtask, receiver)
                credits = self.credits(channel) + count
                if attempt != self._attempt:
                    self._dropped += 1
                    continue
                if credits > self._initial_credits:
                    raise TransportError(f"EX1: subtask {receiver} gave {channel} too many credits")
                self._credits[channel] = credits

    def close(self) -> None:
        """Closes every socket; what is still queued is dropped."""
        if self._admission is not None:
            self._admission.close()
        self.context.destroy(linger=0)


def _identity(token: bytes, attempt: Attempt, subtask: int) -> bytes:
    """By which the others know the subtask's connection. Nobody can guess it: of two connections that
    show the same one, a socket hears only the first."""
    of = b"%d/%d" % (attempt, subtask)
    return b"r" + hashlib.blake2s(of, key=token, digest_size=16).digest()
