"""Metrics as an OpenTelemetry collector receives them, parsed with OpenTelemetry's own messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

import msgspec
import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra rheos[opentelemetry] is not installed")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.metrics.export import Histogram

from rheos.core.errors import ConfigurationError
from rheos.core.operators.runtime_context import Distribution
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.readings import Reading
from rheos.ops.control.otlp_export import OtlpExport
from rheos.ops.export.opentelemetry import metrics_data
from tests.cli.stand_ins import METRICS

_GZIP = "gzip"


class Collector:
    """Collector that answers as the test specifies, and keeps the requests."""

    def __init__(self) -> None:
        self.came: Queue[ExportMetricsServiceRequest] = Queue()
        self.answers = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/metrics"
                assert self.headers.get("Content-Encoding") != _GZIP
                if outer.answers == 200:
                    outer.came.put(ExportMetricsServiceRequest.FromString(body))
                self.send_response(outer.answers)
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


def test_metrics_have_units_and_attributes(collector: Collector) -> None:
    export = OtlpExport(collector.url, lambda: [METRICS], every_s=600)
    export.close()
    (resource,) = collector.came.get(timeout=20).resource_metrics
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (named["service.name"], named["service.instance.id"]) == ("a job", "job")
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    rows = found["rheos.rows_in"]
    assert (rows.unit, rows.sum.is_monotonic) == ("{row}", True)
    second = rows.sum.data_points[1]
    assert {each.key: each.value.string_value for each in second.attributes} == {
        "job": "job",
        "operator": "map-1",
        "subtask": "1",
        "operator_name": "map",
    }
    assert second.as_int == 50
    assert found["rheos.memory_bytes"].unit == "By"
    assert found["rheos.memory_bytes"].gauge.data_points[0].as_int == 1 << 27


def test_histograms_use_fixed_buckets() -> None:
    took = Distribution()
    for value in (0.5, 1, 3, 40, 10_000_000):
        took.add(value)
    readings = [
        Reading("latency_ms", ("source-1", "map-1", "0"), took.value),
        Reading("accumulated", ("map-1", "spent", "0"), Accumulated(4, 10.0, 1.0, 4.0)),
    ]
    job = msgspec.structs.replace(METRICS, readings=readings)
    (latency, spent) = metrics_data([job]).resource_metrics[0].scope_metrics[0].metrics
    assert isinstance(latency.data, Histogram)
    (point,) = latency.data.data_points
    assert sum(point.bucket_counts) == point.count == 5
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert (point.min, point.max, point.bucket_counts[-1]) == (0.5, 10_000_000, 1)
    assert isinstance(spent.data, Histogram)
    (plain,) = spent.data.data_points
    assert (plain.count, plain.sum, plain.bucket_counts, plain.explicit_bounds) == (4, 10.0, [4], [])


def test_a_refusing_collector_is_logged_once_and_retried(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    collector.answers = 400
    export = OtlpExport(collector.url, lambda: [METRICS], every_s=600)
    export._send()
    export._send()
    assert capsys.readouterr().err.count(f"metrics could not be sent to {collector.url}") == 1
    collector.answers = 200
    export.close()
    assert collector.came.get(timeout=20).resource_metrics
    assert "could not be sent" not in capsys.readouterr().err


def test_an_error_while_collecting_metrics_is_only_logged(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing() -> list[Any]:
        raise ValueError("no metrics")

    export = OtlpExport(collector.url, failing, every_s=600)
    export.close()
    assert f"could not be sent to {collector.url}/v1/metrics: no metrics" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "ftp://a", "http://", ""])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the URL of a collector"):
        OtlpExport(url, list)
