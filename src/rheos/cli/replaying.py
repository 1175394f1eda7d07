"""The commands that rerun a program over a job's input, alongside the job: `fork`, `debug`,
`reproduce`, `why`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheos.cli.options import (
    PASSES_ARGUMENTS_ON,
    Arguments,
    File,
    GivenSettings,
    Job,
    Json,
    Param,
    ProgramArguments,
    UntilChoice,
    duration,
    parameters,
    takes_settings,
)

app = typer.Typer()

Beyond = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="DURATION",
        callback=duration,
        help="Event time to run beyond the checkpoint, such as 10m.",
        show_default="all input available now",
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The program that runs, if the job does not record it.",
        show_default=False,
    ),
]
AsTest = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        dir_okay=False,
        help="Write a test for pytest with the fewest rows that lead to the result.",
        show_default=False,
    ),
]
Anonymise = Annotated[
    bool,
    typer.Option("--anonymise", help="In the test, replace strings, bytes and numbers by others."),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS", help="Columns whose values are not replaced: kind,at.", show_default=False
    ),
]
Expect = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help="With --as-test: right values of the wrong row: '{\"amount\": 7}'; in `rheos why` without "
        "--row, all values of a missing row.",
        show_default="the test only rejects the wrong row",
    ),
]
JobDirectory = Annotated[
    str | None,
    typer.Option(help="Read the job there, whether it runs or not.", show_default=False),
]


def names_in(given: str | None) -> list[str]:
    """Return the names of an option, which are separated by commas."""
    return [name.strip() for name in (given or "").split(",") if name.strip()]


@app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
@takes_settings("allow_dropped", "new_aggregates", "renamed", config=False)
def fork(
    job: Job,
    file: File,
    settings: GivenSettings,
    arguments: Arguments = None,
    for_: Beyond = None,
    until: Annotated[
        UntilChoice | None,
        typer.Option("--until", help="now: all input available now.", show_default=False),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns, separated by commas, by which rows are matched.",
            show_default="the key of the last key_by, and the window",
        ),
    ] = None,
    param: Param = None,
    against: Against = None,
    checkpoint_dir: JobDirectory = None,
    from_savepoint: Annotated[
        str | None,
        typer.Option(
            help="Start from this savepoint of the job, instead of its newest checkpoint.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=0, help="Number of differences to show for each sink.")
    ] = 10,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which to write all rows and differences, as Parquet.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compare the output of a job with another program's. Both programs start from the job's
    newest checkpoint and read the same input. The job itself is not affected."""
    from rheos.cli.fork import show_fork

    if for_ is not None and until is not None:
        raise typer.BadParameter("--for and --until both limit how much is read: leave out one")
    code = show_fork(
        job,
        file,
        arguments or [],
        for_=for_,
        key=names_in(key),
        parameters=parameters(param),
        against=against,
        checkpoint_dir=checkpoint_dir,
        from_savepoint=from_savepoint,
        allow_dropped=bool(settings.values["allow_dropped"]),
        new_aggregates=settings.values["new_aggregates"],
        renamed=settings.values["renamed"],
        samples=samples,
        out=out,
        as_json=json,
    )
    raise typer.Exit(code)


@app.command()
def debug(
    job: Job,
    key: Annotated[str, typer.Option(help="The key: ada, or user=ada,day=3.", show_default=False)],
    from_: Annotated[
        str,
        typer.Option(
            "--from", metavar="CHECKPOINT", help="A checkpoint that `rheos checkpoints` lists."
        ),
    ] = "latest",
    until: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="A later one, up to which input is read.",
            show_default="all input available now",
        ),
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(help="Its id or name.", show_default="the only one with that key"),
    ] = None,
    against: Against = None,
    checkpoint_dir: JobDirectory = None,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace", help="Print every step without prompting; the default without a terminal."
        ),
    ] = False,
    script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="File of commands to run instead of prompting, one per line.",
            show_default=False,
        ),
    ] = None,
    as_test: AsTest = None,
    result: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="""With --as-test: some fields of the wrong row: '{"amount": 11}'.""",
            show_default="the error, or else the last row",
        ),
    ] = None,
    expect: Expect = None,
    anonymise: Anonymise = False,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Replay one key of a job on this machine, step by step. The replay takes the key's state from a
    checkpoint, and reads its rows from there on. The job itself is not affected."""
    from rheos.cli.debug import debug_job
    from rheos.cli.incidents import IncidentOutput, write_incident

    if as_test is not None:
        code = write_incident(
            job,
            key=key,
            operator=operator,
            from_=from_,
            until=until,
            against=against,
            checkpoint_dir=checkpoint_dir,
            result=result,
            form=IncidentOutput(as_test, expect, anonymise, names_in(keep)),
        )
        raise typer.Exit(code)

    code = debug_job(
        job,
        key=key,
        operator=operator,
        from_=from_,
        until=until,
        against=against,
        checkpoint_dir=checkpoint_dir,
        script=script,
        trace=trace,
        as_json=json,
    )
    raise typer.Exit(code)


@app.command()
def reproduce(
    job: Annotated[str, typer.Argument(help="Id, name or key of a job that has failed.")],
    as_test: Annotated[
        Path,
        typer.Option(metavar="FILE", dir_okay=False, help="File of the test that is written."),
    ] = Path("test_incident.py"),
    from_: Annotated[
        str,
        typer.Option(
            "--from", metavar="CHECKPOINT", help="A checkpoint that `rheos checkpoints` lists."
        ),
    ] = "latest",
    against: Against = None,
    checkpoint_dir: JobDirectory = None,
    anonymise: Anonymise = False,
    keep: Keep = None,
) -> None:
    """Write a test with the fewest rows that make a job fail. The rows are read from the sources again,
    from a checkpoint on."""
    from rheos.cli.incidents import IncidentOutput, write_reproduction

    code = write_reproduction(
        job,
        from_=from_,
        against=against,
        checkpoint_dir=checkpoint_dir,
        form=IncidentOutput(as_test, None, anonymise, names_in(keep)),
    )
    raise typer.Exit(code)


@app.command()
def why(
    job: Job,
    sink: Annotated[str, typer.Option(help="Name or id of the sink.", show_default=False)],
    row: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="""Some of its fields: '{"user": 7}'.""", show_default=False),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of most recent rows to explain.")] = 3,
    inputs: Annotated[int, typer.Option(min=0, help="Number of input rows to show for each.")] = 20,
    for_: Beyond = None,
    against: Against = None,
    checkpoint_dir: JobDirectory = None,
    from_savepoint: Annotated[
        str | None,
        typer.Option(
            help="Start from this savepoint of the job, instead of its checkpoints.",
            show_default=False,
        ),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Read all input from its beginning.")
    ] = False,
    as_test: AsTest = None,
    expect: Expect = None,
    anonymise: Anonymise = False,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Explain why a job emitted a row. Prints the operators that the row passed, the input rows that
    led to it, and the windows and timers that fired. The program runs again alongside the job, which
    is not affected."""
    from rheos.cli.incidents import IncidentOutput, write_row_test
    from rheos.cli.why import show_why

    if row is None and (as_test is None or expect is None):
        raise typer.BadParameter(
            "name some fields of the row; or a missing row by --as-test and --expect"
        )
    if as_test is not None:
        code = write_row_test(
            job,
            sink=sink,
            row=row,
            for_=for_,
            against=against,
            checkpoint_dir=checkpoint_dir,
            from_savepoint=from_savepoint,
            from_start=from_start,
            form=IncidentOutput(as_test, expect, anonymise, names_in(keep)),
        )
        raise typer.Exit(code)

    assert row is not None
    code = show_why(
        job,
        sink,
        row,
        most=rows,
        inputs=inputs,
        for_=for_,
        against=against,
        checkpoint_dir=checkpoint_dir,
        from_savepoint=from_savepoint,
        from_start=from_start,
        as_json=json,
    )
    raise typer.Exit(code)
