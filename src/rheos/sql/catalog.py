"""The tables that queries can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.core.connectors.lookup import Lookup
from rheos.core.graph.changelog import OP
from rheos.core.graph.types import empty_frame
from rheos.core.graph.watermark import Watermark
from rheos.core.models.column_models import ColumnModel
from rheos.sql.functions import UserCall
from rheos.sql.inserted_rows import InsertedRows
from rheos.sql.plan import ColumnRole, PlanNode, Scan, SqlColumn
from rheos.sql.text import SqlText

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.sql.connectors import WithOptions


@dataclass(frozen=True)
class DeclaredTable:
    """A table of CREATE TABLE. It is read or written only if a statement does so."""

    name: str
    schema: pa.Schema
    """Columns that the connector reads or writes."""
    kinds: Mapping[str, pl.DataType]
    """Types of all columns, in their order."""
    watermark: Watermark | None
    key: tuple[str, ...]
    """Columns of PRIMARY KEY, by which rows are read and written."""
    options: WithOptions | InsertedRows
    """The connector with its options, or the rows of a table without one."""
    sql: SqlText
    """SQL that declares the table."""
    computed: Mapping[str, exp.Expr] = field(default_factory=dict)
    """Expressions of computed columns."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Fields of a record by the columns that contain them."""
    defaults: Mapping[str, exp.Expr] = field(default_factory=dict)
    """Values of columns that INSERT INTO leaves out."""
    virtual: frozenset[str] = frozenset()
    """Columns of metadata that are only read."""

    @property
    def writable(self) -> dict[str, pl.DataType]:
        """Return the types of the columns that INSERT INTO writes."""
        read_only = {*self.computed, *self.virtual}
        return {name: kind for name, kind in self.kinds.items() if name not in read_only}


@dataclass(frozen=True)
class DeclaredModel:
    """A model that queries can name."""

    model: ColumnModel
    provider: str
    """Kind of the model: onnx or python."""
    written: str | None = None
    """Statement that has created it; None if Python has registered it."""


@dataclass
class Catalog:
    """Names of tables; SQL ignores their case."""

    tables: dict[str, PlanNode] = field(default_factory=dict)
    """Plans by name in lower case."""
    names: dict[str, str] = field(default_factory=dict)
    """Names as written, by name in lower case."""

    read: Callable[[DeclaredTable], PlanNode] | None = None
    """Function that returns the rows of a declared table."""
    lookups: dict[str, Lookup] = field(default_factory=dict)
    """Lookups in external systems, by name in lower case."""
    declarations: dict[str, DeclaredTable] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    """Statements that have created tables and views, by name in lower case."""
    functions: dict[str, type[UserCall]] = field(default_factory=dict)
    """The user's functions, by name in lower case."""
    models: dict[str, DeclaredModel] = field(default_factory=dict)
    """Models by name in lower case."""

    def add(self, name: str, plan: PlanNode) -> None:
        self.tables[name.casefold()] = plan
        self.names[name.casefold()] = name

    def add_lookup(self, name: str, lookup: Lookup) -> None:
        self.lookups[name.casefold()] = lookup
        self.names[name.casefold()] = name

    def declare(self, table: DeclaredTable) -> None:
        self.declarations[table.name] = table
        self.names[table.name.casefold()] = table.name

    def declared(self, name: str) -> DeclaredTable | None:
        found = (each for each in self.declarations if each.casefold() == name.casefold())
        return next((self.declarations[each] for each in found), None)

    def rename(self, name: str, new: str) -> None:
        """Give a table or view another name."""
        declared, plan = self.declared(name), self.tables.get(name.casefold())
        written = self.written.get(name.casefold())
        self.remove(name)
        if declared is not None:
            self.declare(replace(declared, name=new))
        if plan is not None:
            self.add(new, plan)
        if written is not None:
            self.written[new.casefold()] = written

    def remove(self, name: str) -> None:
        """Forget a table, view or lookup. Statements that have read it are not affected."""
        folded = name.casefold()
        self.declarations = {
            known: table for known, table in self.declarations.items() if known.casefold() != folded
        }
        for known in (self.tables, self.lookups, self.names, self.written):
            known.pop(folded, None)

    def knows(self, name: str) -> bool:
        return name.casefold() in self.names

    def columns(self) -> dict[str, list[str]]:
        """Return the columns of each table. The columns of a lookup are unknown."""
        found: dict[str, list[str]] = {}
        for folded, name in self.names.items():
            declared, plan = self.declared(name), self.tables.get(folded)
            found[name] = []
            if declared is not None:
                found[name] = [*declared.kinds]
            elif plan is not None:
                found[name] = [column.name for column in plan.columns]
        return found

    def find(self, name: str) -> PlanNode | None:
        """Return the plan of a table; None if there is no table of that name."""
        known = self.tables.get(name.casefold())
        declared = self.declared(name) if known is None else None
        if declared is None or self.read is None:
            return known
        made = self.tables[name.casefold()] = self.read(declared)
        return made

    def changed(self, table: DeclaredTable) -> PlanNode:
        """Return the plan of a table with other options than the declared ones. Uses with equal options
        share it."""
        assert self.read is not None, "a session sets it"
        assert not isinstance(table.options, InsertedRows), "only connectors have options"
        values = sorted((name, value.name) for name, value in table.options.options.items())
        key = f"{table.name.casefold()} {table.options.name} {values}"
        if key not in self.tables:
            self.tables[key] = self.read(table)
        return self.tables[key]


def scan(name: str, stream: DataStream) -> Scan:
    """Return the plan of a stream's rows."""
    type = stream.transformation.type
    kinds = empty_frame(type.schema).schema
    columns = tuple(
        SqlColumn(
            column,
            kind,
            ColumnRole.EVENT_TIME
            if type.event_time and column == type.time_column
            else ColumnRole.PLAIN,
        )
        for column, kind in kinds.items()
        if not (type.changes is not None and column == OP)
    )
    return Scan(name, stream, columns, type.changes)
