"""What checkpoints cost: by their interval, and by the size of the state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK, bench
from benchmarks.paper.plots import FLINK, Plots, legend, panels, titled
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.plots import SPARK as ORANGE
from benchmarks.paper.published import CHECKPOINT_COST
from benchmarks.paper.tables import digits, middle, millions, percent, spread, table

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


def show(results: dict[str, Any], plots: Plots) -> str:
    ours = where(results["runs"], engine=RHEOS)
    spark = where(results["runs"], engine=SPARK)

    def cost(size: int, interval: int | None, metric: str = "records_per_s") -> float:
        """The share of the rate, or of processor time, that checkpoints take."""
        plain = middle(where(ours, size_mb=size, interval_s=None), metric) or float("nan")
        kept = middle(where(ours, size_mb=size, interval_s=interval), metric) or float("nan")
        return kept / plain - 1 if metric == "us_per_record" else 1 - kept / plain

    sizes = sorted({run["size_mb"] for run in ours if run["interval_s"] == BY_SIZE_S})
    intervals = sorted({run["interval_s"] for run in where(ours, size_mb=BY_INTERVAL_MB)} - {None})
    figure, (by_interval, by_size) = panels(2)
    for axes, x, costs, title, label in (
        (
            by_interval,
            [str(each) for each in intervals],
            [cost(BY_INTERVAL_MB, each) for each in intervals],
            f"{BY_INTERVAL_MB} MB of state",
            "checkpoint interval, s",
        ),
        (
            by_size,
            [f"{each:,}" for each in sizes],
            [cost(each, BY_SIZE_S) for each in sizes],
            f"A checkpoint every {BY_SIZE_S} s",
            "state, MB",
        ),
    ):
        low, high = (share * 100 for share in CHECKPOINT_COST)
        axes.axhspan(low, high, alpha=0.2, color=FLINK, label="Flink, as published")
        axes.plot(x, [each * 100 for each in costs], color=BLUE, marker="o", label=RHEOS)
        axes.axhline(0, color=FLINK, linewidth=0.8)
        titled(axes, title, label, "throughput lost, %")
    shares = {
        run["size_mb"]: middle(where(spark, size_mb=run["size_mb"]), "commit_share") for run in spark
    }
    drawn_sizes = [size for size in sizes if size in shares]
    by_size.plot(
        [f"{size:,}" for size in drawn_sizes],
        [(shares[size] or 0) * 100 for size in drawn_sizes],
        "o--",
        color=ORANGE,
        label=f"{SPARK}: commits' share of a micro-batch",
    )
    legend(figure)
    drawn = plots.save(
        figure, "checkpoints", "Throughput lost to checkpoints, by interval and by state"
    )
    rows = []
    for size, interval in sorted(
        {(run["size_mb"], run["interval_s"]) for run in ours}, key=lambda each: (each[0], each[1] or 0)
    ):
        of = where(ours, size_mb=size, interval_s=interval)
        is_plain = interval is None
        rows.append(
            [
                RHEOS,
                f"{size:,}",
                "none" if is_plain else f"{interval} s",
                spread(of, "records_per_s", millions),
                "" if is_plain else percent(cost(size, interval), places=1),
                "" if is_plain else percent(cost(size, interval, "us_per_record"), places=1),
                digits((middle(of, "checkpoint_bytes") or 0) / 1e6) if not is_plain else "",
                digits((middle(of, "checkpoint_sync_us") or 0) / 1e3) if not is_plain else "",
                f"{middle(of, 'last_checkpoint_ms') or 0:,.0f}" if not is_plain else "",
                percent(middle(of, "cpu_share")),
            ]
        )
    rows += [
        [
            f"{SPARK} (RocksDB)",
            f"{size:,}",
            "each micro-batch",
            spread(where(spark, size_mb=size), "records_per_s", millions),
            f"{percent(shares[size])} of its time",
            *[""] * 4,
            percent(middle(where(spark, size_mb=size), "cpu_share")),
        ]
        for size in sorted(shares)
    ]
    heads = ["engine", "state, MB", "checkpoints", "records/s", "throughput lost"]
    heads += ["more processor time", "checkpoint, MB", "held up, ms", "took, ms", "share of its cores"]
    least, most = (percent(share) for share in CHECKPOINT_COST)
    largest = sizes[-1]
    by_size_cost = percent(cost(largest, BY_SIZE_S), places=1)
    often, seldom = (
        percent(cost(BY_INTERVAL_MB, each), places=1) for each in (intervals[0], intervals[-1])
    )
    says = (
        f"With {BY_INTERVAL_MB} MB of state a checkpoint every {intervals[-1]} s costs {seldom} of the "
        f"throughput, one every {intervals[0]} s {often} (Flink in the paper: {least} to {most}, the "
        f"grey band). With {largest:,} MB of state, of which most changes between two checkpoints, one "
        f"every {BY_SIZE_S} s costs {by_size_cost}."
    )
    return "\n\n".join([drawn, table(heads, rows), says])


EXPERIMENT = Experiment(
    "checkpoints", "what checkpoints cost, by interval and by state", run, show, seconds=10, rounds=1
)
