"""Database of LanceDB, and calls to it, each with a time limit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from rheos.connectors.calls.bounded_calls import BoundedCalls, LoneCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.lancedb.registration import CONNECTOR
from rheos.connectors.urls import absolute
from rheos.core.connectors.datasets import Dataset, path_dataset
from rheos.core.errors import ConfigurationError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import redacted, redacted_repr

T = TypeVar("T")

TABLE_CALL = OutsideCall(
    server="LanceDB",
    call="sink: the driver inspects or creates the table, and writes the rows of a checkpoint",
    limit_s=120.0,
    limit="starts over with each batch of about 32,768 rows",
    then="the sink waits and reports it; other sinks continue. It makes no other call until this one "
    "returns, and then writes the rows again, which replaces those of their keys",
)
LOOKUP = OutsideCall(
    server="LanceDB",
    call="lookup: the worker queries the table",
    limit_s=30.0,
    limit="starts over with each query: of 1,000 keys, or of 64 vectors",
    then="the batch of keys is asked for again, for `retry_for`",
)
_CALLS = LoneCalls()


def client() -> ModuleType:
    """Return the module `lancedb`. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


def check_table(table: object) -> str:
    """Return a user's name of a table. Raises ProgramError."""
    if not isinstance(table, str) or not table or "/" in table:
        raise ProgramError(f"{table!r} is not the name of a table", hint='write "documents"')
    return table


@dataclass(frozen=True, repr=False)
class VectorStore:
    """Folder of tables: a path, or the URL of an object store."""

    uri: str
    options: tuple[tuple[str, str], ...]
    """Options of the object store, which may be secret."""

    __repr__ = redacted_repr

    @classmethod
    def of(cls, uri: object, options: Mapping[str, object] | None) -> VectorStore:
        """Create it from a user's arguments. Raises ProgramError."""
        client()
        given = os.fspath(uri) if isinstance(uri, str | os.PathLike) else uri
        if not isinstance(given, str) or not given.strip() or given.startswith("db://"):
            raise ProgramError(
                f"uri={uri!r} names no folder of LanceDB",
                hint='write uri="vectors", or a URL of an object store: "s3://bucket/vectors"',
            )
        if options is not None and not isinstance(options, Mapping):
            raise ProgramError(
                f"options= must be a dict, not a {type(options).__name__}",
                hint='write options={"aws_region": "eu-west-1"}',
            )
        values = sorted((str(name), str(value)) for name, value in (options or {}).items())
        return cls(absolute(given), tuple(values))

    def __str__(self) -> str:
        return redacted(self.uri)

    def dataset(self, table: str) -> Dataset:
        """Return the name of a table for catalogs."""
        folder = path_dataset(self.uri)
        return Dataset(folder.namespace, f"{folder.name.rstrip('/')}/{table}.lance")

    def do(self, doing: str, work: Callable[[Any, Progressed], T]) -> T:
        """Return the result of `work`, which is passed the database, and may write. No other such call
        begins until it has returned.

        Raises:
            UnavailableError: The storage does not answer, or a commit has lost against others.
            ConfigurationError: The library refuses the call.
        """
        with self._translated(doing):
            return _CALLS.run(
                self.uri, f"{doing}, in {self}", TABLE_CALL.limit_s, partial(self._call, work)
            )

    def read(self, doing: str, work: Callable[[Any, Progressed], T]) -> T:
        """Return the result of `work`, which is passed the database, and only reads.

        Raises:
            UnavailableError: The storage does not answer.
            ConfigurationError: The library refuses the call.
        """
        calls = BoundedCalls()
        try:
            with self._translated(doing):
                return calls.run(f"{doing}, in {self}", LOOKUP.limit_s, partial(self._call, work))
        finally:
            calls.close()

    def _call(self, work: Callable[[Any, Progressed], T], progressed: Progressed) -> T:
        options = dict(self.options) or None
        return work(client().connect(self.uri, storage_options=options), progressed)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except RheosError:
            raise
        except (OSError, RuntimeError) as error:
            raise UnavailableError(
                f"{doing}, in {self}: {self._first_line(error)}",
                hint="check the folder, and the options of the object store. A running job retries",
            ) from None
        except (ValueError, TypeError, NotImplementedError) as error:
            raise ConfigurationError(
                f"{doing}, in {self}: {self._first_line(error)}",
                hint="check whether the table exists, and whether it was altered while the job ran",
            ) from None

    def _first_line(self, error: Exception) -> str:
        """Return the first line of an error, without the values of options."""
        text = (str(error).splitlines() or [type(error).__name__])[0]
        for _, value in self.options:
            text = text.replace(value, "***") if value else text
        return redacted(text)
