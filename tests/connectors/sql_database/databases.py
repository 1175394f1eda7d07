"""Databases of single tests: SQLite in a file, MariaDB and PostgreSQL on real servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

import rheos as rh
from rheos.connectors.sql_database.address import DatabaseAddress, DatabaseSystem
from rheos.core.connectors.contract import Committer, Sink, SinkWriter
from rheos.core.connectors.sink_capabilities import own_committer, prepared, staged_sink
from rheos.core.protocol.ids import CheckpointId
from tests.connectors.ports import sink_context


@dataclass(frozen=True)
class TestDatabase:
    """An empty database. Its statements use a connection with the sink's settings."""

    __test__ = False

    url: str
    folder: str
    writers: list[SinkWriter] = field(default_factory=list)
    """Writers to close after the test."""

    @property
    def address(self) -> DatabaseAddress:
        return DatabaseAddress.of(self.url)

    @property
    def backend(self) -> DatabaseSystem:
        return self.address.backend

    def run(self, *statements: str) -> None:
        with self.address.connected() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.address.connected() as connection:
            found: Any = connection.execute(sa.text(query))
            rows: list[Any] = found.fetchall()
            return [tuple(row) for row in rows]

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table, as SQLAlchemy reads them by its columns."""
        with self.address.connected() as connection:
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            columns: list[Any] = [self._selected(each) for each in table.columns]
            found = connection.execute(sa.select(*columns).select_from(table))
            return [dict(row._mapping) for row in found]

    def _selected(self, column: Any) -> Any:
        if self.backend is DatabaseSystem.MYSQL:
            if isinstance(column.type, sa.Float):
                # SQLAlchemy would return a decimal.
                return sa.literal_column(f"`{column.name}`").label(column.name)
            if isinstance(column.type, mysql.TINYINT) and column.type.display_width == 1:
                return sa.type_coerce(column, sa.Boolean()).label(column.name)
        return column


class Job:
    """A job that stages rows of a table and commits them, by hand."""

    def __init__(
        self,
        database: TestDatabase,
        schema: pa.Schema,
        table: str = "t",
        changes: bool = False,
        begin: bool = True,
        **how: Any,
    ) -> None:
        self._database = database
        self.schema = schema
        made: Sink | None = rh.sql_database.sink(table, url=database.url, **how)
        if changes:
            assert made is not None
            made = made.of_changes(made.key, "gone")  # type: ignore[attr-defined]
        assert made is not None
        made.validate(schema)
        self.sink = staged_sink(prepared(made, schema, ("job", "sink")), f"{database.folder}/staged")
        self.attempt = 0
        self.checkpoint = 0
        if begin:
            self.begin()

    def begin(self, keep: tuple[bytes, ...] = ()) -> None:
        """Begin an attempt, after the driver has removed what earlier ones staged."""
        self.attempt += 1
        self.driver().abort_stale("job", self.attempt, keep)  # type: ignore[arg-type]
        self.writer: SinkWriter = self.sink.open(sink_context(self.schema, attempt=self.attempt))
        self._database.writers.append(self.writer)
        own = own_committer(self.writer)
        assert own is not None
        self.own = own

    def driver(self) -> Committer:
        committer = self.sink.committer()
        assert committer is not None
        return committer

    def stage(self, *rows: tuple[Any, ...]) -> list[bytes]:
        """Write rows, and pass a barrier."""
        columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in self.schema]
        arrays = [
            pa.array(values, kind) for values, kind in zip(columns, self.schema.types, strict=True)
        ]
        self.writer.write(pa.record_batch(arrays, schema=self.schema))
        self.checkpoint += 1
        return self.writer.prepare(CheckpointId(self.checkpoint))

    def put(self, *rows: tuple[Any, ...]) -> None:
        """Write rows, and commit them with a checkpoint."""
        self.own.commit(self.stage(*rows))
