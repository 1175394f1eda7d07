"""The listener: accepts connections, admits them, passes their requests to a service, and closes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Coroutine
from functools import partial
from typing import Any, Protocol, TypeAlias

from rheos.connectors.listener.admission import AdmissionCounts, ConnectionAdmission
from rheos.connectors.listener.bounds import Bounds
from rheos.connectors.listener.connection import HttpConnection
from rheos.connectors.listener.head import HttpError, RequestHead
from rheos.connectors.listener.place import HostNames, shown_address
from rheos.connectors.listener.threads import end_idle_threads

LOGGER = logging.getLogger("rheos.http")
"""Logger for the address at which a source or a sink listens, and for errors in answers."""

_ACCEPT_AGAIN_S = 0.05
_REPORT_EVERY_S = 60.0
_THREAD_WITHIN_S = 5.0

_LISTENERS: weakref.WeakSet[Listener] = weakref.WeakSet()

_Peer: TypeAlias = "asyncio.Task[None]"


class Service(Protocol):
    """A service that a listener exposes. The listener calls its methods in its own thread."""

    uses_tokens: bool
    """Whether requests can have a valid token."""

    def knows(self, head: RequestHead) -> bool:
        """Return whether the request carries a valid token."""

    def is_open(self, head: RequestHead) -> bool:
        """Return whether the request is served without a token."""

    def is_health(self, head: RequestHead) -> bool:
        """Return whether it is a health request. Its answer must be short."""

    async def serve(self, connection: HttpConnection, head: RequestHead, body: bytes) -> None:
        """Answer the request. May raise HttpError before the answer has begun."""


class Listener:
    """Listens from its construction until `close`, in a separate thread."""

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        service: Service,
        bounds: Bounds,
        hosts: HostNames | None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Start to serve.

        Args:
            name: its name in metrics: "dashboard", "metrics", "webhook".
            listening: a socket that listens and does not block; closed with this.
            service: the service that answers requests.
            bounds: sizes, numbers and deadlines.
            hosts: names of this machine that a request without a token must use; None: any.
            tls: encrypts connections; None: no encryption.
        """
        self.name = name
        address = listening.getsockname()
        self.port: int = address[1]
        self.address = shown_address(str(address[0]), self.port)
        self._listening = listening
        self._service = service
        self._bounds = bounds
        self._hosts = hosts
        self._tls = tls
        self._admission: ConnectionAdmission[_Peer] = ConnectionAdmission(
            bounds.waiting(), bounds.max_connections
        )
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._left = asyncio.Event()
        """Event that is set when a connection has freed its place."""
        self._reported_s = -_REPORT_EVERY_S
        self._thread = threading.Thread(target=self._run, name=f"rheos-http-{name}", daemon=True)
        self._thread.start()
        _LISTENERS.add(self)

    def counts(self) -> AdmissionCounts:
        """Return the counts of connections. Any thread may call it."""
        return self._admission.counts()

    def wait(self) -> None:
        """Wait until the listener has been closed."""
        self._thread.join()

    def close(self) -> None:
        """Stop accepting, allow running answers a few seconds, and close all connections. Any thread
        may call it, also repeatedly."""
        _LISTENERS.discard(self)
        with contextlib.suppress(RuntimeError):  # The loop has ended already.
            self._loop.call_soon_threadsafe(self._ending.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(self._bounds.end_s + _THREAD_WITHIN_S)
        end_idle_threads()

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        peers: set[_Peer] = set()
        accepting = asyncio.create_task(self._accept(peers))
        await self._ending.wait()
        accepting.cancel()
        self._listening.close()
        for peer in self._admission.waiting():
            peer.cancel()
        if peers:
            await asyncio.wait(peers, timeout=self._bounds.end_s)
        for peer in peers:
            peer.cancel()
        await asyncio.gather(accepting, *peers, return_exceptions=True)

    async def _accept(self, peers: set[_Peer]) -> None:
        while True:
            try:
                connected, _ = await self._loop.sock_accept(self._listening)
            except OSError as error:
                # Most likely no file handle is left, so close a waiting connection.
                self._end(self._admission.evict(), str(error))
                await asyncio.sleep(_ACCEPT_AGAIN_S)
                continue
            fresh = [connected]
            peer = asyncio.create_task(self._take(fresh))
            peers.add(peer)
            peer.add_done_callback(peers.discard)
            # A task that is cancelled before it starts has not closed its socket.
            peer.add_done_callback(partial(_close_all, fresh))
            self._end(self._admission.enter(peer), "too many connections without a token")
            # Let evicted connections close their file handles before accepting more.
            await asyncio.sleep(0)

    def _end(self, peer: _Peer | None, why: str) -> None:
        """Close a connection that was evicted."""
        if peer is None:
            return
        peer.cancel()
        if time.monotonic() - self._reported_s >= _REPORT_EVERY_S:
            self._reported_s = time.monotonic()
            LOGGER.warning("%s at %s closes the oldest connections: %s", self.name, self.address, why)

    # --- one connection ---------------------------------------------------------------------------

    async def _take(self, fresh: list[socket.socket]) -> None:
        me = asyncio.current_task()
        assert me is not None
        connected = fresh.pop()
        connection: HttpConnection | None = None
        try:
            async with asyncio.timeout(self._bounds.head_s):
                connection = await HttpConnection.accepted(connected, self._tls, self._bounds)
                head = await self._answered(connection, connection.head())
            if head is not None:
                await self._answered(connection, self._request(connection, head, me))
            await connection.linger()
            await connection.close()
        except TimeoutError:
            self._admission.count_late()
        except (OSError, asyncio.CancelledError):
            pass  # The peer has disconnected, or was evicted.
        except Exception:
            LOGGER.exception("a connection has failed")
        finally:
            self._admission.leave(me)
            self._left.set()
            if connection is None:
                connected.close()
            else:
                connection.abort()

    async def _answered(self, connection: HttpConnection, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of `work`. If it raises HttpError, answer with that and return None."""
        try:
            return await work
        except HttpError as refused:
            if connection.begun:
                raise ConnectionAbortedError("a response is already being sent") from refused
            await connection.answer_json(refused.status, {"error": refused.why}, **refused.headers)
            return None

    async def _request(self, connection: HttpConnection, head: RequestHead, me: _Peer) -> None:
        """Pass the request to the service. Raises HttpError."""
        service = self._service
        connection.trusted = service.knows(head)
        if not connection.trusted and self._hosts is not None:
            self._check_host(head, self._hosts)
        if service.is_health(head):
            self._end(self._admission.exempt(me), "too many health requests")
            await self._untrusted(connection, head, b"")
        elif connection.trusted:
            await self._admit(me)
            await service.serve(connection, head, await connection.body(head))
        elif service.uses_tokens:
            if not service.is_open(head):
                self._admission.count_refused()
                raise HttpError(
                    401, "send the token: Authorization: Bearer ...", WWW_Authenticate="Bearer"
                )
            await self._untrusted(connection, head, b"")
        else:
            # Without tokens, a complete request is all that can be required.
            body = await connection.body(head)
            await self._admit(me)
            connection.settles = lambda: self._settle(me)
            await service.serve(connection, head, body)

    async def _untrusted(self, connection: HttpConnection, head: RequestHead, body: bytes) -> None:
        async with asyncio.timeout(self._bounds.untrusted_answer_s):
            await self._service.serve(connection, head, body)

    def _check_host(self, head: RequestHead, hosts: HostNames) -> None:
        if not hosts.allow(head.headers.get("host", "")):
            self._admission.count_refused()
            raise HttpError(403, "the request does not name this machine, and has no valid token")

    async def _admit(self, me: _Peer) -> None:
        try:
            async with asyncio.timeout(self._bounds.admitted_within_s):
                while not self._admission.admit(me):
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            self._admission.count_refused()
            raise HttpError(503, "too many connections", Retry_After="1") from None

    def _settle(self, me: _Peer) -> None:
        self._end(self._admission.settle(me), "too many responses are still being sent")
        self._left.set()


def _close_all(sockets: list[socket.socket], _: _Peer) -> None:
    for each in sockets:
        each.close()


def listeners() -> list[Listener]:
    """Return the listeners of this process, by name and port."""
    return sorted(_LISTENERS, key=lambda each: (each.name, each.port))
