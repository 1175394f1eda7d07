"""The command that moves a job of another system to Rheos: `migrate`."""

from __future__ import annotations

from typing import Annotated

import typer

from rheos.cli.options import (
    PASSES_ARGUMENTS_ON,
    Arguments,
    File,
    GivenSettings,
    ProgramArguments,
    takes_settings,
)

app = typer.Typer()


@app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
@takes_settings("parallelism", "runtime", "master")
def migrate(
    origin: Annotated[
        str,
        typer.Argument(
            metavar="ORIGIN",
            help="The checkpoint folder of a Structured Streaming query, or group:NAME for the "
            "committed offsets of a Kafka consumer group.",
        ),
    ],
    file: File,
    settings: GivenSettings,
    arguments: Arguments = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="The new folder of the savepoint. Without it, the command only explains.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a savepoint that continues a job of another system.

    Lists each position and state that the job takes over. The other system's data do not change.
    """
    from rheos.cli.migrate import migrate

    raise typer.Exit(migrate(origin, file, arguments or [], to, settings.overrides()))
