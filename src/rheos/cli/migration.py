"""The command that moves a job of another system to Rheos: `migrate`."""

from __future__ import annotations

from pathlib import Path
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
    prove: Annotated[
        Path | None,
        typer.Option(
            metavar="QUERY",
            help="The Python file of the query. The query, from a copy of its checkpoint, and the job "
            "read the same input after the checkpoint, and their rows are compared. If any differ, no "
            "savepoint is written, and the exit code is 1.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --prove: number of rows after which the query stops, at the end of a batch. By "
            "default, it reads all input that exists now.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="With --prove: column by which rows are compared; may be repeated. By default, the "
            "key of the job's sink.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a savepoint that continues a job of another system.

    Lists each position and state that the job takes over. The other system's data do not change.
    """
    from rheos.cli.migrate import migrate
    from rheos.ops.migration.migrating import ProofRequest

    proof = None if prove is None else ProofRequest(prove, rows=rows, key=key or [])
    raise typer.Exit(migrate(origin, file, arguments or [], to, settings.overrides(), proof))
