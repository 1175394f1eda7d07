"""Sends the metrics of this process' jobs to a collector of OpenTelemetry, by OTLP over HTTP."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.errors import ConfigurationError
from rheos.core.metrics.model import MetricsReport
from rheos.core.printable import printable_lines
from rheos.core.redaction import redacted

EVERY_S = 10.0
EXPORT = OutsideCall(
    server="OpenTelemetry",
    call="sending metrics to the collector",
    limit_s=5.0,
    limit="a separate thread waits, so nothing is blocked; 5 s for each request",
    then="these metrics are not sent; the job continues",
)
"""Deadline for an answer. If the collector is unavailable, the next export tries again."""


class OtlpExport:
    """An export from its construction until `close`, in a thread of its own, and once more at the end.

    `url` is the collector's, such as http://127.0.0.1:4318, or one with a path.
    OTEL_EXPORTER_OTLP_HEADERS may contain headers. The constructor raises ConfigurationError if the URL
    is invalid, or the packages are not installed.
    """

    def __init__(
        self, url: str, jobs: Callable[[], Sequence[MetricsReport]], every_s: float = EVERY_S
    ) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.metrics.export import MetricExportResult

            from rheos.ops.export.opentelemetry import metrics_data
        except ImportError as error:
            raise ConfigurationError(
                "metrics for OpenTelemetry need the packages opentelemetry-sdk and "
                "opentelemetry-exporter-otlp-proto-http",
                hint="pip install 'rheos[opentelemetry]'",
            ) from error
        self.url = _endpoint(url)
        self._jobs = jobs
        self._every_s = every_s
        self._data = metrics_data
        self._success = MetricExportResult.SUCCESS
        # It would log each failed attempt, which we log once.
        logging.getLogger(OTLPMetricExporter.__module__).setLevel(logging.CRITICAL)
        self._exporter = OTLPMetricExporter(endpoint=self.url, timeout=EXPORT.limit_s)
        self._failed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="rheos-otlp", daemon=True)
        self._thread.start()

    def _go_on(self) -> None:
        while not self._over.wait(self._every_s):
            self._send()
        self._send()

    def _send(self) -> None:
        """Send the metrics. A failure never affects the job, and is logged once until it is over."""
        try:
            jobs = self._jobs()
            if not jobs:
                return
            done = self._exporter.export(self._data(jobs)) is self._success
            problem = "it did not respond in time, or rejected them"
        except Exception as error:
            done, problem = False, str(error)
        if not done and not self._failed:
            what = f"metrics could not be sent to {redacted(self.url)}: {redacted(problem)}"
            print(printable_lines(what), file=sys.stderr)
        self._failed = not done

    def close(self) -> None:
        """Send once more and stop. May be called again."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2 * EXPORT.limit_s)
        self._exporter.shutdown()


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{redacted(url)!r} is not the URL of a collector", hint="say http://127.0.0.1:4318"
        )
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/v1/metrics"
