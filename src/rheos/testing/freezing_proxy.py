"""A TCP proxy that can freeze: it takes what both sides send and passes nothing on, as a server does
whose process is stopped, or whose network drops packets."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import Self

_AT_ONCE_BYTES = 1 << 16


class FreezingProxy:
    """Listens on a free port of loopback, and forwards to `port` while it is not frozen."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._flows = threading.Event()
        self._flows.set()
        self._closing = threading.Event()
        self._sockets: list[socket.socket] = []

    def freeze(self) -> None:
        """Pass nothing on from now on, and answer nobody new."""
        self._flows.clear()

    def thaw(self) -> None:
        """Pass on what was held back, and everything after it."""
        self._flows.set()

    def cut(self) -> None:
        """Close all connections, and go on listening."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._flows.set()
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self._sockets.append(near)
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._flows.wait()
        with near, contextlib.suppress(OSError), socket.create_connection(self._target) as far:
            self._sockets.append(far)
            self._forward(near, far)

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        other = {near: far, far: near}
        with selectors.DefaultSelector() as ready:
            for each in other:
                ready.register(each, selectors.EVENT_READ)
            while not self._closing.is_set():
                for key, _ in ready.select(1.0):
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    data = source.recv(_AT_ONCE_BYTES)
                    self._flows.wait()
                    if not data:
                        return
                    other[source].sendall(data)
