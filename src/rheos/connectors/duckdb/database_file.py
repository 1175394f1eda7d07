"""File of DuckDB, and calls that open it, work on it and close it.

DuckDB locks its file: a process that writes excludes all others. So no connection stays open between
calls, and a call waits for the lock for a few seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from types import ModuleType
from typing import Any, TypeVar

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.duckdb.registration import CONNECTOR
from rheos.core.connectors.datasets import Dataset
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError

T = TypeVar("T")

_LOCK_S = 10.0
_LOCK_PAUSE_S = 0.02

TRANSACTION = OutsideCall(
    server="DuckDB",
    call="sink: open the file, and each statement",
    limit_s=60.0,
    limit="starts over with each statement of about 32,768 rows. Opening the file waits 10 s for its "
    "lock",
    then="the statement is interrupted, and the commit is retried every second until it succeeds; the "
    "table `rheos_ledger` records which epochs the database has",
)
LOOKUP = OutsideCall(
    server="DuckDB",
    call="lookup: open the file, and one query",
    limit_s=30.0,
    then="the query is interrupted, and the batch of keys is asked for again, for `retry_for`",
)
SOURCE = OutsideCall(
    server="DuckDB",
    call="source: open the file, and the query of each block",
    limit_s=60.0,
    limit="starts over with each block",
    then="the query is interrupted, the attempt fails and restarts, and the source continues after the "
    "last key of its checkpoint",
)


def client() -> ModuleType:
    """Return the module `duckdb`. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


@dataclass(frozen=True)
class DuckDbFile:
    """A file, by its absolute path."""

    path: str

    @classmethod
    def of(cls, path: object) -> DuckDbFile:
        """Create it from a user's argument. Raises ProgramError."""
        client()
        given = os.fspath(path) if isinstance(path, str | os.PathLike) else path
        if not isinstance(given, str) or not given.strip() or given.startswith(":memory:"):
            raise ProgramError(
                f"path={path!r} names no file of DuckDB", hint='write path="shop.duckdb"'
            )
        if ":" in given.split("/")[0]:
            raise ProgramError(
                f"path={given!r} is not a local file, and only those are supported",
                hint='write path="shop.duckdb"',
            )
        return cls(os.path.abspath(os.path.expanduser(given)))

    def dataset(self, schema: str | None, table: str) -> Dataset:
        """Return the name of a table for catalogs."""
        return Dataset(f"duckdb:{self.path}", f"{schema or 'main'}.{table}")

    def do(
        self,
        doing: str,
        limits: OutsideCall,
        work: Callable[[Any, Progressed], T],
        writes: bool = False,
    ) -> T:
        """Return the result of `work`, which is passed a connection and the function that restarts the
        limit. What `work` has not committed is rolled back.

        Args:
            doing: Beginning of error messages: "the table 't' cannot be read".
            limits: The kind of the call, with its time limit.
            work: The work.
            writes: Whether it writes; the file is then created if it does not exist.

        Returns:
            The result.

        Raises:
            UnavailableError: Another process holds the file's lock, or the call took too long.
            InputError: The database refuses a row.
            ConfigurationError: The file or a table does not exist, or is damaged.
        """
        held: list[Any] = []

        def call(progressed: Progressed) -> T:
            connection = self._opened(doing, writes)
            held.append(connection)
            try:
                connection.execute("SET TimeZone = 'UTC'")
                return work(connection, progressed)
            finally:
                connection.close()

        calls = BoundedCalls()
        try:
            return calls.run(f"{doing}, in {self.path}", limits.limit_s, call)
        except AbandonedCallError:
            with suppress(Exception):
                held[0].interrupt()
            raise
        except client().Error as error:
            raise self._translated(error, doing) from None
        finally:
            calls.close()

    def _opened(self, doing: str, writes: bool) -> Any:
        duckdb, until_s = client(), monotonic() + _LOCK_S
        if not writes and not os.path.exists(self.path):
            raise ConfigurationError(
                f"{doing}: the file {self.path} does not exist on this machine",
                hint="correct path=, or copy the file to each worker",
            )
        while True:
            try:
                return duckdb.connect(self.path, read_only=not writes)
            except duckdb.ConnectionException as error:
                # A connection of this process already writes: this one shares the database with it.
                if writes or "different configuration" not in str(error):
                    raise
                writes = True
            except duckdb.IOException as error:
                if "lock" not in str(error) or monotonic() > until_s:
                    raise
                sleep(_LOCK_PAUSE_S)

    def _translated(self, error: Exception, doing: str) -> RheosError:
        duckdb, lines = client(), str(error).strip().splitlines() or [type(error).__name__]
        what, detail = f"{doing}, in {self.path}: {lines[0]}", "\n".join(lines[1:]).strip() or None
        text = str(error)
        if isinstance(error, duckdb.IntegrityError | duckdb.DataError):
            return InputError(
                what, hint="filter out such rows upstream, or alter the table", detail=detail
            )
        if isinstance(error, duckdb.IOException) and "lock" in text:
            hint = (
                "end the process that holds the file open; DuckDB allows one that writes. A job retries"
            )
            return UnavailableError(what, hint=hint, detail=detail)
        is_bad_file = any(each in text for each in ("not a valid", "does not exist", "newer version"))
        retried = duckdb.OperationalError | duckdb.InterruptException | MemoryError
        if isinstance(error, retried) and not is_bad_file:
            hint = "check the disk and the memory of the machine. A running job retries"
            return UnavailableError(what, hint=hint, detail=detail)
        hint = "check the file, and whether the table was altered while the job ran"
        return ConfigurationError(what, hint=hint, detail=detail)


def quoted(*names: str | None) -> str:
    """Quote a name of up to several parts."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names if name is not None)


def fetched(connection: Any, query: str, values: Mapping[str, object] | None = None) -> pa.Table:
    """Return the result of a query, with parameters `$name`."""
    return connection.sql(query, params=dict(values) if values else None).to_arrow_table()
