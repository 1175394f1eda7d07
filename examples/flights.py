"""Delays at New York's airports: January 2013, replayed in the order in which the planes left.

Event time is the *scheduled* departure: a delayed flight is out of order, a very delayed one is late.

    rheos run examples/flights.py              the month in about a minute, while you watch
    python examples/flights.py --speed max     as fast as it can be read
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

import rheos as rh

DATA = Path(__file__).parent / "data/flights-2013-01.parquet"
MINUTE = 60_000


@dataclass
class Alert:
    origin: str
    at: datetime
    alert: str


class Disruption(rh.KeyedProcessFunction):
    """Alerts at the third very late departure within half an hour, until none came for an hour."""

    recent = rh.ListState(int)
    quiet_at = rh.ValueState(int, default=0)  # When to clear the alert; 0 where there is none.

    def process_element(self, flight, ctx: rh.KeyedContext) -> Iterator[Alert]:
        self.recent.replace([t for t in self.recent if t > ctx.timestamp - 30 * MINUTE])
        self.recent.append(ctx.timestamp)
        if not self.quiet_at.value and len(self.recent) >= 3:
            yield Alert(flight.origin, flight.scheduled_at, "raised")
        if self.quiet_at.value or len(self.recent) >= 3:
            self.quiet_at.value = ctx.timestamp + 60 * MINUTE
            ctx.timers.register(self.quiet_at.value)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Alert]:
        if timestamp == self.quiet_at.value:
            self.quiet_at.clear()
            yield Alert(ctx.key, datetime.fromtimestamp(timestamp / 1000, UTC), "cleared")


cli = ArgumentParser()
cli.add_argument("--speed", default="44000x", help='how much faster than it happened, or "max"')
cli.add_argument("--out", type=Path, default=Path(f"out/flights-{datetime.now():%Y%m%d-%H%M%S}"))
cli.add_argument("--runtime", default="continuous", choices=["continuous", "batch"])
cli.add_argument("--parallelism", type=int, default=2)
said = cli.parse_args()

env = rh.Environment(said.parallelism, runtime=said.runtime)
departures = env.from_source(
    rh.files.source(DATA, schema=pq.read_schema(DATA), replay=rh.Replay("departed_at", said.speed)),
    watermark=rh.Watermark.bounded_out_of_orderness("3h", on="scheduled_at"),
)
delays = (
    departures.key_by("origin")
    .window(rh.Sliding("1h", every="10m"))
    .aggregate(
        departures=rh.agg.count(),
        mean_delay=rh.agg.mean("delay_minutes"),
        p95_delay=rh.agg.quantile("delay_minutes", 0.95),
    )
)
very_late = departures.filter(rh.col("delay_minutes") > 60)
alerts = very_late.key_by("origin").process(Disruption(), order="event_time")
found = {"windows": delays, "late": delays.side_output("late"), "alerts": alerts}
for name, stream in found.items():
    stream.sink_to(rh.files.sink(said.out / name), name=name)
env.execute("flights")
for name in found:
    print(f"{pq.read_table(said.out / name).num_rows:8,} {name:8} in {said.out / name}")
