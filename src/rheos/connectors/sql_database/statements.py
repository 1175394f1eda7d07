"""Statements that write rows to a table: SQLAlchemy writes them in the dialect of the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, assert_never

import polars as pl

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.sql_database.address import DatabaseSystem, client

PUT_ROWS = 5000
"""Maximum number of rows of a statement."""
_DELETE_VALUES = 900
"""Maximum number of values of a deletion. Old versions of SQLite allow 999 parameters."""


@dataclass(frozen=True)
class TableWriting:
    """Writing of rows to one table."""

    backend: DatabaseSystem
    dialect: Any
    """Dialect of a connection, which knows the version of the server."""
    schema: str | None
    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @cached_property
    def _table(self) -> Any:
        sqlalchemy = client()
        # Columns without types: no value is cast, so the database's own conversion decides.
        columns = [sqlalchemy.column(name) for name in self.columns]
        return sqlalchemy.table(self.table, *columns, schema=self.schema)

    @cached_property
    def insertion(self) -> str:
        """Return the INSERT, which replaces the row with the same key if there is a key. Its parameters
        are the values of the columns."""
        others = [name for name in self.columns if name not in self.key]
        match self.backend:
            case DatabaseSystem.MYSQL:
                from sqlalchemy.dialects.mysql import insert as insert_mysql

                statement: Any = insert_mysql(self._table)
                if self.key:
                    # Without other columns, the row stays as it is.
                    names = others or list(self.key[:1])
                    values = {name: statement.inserted[name] for name in names}
                    statement = statement.on_duplicate_key_update(values)
            case DatabaseSystem.POSTGRES | DatabaseSystem.SQLITE:
                if self.backend is DatabaseSystem.POSTGRES:
                    from sqlalchemy.dialects.postgresql import insert
                else:
                    from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
                statement = insert(self._table)
                if self.key and others:
                    values = {name: statement.excluded[name] for name in others}
                    statement = statement.on_conflict_do_update(
                        index_elements=[self._table.c[name] for name in self.key], set_=values
                    )
                elif self.key:
                    statement = statement.on_conflict_do_nothing(
                        index_elements=[self._table.c[name] for name in self.key]
                    )
            case _:
                assert_never(self.backend)
        compiled = statement.compile(dialect=self.dialect, column_keys=list(self.columns))
        assert compiled.positiontup == list(self.columns), "one parameter for each column, in order"
        return str(compiled)

    def insert(self, connection: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows, at most `PUT_ROWS`. Raises SQLAlchemy's errors."""
        if rows:
            connection.exec_driver_sql(self.insertion, list(rows))

    def delete(self, connection: Any, keys: pl.DataFrame, progressed: Progressed) -> None:
        """Delete the rows with these keys. Raises SQLAlchemy's errors."""
        sqlalchemy = client()
        columns = [self._table.c[name] for name in self.key]
        for part in keys.iter_slices(max(_DELETE_VALUES // len(columns), 1)):
            if len(columns) == 1:
                same = columns[0].in_(part.to_series(0).to_list())
            else:
                same = sqlalchemy.tuple_(*columns).in_(part.rows())
            connection.execute(sqlalchemy.delete(self._table).where(same))
            progressed()
