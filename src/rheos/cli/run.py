"""`rheos run`: runs a user's file, shows its jobs, and stops them on Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rheos.api import overrides
from rheos.api.environment import Environment
from rheos.api.overrides import Overrides
from rheos.api.program_file import no_program, run_file
from rheos.cli.status import StatusDisplay, final_table
from rheos.cli.terminal import FAILED, Terminal, report, say, say_lines
from rheos.core.errors import ConfigurationError
from rheos.core.metrics.model import MetricsReport
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.spark import early_start


@dataclass(frozen=True)
class MonitoringOptions:
    """Exports and endpoints through which jobs are monitored while they run."""

    metrics_port: str | None = None
    """Port, or address and port, at which Prometheus scrapes the jobs' metrics."""
    otlp: str | None = None
    """URL of the OpenTelemetry collector to which metrics are sent."""
    dashboard: bool = False
    log_json: bool = False
    """Whether everything that is logged goes to stderr as JSON, instead of output for people."""
    metrics_names: Sequence[str] = ()
    """Host names for this machine that requests for metrics may use."""

    def begin(self, jobs: Sequence[JobHandle], exports: ExitStack) -> None:
        """Start the exports, which run until `exports` is closed. Raises ConfigurationError."""

        def metrics() -> list[MetricsReport]:
            return [job.metrics() for job in jobs]

        if self.log_json:
            from rheos.ops.control.job_logs import LogStream

            exports.callback(LogStream(sys.stderr).close)
        if self.metrics_port is not None:
            from rheos.ops.control.metrics_port import MetricsPort

            port = MetricsPort(self.metrics_port, metrics, self.metrics_names)
            exports.callback(port.close)
            print(f"metrics for Prometheus: {port.url}", file=sys.stderr)
        if self.otlp is not None:
            from rheos.ops.control.otlp_export import OtlpExport

            exports.callback(OtlpExport(self.otlp, metrics).close)
        if self.dashboard:
            from rheos.ops.dashboard.serving import DashboardConfig, DashboardServer

            server = DashboardServer(DashboardConfig(port=0))
            exports.callback(server.close)
            print(server.announcement(to_terminal=sys.stderr.isatty()), file=sys.stderr)


def run(
    file: Path,
    arguments: Sequence[str],
    settings: Overrides,
    watched: MonitoringOptions | None = None,
    started: Callable[[], None] | None = None,
) -> int:
    """Run the file, and wait for the jobs that it starts. Call `started` when a job runs here. Return
    the exit code: that of the program, or 1 if a job has failed."""
    jobs: list[JobHandle] = []
    watched = watched or MonitoringOptions()
    with ExitStack() as exports:
        try:
            watched.begin(jobs, exports)
        except ConfigurationError as error:
            return report(error)
        return _run(file, arguments, settings, jobs, started, quiet=watched.log_json)


def _run(
    file: Path,
    arguments: Sequence[str],
    settings: Overrides,
    jobs: list[JobHandle],
    started: Callable[[], None] | None,
    *,
    quiet: bool,
) -> int:
    environments: list[Environment] = []

    def submitted(handle: JobHandle) -> None:
        jobs.append(handle)
        if started is not None:
            started()
        _interrupt_raises()
        if handle.endless:
            say(
                f"source {handle.endless[0]!r} never ends: the job runs in virtual time until Ctrl-C; "
                "add --for 1m to end it after a minute",
                error=True,
            )

    console = Terminal(stderr=True, quiet=quiet)
    with _interrupts_restored():
        ended: BaseException | None = None
        with StatusDisplay(console) as display:
            settings = replace(
                settings, listener=display.listener, submitted=submitted, made=environments.append
            )
            try:
                with overrides.applied(settings):
                    run_file(file, arguments)
                if not jobs:
                    for environment in environments:
                        environment.check_executed()
                    if not environments:
                        raise no_program(file)
                # A program may start jobs without waiting for them.
                for job in jobs:
                    job.wait()
            except KeyboardInterrupt as error:
                ended = error
                for job in jobs:
                    job.cancel()
            except (Exception, SystemExit) as error:
                ended = error
        early_start.discard()
        for job in jobs:
            console.print(final_table(job.status()))
    if isinstance(ended, SystemExit):
        return _exit_code(ended)
    return 0 if ended is None else report(ended)


def _interrupt_raises() -> None:
    """Restore Python's handler, which raises KeyboardInterrupt. PySpark's own handler, set with the
    session, would cancel all Spark jobs of the session, also those of others."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _interrupts_restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def _exit_code(left: SystemExit) -> int:
    """Return the exit code that Python would use for this SystemExit."""
    if left.code is None or isinstance(left.code, int):
        return left.code or 0
    say_lines(left.code, error=True)
    return FAILED
