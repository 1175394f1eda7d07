"""Addresses of the webhook source and the event sink, and their use of the shared listener.

On loopback without a token, the listener refuses requests whose `Host` is not this machine, and those
of pages of other sites: a browser would send such requests for any page that its user visits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rheos.connectors.listener.bounds import Bounds
from rheos.connectors.listener.exchange import Handle, ThreadedService
from rheos.connectors.listener.place import HostNames, is_loopback, listening_socket
from rheos.connectors.listener.server import Listener
from rheos.connectors.urls import check_header_value
from rheos.core.errors import ConfigurationError, ProgramError

MOST_CONNECTIONS = 1024
"""Maximum number of requests that are served at a time. Each has a thread."""
_BIND_WITHIN_S = 30.0
"""Seconds to wait for the port, which an attempt that was killed may keep for a while."""
_BIND_AGAIN_S = 0.2


@dataclass(frozen=True)
class ListenAddress:
    """Address to listen at, and the token that clients must send."""

    host: str
    port: int
    token: str | None
    max_connections: int

    def __post_init__(self) -> None:
        if not isinstance(self.port, int) or not 0 <= self.port < 1 << 16:
            raise ProgramError(f"port={self.port!r} is not a port", hint="port=0 chooses a free port")
        if self.token is not None:
            check_header_value("token", self.token)
        most = MOST_CONNECTIONS
        if not isinstance(self.max_connections, int) or not 0 < self.max_connections <= most:
            raise ProgramError(f"max_connections={self.max_connections!r} is not between 1 and {most}")
        if not is_loopback(self.host) and self.token is None:
            raise ProgramError(
                f"host={self.host!r} accepts requests from everyone in the network",
                hint='set a token="..." that clients must send (Authorization: Bearer ...), or leave '
                "out host= to accept only this machine",
            )

    def __repr__(self) -> str:
        return f"ListenAt({self.host!r}, {self.port}{'' if self.token is None else ', token=***'})"


class HttpEndpoint:
    """Listens from `start` to `close`. Calls `handle` for each admitted request."""

    def __init__(
        self,
        name: str,
        at: ListenAddress,
        handle: Handle,
        *,
        max_body_bytes: int = 1 << 14,
        token_in_query: bool = False,
    ) -> None:
        self.at = at
        self._name = name
        self._service = ThreadedService(handle, at.token, token_in_query=token_in_query)
        self._bounds = Bounds(at.max_connections, max_body_bytes)
        self._server: Listener | None = None
        self._closing = threading.Event()
        self._counted = {"evicted": 0, "refused": 0, "late": 0}

    @property
    def address(self) -> str:
        """Return `host:port`. Known once the endpoint listens."""
        assert self._server is not None
        return self._server.address

    def start(self) -> None:
        """Start to listen. If the port is in use, wait for it for a while; return early if closed
        meanwhile.

        Raises:
            ConfigurationError: another program uses the port, or the address does not exist.
        """
        deadline_s = time.monotonic() + _BIND_WITHIN_S
        while not self._closing.is_set():
            try:
                listening = listening_socket(self.at.host, self.at.port)
                break
            except OSError as error:
                if time.monotonic() > deadline_s:
                    raise ConfigurationError(
                        f"cannot listen at {self.at.host}:{self.at.port}: {error}",
                        hint="another program may use that port; port=0 chooses a free one, which "
                        "is logged",
                    ) from None
            self._closing.wait(_BIND_AGAIN_S)
        else:
            return
        hosts = HostNames.of(self.at.host)
        self._server = Listener(self._name, listening, self._service, self._bounds, hosts)
        if self._closing.is_set():
            self.close()

    def count(self, count: Callable[[str, int], None]) -> None:
        """Add the connections that were closed or refused since the last call to an operator's
        counters. Called in the operator's thread."""
        if self._server is None:
            return
        counts = self._server.counts()
        now: Mapping[str, int] = {name: getattr(counts, name) for name in self._counted}
        for name, before in self._counted.items():
            if now[name] > before:
                count(f"connections_{name}", now[name] - before)
        self._counted = dict(now)

    def close(self) -> None:
        """Close all connections; responses in progress have a few seconds. May be called again."""
        self._closing.set()
        if self._server is not None:
            self._server.close()
