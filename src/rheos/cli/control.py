"""Commands that inspect and control running jobs: `jobs`, `status`, `checkpoints`, `metrics`,
`monitoring`, `events`, `logs`, `profile`, `why-not`, `savepoint`, `stop`, `rescale`, `rollback`,
`cancel`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rheos.cli.operations import add_commands
from rheos.cli.options import Job, Json, Keep, Timeout

app = typer.Typer()

Directory = Annotated[
    str | None,
    typer.Argument(
        metavar="DIR",
        help="Directory in which to create the savepoint's folder: a path or an fsspec URL.",
        show_default="below the job's checkpoint directory",
    ),
]


@app.command()
def jobs(
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(
            help="List the running jobs of this checkpoint directory instead, on any machine.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the running jobs of this user on this machine."""
    from rheos.cli.jobs import show_jobs

    raise typer.Exit(show_jobs(checkpoint_dir, json))


@app.command()
def status(
    job: Annotated[
        str | None,
        typer.Argument(metavar="JOB", help="Its id or name.", show_default="all jobs on this machine"),
    ] = None,
    json: Json = False,
) -> None:
    """Print the health of jobs: problems, and what to do."""
    from rheos.cli.health import show_status

    raise typer.Exit(show_status(job, json))


@app.command()
def checkpoints(
    job: Job,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(help="Read the metrics there, whether the job runs or not.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List a job's retained checkpoints and its savepoints."""
    from rheos.cli.jobs import show_checkpoints

    raise typer.Exit(show_checkpoints(job, checkpoint_dir, json))


@app.command()
def metrics(
    job: Job,
    metric: Annotated[
        str | None,
        typer.Option(help="Print this metric of each subtask, such as rows_in.", show_default=False),
    ] = None,
    history: Annotated[
        bool,
        typer.Option(
            "--history",
            help="Show the history of metrics: at high resolution for an hour, at low resolution for a "
            "week.",
        ),
    ] = False,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(help="Read the history there, whether the job runs or not.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Print the metrics of a running job, by operator."""
    from rheos.cli.metrics import show_history, show_metrics

    if history or checkpoint_dir is not None:
        raise typer.Exit(show_history(job, metric, checkpoint_dir, json))
    raise typer.Exit(show_metrics(job, metric, json))


class Monitoring(StrEnum):
    GRAFANA = "grafana"
    ALERTS = "alerts"


@app.command()
def monitoring(
    what: Annotated[
        Monitoring, typer.Argument(help="A dashboard for Grafana, or alerting rules for Prometheus.")
    ],
) -> None:
    """Print a Grafana dashboard or Prometheus alerts."""
    from rheos.cli.metrics import show_alerts, show_dashboard

    raise typer.Exit(show_dashboard() if what is Monitoring.GRAFANA else show_alerts())


@app.command()
def events(
    job: Job,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(help="Read the events there, whether the job runs or not.", show_default=False),
    ] = None,
    lines: Annotated[int, typer.Option(min=1, max=1000, help="Number of the newest events.")] = 50,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Print the protocol trace of a running job's driver instead, for developers of Rheos.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Print the event log of a job, the newest event first. It covers all drivers of the job, and
    also a job that has ended."""
    from rheos.cli.logs import show_events, show_trace

    raise typer.Exit(show_trace(job) if trace else show_events(job, checkpoint_dir, lines, json))


class LogLevelOption(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@app.command()
def logs(
    job: Job,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines, until Ctrl-C.")
    ] = False,
    lines: Annotated[
        int, typer.Option(min=0, max=1000, help="Number of most recent lines to begin with.")
    ] = 100,
    level: Annotated[
        LogLevelOption, typer.Option(help="Minimum level to show.")
    ] = LogLevelOption.DEBUG,
    json: Annotated[bool, typer.Option("--json", help="Print each line as JSON.")] = False,
) -> None:
    """Print what a job and the program's functions have logged. The job may have ended."""
    from rheos.cli.logs import show_logs

    raise typer.Exit(show_logs(job, follow=follow, lines=lines, level=level.value, as_json=json))


@app.command("why-not")
def why_not(
    job: Job,
    operator: Annotated[str, typer.Option(help="The operator's id, or its name.", show_default=False)],
    key: Annotated[
        str | None,
        typer.Option(help="Its key: ada, or user=ada,day=3.", show_default="all keys"),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="START[/END]",
            help="2026-11-24T04:00:00Z, or ms since the epoch.",
            show_default="the next one to fire",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Explain why a window has not fired yet. Prints which split holds the watermark back and since
    when, how far it must come, whether the key is in state, and how many rows were late."""
    from rheos.cli.why_not import show_why_not

    raise typer.Exit(show_why_not(job, operator, key, window, json))


@app.command()
def stop(
    job: Job,
    directory: Directory = None,
    with_savepoint: Annotated[
        bool, typer.Option("--savepoint", help="Take a savepoint, in DIR if specified.")
    ] = False,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain",
            help="End the input first, so that all windows fire; for a job that will not be resumed.",
        ),
    ] = False,
    timeout: Timeout = "10m",
) -> None:
    """Stop a job with a savepoint. `rheos stop JOB --savepoint [DIR]` commits all output up to the
    savepoint, and nothing after it. Prints the savepoint's folder."""
    from rheos.cli.jobs import stop_job

    raise typer.Exit(stop_job(job, directory, with_savepoint, drain, timeout))


@app.command()
def rollback(job: Job, keep: Keep = "0s") -> None:
    """Hand an upgraded job back to its former program. `rheos upgrade --keep` keeps that program
    ready. It continues from a checkpoint that the newer program takes for it."""
    from rheos.cli.jobs import roll_back_job

    raise typer.Exit(roll_back_job(job, keep))


add_commands(app)
