"""SQL over results that keep the event time of what produced them, or that name its column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SLOT = timedelta(minutes=15)


@dataclass
class Reading:
    meter: str
    at: datetime
    kwh: float


@dataclass
class Slot:
    meter: str
    begins: datetime
    kwh: float


READINGS = [
    Reading(meter, NOON + timedelta(minutes=minute), kwh)
    for meter, minute, kwh in [
        ("b", 0, 8.0),
        ("a", 1, 1.0),
        ("a", 17, 2.0),
        ("a", 16, 3.0),
        ("b", 31, 8.0),
        ("a", 62, 4.0),
    ]
]


class Filled(rh.KeyedProcessFunction):
    """The sum of each quarter of an hour. Quarters without readings between others have 0."""

    begins = rh.ValueState(datetime | None, default=None)
    kwh = rh.ValueState(float, default=0.0)

    def process_element(self, reading: Reading, ctx: rh.KeyedContext) -> Iterator[Slot]:
        slot = reading.at - (reading.at - datetime.min.replace(tzinfo=UTC)) % SLOT
        while self.begins.value is not None and self.begins.value < slot:
            yield Slot(reading.meter, self.begins.value, self.kwh.value)
            self.begins.value += SLOT
            self.kwh.value = 0.0
        self.begins.value = slot
        self.kwh.value += reading.kwh


def readings(env: rh.Environment) -> rh.DataStream:
    watermark = rh.Watermark.bounded_out_of_orderness("5m", on="at")
    return env.from_source(rh.collection(READINGS), watermark=watermark, name="readings")


def quarters(env: rh.Environment) -> rh.DataStream:
    filled = readings(env).key_by("meter").process(Filled(), order="event_time")
    # The reading that completes a quarter may come an hour after it.
    return filled.with_event_time(rh.Watermark.bounded_out_of_orderness("2h", on="begins"))


def run(env: rh.Environment, text: str) -> list[dict[str, Any]]:
    env.sql(text).collect("rows")
    found: pa.Table = env.execute("job").collected["rows"]
    return sorted(found.to_pylist(), key=repr)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_filled_gaps_are_compared_with_the_quarter_before(parallelism: int) -> None:
    env = rh.Environment(parallelism, runtime="simulated")
    env.register("quarters", quarters(env))
    found = run(
        env,
        "SELECT meter, begins, kwh - LAG(kwh) OVER (PARTITION BY meter ORDER BY begins) AS more "
        "FROM quarters",
    )
    at = [NOON + n * SLOT for n in range(4)]
    assert found == [
        {"meter": "a", "begins": at[0], "more": None},
        {"meter": "a", "begins": at[1], "more": 4.0},
        {"meter": "a", "begins": at[2], "more": -5.0},
        {"meter": "a", "begins": at[3], "more": 0.0},
        {"meter": "b", "begins": at[0], "more": None},
        {"meter": "b", "begins": at[1], "more": -8.0},
    ]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_features_of_the_last_hour_are_the_versions_of_a_table(parallelism: int) -> None:
    env = rh.Environment(parallelism, runtime="simulated")
    env.register("readings", readings(env))
    env.register(
        "features",
        env.sql(
            "SELECT meter, at AS since, SUM(kwh) OVER (PARTITION BY meter ORDER BY at "
            "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS recent FROM readings"
        ),
    )
    found = run(
        env,
        "SELECT r.meter, r.at, f.recent FROM readings r LEFT JOIN features "
        "FOR SYSTEM_TIME AS OF r.at AS f ON r.meter = f.meter",
    )
    minutes = {
        (row["meter"], (row["at"] - NOON) // timedelta(minutes=1)): row["recent"] for row in found
    }
    assert minutes == {
        ("a", 1): 1.0,
        ("a", 16): 4.0,
        ("a", 17): 6.0,
        ("a", 62): 9.0,
        ("b", 0): 8.0,
        ("b", 31): 16.0,
    }


def test_a_window_of_windows_goes_by_the_time_of_a_view() -> None:
    env = rh.Environment(2, runtime="simulated")
    env.register("readings", readings(env))
    env.register(
        "minutes",
        env.sql(
            "SELECT meter, window_time AS ended, SUM(kwh) AS kwh FROM TABLE(TUMBLE(TABLE readings, "
            "DESCRIPTOR(at), INTERVAL '1' MINUTE)) "
            "GROUP BY meter, window_start, window_end, window_time"
        ),
    )
    found = run(
        env,
        "SELECT window_start, SUM(kwh) AS kwh FROM TABLE(TUMBLE(TABLE minutes, DESCRIPTOR(ended), "
        "INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
    )
    assert found == [
        {"window_start": NOON, "kwh": 22.0},
        {"window_start": NOON + timedelta(hours=1), "kwh": 4.0},
    ]


def test_results_whose_time_has_no_column_name_the_way() -> None:
    env = rh.Environment(1, runtime="simulated")
    env.register("slots", readings(env).key_by("meter").process(Filled(), order="event_time"))
    with pytest.raises(rh.ProgramError, match=r"name its column: \.with_event_time"):
        env.sql("SELECT meter, LAG(kwh) OVER (PARTITION BY meter ORDER BY begins) AS before FROM slots")
