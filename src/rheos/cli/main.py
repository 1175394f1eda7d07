"""The command `rheos`. Modules of one subcommand are imported when it runs: `--help` is fast."""

from __future__ import annotations

import gc
import os
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rheos.api.settings import SETTINGS
from rheos.cli import control, migration, planning, replaying
from rheos.cli.options import (
    PASSES_ARGUMENTS_ON,
    AllowDifferences,
    AlsoServed,
    Arguments,
    AuditFile,
    Compare,
    File,
    GivenSettings,
    Job,
    Json,
    Keep,
    LogJson,
    MetricsNames,
    MetricsPlace,
    OtlpUrl,
    Param,
    ProgramArguments,
    Standby,
    UntilOption,
    VirtualTime,
    WithDashboard,
    duration,
    parameters,
    size,
    takes_settings,
)
from rheos.core.version import VERSION

app = typer.Typer(
    name="rheos",
    help="Flink's execution model in Python, on the Spark you already have.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class OutputFormat(StrEnum):
    TEXT = "text"
    MERMAID = "mermaid"
    PLAN = "plan"
    SPARK = "spark"


class Benchmark(StrEnum):
    GREP = "grep"
    GROUPING = "grouping"
    TABLE = "table"
    SQL = "sql"
    SQL_GREP = "sql-grep"
    SQL_GROUPING = "sql-grouping"
    SQL_TUMBLING = "sql-tumbling"
    SQL_SLIDING = "sql-sliding"
    STATE_MACHINE = "state-machine"
    VECTORISED = "vectorised"
    COMPILED = "compiled"
    INTERVAL_JOIN = "interval-join"
    PATTERN = "pattern"
    TUMBLING = "tumbling"
    SLIDING = "sliding"
    SESSION = "session"
    WINDOW_JOIN = "window-join"
    TABLE_JOIN = "table-join"
    DEDUP = "dedup"
    TOP_N = "top-n"
    BROADCAST = "broadcast"
    ASYNC = "async"
    LATENCY = "latency"
    SOAK = "soak"


def _show_version(wanted: bool) -> None:
    if wanted:
        from rheos.runtimes.host import native_library

        print(f"rheos {VERSION}")
        print(f"small batches: {native_library.form()}")
        raise typer.Exit


def _start_jvm(file: Path, settings: GivenSettings, *, quiet: bool) -> None:
    """Start the JVM while Python still imports modules, which takes as long. Print a message, because
    the first status appears only seconds later."""
    from rheos.runtimes.spark import early_start

    try:
        tables = tomllib.loads(settings.config.read_text()) if settings.config is not None else {}
        text = file.read_text()
    except (OSError, ValueError):
        return  # The code that reads the settings reports the error.
    tables |= {name: value for name, value in settings.values.items() if value is not None}
    runtime, master = str(tables.get("runtime", "auto")), str(tables.get("master", "local"))
    begins = early_start.start(text, runtime, master)
    if begins and not quiet:
        from rheos.cli.terminal import say

        what = "starting Spark, which usually takes about 5 s"
        say(f"{datetime.now():%H:%M:%S} {file.name}: {what}", error=True, flush=True)


@contextmanager
def _cancelled_by_ctrl_c() -> Iterator[None]:
    """Handle Ctrl-C within the context, also during imports, when the JVM is already starting."""
    try:
        yield
    except KeyboardInterrupt as error:
        from rheos.cli.terminal import report

        raise typer.Exit(report(error)) from None


@app.callback()
def _rheos(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.add_typer(control.app)
app.add_typer(replaying.app)
app.add_typer(planning.app)
app.add_typer(migration.app)


@app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
@takes_settings()
def run(
    file: File,
    settings: GivenSettings,
    arguments: Arguments = None,
    until: UntilOption = None,
    standby: Standby = False,
    for_: VirtualTime = None,
    param: Param = None,
    metrics_port: MetricsPlace = None,
    metrics_name: MetricsNames = None,
    otlp: OtlpUrl = None,
    with_dashboard: WithDashboard = False,
    log_json: LogJson = False,
) -> None:
    """Run a job file. Options here override the settings in the file."""
    with _cancelled_by_ctrl_c():
        gc.disable()  # Imports leave little garbage. Searching for it takes a tenth of their time.
        _start_jvm(file, settings, quiet=log_json)
        from rheos.cli.run import MonitoringOptions, run
        from rheos.core.protocol.durations import duration_ms

        gc.freeze()
        gc.enable()

        overrides = replace(
            settings.overrides(),
            parameters=parameters(param),
            until_now=until is not None,
            until_ms=None if for_ is None else duration_ms(for_),
            standby=standby,
        )
        watched = MonitoringOptions(metrics_port, otlp, with_dashboard, log_json, metrics_name or ())
        raise typer.Exit(run(file, arguments or [], overrides, watched))


@app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
@takes_settings()
def upgrade(
    job: Job,
    file: File,
    settings: GivenSettings,
    arguments: Arguments = None,
    keep: Keep = "0s",
    compare: Compare = None,
    allow_differences: AllowDifferences = None,
    against: replaying.Against = None,
    param: Param = None,
    metrics_port: MetricsPlace = None,
    metrics_name: MetricsNames = None,
    otlp: OtlpUrl = None,
    with_dashboard: WithDashboard = False,
    log_json: LogJson = False,
) -> None:
    """Hand a running job over to a changed program. The old program takes a last checkpoint. This
    command then runs the job, as `rheos run` does, and the driver before it ends.

    With --compare, it exits with 3 if the output of the two programs differs. The job then continues
    with the old program."""
    if compare is None and (allow_differences is not None or against is not None):
        raise typer.BadParameter("--allow-differences and --against need --compare")
    with _cancelled_by_ctrl_c(), ExitStack() as turn:
        from rheos.cli.terminal import report
        from rheos.core.errors import RheosError
        from rheos.ops.control.handover_turn import take_turn_of

        try:
            running = take_turn_of(job, f"rheos upgrade {job} {file}", turn)
        except RheosError as error:
            raise typer.Exit(report(error)) from None
        if compare is not None:
            from rheos.cli.upgrade_comparison import CompareRequest, compare_before_upgrade

            given = settings.overrides()
            code = compare_before_upgrade(
                job,
                CompareRequest(
                    file=str(file.absolute()),
                    arguments=arguments or [],
                    parameters=parameters(param),
                    config=given.command_settings.file,
                    options=dict(given.command_settings.options),
                    length=compare,
                    allowed=replaying.names_in(allow_differences),
                    against=None if against is None else str(against.absolute()),
                    allow_dropped=bool(given.override_of("allow_dropped")),
                    new_aggregates=given.override_of("new_aggregates"),
                    renamed=given.override_of("renamed") or {},
                ),
            )
            if code:
                raise typer.Exit(code)
        _start_jvm(file, settings, quiet=log_json)
        from rheos.cli.run import MonitoringOptions, run
        from rheos.core.protocol.durations import duration_ms

        overrides = replace(
            settings.overrides(),
            parameters=parameters(param),
            succeeds=job,
            succeeds_driver=None if compare is None or running is None else running.driver,
            keep_ms=duration_ms(keep),
        )
        watched = MonitoringOptions(metrics_port, otlp, with_dashboard, log_json, metrics_name or ())
        raise typer.Exit(run(file, arguments or [], overrides, watched, turn.close))


@app.command()
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="NAME", help="The job's name, or a path that ends with it.")
    ],
) -> None:
    """Write a new project: a job, tests, settings and a README."""
    from rheos.cli.init import init

    raise typer.Exit(init(folder))


@app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
@takes_settings("parallelism", "runtime")
def explain(
    file: File,
    settings: GivenSettings,
    arguments: Arguments = None,
    format_: Annotated[
        OutputFormat,
        typer.Option(
            "--format",
            help="Output: the program as text or as a Mermaid chart, its physical plan, or Spark's "
            "plan of a batch job.",
        ),
    ] = OutputFormat.TEXT,
) -> None:
    """Show what a job file builds, without running it."""
    from rheos.cli.explain import explain

    raise typer.Exit(explain(file, arguments or [], format_.value, settings.overrides()))


@app.command()
@takes_settings(
    *("parallelism", "runtime", "master", "checkpoint_dir", "checkpoint_interval"),
    checkpoint_interval="1s",
)
def sql(
    settings: GivenSettings,
    execute: Annotated[
        str | None,
        typer.Option("--execute", "-e", metavar="SQL", help="Run these statements, and exit."),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="JOB",
            help="Query the materialized views and keyed states of this job: a running one, "
            "JOB@DIRECTORY with its checkpoint directory, or a savepoint's folder.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Open a shell for SQL, or run statements of -e or a pipe."""
    from rheos.cli.sql import sql

    raise typer.Exit(sql(execute, settings.overrides(), job))


@app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
@takes_settings("parallelism", "allow_dropped", "new_aggregates", "renamed")
def check(
    file: File,
    settings: GivenSettings,
    from_savepoint: Annotated[
        str | None, typer.Option(help="The savepoint's folder or URL.", show_default=False)
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option(
            "--compiled", help="Compare the interpreted and the compiled form of each function."
        ),
    ] = False,
    rows: Annotated[
        int, typer.Option(min=1, help="With --compiled: maximum number of rows read from each source.")
    ] = 100_000,
    arguments: Arguments = None,
    json: Json = False,
) -> None:
    """Check the saved state or the compiled functions of a job.

    --from-savepoint checks whether the savepoint's state fits the program. --compiled checks whether
    compiled functions return what Python returns. The job does not run. Exits with 1 if state would be
    lost or cannot be read, or if the forms of a function differ. Exits with 2 if there is no savepoint.
    """
    from rheos.cli.check import check

    if compiled == (from_savepoint is not None):
        raise typer.BadParameter("pass either --from-savepoint or --compiled")
    if compiled:
        from rheos.cli.form_check import check_forms

        raise typer.Exit(check_forms(file, arguments or [], rows, settings.overrides(), as_json=json))
    assert from_savepoint is not None
    code = check(file, arguments or [], from_savepoint, settings.overrides(), as_json=json)
    raise typer.Exit(code)


@app.command(cls=ProgramArguments, context_settings=PASSES_ARGUMENTS_ON)
@takes_settings("parallelism", "master", "checkpoint_dir", "checkpoint_interval")
def chaos(
    file: File,
    settings: GivenSettings,
    arguments: Arguments = None,
    kill_every: Annotated[
        str,
        typer.Option(
            callback=duration,
            help="Maximum time between faults, counted from the job's first checkpoint.",
        ),
    ] = "5s",
    for_: Annotated[
        str | None,
        typer.Option(
            "--for",
            callback=duration,
            help="Duration of the test; the job is cancelled afterwards.",
            show_default="until it ends by itself",
        ),
    ] = None,
    strikes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of faults to inject; afterwards the job runs undisturbed.",
            show_default="no limit",
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            help="Faults to inject, separated by commas: workers (SIGKILL), freeze (SIGSTOP, later "
            "SIGCONT), executors (SIGKILL; local-cluster only), driver (SIGKILL, then the same "
            "command again; needs --checkpoint-dir); with --link: cut, cut-to-server, "
            "cut-from-server, slow, "
            "lossy; with --server-pid: server (SIGSTOP, later SIGCONT).",
            show_default="workers; cut with --link; server with --server-pid",
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            help="The address (host:port) of a server that the job reaches. A proxy takes its place in "
            "ARGS and in the environment. May be given several times."
        ),
    ] = None,
    server_pid: Annotated[
        list[int] | None,
        typer.Option(
            help="The process id of a server of the job. It is stopped for a while, with its children, "
            "and never killed. May be given several times."
        ),
    ] = None,
    freeze: Annotated[
        str,
        typer.Option(
            callback=duration,
            help="Maximum duration of a freeze or of a fault of a link; half of them last this "
            "long, the others a tenth or less.",
        ),
    ] = "20s",
    seed: Annotated[int, typer.Option(help="Seed that determines kinds, victims and durations.")] = 0,
) -> None:
    """Run a job file while faults hit its processes or servers."""
    from rheos.cli.chaos import chaos

    directory = settings.overrides().override_of("checkpoint_dir")
    given = {**settings.values, "checkpoint_dir": directory, "runtime": "continuous"}
    options = [(SETTINGS[name].option or name, value) for name, value in given.items()]
    code = chaos(
        file,
        arguments or [],
        [("--config", settings.config), *options],
        faults=faults,
        links=link or [],
        server_pids=server_pid or [],
        kill_every=kill_every,
        for_=for_,
        strikes=strikes,
        freeze=freeze,
        seed=seed,
    )
    raise typer.Exit(code)


@app.command()
@takes_settings("state.backend", config=False, **{"state.backend": "memory"})
def bench(
    settings: GivenSettings,
    name: Annotated[Benchmark, typer.Argument(help="Benchmark to run.")],
    parallelism: Annotated[
        int, typer.Option(min=1, help="Number of subtasks; ideally one for each core.")
    ] = os.cpu_count() or 1,
    keys: Annotated[
        int | None, typer.Option(min=1, help="Distinct keys.", show_default="10000")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Length of the measurement in seconds.")
    ] = 10.0,
    warmup: Annotated[
        float, typer.Option(min=0.0, help="Seconds of warm-up before the measurement.")
    ] = 3.0,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="Records per second and core; by default as many as possible (latency: 30000).",
            show_default=False,
        ),
    ] = None,
    buffer_timeout: Annotated[
        str,
        typer.Option(
            help="Maximum time that a row waits in a buffer: 0 sends at once, -1 sends full buffers "
            "only."
        ),
    ] = "10ms",
    checkpoint_interval: Annotated[
        str | None,
        typer.Option(
            callback=duration, help="Time between checkpoints; by default there are no checkpoints."
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Number of rows of a full buffer.")] = 16_384,
    objective: Annotated[
        str | None,
        typer.Option(
            callback=duration,
            help="Latency (p99) to stay under, instead of a buffer timeout.",
            show_default=False,
        ),
    ] = None,
    minutes: Annotated[
        int, typer.Option(min=1, help="soak: duration of the test.", show_default="30")
    ] = 30,
    json: Json = False,
) -> None:
    """Measure throughput and latency on the continuous runtime. With `sql`, compare all SQL programs
    with the same programs written with the API, in turns. With `soak`, run a job with all kinds of
    state, and check that rate, memory and checkpoints stay stable."""
    from rheos.core.protocol.state_config import StateConfig

    state = StateConfig.of(settings.values["state.backend"])
    if name is Benchmark.SOAK:
        from rheos.cli.benchmarks.soak import SoakSettings
        from rheos.cli.soak import soak

        interval = checkpoint_interval or "5s"
        given = SoakSettings(minutes, parallelism, keys or 100_000, interval, state, rate)
        raise typer.Exit(soak(given, json))
    from rheos.cli.bench import bench, bench_sql
    from rheos.cli.benchmarks.driver import BenchSettings

    bench_settings = BenchSettings(
        parallelism=parallelism,
        seconds=seconds,
        warmup_s=warmup,
        keys=keys,
        rate_per_core=rate,
        buffer_timeout=buffer_timeout,
        checkpoint_interval=checkpoint_interval,
        batch_rows=batch_size,
        objective=objective,
        state=state,
    )
    if name is Benchmark.SQL:
        raise typer.Exit(bench_sql(bench_settings, json))
    raise typer.Exit(bench(name.value, bench_settings, json))


@app.command()
def servers(
    name: Annotated[
        str,
        typer.Argument(help="The name of its connector, such as kafka, or hadoop."),
    ],
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on.", show_default="a free one")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder for its data, which is kept.",
            show_default="one that is deleted with the server",
        ),
    ] = None,
) -> None:
    """Run a real server for development until Ctrl-C. It listens on loopback only."""
    from rheos.cli.servers import serve

    raise typer.Exit(serve(name, port, data))


@app.command(name="check-features")
def check_features(
    served: Annotated[str, typer.Argument(help="Parquet file or folder with recorded answers.")],
    training: Annotated[str, typer.Argument(help="Parquet file or folder with training rows.")],
    keys: Annotated[str, typer.Option(help="Key columns, separated by commas.")],
    tolerance: Annotated[
        str,
        typer.Option(help="Maximum age of a newer version that may differ, such as 10s."),
    ] = "0s",
    relative: Annotated[
        float, typer.Option(min=0, help="Relative difference of floats that counts as equal.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare served features with those of training rows.

    The exit status is 1 if an answer differs."""
    from rheos.cli.check_features import check_features as check

    raise typer.Exit(check(served, training, keys, tolerance, relative, as_json))


@app.command()
def connectors(
    name: Annotated[
        str | None, typer.Argument(help="Show only this one, with its capabilities.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the installed connectors and formats. Shows what each can do."""
    from rheos.cli.connectors import show_connectors

    raise typer.Exit(show_connectors(as_json, name))


@app.command()
def dashboard(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = 8484,
    checkpoint_dir: AlsoServed = None,
    savepoint_dir: Annotated[
        list[str] | None,
        typer.Option(
            help="Another folder in which requests may write and read savepoints, in addition to the "
            "checkpoint directory of the job. May be passed several times.",
            show_default=False,
        ),
    ] = None,
    replay_memory: Annotated[
        str | None,
        typer.Option(
            callback=size,
            help="Memory limit of a replay, which runs the job's program for a request, such as 2GB.",
            show_default="4GB, or half of the machine's memory",
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with tokens and their roles.", show_default="one token with all rights"
        ),
    ] = None,
    audit: AuditFile = None,
    certificate: Annotated[
        Path | None, typer.Option(help="TLS certificate; needs --key.", show_default=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Private key of the certificate.", show_default=False)
    ] = None,
    unencrypted: Annotated[
        bool,
        typer.Option(
            "--unencrypted",
            help="Listen on other than loopback addresses without TLS; for use behind a proxy that "
            "encrypts.",
        ),
    ] = False,
) -> None:
    """Serve REST and a page for the jobs of this machine. Needs rheos[dashboard]."""
    from rheos.cli.dashboard import dashboard
    from rheos.connectors.urls import absolute
    from rheos.core.protocol.sizes import size_bytes
    from rheos.ops.dashboard.serving import DashboardConfig

    directories = [absolute(each) for each in checkpoint_dir or []]
    config = DashboardConfig(
        host,
        port,
        directories,
        [absolute(each) for each in savepoint_dir or []],
        None if replay_memory is None else size_bytes(replay_memory),
        tokens,
        audit,
        certificate,
        key,
        unencrypted=unencrypted,
    )
    raise typer.Exit(dashboard(config))


class AssistantRole(StrEnum):
    LOOK = "look"
    READ = "read"
    OPERATE = "operate"


@app.command()
def mcp(
    role: Annotated[
        AssistantRole | None,
        typer.Option(
            help="Role of the assistant, as in the tokens of the dashboard.",
            show_default="all that changes nothing",
        ),
    ] = None,
    checkpoint_dir: AlsoServed = None,
    audit: AuditFile = None,
) -> None:
    """Let an assistant look at the jobs of this machine.

    Serves the Model Context Protocol on standard input and output. Needs rheos[mcp]."""
    from rheos.cli.assistant import serve_assistant
    from rheos.connectors.urls import absolute
    from rheos.runtimes.operation_contract import Role

    allowed = None if role is None else Role(role.value)
    raise typer.Exit(serve_assistant([absolute(each) for each in checkpoint_dir or []], allowed, audit))


def main() -> None:
    """Run the command: entry point of the console script."""
    app()
