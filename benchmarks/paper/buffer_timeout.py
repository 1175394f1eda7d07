"""The buffer timeout: what it does to throughput at full load, and to latency below it."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK, bench
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.plots import SPARK as ORANGE
from benchmarks.paper.plots import Plots, legend, panels, titled
from benchmarks.paper.tables import (
    are_enough,
    digits,
    middle,
    millions,
    ratio_of,
    sections,
    spread,
    table,
)

KEYS = 10_000
CORES = 2
RATE_PER_CORE = 30_000
TIMEOUTS_MS = (0, 1, 5, 10, 50, 100)
BATCH_ROWS = (20_000, 200_000, 2_000_000)
"""What Structured Streaming trades latency for throughput with is the size of a micro-batch."""

FULL, GIVEN = "full", "given"


def run(options: Options) -> dict[str, Any]:
    from benchmarks.paper import structured_streaming

    spark = structured_streaming.session(CORES + 1)

    def measure(cell: Cell) -> dict[str, Any]:
        if cell["engine"] == RHEOS:
            timeout = cell["timeout_ms"]
            return bench(
                "grouping",
                options,
                parallelism=CORES,
                keys=KEYS,
                rate_per_core=None if cell["load"] == FULL else RATE_PER_CORE,
                buffer_timeout=f"{timeout}ms" if timeout else "0",
            )
        numbers = structured_streaming.made_up(spark, cell["batch_rows"], CORES)
        done = structured_streaming.measure(
            spark,
            structured_streaming.totals(numbers, KEYS),
            mode="update",
            partitions=CORES,
            warmup_s=options.warmup_s,
            seconds=options.seconds,
        )
        return done.measurements(CORES)

    timeouts, sizes = ((0, 10), (200_000,)) if options.quick else (TIMEOUTS_MS, BATCH_ROWS)
    cells: list[Cell] = [
        {"engine": RHEOS, "load": load, "timeout_ms": timeout}
        for timeout in timeouts
        for load in (FULL, GIVEN)
    ]
    cells += [{"engine": SPARK, "load": FULL, "batch_rows": rows} for rows in sizes]
    return {
        "keys": KEYS,
        "cores": CORES,
        "rate_per_core": RATE_PER_CORE,
        "runs": in_turns(options, cells, measure),
    }


def show(results: dict[str, Any], plots: Plots) -> str:
    runs = results["runs"]
    ours = where(runs, engine=RHEOS)
    timeouts = sorted({run["timeout_ms"] for run in ours})
    sizes = sorted({run["batch_rows"] for run in where(runs, engine=SPARK)})
    figure, (rates, latencies, trade) = panels(3, height=3.0)
    ticks = [str(timeout) for timeout in timeouts]

    def of(load: str, name: str) -> list[float | None]:
        return [middle(where(ours, load=load, timeout_ms=each), name) for each in timeouts]

    per_s = [(rate or 0) / 1e6 for rate in of(FULL, "records_per_s")]
    rates.plot(ticks, per_s, color=BLUE, marker="o")
    rates.set_ylim(0, max(per_s) * 1.2)
    titled(rates, "At full load", "buffer timeout, ms", "million records/s")
    for name, line in (("p50", "-"), ("p99", ":")):
        given = of(GIVEN, f"latency_ms.{name}")
        latencies.plot(ticks, given, line, color=BLUE, marker="o", label=f"Rheos, {name}")
    titled(
        latencies, f"At {results['rate_per_core']:,}/s per core", "buffer timeout, ms", "latency, ms"
    )
    spark = [where(runs, engine=SPARK, batch_rows=size) for size in sizes]
    for label, colour, x, y in (
        (RHEOS, BLUE, of(FULL, "latency_ms.p99"), per_s),
        (
            SPARK,
            ORANGE,
            [middle(each, "latency_ms.p99") for each in spark],
            [(middle(each, "records_per_s") or 0) / 1e6 for each in spark],
        ),
    ):
        trade.plot(x, y, "o", color=colour, label=f"{label}, at full load")
    trade.set_xscale("log")
    titled(trade, "Both, at full load", "p99 latency, ms", "million records/s")
    legend(figure, columns=4)
    drawn = plots.save(figure, "buffer-timeout", "Throughput and latency against the buffer timeout")
    rows = [
        [
            f"Rheos, {timeout} ms",
            spread(full, "records_per_s", millions),
            spread(full, "latency_ms.p50", digits),
            spread(full, "latency_ms.p99", digits),
            spread(given, "latency_ms.p50", digits),
            spread(given, "latency_ms.p99", digits),
        ]
        for timeout in timeouts
        for full, given in [[where(ours, timeout_ms=timeout, load=load) for load in (FULL, GIVEN)]]
    ]
    rows += [
        [
            f"{SPARK}, micro-batches of {size:,} rows",
            spread(each, "records_per_s", millions),
            spread(each, "latency_ms.p50", digits),
            spread(each, "latency_ms.p99", digits),
            "",
            "",
        ]
        for size, each in zip(sizes, spark, strict=True)
    ]
    at = f"{results['rate_per_core']:,}/s per core"
    heads = ["buffer timeout", "records/s at full load", "p50, ms", "p99, ms"]
    heads += [f"p50 at {at}, ms", f"p99 at {at}, ms"]
    least, most = timeouts[0], timeouts[-1]
    at_full = [where(ours, timeout_ms=timeout, load=FULL) for timeout in (least, most)]
    at_rate = [where(ours, timeout_ms=timeout, load=GIVEN) for timeout in (least, most)]
    p50, p99 = ([spread(each, f"latency_ms.{name}") for each in at_rate] for name in ("p50", "p99"))
    compared = ratio_of(at_full[1], at_full[0], "records_per_s")
    says = (
        f"At {at} a timeout of {least} ms has a latency of {p50[0]} ms at the median and {p99[0]} ms "
        f"at the 99th percentile, one of {most} ms {p50[1]} and {p99[1]} ms. At full load, the rate "
        f"with a timeout of {most} ms is {compared} of that with {least} ms."
    )
    return sections(drawn, table(heads, rows), says if are_enough(*at_full, *at_rate) else "")


EXPERIMENT = Experiment(
    "buffer-timeout", "buffer timeout: throughput against latency", run, show, seconds=5
)
