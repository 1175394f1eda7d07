"""The command that plans a job's machines: `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheos.cli.options import (
    PASSES_ARGUMENTS_ON,
    Arguments,
    GivenSettings,
    Json,
    ProgramArguments,
    duration,
    takes_settings,
)

app = typer.Typer()


@app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
@takes_settings("checkpoint_interval", "state.backend", "state.memory_bytes")
def plan(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The Python file that builds the job, or a measurement that --save has written.",
        ),
    ],
    settings: GivenSettings,
    rate: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="RATE",
            help="Rows per second of all sources together, such as 200000/s or 200k/s.",
            show_default=False,
        ),
    ],
    arguments: Arguments = None,
    latency: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            callback=duration,
            help="Maximum time from source to sink of 99 % of the rows, such as 100ms.",
            show_default="any",
        ),
    ] = None,
    busy: Annotated[
        float,
        typer.Option(
            min=0.05,
            max=1.0,
            help="Maximum share of a core that a slot uses at this rate; the rest is for catching up.",
        ),
    ] = 0.7,
    after: Annotated[
        str,
        typer.Option(
            metavar="DURATION", callback=duration, help="Time for which growing state is planned."
        ),
    ] = "24h",
    whatif: Annotated[
        str | None,
        typer.Option(
            metavar="CHANGES",
            help="Also plan with other quantities: factors of rate, keys, state, bytes (of a row) and "
            "machines, such as keys=2x,machines=0.5x.",
            show_default=False,
        ),
    ] = None,
    instances: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML",
            help="A table of instances with their sizes and prices.",
            show_default="an example with placeholders",
        ),
    ] = None,
    sample: Annotated[
        str,
        typer.Option(metavar="DURATION", callback=duration, help="Time for which the job is measured."),
    ] = "30s",
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Write the measurement, for later plans without another sample.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Plan slots, memory, disk and machines of a job. Its program runs for half a minute
    on this machine. Sinks discard their rows. No running job is affected."""
    from rheos.cli.plan import PlanRequest, show_plan

    request = PlanRequest(
        file, arguments or [], rate, latency, busy, after, whatif, instances, sample, save
    )
    raise typer.Exit(show_plan(request, settings.overrides(), as_json=json))
