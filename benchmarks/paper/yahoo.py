"""The Yahoo streaming benchmark: views of ads by campaign in windows of ten seconds, kept in Redis.

Three runs: a topic that is full already, as fast as it goes; a topic that fills at a rate, for the
latency, which the benchmark defines as the time from a window's end to its last update; and the events
made inside the job, as the paper's authors did. All counts are held against the generator's own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import rheos as rh
from benchmarks.paper import yahoo_spark
from benchmarks.paper.ads import SCHEMA, Counts, Pace, columns, counted, judge
from benchmarks.paper.clock import ClockWatch
from benchmarks.paper.committed import make_topics
from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.plots import SPARK as ORANGE
from benchmarks.paper.plots import Plots, legend, panels, titled
from benchmarks.paper.structured_streaming import session
from benchmarks.paper.tables import digits, millions, ratio_of, sections, spread, table, values
from benchmarks.paper.yahoo_program import into_redis, views_by_campaign
from benchmarks.paper.yahoo_redis import LastUpdates, connect, read_counts
from rheos.cli.benchmarks.measured_connectors import SOURCE, MeasuredSource
from rheos.cli.benchmarks.recorder import SLICE_NS, read_slices
from rheos.runtimes.job import JobState
from rheos.testing.servers import KafkaBroker, RedisServer

CORES = 2
PARTITIONS = 4
LIVE_RATE = 60_000
"""Events a second, at which latency is measured."""
FULL_EVENTS = 5_000_000
MADE_BLOCKS = 1_800
"""That each of the generator's splits makes inside the job."""
BLOCK_ROWS = 16_384
MADE_RATE = 3_000_000
"""At which events that are made inside the job happen; they are made as fast as they are taken."""
OUT_WITHIN_S = 60.0

FULL, LIVE, INSIDE = "a full topic", "a topic that fills", "made inside the job"


@dataclass(frozen=True)
class Made:
    """The events, made inside the job: the splits take turns, a block of each."""

    pace: Pace

    def __call__(self, block: rh.Block) -> dict[str, Any]:
        before = block.start // BLOCK_ROWS * block.splits + block.split
        return columns(before * BLOCK_ROWS, block.rows, self.pace)

    def source(self, blocks: int) -> Any:
        return rh.generator(
            self, count=blocks * CORES * BLOCK_ROWS, splits=CORES, schema=SCHEMA, block_rows=BLOCK_ROWS
        )


class Bench:
    """What the runs share: the session, the broker, the Redis."""

    def __init__(self, options: Options, brokers: str, url: str) -> None:
        self.options = options
        self.brokers = brokers
        self.url = url
        self.spark = session(CORES + 1, kafka=True)
        self.redis = connect(url)
        self.runs: list[dict[str, Any]] = []

    def run(self, what: str, systems: dict[str, Callable[[], dict[str, Any]]]) -> None:
        """Measure all systems in turns. A run begins with an empty Redis."""

        def measure(cell: Cell) -> dict[str, Any]:
            self.redis.flushdb()
            return systems[cell["system"]]()

        cells = [{"run": what, "system": system} for system in systems]
        self.runs += in_turns(self.options, cells, measure)

    # --- a full topic ------------------------------------------------------------------------------

    def full(self) -> None:
        events = FULL_EVENTS // 20 if self.options.quick else FULL_EVENTS
        made = self._produce("full", LIVE_RATE, events)
        expected = counted(events, Pace(made["began_ms"], LIVE_RATE))

        def rheos() -> dict[str, Any]:
            source = rh.kafka.source("full", end="latest", **self._reads())
            rate = self._to_the_end(source)
            return {"events_per_s": rate, **self._judged(expected, events)}

        def spark() -> dict[str, Any]:
            batch = max(events // 5, 1)
            query = self._query("full", rows_per_batch=batch)
            query.awaitTermination()
            return {"events_per_s": yahoo_spark.rate_per_s(query), **self._judged(expected, events)}

        self.run(FULL, {RHEOS: rheos, SPARK: spark})

    def inside(self) -> None:
        blocks = MADE_BLOCKS // 20 if self.options.quick else MADE_BLOCKS
        pace, events = Pace(int(time.time() * 1000), MADE_RATE), blocks * CORES * BLOCK_ROWS
        expected = counted(events, pace)

        def rheos() -> dict[str, Any]:
            source = Made(pace).source(blocks)
            return {"events_per_s": self._to_the_end(source), **self._judged(expected, events)}

        self.run(INSIDE, {RHEOS: rheos})

    def _to_the_end(self, source: Any) -> float:
        """Events a second, from a second after both sources give rows to the end."""
        with tempfile.TemporaryDirectory(prefix="rheos-yahoo-") as measures:
            job = self._job(MeasuredSource(source, measures))
            job.wait()
            rows = Counter[int]()
            for slices in read_slices(measures, SOURCE):
                for each in slices:
                    rows[each.number] += each.rows
        first = min(rows) + 10**9 // SLICE_NS
        steady = {number: n for number, n in rows.items() if number >= first} or rows
        return sum(steady.values()) / ((max(steady) - min(steady) + 1) * SLICE_NS / 1e9)

    # --- a topic that fills ------------------------------------------------------------------------

    def live(self) -> None:
        rate = LIVE_RATE // 10 if self.options.quick else LIVE_RATE
        seconds = 22 if self.options.quick else max(5 * self.options.seconds, 42)
        numbers = count()

        def measure(start: Callable[[str], Callable[[], None]]) -> dict[str, Any]:
            topic = f"live-{next(numbers)}"
            make_topics(self.brokers, {topic: PARTITIONS})
            return self._live(topic, start, rate, int(rate * seconds))

        starts = {RHEOS: self._live_rheos, SPARK: self._live_spark}
        self.run(LIVE, {system: partial(measure, start) for system, start in starts.items()})

    def _live(self, topic: str, start: Any, rate: int, events: int) -> dict[str, Any]:
        stop, clock = start(topic), ClockWatch()
        try:
            with closing(connect(self.url)) as redis, LastUpdates(redis) as updates:
                made = self._produce(topic, rate, events, live=True)
                expected = counted(events, Pace(made["began_ms"], rate))
                views, give_up = sum(expected.values()), time.monotonic() + OUT_WITHIN_S
                while sum(read_counts(self.redis).values()) < views and time.monotonic() < give_up:
                    time.sleep(0.2)
        finally:
            stop()
        began_ms = made["began_ms"]
        sent_ms, end_ms = _sent_ms(made), began_ms + events * 1000 // rate

        def all_sent_ms(window_end: int) -> float:
            return sent_ms((window_end - began_ms) * rate // 1000)

        late, too_late = updates.latencies_ms(began_ms, end_ms, expected, all_sent_ms)
        behind = [all_sent_ms(at) - at for at in range(began_ms + 1000, end_ms, 1000)]
        quantiles = np.percentile(late, [50, 99, 100]).tolist() if late else [None] * 3
        p50, p99, most = (None if each is None else round(each) for each in quantiles)
        return {
            "rate_per_s": rate,
            "latency_ms": {"p50": p50, "p99": p99, "max": most},
            "producer_behind_ms": {"p50": round(median(behind)), "max": round(max(behind))},
            "windows_measured": len(late),
            "windows_later_than_watched": too_late,
            "clock_moved_ms": clock.moved_ms(),
            "sorted_ms": [round(each) for each in sorted(late)],
            **self._judged(expected, events),
        }

    def _live_rheos(self, topic: str) -> Callable[[], None]:
        job = self._job(rh.kafka.source(topic, discover=None, **self._reads()))

        def stop() -> None:
            if job.status().state is JobState.RUNNING:
                job.cancel()
            else:
                job.wait()  # It raises what has ended the job.

        # Its first checkpoint says that all of its workers are at work.
        waiting = (JobState.STARTING, JobState.RUNNING)
        while job.status().checkpoints_completed == 0 and job.status().state in waiting:
            time.sleep(0.1)
        return stop

    def _live_spark(self, topic: str) -> Callable[[], None]:
        query = self._query(topic)
        while not query.recentProgress:
            time.sleep(0.1)
        return query.stop

    # --- what they share ---------------------------------------------------------------------------

    def _reads(self) -> dict[str, Any]:
        return {"brokers": self.brokers, "schema": SCHEMA, "format": rh.formats.json()}

    def _job(self, source: Any) -> rh.JobHandle:
        env = rh.Environment(CORES, runtime="continuous", spark=self.spark, checkpoint_interval="1s")
        into_redis(views_by_campaign(env.from_source(source, name="events")), self.url)
        return env.execute_async("yahoo")

    def _query(self, topic: str, rows_per_batch: int | None = None) -> Any:
        return yahoo_spark.start(
            self.spark, self.brokers, topic, self.url, parallelism=CORES, rows_per_batch=rows_per_batch
        )

    def _produce(self, topic: str, rate: float, events: int, live: bool = False) -> dict[str, Any]:
        """Runs a producer to its end, and gives its record."""
        if not live:
            make_topics(self.brokers, {topic: PARTITIONS})
        with tempfile.TemporaryDirectory(prefix="rheos-yahoo-") as folder:
            record = Path(folder, "record.json")
            command = [sys.executable, "-m", "benchmarks.paper.producer", "ads", self.brokers, topic]
            options = ["--partitions", str(PARTITIONS), "--rate", str(rate), "--count", str(events)]
            at_once = [] if live else ["--at-once"]
            subprocess.run(
                [*command, str(record), *options, *at_once], check=True, stdout=subprocess.DEVNULL
            )
            made: dict[str, Any] = json.loads(record.read_text())
            return made

    def _judged(self, expected: Counts, events: int) -> dict[str, Any]:
        verdict = judge(read_counts(self.redis), expected, events)
        return {"ok": verdict.ok, **asdict(verdict)}


def _sent_ms(made: dict[str, Any]) -> Callable[[int], float]:
    """When so many events had been sent: up to a tenth of a second early."""
    at, sent = zip(*((int(at), n) for at, n in made["per_100ms"].items()), strict=True)
    so_far = np.cumsum(sent)

    def when(events: int) -> float:
        place = min(int(np.searchsorted(so_far, events)), len(at) - 1)
        return float(made["began_ms"] + at[place] * 100)

    return when


def run(options: Options) -> dict[str, Any]:
    with KafkaBroker() as broker, RedisServer() as redis:
        bench = Bench(options, broker.address, redis.url)
        bench.full()
        bench.live()
        bench.inside()
        return {"runs": bench.runs}


# --- what is shown --------------------------------------------------------------------------------


def show(results: dict[str, Any], plots: Plots) -> str:
    runs = results["runs"]
    figure, (axes,) = panels(1, height=2.6)
    for system, colour in ((RHEOS, BLUE), (SPARK, ORANGE)):
        late = sorted(ms for each in where(runs, run=LIVE, system=system) for ms in each["sorted_ms"])
        share = [100 * (at + 1) / len(late) for at in range(len(late))]
        axes.plot(late, share, color=colour, label=system)
    titled(axes, "From a window's end to its last update", "ms", "% of campaigns and windows")
    axes.set_xlim(left=0)
    legend(figure)
    alt = "The share of campaigns and windows that have had their last update, by the time since"
    drawn = plots.save(figure, "yahoo", alt)
    heads = (
        "", "", "events a second", "p50 ms", "p99 ms", "producer behind, ms", "events", "windows",
        "wrong windows",
    )  # fmt: skip
    wrong = sum(each["wrong"] for each in runs)
    is_right = "Every count is the generator's own." if not wrong else f"{wrong:,} counts are wrong."
    cells = [
        of
        for what in (FULL, LIVE, INSIDE)
        for system in (RHEOS, SPARK)
        if (of := where(runs, run=what, system=system))
    ]
    ours, theirs = (where(runs, run=FULL, system=system) for system in (RHEOS, SPARK))
    says = is_right
    if faster := ratio_of(ours, theirs, "events_per_s"):
        says += f" Through Kafka Rheos counts {faster} times the events a second."
    return sections(drawn, table(heads, map(_row, cells)), says)


def _row(runs: list[dict[str, Any]]) -> tuple[str, ...]:
    first = runs[0]
    rate = spread(runs, "events_per_s", millions) or f"{millions(first['rate_per_s'])} sent"
    quantiles = (spread(runs, f"latency_ms.{name}") for name in ("p50", "p99"))
    behind = digits(max(values(runs, "producer_behind_ms.max"), default=None))
    counts = (f"{first[name]:,}" for name in ("events", "windows"))
    wrong = f"{sum(run['wrong'] for run in runs):,}"
    return (first["run"], first["system"], rate, *quantiles, behind, *counts, wrong)


EXPERIMENT = Experiment(
    name="yahoo",
    about="the Yahoo streaming benchmark, through Kafka and with the generator inside, into Redis",
    run=run,
    show=show,
)
