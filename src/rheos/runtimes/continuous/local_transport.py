"""The exchange on one machine: Arrow IPC over Unix sockets, without a thread between the two ends.

Each subtask listens in the job's own folder, and connects to every peer. It sends frames on the
connection that it made, and receives credits on it. Large payloads are in files in memory, whose
descriptors are sent. Data that a socket does not accept at once is queued; credits bound the queue.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import selectors
import socket
import struct
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from rheos.core.errors import ConfigurationError, TransportError
from rheos.core.protocol import framing, wire
from rheos.core.protocol.framing import Hello, PayloadPlace
from rheos.core.protocol.ids import Attempt
from rheos.runtimes.continuous.framed_transport import FramedTransport, Part
from rheos.runtimes.host import memory_files
from rheos.runtimes.host.sockets import is_of

_READ_BYTES = 1 << 16
_READS_AT_ONCE = 8
_SEND_BUFFER_BYTES = 1 << 20
"""Requested buffer size. Systems grant less, often 200 or 400 KiB."""
_IN_MEMORY_FROM_BYTES = 1 << 18
"""Size from which a payload is sent as a file in memory. Measured: up to the size of the socket's
buffer, a copy through the socket takes half the time of such a file; beyond it, twice the time."""
_MAX_DESCRIPTORS = 256
"""Maximum number of descriptors in flight to one subtask: a process may open only a few files."""
_STRANGERS_AT_ONCE = 128
"""Maximum number of unauthenticated connections. A new one replaces the oldest."""
_MAX_SELECTED = 1024
"""Lowest descriptor number that `select` does not accept."""

_ANCILLARY_BYTES = socket.CMSG_SPACE(array("i").itemsize)
_CREDENTIALS = struct.Struct("3i")
# Plain numbers: operations on Python's flags cost as much as a read.
_NOT_INHERITED = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
_TRUNCATED = int(socket.MSG_CTRUNC)
_Ready: TypeAlias = Callable[[int], None]


class LocalTransport(FramedTransport):
    """A FramedTransport over Unix sockets."""

    def __init__(
        self,
        *,
        attempt: Attempt,
        subtask: int,
        token: bytes,
        schemas: Mapping[int, pa.Schema],
        initial_credits: int,
        parallelism: int,
        path: str,
    ) -> None:
        """Listen at once, at a path in a folder that only this user can enter."""
        super().__init__(
            attempt=attempt,
            subtask=subtask,
            token=token,
            schemas=schemas,
            initial_credits=initial_credits,
        )
        self.address = path
        self._parallelism = parallelism
        self._uses_memory = (
            memory_files.AVAILABLE and parallelism * len(schemas) * initial_credits <= _MAX_DESCRIPTORS
        )
        self._selector = selectors.DefaultSelector()
        self._waker = _Waker()
        self._listener = _listening(path, max(parallelism, _STRANGERS_AT_ONCE))
        self._unknown: dict[socket.socket, bytes] = {}
        """Unauthenticated connections, the oldest first, and the bytes that they have sent."""
        self._incoming: dict[int, _Incoming] = {}
        self._outgoing: dict[int, _Outgoing] = {}
        self._frames: deque[Sequence[Part]] = deque()
        self._credit_frames: deque[tuple[int, bytes]] = deque()
        # Only `_sleep` clears it, so that an earlier wake-up is not lost.
        self._watch(self._waker.reader, lambda _: None)
        self._watch(self._listener.fileno(), lambda _: self._accept())

    def _watch(self, descriptor: int, ready: _Ready) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, ready)

    def connect(self, addresses: Sequence[str]) -> None:
        hello = framing.encode_hello(self._token, Hello(self._attempt, self._subtask))
        for subtask, address in enumerate(addresses):
            if subtask == self._subtask:
                continue
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            try:
                made.connect(address)
                made.sendall(hello)
            except OSError as error:
                made.close()
                raise TransportError(f"subtask {subtask} is gone: {error}") from error
            outgoing = self._outgoing[subtask] = _Outgoing(made, self._selector)
            self._selector.register(made, selectors.EVENT_READ, self._hears_credits(subtask, outgoing))

    def _hears_credits(self, receiver: int, outgoing: _Outgoing) -> _Ready:
        def ready(events: int) -> None:
            if events & selectors.EVENT_WRITE:
                outgoing.flush()
            if events & selectors.EVENT_READ:
                self._credit_frames.extend((receiver, credit) for credit in outgoing.credits())

        return ready

    def waker(self) -> Callable[[], None]:
        return self._waker

    def _sleep(self, timeout_us: int) -> None:
        if self._frames or self._credit_frames:
            return
        # Selectors count in milliseconds, but `select` can wait on the selector's own descriptor.
        descriptor = self._selector.fileno()
        if timeout_us <= 0:
            pass  # The next `receive` looks without waiting.
        elif descriptor < _MAX_SELECTED:
            select.select((descriptor,), (), (), timeout_us / 1e6)
        else:
            self._selector.select(timeout_us / 1e6)
        self._waker.clear()

    def _look(self) -> None:
        """Read what has arrived, and write what was queued."""
        for key, events in self._selector.select(0):
            key.data(events)

    # --- frames and credits -----------------------------------------------------------------------

    def _put(self, receiver: int, header: bytes, payload: pa.Buffer | None) -> None:
        outgoing = self._outgoing[receiver]
        if payload is None:
            outgoing.send((framing.head(header, 0, PayloadPlace.NOWHERE),))
            return
        if self._uses_memory and payload.size >= _IN_MEMORY_FROM_BYTES:
            try:
                descriptor = memory_files.write_memory_file(payload)
                outgoing.send((framing.head(header, payload.size, PayloadPlace.IN_MEMORY),), descriptor)
            except OSError:
                pass  # Send it through the socket.
            else:
                return
        outgoing.send((framing.head(header, payload.size, PayloadPlace.BEHIND), memoryview(payload)))

    def _take(self, max_frames: int) -> Iterator[Sequence[Part]]:
        for _ in range(min(max_frames, len(self._frames))):
            yield self._frames.popleft()

    def _put_credit(self, sender: int, credit: bytes) -> None:
        self._incoming[sender].give(credit)

    def _take_credits(self) -> Iterator[tuple[int, bytes]]:
        if not self._frames:
            self._look()
        while self._credit_frames:
            yield self._credit_frames.popleft()

    # --- incoming connections ---------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                raise TransportError(f"a peer's connection cannot be accepted: {error}") from error
            made.setblocking(False)
            if not _is_of_this_user(made):
                made.close()
                self._dropped += 1
                continue
            if len(self._unknown) >= _STRANGERS_AT_ONCE:
                self._refuse(next(iter(self._unknown)))
            self._unknown[made] = b""
            self._selector.register(made, selectors.EVENT_READ, self._hears_hello(made))
            self._greeted(made)  # A peer has sent its greeting by now.

    def _hears_hello(self, made: socket.socket) -> _Ready:
        return lambda _: self._greeted(made)

    def _greeted(self, made: socket.socket) -> None:
        """Read a connection's greeting. Nothing is parsed before the token is verified (EX3)."""
        hello = self._unknown.get(made)
        if hello is None:
            return  # It was refused after its event was reported.
        try:
            hello += made.recv(framing.HELLO_BYTES - len(hello))
        except BlockingIOError:
            return
        except OSError:
            self._refuse(made)
            return
        ended = len(hello) == len(self._unknown[made])
        self._unknown[made] = hello
        if ended or (len(hello) >= wire.TOKEN_BYTES and not is_of(self._token, hello)):
            self._refuse(made)
        elif len(hello) == framing.HELLO_BYTES:
            self._admit(made, framing.decode_hello(hello))

    def _admit(self, made: socket.socket, hello: Hello) -> None:
        if hello.attempt != self._attempt:
            self._refuse(made)
            return
        if hello.sender >= self._parallelism or hello.sender in (self._subtask, *self._incoming):
            raise TransportError(f"subtask {hello.sender} connected to subtask {self._subtask} again")
        del self._unknown[made]
        incoming = self._incoming[hello.sender] = _Incoming(made, self._selector)

        def ready(events: int) -> None:
            if events & selectors.EVENT_WRITE:
                incoming.flush()
            if events & selectors.EVENT_READ:
                self._frames.extend(incoming.frames())

        self._selector.modify(made, selectors.EVENT_READ, ready)

    def _refuse(self, made: socket.socket) -> None:
        del self._unknown[made]
        self._selector.unregister(made)
        made.close()
        self._dropped += 1

    def close(self) -> None:
        self._waker.close()
        for made in self._unknown:
            made.close()
        for connection in (*self._incoming.values(), *self._outgoing.values()):
            connection.close()
        self._listener.close()
        self._selector.close()
        with contextlib.suppress(OSError):
            os.unlink(self.address)


class _Connection:
    """A connection, with the data that its socket has not accepted yet."""

    def __init__(self, made: socket.socket, selector: selectors.BaseSelector) -> None:
        made.setblocking(False)
        self._socket = made
        self._selector = selector
        self._kept: deque[tuple[Part, int | None]] = deque()
        """Queued bytes, each with the descriptor that is sent with them."""
        self.gone = False

    def send(self, parts: Sequence[Part], descriptor: int | None = None) -> None:
        """Send what the socket accepts, and queue the rest. If too many descriptors are in flight,
        raise OSError and send nothing."""
        if self.gone:
            _close(descriptor)
            return
        taken = 0
        if not self._kept:
            try:
                taken = self._write(parts, descriptor)
            except OSError:
                _close(descriptor)
                raise
        if taken:
            _close(descriptor)
            descriptor = None
        for part in parts:
            if taken < len(part):
                if not self._kept:
                    self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)
                self._kept.append((memoryview(part)[taken:], descriptor))
                descriptor = None
            taken = max(taken - len(part), 0)

    def _write(self, parts: Sequence[Part], descriptor: int | None) -> int:
        """Write, and return the number of bytes that the socket accepted. The descriptor goes with the
        first byte. Raise OSError if too many descriptors are in flight."""
        try:
            if descriptor is None:
                return self._socket.sendmsg(parts)
            return socket.send_fds(self._socket, parts, [descriptor])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                raise
            self.leave()
            return sum(map(len, parts))

    def flush(self) -> None:
        """Write queued data, because the socket accepts more."""
        while self._kept:
            part, descriptor = self._kept[0]
            try:
                taken = self._write((part,), descriptor)
            except OSError:
                return  # Try again in the next turn.
            if self.gone or not taken:
                return
            _close(descriptor)
            if taken < len(part):
                self._kept[0] = (part[taken:], None)
            else:
                self._kept.popleft()
        self._watch(selectors.EVENT_READ)

    def _watch(self, events: int) -> None:
        self._selector.modify(self._socket, events, self._selector.get_key(self._socket).data)

    def leave(self) -> None:
        """Close after the other end has gone. The driver decides what follows."""
        if not self.gone:
            self.gone = True
            self._selector.unregister(self._socket)
            self._drop()

    def _drop(self) -> None:
        for _, descriptor in self._kept:
            _close(descriptor)
        self._kept.clear()

    def close(self) -> None:
        self._drop()
        self._socket.close()


class _Outgoing(_Connection):
    """A connection that sends frames and receives credits."""

    def __init__(self, made: socket.socket, selector: selectors.BaseSelector) -> None:
        super().__init__(made, selector)
        self._cutter = framing.CreditCutter()

    def credits(self) -> list[bytes]:
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            data = b""
        if not data:
            self.leave()
        return self._cutter.cut(data)


class _Incoming(_Connection):
    """A connection that receives frames and sends credits."""

    def __init__(self, made: socket.socket, selector: selectors.BaseSelector) -> None:
        super().__init__(made, selector)
        self._cutter = framing.FrameCutter()
        self._descriptors: deque[int] = deque()

    def give(self, credit: bytes) -> None:
        self.send((credit,))

    def frames(self) -> list[Sequence[Part]]:
        """Return the frames that have arrived. Raise TransportError if a peer sends anything else."""
        found: list[Sequence[Part]] = []
        for _ in range(_READS_AT_ONCE):
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(
                    _READ_BYTES, _ANCILLARY_BYTES, _NOT_INHERITED
                )
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data, ancillary, flags = b"", [], 0
            self._take_descriptors(ancillary, flags)
            if not data:
                self.leave()
                break
            found += [self._parts(frame) for frame in self._cutter.cut(data)]
            if len(data) < _READ_BYTES and not ancillary:
                break  # Nothing is left to read. A read also ends after bytes with a descriptor.
        return found

    def _take_descriptors(self, ancillary: Sequence[tuple[int, int, bytes]], flags: int) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array("i")
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
                self._descriptors.extend(descriptors)
        if len(self._descriptors) > _MAX_DESCRIPTORS:
            raise TransportError("a peer sent descriptors without payloads")
        if flags & _TRUNCATED:
            raise TransportError(
                "a payload's descriptor was lost",
                hint="raise the limit of open files of the process (ulimit -n)",
            )

    def _parts(self, frame: framing.Frame) -> Sequence[Part]:
        if frame.payload is not None:
            return (frame.header, frame.payload)
        if not frame.in_memory_bytes:
            return (frame.header,)
        if not self._descriptors:
            raise TransportError("a peer's payload arrived without its descriptor")
        descriptor = self._descriptors.popleft()
        return (frame.header, memory_files.read_memory_file(descriptor, frame.in_memory_bytes))

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popleft())
        super().close()


class _Waker:
    """A function that wakes the main loop from any thread."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        self._lock = threading.Lock()
        self._called = False
        """Whether a byte is in the pipe."""
        self._closed = False

    def __call__(self) -> None:
        with self._lock:
            if not self._closed and not self._called:
                self._called = True
                os.write(self._writer, b"w")

    def clear(self) -> None:
        if self._called:
            with self._lock:
                os.read(self.reader, 1)
                self._called = False

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self.reader)
                os.close(self._writer)


def _listening(path: str, backlog: int) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(path)
        made.listen(backlog)
    except OSError as error:
        made.close()
        raise ConfigurationError(f"a process of the job cannot listen at {path}: {error}") from error
    made.setblocking(False)
    return made


def _is_of_this_user(made: socket.socket) -> bool:
    """Return whether the peer runs as this user, or the system cannot tell. The folder excludes
    others."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return bool(user == os.getuid())


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)
