"""Metrics in Prometheus' text format, read by its own parser."""

from __future__ import annotations

from math import inf
from urllib.request import urlopen

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from rheos.core.errors import ConfigurationError
from rheos.core.metrics.declarations import METRICS, Kind
from rheos.core.metrics.model import MetricsReport
from rheos.core.operators.runtime_context import Distribution
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.readings import Reading
from rheos.ops.control.metrics_port import MetricsPort
from rheos.ops.export.prometheus import MetricsCollector
from tests.cli.stand_ins import METRICS as SHOWN


def parsed(*jobs: MetricsReport) -> dict[str, Metric]:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: jobs))
    text = generate_latest(registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_metrics_are_families_with_labels() -> None:
    found = parsed(SHOWN)
    assert found["rheos_memory_bytes"].type == "gauge"
    (first, second) = found["rheos_rows_in"].samples
    assert (first.name, first.value) == ("rheos_rows_in_total", 30)
    assert second.labels == {
        "job": "job", "operator": "map-1", "subtask": "1", "operator_name": "map",
    }  # fmt: skip
    (cause,) = found["rheos_restarts"].samples
    assert cause.labels == {"job": "job", "cause": "TransportError"}


def test_jobs_of_one_process_have_different_labels() -> None:
    other = msgspec.structs.replace(SHOWN, job="other")
    samples = parsed(SHOWN, other)["rheos_memory_bytes"].samples
    assert [sample.labels["job"] for sample in samples] == ["job", "other"]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=9)


@given(NAMES, st.floats(-1e9, 1e9))
def test_any_operator_name_can_be_exported(name: str, value: float) -> None:
    job = msgspec.structs.replace(
        SHOWN, operators={"o": name}, readings=[Reading("gauge", ("o", name, "0"), value)]
    )
    (sample,) = parsed(job)["rheos_gauge"].samples
    assert (sample.labels["name"], sample.labels["operator_name"]) == (name, name)
    assert sample.value == value


@given(st.lists(st.floats(0.0, 1e5), min_size=1, max_size=50))
def test_buckets_of_histograms_are_cumulative_and_complete(numbers: list[float]) -> None:
    added = Distribution()
    for number in numbers:
        added.add(number)
    readings = [Reading("checkpoint_duration_ms", (), added.value)]
    samples = parsed(msgspec.structs.replace(SHOWN, readings=readings))[
        "rheos_checkpoint_duration_ms"
    ].samples
    buckets = {float(s.labels["le"]): s.value for s in samples if s.name.endswith("_bucket")}
    assert list(buckets.values()) == sorted(buckets.values())
    assert buckets[inf] == len(numbers)
    for bound, count in buckets.items():
        least, most = (sum(n <= bound * share for n in numbers) for share in (0.96, 1.04))
        assert least <= count <= most


def test_an_accumulator_without_buckets_is_a_summary() -> None:
    readings = [Reading("accumulated", ("o", "x", "0"), Accumulated(3, 6.0, 1.0, 3.0))]
    found = parsed(msgspec.structs.replace(SHOWN, readings=readings))
    assert [s.value for s in found["rheos_accumulated_sum_only"].samples] == [3, 6]


def test_every_metric_can_be_exported() -> None:
    readings = [
        Reading(
            metric.name,
            tuple("0" for _ in metric.scope.labels),
            Accumulated(1, 1.0, 1.0, 1.0, {16: 1}) if metric.kind is Kind.HISTOGRAM else 1,
        )
        for metric in METRICS.values()
    ]
    found = parsed(msgspec.structs.replace(SHOWN, readings=readings))
    assert found.keys() == {f"rheos_{name}" for name in METRICS}


def test_metrics_are_served_on_loopback_by_default() -> None:
    port = MetricsPort("0", lambda: [SHOWN])
    try:
        assert port.url.startswith("http://127.0.0.1:")
        with urlopen(port.url, timeout=10) as answer:
            text = answer.read().decode()
        with pytest.raises(ConfigurationError, match="cannot listen at"):
            MetricsPort(port.url.split("/")[2], lambda: [])
    finally:
        port.close()
    assert "rheos_rows_in_total" in {
        s.name for family in text_string_to_metric_families(text) for s in family.samples
    }


@pytest.mark.parametrize("where", ["", "x", "127.0.0.1", "1:99999", "-1"])
def test_an_invalid_address_is_refused(where: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an address to listen at"):
        MetricsPort(where, lambda: [])
