"""A TCP proxy whose link can be cut, slowed down or made lossy, as that of a server in trouble.

```python
import socket

with socket.create_server(("127.0.0.1", 0)) as server:
    with FaultyProxy(server.getsockname()[1]) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(b"hello")
            served, _ = server.accept()
            assert served.recv(5) == b"hello"
            served.close()
            proxy.strike(LinkFault.CUT)  # From here on, nothing passes.
            proxy.heal()
```
"""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import StrEnum
from random import Random
from typing import Self

_AT_ONCE_BYTES = 1 << 14


class LinkFault(StrEnum):
    """Kinds of link faults."""

    CUT = "cut"
    """Fault that lets nothing pass. Connections stay open, and new ones get no answer."""
    CUT_TO_SERVER = "cut-to-server"
    """Fault that lets no data from clients pass; data from the server arrives."""
    CUT_FROM_SERVER = "cut-from-server"
    """Fault that lets no answers of the server pass; it receives everything."""
    SLOW = "slow"
    """Fault that delays each packet by 200 ms, and limits each direction to 100 kB/s."""
    LOSSY = "lossy"
    """Fault that loses a third of the packets. TCP sends them again, which takes from 200 ms to 3 s."""


_SLOW_S = 0.2
_SLOW_BYTES_PER_S = 100_000
_LOST = 0.33
_RESENT_AFTER_S = (0.2, 3.0)


class FaultyProxy:
    """A proxy that listens on a free port of loopback, and forwards to `port`."""

    def __init__(self, port: int, host: str = "127.0.0.1", seed: int = 0) -> None:
        self._target = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listening.getsockname()[1]
        self._rng = Random(seed)
        self._changed = threading.Condition()
        # Only accessed while `_changed` is held:
        self._fault: LinkFault | None = None
        self._closing = False
        self._sockets: set[socket.socket] = set()

    def strike(self, fault: LinkFault) -> None:
        """Begin the fault, for open and new connections."""
        self._become(fault)

    def heal(self) -> None:
        """End the fault. Delayed data passes, in its order."""
        self._become(None)

    def freeze(self) -> None:
        """Forward nothing from now on, and answer no new connection."""
        self.strike(LinkFault.CUT)

    def thaw(self) -> None:
        """Forward what was delayed, and everything after it."""
        self.heal()

    def close_connections(self) -> None:
        """Close all connections, and continue to listen."""
        with self._changed:
            sockets = list(self._sockets)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.close_connections()

    def _become(self, fault: LinkFault | None) -> None:
        with self._changed:
            self._fault = fault
            self._changed.notify_all()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        # The packets that open a connection go in both directions.
        if not self._wait_while(LinkFault.CUT, LinkFault.CUT_TO_SERVER, LinkFault.CUT_FROM_SERVER):
            near.close()
            return
        with near, contextlib.suppress(OSError), socket.create_connection(self._target) as far:
            with self._changed:
                self._sockets |= {near, far}
            back = threading.Thread(
                target=self._pump, args=(far, near, LinkFault.CUT_FROM_SERVER), daemon=True
            )
            back.start()
            self._pump(near, far, LinkFault.CUT_TO_SERVER)
            back.join()
            with self._changed:
                self._sockets -= {near, far}

    def _pump(self, source: socket.socket, target: socket.socket, cut: LinkFault) -> None:
        """Forward one direction until either end closes, then close the other end."""
        with contextlib.suppress(OSError):
            while data := source.recv(_AT_ONCE_BYTES):
                if not self._wait_while(LinkFault.CUT, cut, takes_s=self._takes_s(len(data))):
                    return
                target.sendall(data)
        self._wait_while(LinkFault.CUT, cut)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _wait_while(self, *faults: LinkFault, takes_s: float = 0.0) -> bool:
        """Wait `takes_s`, and until none of the faults holds. Return False if the proxy closes."""
        with self._changed:
            if takes_s:
                self._changed.wait_for(lambda: self._closing, takes_s)
            self._changed.wait_for(lambda: self._closing or self._fault not in faults)
            return not self._closing

    def _takes_s(self, size_bytes: int) -> float:
        """Return the time in seconds that the link takes to transfer `size_bytes`."""
        with self._changed:
            if self._fault is LinkFault.SLOW:
                return _SLOW_S + size_bytes / _SLOW_BYTES_PER_S
            if self._fault is LinkFault.LOSSY and self._rng.random() < _LOST:
                return self._rng.uniform(*_RESENT_AFTER_S)
        return 0.0
