"""The command `rheos`. It imports what a subcommand needs only when that runs: `--help` is quick."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rheos.cli import control
from rheos.cli.options import PASSES_ARGUMENTS_ON, PassingOn, duration, size

app = typer.Typer(
    name="rheos",
    help="Flink's execution model in Python, on the Spark you already have.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The Python file that builds the job.")]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="Its own arguments; after `--` all are its own."),
]
Parallelism = Annotated[
    int | None, typer.Option(min=1, help="Subtasks of every operator.", show_default=False)
]
RuntimeName = Annotated[
    str | None, typer.Option(help="continuous, batch or simulated.", show_default=False)
]


class Format(StrEnum):
    TEXT = "text"
    MERMAID = "mermaid"
    PLAN = "plan"
    SPARK = "spark"


class Benchmark(StrEnum):
    GREP = "grep"
    GROUPING = "grouping"
    STATE_MACHINE = "state-machine"
    LATENCY = "latency"
    SOAK = "soak"


class StateBackend(StrEnum):
    MEMORY = "memory"
    ROCKSDB = "rocksdb"


@app.callback()
def _rheos() -> None:
    pass


app.add_typer(control.app)


@app.command(cls=PassingOn, context_settings=PASSES_ARGUMENTS_ON)
def run(
    file: File,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    master: Annotated[
        str | None, typer.Option(help="A Spark master, such as local[4] or spark://host:7077.")
    ] = None,
    runtime: RuntimeName = None,
    checkpoint_dir: Annotated[
        str | None, typer.Option(help="Where checkpoints go: a folder or an fsspec URL.")
    ] = None,
    checkpoint_interval: Annotated[
        str | None, typer.Option(callback=duration, help="Time between checkpoints, such as 10s.")
    ] = None,
    from_savepoint: Annotated[
        str | None,
        typer.Option(
            help="Take the state from this savepoint, unless the job goes on from checkpoints that "
            "it has taken since."
        ),
    ] = None,
    allow_dropped: Annotated[
        bool,
        typer.Option("--allow-dropped", help="Leave state behind that the program has no place for."),
    ] = False,
    min_parallelism: Annotated[
        int | None,
        typer.Option(min=1, help="Go on with so few subtasks where slots are lost for good."),
    ] = None,
    state_backend: Annotated[
        str | None, typer.Option(help="memory, or rocksdb for state that outgrows it.")
    ] = None,
    state_memory: Annotated[
        str | None,
        typer.Option(
            callback=size, help="About how much memory the state of a slot takes, such as 512MB."
        ),
    ] = None,
    unaligned_after: Annotated[
        str | None,
        typer.Option(
            callback=duration,
            help="How long a barrier waits before it overtakes rows: 0s at once, or 5s.",
        ),
    ] = None,
    max_concurrent_checkpoints: Annotated[
        int | None, typer.Option(min=1, help="How many checkpoints may be under way at a time.")
    ] = None,
    at_least_once: Annotated[
        bool,
        typer.Option("--at-least-once", help="No input waits for barriers; rows may count twice."),
    ] = False,
) -> None:
    """Run a job file. What is given here wins over what the file says."""
    from rheos.api.overrides import Overrides
    from rheos.cli.run import run
    from rheos.protocol.sizes import size_bytes

    settings = Overrides(
        parallelism=parallelism,
        master=master,
        runtime=runtime,
        checkpoint_dir=checkpoint_dir,
        checkpoint_interval=checkpoint_interval,
        from_savepoint=from_savepoint,
        allow_dropped=allow_dropped or None,
        min_parallelism=min_parallelism,
        state_backend=state_backend,
        state_memory_bytes=None if state_memory is None else size_bytes(state_memory),
        unaligned_after=unaligned_after,
        max_concurrent_checkpoints=max_concurrent_checkpoints,
        at_least_once=at_least_once or None,
    )
    raise typer.Exit(run(file, arguments or [], settings))


@app.command(cls=PassingOn, context_settings=PASSES_ARGUMENTS_ON)
def explain(
    file: File,
    arguments: Arguments = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="The program as text or as a Mermaid chart, the physical plan it becomes, or "
            "Spark's plan of a batch job.",
        ),
    ] = Format.TEXT,
    parallelism: Parallelism = None,
    runtime: RuntimeName = None,
) -> None:
    """Show what a job file builds, without running it."""
    from rheos.api.overrides import Overrides
    from rheos.cli.explain import explain

    settings = Overrides(parallelism=parallelism, runtime=runtime)
    raise typer.Exit(explain(file, arguments or [], format_.value, settings))


@app.command(cls=PassingOn, context_settings=PASSES_ARGUMENTS_ON)
def check(
    file: File,
    from_savepoint: Annotated[
        str, typer.Option(help="The savepoint's folder or URL.", show_default=False)
    ],
    arguments: Arguments = None,
    allow_dropped: Annotated[
        bool, typer.Option("--allow-dropped", help="State that the program no longer has may go.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    parallelism: Parallelism = None,
) -> None:
    """Say what becomes of a savepoint's state under a job file, without running it.

    Ends with 1 where state would be lost or cannot be read, and with 2 where there is no savepoint.
    """
    from rheos.api.overrides import Overrides
    from rheos.cli.check import check

    settings = Overrides(parallelism=parallelism)
    given = arguments or []
    raise typer.Exit(
        check(file, given, from_savepoint, settings, allow_dropped=allow_dropped, as_json=json)
    )


@app.command(cls=PassingOn, context_settings=PASSES_ARGUMENTS_ON)
def chaos(
    file: File,
    arguments: Arguments = None,
    kill_every: Annotated[
        str, typer.Option(callback=duration, help="How long it may run between strikes.")
    ] = "5s",
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            callback=duration,
            help="How long to strike; the job is cancelled then.",
            show_default="until it ends by itself",
        ),
    ] = None,
    faults: Annotated[
        str,
        typer.Option(
            help="What to strike, with commas between: workers (SIGKILL), freeze (SIGSTOP, later "
            "SIGCONT), executors (SIGKILL; local-cluster only), driver (SIGKILL, and the same command "
            "again; needs --checkpoint-dir)."
        ),
    ] = "workers",
    freeze: Annotated[
        str,
        typer.Option(
            callback=duration,
            help="The longest freeze; half last as long, the others a tenth or less.",
        ),
    ] = "20s",
    seed: Annotated[int, typer.Option(help="Draws kinds, victims and lengths.")] = 0,
    parallelism: Parallelism = None,
    master: Annotated[
        str | None, typer.Option(help="A Spark master, such as local-cluster[2,1,1024].")
    ] = None,
    checkpoint_dir: Annotated[
        str | None, typer.Option(help="Where checkpoints go: a folder or an fsspec URL.")
    ] = None,
    checkpoint_interval: Annotated[
        str | None, typer.Option(callback=duration, help="Time between checkpoints, such as 10s.")
    ] = None,
) -> None:
    """Run a job file, and kill its processes while it works. Only its own are struck."""
    from rheos.cli.chaos import chaos

    options = [
        ("--parallelism", parallelism),
        ("--master", master),
        ("--checkpoint-dir", checkpoint_dir),
        ("--checkpoint-interval", checkpoint_interval),
        ("--runtime", "continuous"),
    ]
    code = chaos(
        file,
        arguments or [],
        options,
        faults=faults,
        kill_every=kill_every,
        for_=for_,
        freeze=freeze,
        seed=seed,
    )
    raise typer.Exit(code)


@app.command()
def bench(
    name: Annotated[Benchmark, typer.Argument(help="What to measure.")],
    parallelism: Annotated[
        int, typer.Option(min=1, help="Subtasks; best one for each core.")
    ] = os.cpu_count() or 1,
    keys: Annotated[
        int | None, typer.Option(min=1, help="Distinct keys.", show_default="10000")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure.")] = 10.0,
    warmup: Annotated[float, typer.Option(min=0.0, help="Seconds that are left out before.")] = 3.0,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="Records per second and core; as fast as they go where none is given "
            "(latency: 30000).",
            show_default=False,
        ),
    ] = None,
    buffer_timeout: Annotated[
        str,
        typer.Option(
            help="How long a row may wait in a buffer: 0 sends at once, -1 only full buffers."
        ),
    ] = "10ms",
    checkpoint_interval: Annotated[
        str | None,
        typer.Option(callback=duration, help="Time between checkpoints; none where not given."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows of a full buffer.")] = 16_384,
    state_backend: Annotated[
        StateBackend, typer.Option(help="Where state is kept.")
    ] = StateBackend.MEMORY,
    minutes: Annotated[
        int, typer.Option(min=1, help="soak: how long it is watched.", show_default="30")
    ] = 30,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure throughput and latency on the continuous runtime; or soak a job with all kinds of
    state, and see that rate, memory and checkpoints hold."""
    from rheos.protocol.state_config import Backend, StateConfig

    state = StateConfig(Backend(state_backend.value))
    if name is Benchmark.SOAK:
        from rheos.bench.soak import SoakSettings
        from rheos.cli.soak import soak

        given = SoakSettings(minutes, parallelism, keys or 100_000, checkpoint_interval or "5s", state)
        raise typer.Exit(soak(given, json))
    from rheos.bench.driver import Settings
    from rheos.cli.bench import bench

    settings = Settings(
        parallelism=parallelism,
        seconds=seconds,
        warmup_s=warmup,
        keys=keys,
        rate_per_core=rate,
        buffer_timeout=buffer_timeout,
        checkpoint_interval=checkpoint_interval,
        batch_rows=batch_size,
        state=state,
    )
    raise typer.Exit(bench(name.value, settings, json))


def main() -> None:
    """The entry point of the console script."""
    app()
