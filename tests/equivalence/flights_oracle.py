"""The correct result of examples/flights.py, computed from the Parquet file by Polars and plain Python.

It shares no code with Rheos. Three rules decide everything:

- Before a departure, the watermark is the latest schedule of the earlier departures in the file, minus
the bound and one ms. Before the first departure there is no watermark.
- A departure is late for a window whose last ms is at or before that watermark. It counts in the
windows that it is not late for. If it is late for all of them, it is a *late flight*.
- The alerts see departures in the order of their schedule, without those scheduled at or before the
watermark that they met.

    python -m tests.equivalence.flights_oracle      prints the three tables
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import polars as pl

DATA = Path(__file__).parents[2] / "examples" / "data" / "flights-2013-01.parquet"

BOUND = timedelta(hours=3)
SIZE = timedelta(hours=1)
EVERY = timedelta(minutes=10)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def departures() -> pl.DataFrame:
    """Return the rows of the file, each with its time and the watermark before it, in ms."""
    ts = pl.col("scheduled_at").dt.epoch("ms")
    return pl.read_parquet(DATA).with_columns(ts=ts, watermark=ts.cum_max().shift(1) - _ms(BOUND) - 1)


def per_window() -> pl.DataFrame:
    """Yield each departure once per window that contains it, and whether it is late for that window."""
    last_start = pl.col("ts") // _ms(EVERY) * _ms(EVERY)
    starts = [last_start - k * _ms(EVERY) for k in range(SIZE // EVERY)]
    return (
        departures()
        .with_row_index("row")
        .with_columns(start=pl.concat_list(starts))
        .explode("start")
        .with_columns(end=pl.col("start") + _ms(SIZE))
        .with_columns(late=(pl.col("end") - 1 <= pl.col("watermark")).fill_null(value=False))
    )


def windows() -> pl.DataFrame:
    """Return departures, mean and 95th percentile of the delay, per airport and window."""
    return (
        per_window()
        .filter(~pl.col("late"))
        .group_by("origin", "start", "end")
        .agg(
            departures=pl.len().cast(pl.Int64),
            mean_delay=pl.col("delay_minutes").mean(),
            p95_delay=pl.col("delay_minutes").quantile(0.95, interpolation="linear"),
        )
        .select(
            "origin",
            _time("start").alias("window_start"),
            _time("end").alias("window_end"),
            "departures",
            "mean_delay",
            "p95_delay",
        )
        .sort("origin", "window_start")
    )


def late() -> pl.DataFrame:
    """Return the departures that are late for all their windows, in the order of the file."""
    rows = per_window().group_by("row").agg(pl.col("late").all()).filter("late")["row"]
    return (
        departures()
        .with_row_index("row")
        .filter(pl.col("row").is_in(rows.implode()))
        .drop("row", "ts", "watermark")
    )


def alerts() -> pl.DataFrame:
    """Return the alerts of airports: raised by the third departure over an hour late in half an hour,
    cleared when no such departure arrived for an hour."""
    in_time = departures().filter((pl.col("ts") > pl.col("watermark")).fill_null(value=True))
    very_late = in_time.filter(pl.col("delay_minutes") > 60)
    found = []
    for origin in very_late["origin"].unique().sort():
        times = sorted(very_late.filter(pl.col("origin") == origin)["ts"])
        up_since = None
        for i, ts in enumerate(times):
            if up_since is None:
                in_half_an_hour = [t for t in times[: i + 1] if t > ts - 30 * MINUTE_MS]
                if len(in_half_an_hour) >= 3:
                    up_since = ts
                    found.append((origin, ts, "raised"))
            following = times[i + 1] if i + 1 < len(times) else None
            quiet = following is None or following > ts + HOUR_MS
            if up_since is not None and quiet:
                up_since = None
                found.append((origin, ts + HOUR_MS, "cleared"))
    schema = {"origin": pl.String, "at": pl.Int64, "alert": pl.String}
    return (
        pl.DataFrame(found, schema=schema, orient="row")
        .with_columns(_time("at"))
        .sort("origin", "at", "alert")
    )


def _ms(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)


def _time(column: str) -> pl.Expr:
    return pl.from_epoch(pl.col(column), "ms").dt.replace_time_zone("UTC")


if __name__ == "__main__":
    for table in (windows(), late(), alerts()):
        print(table)
