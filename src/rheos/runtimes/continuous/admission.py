"""Admission to a listening socket: who is let in, how many may be there, how many were turned away.

ZeroMQ asks for each connection that has said who it is (its protocol ZAP), before any frame of that
connection is taken; and it reports connections that come and go, so that those of strangers cannot
use up the process's file handles.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import threading
from urllib.parse import urlparse

import zmq
from zmq.utils.monitor import parse_monitor_message

from rheos.core.errors import RheosError, unexpected
from rheos.runtimes.continuous.security import Security
from rheos.runtimes.host.sockets import listen

_ZAP = "inproc://zeromq.zap.01"
_OVER = "inproc://admission"
_SHARE_OF_HANDLES = 4
"""Connections take at most this part of the file handles that the process may have."""
_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)


class Admission:
    """Admits connections to the listening socket of a context. Its own thread answers until `close`,
    so that a busy process does not keep peers of its job waiting."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        listening: zmq.Socket[bytes],
        security: Security,
        where: str,
        max_frame_bytes: int,
        peers: int,
        most: int | None = None,
    ) -> None:
        """Make the socket listen.

        `peers` is the maximum number of connections of the job's own processes. `most` is the maximum
        number of all connections, unauthenticated ones included; None takes a share of the file
        handles. Further connections are refused, and a process of the job tries again. Connections
        that never authenticate are closed after a time limit.
        """
        self._listening = listening
        self._security = security
        self._zap: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._zap.bind(_ZAP)
        self._over: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        self._over.bind(_OVER)
        self._closing: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        self._closing.connect(_OVER)
        security.listening(listening)
        self._events: zmq.Socket[bytes] = listening.get_monitor_socket(_EVENTS)
        self.address = listen(listening, where, max_frame_bytes)
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = most or max(2 * peers, allowed // _SHARE_OF_HANDLES)
        self._port = urlparse(self.address).port if where.startswith("tcp:") else None
        self._there: set[int] = set()
        """The file handles of the connections."""
        self._failure: RheosError | None = None
        self.refused = 0
        """Connections of strangers that were turned away."""
        self._thread = threading.Thread(target=self._answer, name="rheos-admission", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Called now and then by the thread of the socket. Raises what ended that of the admission."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Nobody is let in any more. Called before the socket is closed."""
        if not self._closing.closed:
            # While the thread still takes the events: without a taker ZeroMQ's I/O thread waits to hand
            # over the next one, and holds the lock that this call needs.
            self._listening.disable_monitor()
            self._closing.send(b"")
            self._thread.join()
            self._closing.close(linger=0)

    # --- the thread -------------------------------------------------------------------------------

    def _answer(self) -> None:
        poller = zmq.Poller()
        for asked in (self._zap, self._events, self._over):
            poller.register(asked, zmq.POLLIN)
        while self._over not in (ready := dict(poller.poll())):
            request = self._zap.recv_multipart() if self._zap in ready else None
            event = self._events.recv_multipart() if self._events in ready else None
            if self._failure is not None:
                continue  # Nobody is let in, and events are taken so that ZeroMQ need not wait.
            try:
                if request is not None:
                    self._zap.send_multipart(self._reply(request))
                if event is not None:
                    message = parse_monitor_message(event)
                    self._note(message["event"], message["value"])
            except Exception as error:
                # `check` raises it: an admission that answers nobody would keep everyone out.
                self._failure = unexpected(error)
        for asked in (self._zap, self._events, self._over):
            asked.close(linger=0)

    def _note(self, event: int, handle: int) -> None:
        match event:
            case zmq.EVENT_ACCEPTED if len(self._there) >= self._most:
                # Its handshake fails by that, and is counted.
                self._send_away(handle)
            case zmq.EVENT_ACCEPTED:
                self._there.add(handle)
            case zmq.EVENT_DISCONNECTED:
                self._there.discard(handle)
            case _:
                self.refused += 1

    def _send_away(self, handle: int) -> None:
        """Ends the connection; ZeroMQ then closes it. One that is gone already may have left its handle
        to something else: only a connection to this socket's port is touched."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as connection:
            name = connection.getsockname()
            if isinstance(name, tuple) and name[1] == self._port:
                connection.shutdown(socket.SHUT_RDWR)

    def _reply(self, request: list[bytes]) -> list[bytes]:
        """By ZAP 1.0. The frames are ZeroMQ's own; the last ones are what the stranger has shown."""
        version, number, _, _, _, mechanism, *credentials = request
        admitted = self._security.admits(mechanism, credentials)
        status = (b"200", b"OK") if admitted else (b"400", b"not of this job")
        return [version, number, *status, b"", b""]
