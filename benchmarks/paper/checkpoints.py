"""What checkpoints cost: by their interval, and by the size of the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK, bench
from benchmarks.paper.plots import FLINK, Plots, legend, panels, titled
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.published import CHECKPOINT_COST
from benchmarks.paper.tables import (
    change_of,
    digits,
    millions,
    percent,
    sections,
    spread,
    table,
)
from rheos.cli.benchmarks.intervals import Interval, change_text

CORES = 2
BYTES_PER_KEY = 24
"""A key, a count and a sum, of 8 bytes each."""

SIZES_MB = (1, 10, 100, 1000)
INTERVALS_S = (None, 30, 5, 1)
BY_INTERVAL_MB = 10
BY_SIZE_S = 5
SPARK_SIZES_MB = (1, 10, 100)
"""Filling 1 GB takes too long."""
SPARK_ROWS_PER_BATCH = 5_000_000
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def keys_of(size_mb: int) -> int:
    return size_mb * 1_000_000 // BYTES_PER_KEY


def run(options: Options) -> dict[str, Any]:
    from benchmarks.paper import structured_streaming

    spark = structured_streaming.session(CORES + 1)

    def measure(cell: Cell) -> dict[str, Any]:
        keys, interval_s = keys_of(cell["size_mb"]), cell["interval_s"]
        if cell["engine"] == RHEOS:
            # Whole intervals are measured, and the state is filled before: its keys come at random.
            seconds = options.seconds
            if not options.quick and interval_s:
                seconds = max(seconds // interval_s, 1) * interval_s
            given = replace(options, seconds=seconds)
            warmup_s = options.warmup_s + keys / 1_500_000
            interval = None if interval_s is None else f"{interval_s}s"
            return bench(
                "grouping",
                given,
                parallelism=CORES,
                keys=keys,
                checkpoint_interval=interval,
                warmup_s=warmup_s,
            )
        numbers = structured_streaming.made_up(spark, SPARK_ROWS_PER_BATCH, CORES)
        done = structured_streaming.measure(
            spark,
            structured_streaming.totals(numbers, keys),
            mode="update",
            partitions=CORES,
            warmup_s=options.warmup_s,
            seconds=options.seconds,
            settings=ROCKSDB,
        )
        return done.measurements(CORES)

    sizes = (1, 10) if options.quick else SIZES_MB
    pairs = {(size, interval) for size in sizes for interval in (None, BY_SIZE_S)}
    pairs |= {(BY_INTERVAL_MB, each) for each in ((None, 1) if options.quick else INTERVALS_S)}
    cells: list[Cell] = [
        {"engine": RHEOS, "size_mb": size, "interval_s": interval}
        for size, interval in sorted(pairs, key=lambda pair: (pair[0], pair[1] or 0))
    ]
    cells += [
        {"engine": SPARK, "size_mb": size, "interval_s": None}
        for size in ((1,) if options.quick else SPARK_SIZES_MB)
    ]
    return {"cores": CORES, "runs": in_turns(options, cells, measure)}


Costs = Sequence[tuple[str, Interval | None]]
"""Names of cells, and the shares of the rate that they lose."""


def show(results: dict[str, Any], plots: Plots) -> str:
    ours = where(results["runs"], engine=RHEOS)
    spark = where(results["runs"], engine=SPARK)

    def of(size: int, interval: int | None) -> list[dict[str, Any]]:
        return where(ours, size_mb=size, interval_s=interval)

    def cost(size: int, interval: int) -> Interval | None:
        """Return the share of the rate that checkpoints take."""
        found = change_of(of(size, interval), of(size, None), "records_per_s")
        return None if found is None else found.map(lambda more: -more)

    sizes = sorted({run["size_mb"] for run in ours if run["interval_s"] == BY_SIZE_S})
    intervals = sorted({run["interval_s"] for run in where(ours, size_mb=BY_INTERVAL_MB)} - {None})
    drawn = _drawn(
        [(str(each), cost(BY_INTERVAL_MB, each)) for each in intervals],
        [(f"{each:,}", cost(each, BY_SIZE_S)) for each in sizes],
        plots,
    )
    shares = {run["size_mb"]: where(spark, size_mb=run["size_mb"]) for run in spark}
    rows = []
    for size, interval in sorted(
        {(run["size_mb"], run["interval_s"]) for run in ours}, key=lambda each: (each[0], each[1] or 0)
    ):
        runs = of(size, interval)
        checkpoint = [""] * 5
        if interval is not None:
            plain = of(size, None)
            checkpoint = [
                change_text(cost(size, interval)),
                change_text(change_of(runs, plain, "us_per_record")),
                spread(runs, "checkpoint_bytes", lambda size_bytes: digits(size_bytes / 1e6)),
                spread(runs, "checkpoint_sync_us", lambda us: digits(us / 1e3)),
                spread(runs, "last_checkpoint_ms", "{:,.0f}".format),
            ]
        rows.append(
            [
                RHEOS,
                f"{size:,}",
                "none" if interval is None else f"{interval} s",
                spread(runs, "records_per_s", millions) or "disturbed",
                *checkpoint,
                spread(runs, "cpu_share", percent),
            ]
        )
    rows += [
        [
            f"{SPARK} (RocksDB)",
            f"{size:,}",
            "each micro-batch",
            spread(shares[size], "records_per_s", millions),
            f"{spread(shares[size], 'commit_share', percent)} of its time",
            *[""] * 4,
            spread(shares[size], "cpu_share", percent),
        ]
        for size in sorted(shares)
    ]
    heads = ["engine", "state, MB", "checkpoints", "records/s", "throughput lost"]
    heads += ["more processor time", "checkpoint, MB", "held up, ms", "took, ms", "share of its cores"]
    said = [
        f"Throughput that a checkpoint every {interval} s costs with {size:,} MB of state: {lost}."
        for size, interval in (
            *((BY_INTERVAL_MB, each) for each in reversed(intervals)),
            (sizes[-1], BY_SIZE_S),
        )
        if (lost := change_text(cost(size, interval)))
    ]
    return sections(drawn, table(heads, rows), " ".join(said))


def _drawn(by_interval: Costs, by_size: Costs, plots: Plots) -> str:
    """Draw the lost throughput with its intervals; nothing if no cost has one."""
    if not any(cost for _, cost in (*by_interval, *by_size)):
        return ""
    figure, panes = panels(2)
    for axes, costs, title, label in (
        (panes[0], by_interval, f"{BY_INTERVAL_MB} MB of state", "checkpoint interval, s"),
        (panes[1], by_size, f"A checkpoint every {BY_SIZE_S} s", "state, MB"),
    ):
        low, high = (share * 100 for share in CHECKPOINT_COST)
        axes.axhspan(low, high, alpha=0.2, color=FLINK, label="Flink, as published")
        known = [(x, cost) for x, cost in costs if cost is not None]
        middles = [cost.middle * 100 for _, cost in known]
        ends = [
            [100 * (cost.middle - cost.low) for _, cost in known],
            [100 * (cost.high - cost.middle) for _, cost in known],
        ]
        axes.errorbar([x for x, _ in known], middles, ends, color=BLUE, marker="o", label=RHEOS)
        axes.axhline(0, color=FLINK, linewidth=0.8)
        titled(axes, title, label, "throughput lost, %")
    legend(figure)
    return plots.save(figure, "checkpoints", "Throughput lost to checkpoints, by interval and by state")


EXPERIMENT = Experiment(
    "checkpoints", "what checkpoints cost, by interval and by state", run, show, seconds=10
)
