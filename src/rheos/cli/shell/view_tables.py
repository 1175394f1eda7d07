"""The materialized views of a job, as tables of the shell: `rheos sql --job`."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from rheos.api.environment import Environment
from rheos.api.time_to_live import FOREVER
from rheos.connectors.collection import CollectionSource
from rheos.core.errors import CheckpointError
from rheos.ops.views.job_views import JobViews
from rheos.ops.views.view_rows import ViewRows


class ViewTables:
    """Reads the views that a query names when it runs. All of them are read at one checkpoint."""

    def __init__(self, env: Environment, views: JobViews) -> None:
        self._env = env
        self._views = views

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of each view."""
        try:
            return {info.name: [*info.columns] for info in self._views.views()}
        except CheckpointError:
            return {}  # A query reports it.

    def read(self, query: exp.Expr) -> str | None:
        """Make the views that a query names known as tables.

        Args:
            query: The query.

        Returns:
            The checkpoint of the rows, for people; None if the query names no view.

        Raises:
            CheckpointError: The job has no checkpoint yet.
            ConfigurationError: A view has too many rows.
        """
        session = self._env._sql_session()
        session.ttl = session.ttl or FOREVER
        catalog = session.catalog
        known = {name.casefold(): name for name in self.columns()}
        named = {table.name.casefold() for table in query.find_all(exp.Table)}
        wanted = [name for folded, name in known.items() if folded in named]
        if not wanted:
            self._views.views()  # Raises an error if none can be read.
            return None
        found = self._views.scans(*wanted)
        for name, rows in found.items():
            catalog.remove(name)
            self._env.register(name, self._env.from_source(_source(rows), name=name))
        first = found[wanted[0]]
        when = first.completed.isoformat(" ", "seconds").removesuffix("+00:00")
        return f"rows of checkpoint {first.checkpoint}, completed {when} UTC"


def _source(rows: ViewRows) -> CollectionSource:
    table: pa.Table = rows.table
    # The source reads one chunk; a scan of several subtasks has several.
    return CollectionSource(table.combine_chunks(), None)
