"""Latency of grouping at full load, and at 10, 50 and 90 % of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK, bench
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.plots import SPARK as ORANGE
from benchmarks.paper.plots import Plots, legend, level, panels, titled
from benchmarks.paper.published import FULL_LOAD_P50_MS, FULL_LOAD_P99_MS
from benchmarks.paper.tables import (
    are_enough,
    middle,
    millions,
    percent,
    sections,
    spread,
    table,
)

KEYS = 1_000
CORES = 2
LOADS = (0.1, 0.5, 0.9)
"""Shares of the engine's own rate at full load."""
INTERVAL_MS = 500
"""Of Structured Streaming's trigger at a given load."""
BATCH_ROWS = 2_000_000
"""Of a micro-batch at full load."""
LEAST_REACHED = 0.98
"""Least share of the asked rate. A job below it falls behind: its latency grows as long as it runs."""
PERCENTILES = {"p50": "-", "p90": "--", "p99": ":"}


def run(options: Options) -> dict[str, Any]:
    from benchmarks.paper import structured_streaming

    spark = structured_streaming.session(CORES + 1)
    full: dict[str, float] = {}
    """Records per second of each engine at full load, as its first run has shown."""

    def on_rheos(load: float) -> dict[str, Any]:
        rate = None if load == 1 else full[RHEOS] * load / CORES
        return bench("grouping", options, parallelism=CORES, keys=KEYS, rate_per_core=rate)

    def on_spark(load: float) -> dict[str, Any]:
        rows = BATCH_ROWS if load == 1 else round(full[SPARK] * load * INTERVAL_MS / 1000)
        numbers = structured_streaming.made_up(spark, rows, CORES)
        done = structured_streaming.measure(
            spark,
            structured_streaming.totals(numbers, KEYS),
            mode="update",
            partitions=CORES,
            warmup_s=options.warmup_s,
            seconds=options.seconds,
            interval_ms=None if load == 1 else INTERVAL_MS,
        )
        return done.measurements(CORES)

    def measure(cell: Cell) -> dict[str, Any]:
        engine, load = cell["engine"], cell["load"]
        measurements = on_rheos(load) if engine == RHEOS else on_spark(load)
        if load == 1:
            full.setdefault(engine, measurements["records_per_s"])
        asked = None if load == 1 else round(full[engine] * load)
        return {"asked_per_s": asked, **measurements}

    cells = [
        {"engine": engine, "load": load}
        for load in (1, *((0.5,) if options.quick else LOADS))
        for engine in (RHEOS, SPARK)
    ]
    return {"keys": KEYS, "cores": CORES, "runs": in_turns(options, cells, measure)}


def keeps_up(runs: Sequence[dict[str, Any]]) -> bool:
    """Return whether the runs of a cell reached the rate that they were asked for."""
    asked, reached = (middle(runs, name) for name in ("asked_per_s", "records_per_s"))
    return asked is None or reached is None or reached >= LEAST_REACHED * asked


def show(results: dict[str, Any], plots: Plots) -> str:
    runs = results["runs"]
    loads = sorted({run["load"] for run in runs})
    figure, (axes,) = panels()
    for engine, colour in ((RHEOS, BLUE), (SPARK, ORANGE)):
        for name, line in PERCENTILES.items():
            kept_up = [x for x in loads if keeps_up(where(runs, engine=engine, load=x))]
            of = [middle(where(runs, engine=engine, load=x), f"latency_ms.{name}") for x in kept_up]
            at = [load * 100 for load in kept_up]
            axes.plot(at, of, line, color=colour, marker="o", label=f"{engine}, {name}")
    axes.set_yscale("log")
    axes.set_xticks([load * 100 for load in loads])
    level(axes, FULL_LOAD_P50_MS, "Flink at full load, as published, p50")
    level(axes, FULL_LOAD_P99_MS, "Flink at full load, as published, p99", ":")
    titled(axes, "Latency of grouping", "% of the rate at full load", "ms")
    legend(figure)
    drawn = plots.save(figure, "latency", "Latency percentiles of grouping against the load")
    rows = [
        [
            engine,
            percent(load),
            spread(of, "asked_per_s", millions) or "all",
            spread(of, "records_per_s", millions),
            *(
                spread(of, f"latency_ms.{name}") if keeps_up(of) else "rate not reached"
                for name in PERCENTILES
            ),
            spread(of, "cpu_share", percent),
        ]
        for engine in (RHEOS, SPARK)
        for load in loads
        for of in [where(runs, engine=engine, load=load)]
    ]
    heads = ["engine", "load", "asked for, records/s", "records/s"]
    heads += [f"{name}, ms" for name in PERCENTILES] + ["share of its cores"]
    ours, spark = (where(runs, engine=engine, load=1) for engine in (RHEOS, SPARK))
    says = ""
    if are_enough(ours, spark):
        p50, p99 = (spread(ours, f"latency_ms.{name}") for name in ("p50", "p99"))
        says = (
            f"At full load half of the updates are there within {p50} ms and 99 % within {p99} ms "
            f"(Flink in the paper: {FULL_LOAD_P50_MS} and {FULL_LOAD_P99_MS} ms). A row of Structured "
            f"Streaming waits for its micro-batch: {spread(spark, 'latency_ms.p50')} ms at the median."
        )
    return sections(drawn, table(heads, rows), says)


EXPERIMENT = Experiment("latency", "latency of grouping at full load and below", run, show, seconds=6)
