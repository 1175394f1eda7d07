"""Admission to a listening socket: authenticates connections, bounds their number, and counts refusals.

ZeroMQ requests an answer for each connection that has sent its credentials (ZAP protocol), before it
reads any frame of that connection. It also reports new and closed connections, so unauthenticated peers
cannot use up the process's file handles.
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
"""Divisor: connections may use this fraction of the process's file handles."""
_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)


class Admission:
    """The admission of connections to a context's listening socket. A thread of its own answers until
    `close`, so a busy process does not keep peers of its job waiting."""

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
        handles. Further connections are refused, and a process of the job tries again. Connections that
        never authenticate are closed after a time limit.
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
        """File handles of the open connections."""
        self._failure: RheosError | None = None
        self.refused = 0
        """Number of refused connections of unauthenticated peers."""
        self._thread = threading.Thread(target=self._answer, name="rheos-admission", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise the error that ended the admission's thread. The socket's thread calls it at times."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Stop admitting connections. Called before the socket is closed."""
        if not self._closing.closed:
            # Call it while the thread still takes the events. Otherwise ZeroMQ's I/O thread waits to
            # hand over the next one, and holds the lock that this call needs.
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
                continue  # Refuse everyone, and discard events so that ZeroMQ need not wait.
            try:
                if request is not None:
                    self._zap.send_multipart(self._reply(request))
                if event is not None:
                    message = parse_monitor_message(event)
                    self._note(message["event"], message["value"])
            except Exception as error:
                # `check` raises it: an admission that never answers would keep all peers out.
                self._failure = unexpected(error)
        for asked in (self._zap, self._events, self._over):
            asked.close(linger=0)

    def _note(self, event: int, handle: int) -> None:
        match event:
            case zmq.EVENT_ACCEPTED if len(self._there) >= self._most:
                # Its handshake fails, and is counted as a refusal.
                self._send_away(handle)
            case zmq.EVENT_ACCEPTED:
                self._there.add(handle)
            case zmq.EVENT_DISCONNECTED:
                self._there.discard(handle)
            case _:
                self.refused += 1

    def _send_away(self, handle: int) -> None:
        """Shut the connection down; ZeroMQ then closes it. If the connection is gone, its handle may
        already belong to something else, so only a connection to this socket's port is shut down."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as connection:
            name = connection.getsockname()
            if isinstance(name, tuple) and name[1] == self._port:
                connection.shutdown(socket.SHUT_RDWR)

    def _reply(self, request: list[bytes]) -> list[bytes]:
        """Return the answer by ZAP 1.0. All frames except the credentials come from ZeroMQ itself."""
        version, number, _, _, _, mechanism, *credentials = request
        admitted = self._security.admits(mechanism, credentials)
        status = (b"200", b"OK") if admitted else (b"400", b"not of this job")
        return [version, number, *status, b"", b""]
