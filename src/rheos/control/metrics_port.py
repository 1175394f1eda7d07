"""A port at which Prometheus asks for the figures of this process' jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from rheos.errors import ConfigurationError
from rheos.observe.model import JobFigures

_LOOPBACK = "127.0.0.1"


class MetricsPort:
    """Listens from the first moment on until `close`, with threads of its own.

    `where` is a port, which is then of loopback alone, or HOST:PORT; port 0 takes a free one. Raises
    ConfigurationError where that is none, or is taken, or the client is not installed.
    """

    def __init__(self, where: str, jobs: Callable[[], Sequence[JobFigures]]) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server

            from rheos.observe.prometheus import FiguresCollector
        except ImportError as error:
            raise ConfigurationError(
                "figures for Prometheus need the package prometheus-client",
                hint="pip install 'rheos[prometheus]'",
            ) from error
        host, port = _place(where)
        registry = CollectorRegistry()
        registry.register(FiguresCollector(jobs))
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"nothing can listen at {host}:{port} for Prometheus: {error}",
                hint="take another port, or 0 for any that is free",
            ) from error
        self.url = f"http://{host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)


def _place(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(
            f"{where!r} is no place to listen at", hint="say a port, such as 9249, or HOST:PORT"
        )
    return host or _LOOPBACK, int(port)
