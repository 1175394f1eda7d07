"""Visits of a made-up site, as JSON for a topic, and what is exactly right to find in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

BEGIN_MS = 1_700_000_000_000 // 3_600_000 * 3_600_000
HOURS = 6
HOUR_MS = 3_600_000
LATE_MS = 30_000
"""How far a visit may come behind one that was later."""
GAP_MS = 10 * 60_000
COUNTRIES = (
    "at",
    "br",
    "cn",
    "de",
    "eg",
    "fr",
    "in",
    "it",
    "jp",
    "ke",
    "mx",
    "ng",
    "pl",
    "se",
    "us",
    "za",
)
LAST = "end"
"""The country of one more record, a day behind all others: it moves event time past all windows."""
_CHUNK = 100_000


@dataclass(frozen=True)
class Visits:
    count: int
    users: int
    seed: int = 0

    def frame(self) -> pl.DataFrame:
        """All visits in the order in which they come: their event times are out of order by LATE_MS
        at the most."""
        rng = np.random.default_rng(self.seed)
        order = np.linspace(0, HOURS * HOUR_MS - LATE_MS - 1, self.count).astype(np.int64)
        at = BEGIN_MS + order + rng.integers(0, LATE_MS, self.count)
        return pl.DataFrame(
            {
                "user": rng.integers(0, self.users, self.count),
                "country": np.array(COUNTRIES)[rng.zipf(1.6, self.count) % len(COUNTRIES)],
                "page": rng.integers(0, 500, self.count),
                # A gap is no multiple of 7 ms: no two visits are just a gap apart, where one engine
                # sees one session, and another two.
                "at": at // 7 * 7,
            }
        )

    def values(self) -> Iterator[list[bytes]]:
        """The records' values, in chunks."""
        end = {"user": [-1], "country": [LAST], "page": [0], "at": [BEGIN_MS + (HOURS + 24) * HOUR_MS]}
        frame = self.frame()
        frame = pl.concat([frame, pl.DataFrame(end, schema=frame.schema)])
        for chunk in frame.iter_slices(_CHUNK):
            made = chunk.select(pl.struct(pl.all()).struct.json_encode().alias("value"))
            yield made["value"].cast(pl.Binary).to_list()


def hits(visits: pl.DataFrame) -> pl.DataFrame:
    """Visits and visitors per country and hour: country, start (ms), hits, visitors."""
    start = (pl.col("at") // HOUR_MS * HOUR_MS).alias("start")
    return visits.group_by("country", start).agg(
        pl.len().cast(pl.Int64).alias("hits"),
        pl.col("user").n_unique().cast(pl.Int64).alias("visitors"),
    )


def sessions(visits: pl.DataFrame) -> pl.DataFrame:
    """Visits per user and session: user, start (ms), end (ms, a gap behind the last visit), hits."""
    in_order = visits.sort("user", "at").with_columns(
        (pl.col("at").diff().over("user") > GAP_MS)
        .fill_null(False)
        .cum_sum()
        .over("user")
        .alias("session")
    )
    return (
        in_order.group_by("user", "session")
        .agg(
            pl.col("at").min().alias("start"),
            (pl.col("at").max() + GAP_MS).alias("end"),
            pl.len().cast(pl.Int64).alias("hits"),
        )
        .drop("session")
    )


def wrong_rows(found: pl.DataFrame, right: pl.DataFrame) -> int:
    """How many rows are in one of them alone, each as often as it is there."""
    columns = right.columns
    sides = [
        side.select(pl.col(name).cast(right.schema[name]) for name in columns).with_columns(by=by)
        for side, by in ((found, pl.lit(1)), (right, pl.lit(-1)))
    ]
    return int(pl.concat(sides).group_by(columns).agg(pl.col("by").sum().abs())["by"].sum())
