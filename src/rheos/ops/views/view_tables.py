"""The materialized views and keyed states of a job, as tables of the queries of one environment.

A state has its name from `rheos states`. The name of one of several states of an operator has a dot. A
query writes it as a table of a database: `sessions.total`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from rheos.api.environment import Environment
from rheos.api.time_to_live import FOREVER
from rheos.connectors.collection import CollectionSource
from rheos.core.errors import CheckpointError
from rheos.ops.views.view_rows import ViewRows
from rheos.runtimes.views.answers import ViewInfo


class ReadTables(Protocol):
    """The views and states of a job."""

    def views(self) -> Sequence[ViewInfo]: ...

    def states(self) -> Sequence[ViewInfo]: ...

    def scans(self, *names: str) -> dict[str, ViewRows]: ...


class ViewTables:
    """Reads the views and states that a query names when it runs, all of them at one checkpoint."""

    def __init__(self, env: Environment, views: ReadTables) -> None:
        self._env = env
        self._views = views

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of each view, and of each state without a view of its name."""
        try:
            found = {info.name: [*info.columns] for info in self._views.views()}
            views = {name.casefold() for name in found}
            for info in self._views.states():
                if info.name.casefold() not in views:
                    found[info.name] = [*info.columns]
            return found
        except CheckpointError:
            return {}  # A query reports it.

    def read(self, query: exp.Expr) -> ViewRows | None:
        """Make the views and states that a query names known as tables.

        Args:
            query: The query. Names that are not a single word are replaced.

        Returns:
            The rows of one of them. Those of the others are of the same checkpoint. None if the query
            names none.

        Raises:
            CheckpointError: The job has no checkpoint yet.
            ConfigurationError: A view or state has too many rows.
        """
        session = self._env._sql_session()
        session.ttl = session.ttl or FOREVER
        catalog = session.catalog
        known = {name.casefold(): name for name in self.columns()}
        named = {name for table in query.find_all(exp.Table) if (name := _rename(table, known))}
        wanted = [name for folded, name in known.items() if folded in named]
        if not wanted:
            self._views.views()  # Raises an error if none can be read.
            return None
        found = self._views.scans(*wanted)
        for name, rows in found.items():
            table = _registered_name(name)
            catalog.remove(table)
            self._env.register(table, self._env.from_source(_source(rows), name=table))
        return found[wanted[0]]


def _source(rows: ViewRows) -> CollectionSource:
    table: pa.Table = rows.table
    # The source reads one chunk; a scan of several subtasks has several.
    return CollectionSource(table.combine_chunks(), None)


def _rename(table: exp.Table, known: Mapping[str, str]) -> str | None:
    """Return the known name that a table of a query has, in lower case; None if it is not known. If the
    name is not a single word, replace it in the query."""
    written = ".".join(part.name for part in table.parts)
    name = known.get(written.casefold())
    if name is None:
        return None
    registered = _registered_name(name)
    if registered != name:
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(registered, quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    return written.casefold()


def _registered_name(name: str) -> str:
    """Return a single word for the name of a view or state, different for each name."""
    return name if re.fullmatch(r"\w+", name) else f"state_{name.encode().hex()}"
