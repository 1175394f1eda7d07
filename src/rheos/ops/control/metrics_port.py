"""A port at which Prometheus requests the metrics of this process' jobs, and of its own listeners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rheos.connectors.listener.bounds import Bounds
from rheos.connectors.listener.exchange import HttpExchange, ThreadedService
from rheos.connectors.listener.head import HttpError
from rheos.connectors.listener.place import HostNames, listening_socket, shown_address
from rheos.connectors.listener.server import Listener, listeners
from rheos.core.errors import ConfigurationError
from rheos.core.metrics.model import MetricsReport

_LOOPBACK = "127.0.0.1"
_PATH = "/metrics"
_MAX_SCRAPES = 8
"""Maximum number of simultaneous scrapes. Each has a thread."""
_SERVED_WITHIN_S = 8.0
"""Maximum time that a scrape waits for others. Prometheus gives up after 10 s by default."""


class MetricsPort:
    """A listener from its construction until `close`, in threads of its own."""

    def __init__(
        self, where: str, jobs: Callable[[], Sequence[MetricsReport]], names: Sequence[str] = ()
    ) -> None:
        """Start to listen.

        Args:
            where: a port, on loopback only, or HOST:PORT; port 0 selects a free one.
            jobs: returns the current metrics of the jobs.
            names: names of this machine that a scrape may use, in addition to its own and any address.

        Raises:
            ConfigurationError: `where` is invalid or in use, or the client is not installed.
        """
        try:
            from prometheus_client import CollectorRegistry
            from prometheus_client.exposition import choose_encoder

            from rheos.ops.export.prometheus import ListenersCollector, MetricsCollector
        except ImportError as error:
            raise ConfigurationError(
                "metrics for Prometheus need the package prometheus-client",
                hint="pip install 'rheos[prometheus]'",
            ) from error
        host, port = _place(where)
        registry = CollectorRegistry()
        registry.register(MetricsCollector(jobs))
        registry.register(ListenersCollector(_counts))

        def answer(exchange: HttpExchange) -> None:
            if exchange.path not in ("/", _PATH):
                raise HttpError(404, f"metrics are at the path {_PATH}")
            if exchange.method not in ("GET", "HEAD"):
                raise HttpError(405, "read metrics with GET", Allow="GET")
            encode, kind = choose_encoder(exchange.headers.get("accept", ""))
            exchange.answer(200, encode(registry), kind)

        try:
            listening = listening_socket(host, port)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen at {host}:{port} for Prometheus: {error}",
                hint="choose another port, or 0 for any free one",
            ) from error
        service = ThreadedService(answer, None)
        bounds = Bounds(_MAX_SCRAPES, admitted_within_s=_SERVED_WITHIN_S)
        self._listener = Listener("metrics", listening, service, bounds, HostNames.of(host, names))
        self.url = f"http://{shown_address(host, self._listener.port)}{_PATH}"

    def close(self) -> None:
        """End all connections. May be called again."""
        self._listener.close()


def _counts() -> Iterator[tuple[str, str, int]]:
    """Yield each count of this process' listeners, by the listener's name."""
    found: Counter[tuple[str, str]] = Counter()
    for listener in listeners():
        counts = listener.counts()
        for name in counts.__struct_fields__:
            found[listener.name, name] += getattr(counts, name)
    for (listener_name, name), count in found.items():
        yield listener_name, name, count


def _place(where: str) -> tuple[str, int]:
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(
            f"{where!r} is not an address to listen at", hint="pass a port, such as 9249, or HOST:PORT"
        )
    return host.removeprefix("[").removesuffix("]") or _LOOPBACK, int(port)
