"""Session of the shell: runs statements in one environment, shows rows of queries as they arrive, and
keeps jobs running in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.text import Text
from sqlglot import exp

from rheos.api.environment import Environment
from rheos.cli.shell.current_rows import CurrentRows, cell, drawn
from rheos.cli.terminal import say
from rheos.core.errors import ConfigurationError, Site
from rheos.core.graph.validate import unbounded_sources
from rheos.core.known_names import names_hint
from rheos.core.protocol.shown_rows import values_of
from rheos.core.site import done_for
from rheos.ops.views.job_views import JobViews
from rheos.ops.views.view_tables import ViewTables
from rheos.runtimes.host.interruptible_waits import thread_ended
from rheos.runtimes.job import JobState, JobStatus
from rheos.runtimes.job_handle import JobHandle
from rheos.sql.dialect import parse
from rheos.sql.first_rows import ORDER, is_first_rows, ordered_query
from rheos.sql.session import SqlSession
from rheos.sql.text import SqlText

COMMANDS = {
    ".help": "show this help",
    ".read FILE": "run the statements of a file",
    ".jobs": "the running INSERT INTO jobs, and their status",
    ".quit": "exit the shell, which ends its jobs",
}
_HELP = (
    "Statements end with a semicolon: SELECT, INSERT INTO (starts a job), CREATE TABLE, CREATE "
    "VIEW,\nEXPLAIN, SHOW TABLES, DESCRIBE, SET. Ctrl-C ends a running query."
)
_LOOK_EVERY_S = 0.25
_OTHER_JOBS = 4
"""Number of jobs for which the shell's Spark master has slots."""
_STARTS_WITHIN_S = 10
_RESULT = "result"
_UNSORTED = "ORDER BY sorts no rows: the query does not end, and its rows are shown as they arrive"


@dataclass
class RunningJob:
    """Job of an INSERT INTO. A thread waits for its end."""

    name: str
    handle: JobHandle
    ended: Callable[[], None]
    """Called by that thread when the job has ended."""
    error: BaseException | None = None
    over: bool = False

    def __post_init__(self) -> None:
        self._waits = threading.Thread(target=self._wait, name=f"wait for {self.name}", daemon=True)
        self._waits.start()

    def _wait(self) -> None:
        try:
            self.handle.wait()
        except BaseException as error:
            self.error = error
        self.over = True
        self.ended()

    def join(self) -> None:
        thread_ended(self._waits)

    def line(self) -> str:
        return f"{self.name}: {self.handle.status().summary}"


class ShellSession:
    """Executes the user's input. With `live`, rows of a running query are shown as a table that is
    redrawn, otherwise line by line."""

    def __init__(
        self, env: Environment, console: Console, *, live: bool, views: JobViews | None = None
    ) -> None:
        """Begin a session. If `views` are those of a job, queries read them as tables."""
        slots = _OTHER_JOBS * (env._parallelism + 1)
        env._config = replace(env._config, extra_slots=slots)
        self._env = env
        self._console = console
        self._live = live
        self._views = None if views is None else ViewTables(env, views)
        self._sql: SqlSession = env._sql_session()
        self._sql.say = self._say
        self._sql.sorts = True
        self._number = 0
        self.jobs: list[RunningJob] = []
        self.job_ended: Callable[[], None] = lambda: None
        """Function that is called when a job of INSERT INTO has ended, in a separate thread."""
        self.ended = False

    def tables(self) -> dict[str, list[str]]:
        """Return the known tables and their columns."""
        views = {} if self._views is None else self._views.columns()
        return {**views, **self._sql.catalog.columns()}

    def run(self, text: str, file: str | None = None) -> None:
        """Run all statements in the text, or one command. Raises the error of the first that fails."""
        if text.lstrip().startswith("."):
            self._command(text.strip())
            return
        sql = SqlText(text, file or "sql", self._sql.dialect)
        with done_for(Site(file or "sql", 1)):
            statements = parse(sql)
            self._sql.prepare(statements)
            for each in statements:
                self._statement(sql, each)

    def close(self, *, cancel: bool) -> None:
        """Wait for the jobs, or cancel them. Raises the error of the first one that failed."""
        for job in self.jobs:
            if cancel and not job.over:
                self._say(f"{job.name} ends with the shell")
                job.handle.cancel()
            job.join()
        if cancel:
            return
        for job in self.jobs:
            if job.error is not None:
                raise job.error

    def failures(self) -> list[tuple[str, BaseException]]:
        """Return the names and errors of the jobs that have failed since the last call."""
        over = [job for job in self.jobs if job.over]
        self.jobs = [job for job in self.jobs if not job.over]
        return [(job.name, job.error) for job in over if job.error is not None]

    # --- commands -------------------------------------------------------------------------------------

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        match name:
            case ".help":
                self._say("\n".join([_HELP, *(f"{each:12} {what}" for each, what in COMMANDS.items())]))
            case ".read":
                self._read(rest.strip())
            case ".jobs":
                self._say("\n".join(job.line() for job in self.jobs) or "no jobs are running")
            case ".quit" | ".exit":
                self.ended = True
            case _:
                raise ConfigurationError(
                    f"unknown command {name}", hint=names_hint(name, COMMANDS, "the commands are")
                )

    def _read(self, name: str) -> None:
        try:
            text = Path(name).expanduser().read_text()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{name!r} cannot be read: {error}") from None
        self.run(text, name)

    # --- statements -----------------------------------------------------------------------------------

    def _statement(self, sql: SqlText, statement: exp.Expr) -> None:
        if isinstance(statement, exp.Query | exp.Values):
            self._query(sql, statement)
            return
        before = len(self._sql.written)
        self._sql.carry_out(sql, statement)
        self._sql.write()
        if len(self._sql.written) != before:
            handle = self._started("insert")
            job = RunningJob(f"sql-insert-{self._number}", handle, lambda: self.job_ended())
            self.jobs.append(job)
            if self._live:
                self._say(f"{job.name} runs")

    def _query(self, sql: SqlText, statement: exp.Expr) -> None:
        if self._views is not None and (read := self._views.read(statement)) is not None:
            say(f"rows of {read.moment}", error=True)
        stream = self._sql.stream(sql, statement)
        stream.collect(_RESULT)
        names, changes = stream.schema.names, stream._type.changes
        endless = bool(unbounded_sources(self._env._program.graph()))
        if ORDER in names and endless and (changes is None or not self._live):
            names = [name for name in names if name != ORDER]
            query = ordered_query(statement)
            if not is_first_rows(query):
                self._sql.note(sql, query.args["order"], _UNSORTED)
        rows = CurrentRows(names, changes)
        handle = self._started("query")
        try:
            if self._live:
                self._look_on(handle, rows)
            elif endless:
                self._follow(handle, names)
            else:
                rows.add(handle.wait().collected[_RESULT])
        except BaseException as error:
            handle.cancel()
            if not (self._live and isinstance(error, KeyboardInterrupt)):
                raise
        if self._live or not endless:
            self._say("\n".join(drawn(rows)))

    def _look_on(self, handle: JobHandle, rows: CurrentRows) -> None:
        """Redraw the table as rows arrive, until the query ends."""
        with Live(console=self._console, transient=True, auto_refresh=False) as shown:
            for table in self._coming(handle):
                rows.add(table)
                width, height = self._console.size
                lines = drawn(rows, max(1, height - 4), width)
                status = handle.status()
                if status.state is JobState.STARTING:
                    lines = [self._starting(status)]
                shown.update(Text("\n".join(lines)), refresh=True)

    def _starting(self, status: JobStatus) -> str:
        if status.running_s < _STARTS_WITHIN_S or all(job.over for job in self.jobs):
            return "starting the query"
        return "the query waits for free slots in Spark: INSERT INTO jobs are running (.jobs)"

    def _follow(self, handle: JobHandle, names: Sequence[str]) -> None:
        """Print each row as it arrives, one per line."""
        self._say("\t".join(names))
        for table in self._coming(handle):
            for row in zip(*(values_of(table[name]) for name in names), strict=True):
                self._say("\t".join(map(cell, row)))

    def _coming(self, handle: JobHandle) -> Iterator[pa.Table]:
        """Yield the rows of a running query, until it ends. Raises the error that ended it."""
        while True:
            try:
                yield handle.wait(_LOOK_EVERY_S).collected[_RESULT]
                return
            except TimeoutError:
                yield from handle.take_collected().values()

    def _started(self, what: str) -> JobHandle:
        self._number += 1
        return self._env.execute_async(f"sql-{what}-{self._number}")

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)
