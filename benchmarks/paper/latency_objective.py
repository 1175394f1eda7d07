"""The latency objective: what it makes of latency and of processor time at each rate, beside the knobs
that it stands for."""

from __future__ import annotations

from itertools import chain
from typing import Any

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import bench
from benchmarks.paper.plots import FLINK as GREY
from benchmarks.paper.plots import OTHERS, Plots, legend, level, panels, titled
from benchmarks.paper.tables import are_enough, digits, middle, millions, sections, spread, table

KEYS = 10_000
CORES = 2
OBJECTIVES_MS = (5, 20, 100)
TIMEOUTS_MS = (0, 10)
RATES = (1_000, 100_000, None)
"""Records per second in all; None: as fast as it goes."""


def run(options: Options) -> dict[str, Any]:
    def measure(cell: Cell) -> dict[str, Any]:
        rate, timeout_ms, objective_ms = cell["rate"], cell["timeout_ms"], cell["objective_ms"]
        way = (
            {"buffer_timeout": f"{timeout_ms}ms" if timeout_ms else "0"}
            if objective_ms is None
            else {"objective": f"{objective_ms}ms"}
        )
        return bench(
            "grouping",
            options,
            parallelism=CORES,
            keys=KEYS,
            rate_per_core=None if rate is None else rate / CORES,
            **way,
        )

    rates = (10_000, None) if options.quick else RATES
    ways = [(None, each) for each in TIMEOUTS_MS] + [(each, None) for each in OBJECTIVES_MS]
    cells: list[Cell] = [
        {"objective_ms": objective_ms, "timeout_ms": timeout_ms, "rate": rate}
        for rate in rates
        for objective_ms, timeout_ms in ways
    ]
    return {"keys": KEYS, "cores": CORES, "runs": in_turns(options, cells, measure)}


def show(results: dict[str, Any], plots: Plots) -> str:
    runs = results["runs"]
    rates = list(dict.fromkeys(run["rate"] for run in runs))
    rates.sort(key=lambda rate: rate or float("inf"))
    timeouts = sorted({run["timeout_ms"] for run in runs} - {None})
    objectives = sorted({run["objective_ms"] for run in runs} - {None})
    figure, (latencies, cores) = panels(2)
    ways: list[tuple[str, Cell, str, str]] = [
        (f"timeout {each} ms", {"timeout_ms": each, "objective_ms": None}, GREY, line)
        for each, line in zip(timeouts, ("--", ":"), strict=False)
    ] + [
        (f"objective {each} ms", {"objective_ms": each}, colour, "-")
        for each, colour in zip(objectives, OTHERS, strict=False)
    ]
    for label, cell, colour, line in ways:
        of = [where(runs, rate=rate, **cell) for rate in rates]
        x = [middle(each, "records_per_s") for each in of]
        for axes, name in ((latencies, "latency_ms.p99"), (cores, "cores")):
            axes.plot(
                x, [middle(each, name) for each in of], line, marker="o", color=colour, label=label
            )
    for each in objectives:
        level(latencies, each, "the objectives", line="-.")
    for axes in (latencies, cores):
        axes.set_xscale("log")
    latencies.set_yscale("log")
    titled(latencies, "Latency", "records/s", "p99, ms")
    titled(cores, "What it costs", "records/s", "cores of all processes")
    legend(figure, columns=6)
    drawn = plots.save(
        figure,
        "latency-objective",
        "p99 and cores against the rate, by objective and by buffer timeout",
    )
    rows = [
        [
            label,
            "all" if rate is None else f"{rate:,}",
            spread(each, "records_per_s", millions),
            spread(each, "latency_ms.p50", digits),
            spread(each, "latency_ms.p99", digits),
            spread(each, "cores", digits),
            spread(each, "objective.batch_rows", lambda value: f"{value:,.0f}"),
            spread(each, "objective.buffer_timeout_ms", digits),
        ]
        for label, cell, _, _ in ways
        for rate in rates
        for each in [where(runs, rate=rate, **cell)]
    ]
    heads = ["", "asked for, records/s", "records/s", "p50, ms", "p99, ms", "cores"]
    heads += ["chosen rows of a batch", "chosen timeout, ms"]
    cells = {each: [where(runs, rate=rate, objective_ms=each) for rate in rates] for each in objectives}
    held = [
        (each, sum((middle(of, "latency_ms.p99") or 0) <= each for of in at_rates), len(at_rates))
        for each, at_rates in cells.items()
    ]
    says = "; ".join(f"{each} ms at {met} of {count} rates" for each, met, count in held)
    is_enough = are_enough(*chain.from_iterable(cells.values()))
    says = f"The median p99 is within an objective of {says}." if is_enough else ""
    return sections(drawn, table(heads, rows), says)


EXPERIMENT = Experiment(
    "latency-objective",
    "a latency objective at all rates, beside the knobs",
    run,
    show,
    seconds=4,
)
