"""Temporal filters: rows that pass `now() <= ts + ...` only for some time, in event time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.api.settings import RuntimeName

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


ROWS = pa.table(
    {
        "k": ["a", "b", "c", "b", "d"],
        "at": pa.array([_at(0), _at(5), _at(3), _at(5), _at(70)], pa.timestamp("us", "UTC")),
        "expires": pa.array([_at(10), _at(20), None, _at(20), _at(69)], pa.timestamp("us", "UTC")),
    }
)


def _environment(runtime: RuntimeName = "simulated", parallelism: int = 1) -> rh.Environment:
    env = rh.Environment(runtime=runtime, parallelism=parallelism)
    watermark = rh.Watermark.bounded_out_of_orderness("5m", on="at")
    env.register("events", env.from_source(rh.collection(ROWS), watermark=watermark, name="events"))
    return env


def _changes(env: rh.Environment, query: str, dialect: Any = None) -> list[str]:
    """Return the changes of a query: +a for an insertion, -a for a deletion."""
    env.sql(query, dialect=dialect).collect("found")
    found = env.execute("temporal").collected["found"].to_pylist()
    return [("-" if row.get("op") == "delete" else "+") + row["k"] for row in found]


THIRTY = "+a +c +b +b -a -c -b -b +d -d"


@pytest.mark.parametrize(
    ("condition", "changes"),
    [
        ("now() <= at + INTERVAL '30' MINUTES", THIRTY),
        ("at >= now() - INTERVAL '30' MINUTES", THIRTY),
        ("mz_now() < at + INTERVAL '31' MINUTES - INTERVAL '1' MINUTE", THIRTY),
        ("at > (now() + INTERVAL '1' MINUTE) - INTERVAL '31' MINUTES", THIRTY),
        ("CURRENT_TIMESTAMP < at + INTERVAL '2' MINUTES", "+a -a +c +b +b -c -b -b +d -d"),
        ("now() BETWEEN at + INTERVAL '4' MINUTES AND expires", "+a +b +b -a -b -b"),
        ("now() < expires AND k <> 'a'", "+b +b -b -b"),
        ("now() <= expires AND now() < at + INTERVAL '7' MINUTES", "+a +b +b -a -b -b"),
        (
            "now() <= at + INTERVAL '1' MONTH AND now() > '2026-01-01 12:04:00'",
            "+a +c +b +b +d -a -c -b -b -d",
        ),
        # A row appears at its own event time at the earliest, and moments are exact.
        ("now() < at", ""),
        ("now() <= at AND k = 'c'", "+c -c"),
        ("now() > at AND now() < at + INTERVAL '0.001' SECOND", ""),
        ("now() > at AND now() <= at + INTERVAL '0.001' SECOND AND k = 'c'", "+c -c"),
        ("now() < at + INTERVAL '0.000001' SECOND AND k = 'c'", "+c -c"),
        # Without an end, rows are only added.
        ("now() >= at + INTERVAL '10' MINUTES", "+a +c +b +b +d"),
        ("now() >= expires", "+a +b +b +d"),
    ],
)
def test_rows_appear_and_are_retracted_as_event_time_passes(condition: str, changes: str) -> None:
    found = _changes(_environment(), f"SELECT k FROM events WHERE {condition}")
    assert " ".join(found) == changes


def test_a_filter_of_postgresql_and_groups_over_the_rows() -> None:
    env = _environment()
    recent = "SELECT k FROM events WHERE now() <= at + INTERVAL '30 minutes'"
    assert " ".join(_changes(env, recent, "postgres")) == THIRTY
    env = _environment()
    env.sql(f"SELECT COUNT(*) AS n FROM ({recent})", dialect="postgres").collect("n")
    counts = env.execute("counts").collected["n"].to_pylist()
    added = [row["n"] for row in counts if row["op"] in ("insert", "update_after")]
    assert added == [1, 2, 3, 4, 3, 2, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT k FROM events WHERE now() = at", "can only be compared with a moment"),
        ("SELECT k FROM events WHERE now() < at OR k = 'a'", "can only be compared with a moment"),
        ("SELECT k FROM events WHERE NOT now() < at", "can only be compared with a moment"),
        ("SELECT k FROM events WHERE now() < now()", "can only be compared with a moment"),
        ("SELECT k FROM events WHERE at BETWEEN expires AND now()", "one side of this BETWEEN"),
        ("SELECT k FROM events WHERE now() - INTERVAL '1' MONTH < at", "no fixed length"),
        ("SELECT k FROM events WHERE now() > k", "is compared with a DATE or TIMESTAMP"),
        ("SELECT k FROM (SELECT k, expires FROM events) WHERE now() < expires", "these rows lack it"),
        (
            "SELECT k FROM (SELECT k, MAX(at) AS at FROM events GROUP BY k) WHERE now() < at",
            "takes append-only rows",
        ),
        (
            "SELECT k, k AS op FROM events WHERE k IN (SELECT k FROM events WHERE now() = at)",
            "can only",
        ),
        ("SELECT now() AS v FROM events", "would return other values after a failure"),
    ],
)
def test_other_uses_of_now_are_refused_at_their_place(query: str, words: str) -> None:
    with pytest.raises(rh.RheosError) as raised:
        _environment().sql(query)
    assert words in str(raised.value)
    assert "^" in str(raised.value)


@pytest.mark.spark
def test_a_batch_has_the_same_changes() -> None:
    query = "SELECT k FROM events WHERE now() BETWEEN at + INTERVAL '4' MINUTES AND expires"
    found = _changes(_environment("batch", 2), query)
    for k in ("a", "b"):
        of_key = [each for each in found if each[1] == k]
        assert of_key == [each for each in ["+a", "+b", "+b", "-a", "-b", "-b"] if each[1] == k]
