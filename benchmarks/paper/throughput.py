"""Streaming grep and grouping at full speed: one core and two, with checkpoints and without."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.experiment import Cell, Experiment, Options, in_turns, where
from benchmarks.paper.on_rheos import RHEOS, SPARK, bench
from benchmarks.paper.plots import OTHERS, Plots, bars, legend, level, panels, titled
from benchmarks.paper.plots import RHEOS as BLUE
from benchmarks.paper.plots import SPARK as ORANGE
from benchmarks.paper.published import GREP_PER_CORE, GROUPING_PER_CORE
from benchmarks.paper.tables import (
    are_enough,
    change_of,
    digits,
    middle,
    millions,
    percent,
    ratio_of,
    sections,
    spread,
    table,
)
from rheos.cli.benchmarks.intervals import change_text

KEYS = 100_000
INTERVAL = "5s"
ROWS_PER_BATCH = 2_500_000
"""Of Structured Streaming, for each core."""

CELL = ("program", "cores", "engine", "checkpoints")
PUBLISHED = {"grep": GREP_PER_CORE, "grouping": GROUPING_PER_CORE}


def run(options: Options) -> dict[str, Any]:
    from benchmarks.paper import structured_streaming

    spark = structured_streaming.session(3)

    def measure(cell: Cell) -> dict[str, Any]:
        program, cores = cell["program"], cell["cores"]
        if cell["engine"] == RHEOS:
            keys = {"keys": KEYS} if program == "grouping" else {}
            interval = cell["checkpoints"]
            return bench(program, options, parallelism=cores, checkpoint_interval=interval, **keys)
        numbers = structured_streaming.made_up(spark, ROWS_PER_BATCH * cores, cores)
        stream = (
            structured_streaming.grep_lines(numbers)
            if program == "grep"
            else structured_streaming.totals(numbers, KEYS)
        )
        done = structured_streaming.measure(
            spark,
            stream,
            mode="append" if program == "grep" else "update",
            partitions=cores,
            warmup_s=options.warmup_s,
            seconds=options.seconds,
        )
        return done.measurements(cores)

    cells = [
        {"program": program, "engine": engine, "cores": cores, "checkpoints": checkpoints}
        for program in PUBLISHED
        for cores in ((2,) if options.quick else (1, 2))
        for engine, checkpoints in ((RHEOS, None), (RHEOS, INTERVAL), (SPARK, "each micro-batch"))
    ]
    return {"keys": KEYS, "runs": in_turns(options, cells, measure)}


def show(results: dict[str, Any], plots: Plots) -> str:
    runs = results["runs"]
    cores = sorted({run["cores"] for run in runs})
    figure, axes = panels(2)
    for axis, (program, flink) in zip(axes, PUBLISHED.items(), strict=True):
        series: dict[str, tuple[str, list[float | None]]] = {}
        for name, colour, engine, checkpoints in (
            ("Rheos, no checkpoints", BLUE, RHEOS, None),
            ("Rheos, a checkpoint every 5 s", OTHERS[0], RHEOS, INTERVAL),
            (SPARK, ORANGE, SPARK, "each micro-batch"),
        ):
            of = [
                where(runs, program=program, engine=engine, cores=n, checkpoints=checkpoints)
                for n in cores
            ]
            rates = [middle(each, "records_per_s_per_core") for each in of]
            series[name] = (colour, [None if rate is None else rate / 1e6 for rate in rates])
        bars(axis, [f"{n} core{'s' * (n > 1)}" for n in cores], series)
        level(axis, flink / 1e6, "Flink, as published")
        titled(axis, program, "", "million records/s per core")
    legend(figure, columns=4)
    drawn = plots.save(figure, "throughput", "Throughput per core of grep and grouping")
    rows = []
    for run in {tuple(run[name] for name in CELL): run for run in runs}.values():
        each = where(runs, **{name: run[name] for name in CELL})
        rows.append(
            [
                run["program"],
                str(run["cores"]),
                run["engine"],
                {None: "none", INTERVAL: "every 5 s"}.get(run["checkpoints"], run["checkpoints"]),
                spread(each, "records_per_s_per_core", millions),
                spread(each, "us_per_record", digits),
                spread(each, "cpu_share", percent),
            ]
        )
    heads = ["program", "cores", "engine", "checkpoints", "records/s per core"]
    heads += ["processor µs per record", "share of its cores"]
    return sections(drawn, table(heads, rows), _says(runs, max(cores)))


def _says(runs: list[dict[str, Any]], cores: int) -> str:
    metric = "records_per_s_per_core"
    said = []
    for program in PUBLISHED:

        def of(engine: str, checkpoints: str | None, program: str = program) -> list[dict[str, Any]]:
            return where(runs, program=program, engine=engine, cores=cores, checkpoints=checkpoints)

        plain, kept = of(RHEOS, None), of(RHEOS, INTERVAL)
        spark = of(SPARK, "each micro-batch")
        if are_enough(plain, kept, spark):
            said.append(
                f"On {cores} cores {program} runs at {spread(plain, metric, millions)} records/s per "
                f"core, {ratio_of(plain, spark, metric)} times the rate of Structured Streaming. "
                f"Processor time that a checkpoint every 5 s adds to a record: "
                f"{change_text(change_of(kept, plain, 'us_per_record'))}."
            )
    return " ".join(said)


EXPERIMENT = Experiment(
    "throughput", "grep and grouping: records per second and core", run, show, seconds=5
)
