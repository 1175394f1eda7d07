"""The tables that queries know by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rheos.graph.changes import OP
from rheos.graph.types import empty_frame
from rheos.sql.plan import ColumnRole, Plan, Scan, SqlColumn

if TYPE_CHECKING:
    from rheos.api.streams import DataStream


@dataclass
class Catalog:
    """Names of tables, which SQL does not distinguish by capitals."""

    tables: dict[str, Plan] = field(default_factory=dict)
    """By the name in small letters."""
    names: dict[str, str] = field(default_factory=dict)
    """As they were given."""

    def add(self, name: str, plan: Plan) -> None:
        self.tables[name.casefold()] = plan
        self.names[name.casefold()] = name

    def find(self, name: str) -> Plan | None:
        return self.tables.get(name.casefold())


def scan(name: str, stream: DataStream) -> Scan:
    """The plan of a stream's rows."""
    type = stream._type
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
