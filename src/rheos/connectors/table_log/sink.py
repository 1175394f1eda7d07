"""Sinks for tables with a log: what those of Delta and Iceberg share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import pyarrow as pa

from rheos.connectors.files.publication.schemes import scheme_of
from rheos.connectors.table_log.compaction_policy import Compaction
from rheos.connectors.table_log.expiry_policy import VersionExpiry
from rheos.connectors.table_log.target import TableTarget
from rheos.core.connectors.contract import Sink
from rheos.core.connectors.schemas import check_changes_key, check_column
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.protocol.shapes import FieldShape, TypeShape

_SCHEMES = ("file", "hdfs", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")


def sort_columns(sort_by: object) -> tuple[str, ...]:
    """Return the columns that the argument `sort_by=` names. Raises ProgramError if it is not a list of
    names."""
    if (
        isinstance(sort_by, str)
        or not isinstance(sort_by, Sequence)
        or not all(isinstance(name, str) for name in sort_by)
    ):
        raise ProgramError(
            f"sort_by={sort_by!r} is not a list of columns", hint='write sort_by=["user", "at"]'
        )
    return tuple(sort_by)


def check_store(location: str, format: str) -> None:
    """Raise ConfigurationError if workers and driver cannot write a table at a path or URL."""
    if (scheme := scheme_of(location)) not in _SCHEMES:
        raise ConfigurationError(
            f"{format} tables on {scheme}:// are not supported",
            hint="use a local or shared folder, or s3://, gs:// or abfs://",
        )


@dataclass(frozen=True, kw_only=True)
class TableLogSink(Sink):
    """Sink for a table that the driver inspects when the job is submitted."""

    format: ClassVar[str]
    """Name of the format in messages, such as "Delta"."""

    partition_by: tuple[str, ...]
    evolve: bool
    sort_by: tuple[str, ...] = ()
    """Columns by which the rows of each data file are sorted."""
    compact: Compaction | None = None
    """Policy by which small data files are merged."""
    expire: VersionExpiry | None = None
    """Policy by which old versions are removed."""
    key: tuple[str, ...] = ()
    """Key of upserts; empty to append rows."""
    gone: str | None = None
    """In a changelog: boolean column that marks rows which delete the row with their key."""
    target: Any = None
    """The table, a `TableTarget`; None until the sink is prepared."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name of the table in messages: its path, or its name in the catalog."""

    @abstractmethod
    def found(self, columns: pa.Schema) -> TableTarget:
        """Inspect or create the table, within a time limit."""

    @abstractmethod
    def stored(self, columns: pa.Schema) -> pa.Schema:
        """Return columns with the types that a table has. Raises SchemaError, naming the column."""

    def of_changes(self, key: Sequence[str], delete: str) -> Self:
        if self.key:
            check_changes_key("key", self.key, key, None)
        return replace(self, key=tuple(key), gone=delete)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> Self:
        target = self.found(self.columns_of(schema))
        return replace(self, target=replace(target, sort_by=self.sort_by))

    def checked_target(self) -> Any:
        """Return the table. Raises ConfigurationError if the sink is not prepared."""
        if self.target is None:
            raise ConfigurationError(f"the runtime must inspect {self.describe()} before it is written")
        return self.target

    def target_shape(self) -> TypeShape | None:
        if self.target is None:
            return None
        fields = [
            FieldShape(
                name=column.name, type=TypeShape(name=str(column.type)), required=not column.nullable
            )
            for column in self.target.columns
        ]
        return TypeShape(name="table", label=self.name, fields=fields)

    def validate(self, schema: pa.Schema) -> None:
        stored = self.stored_columns(schema)
        for argument, names in (("key", self.key), ("sort_by", self.sort_by)):
            for name in names:
                check_column(
                    stored, argument, name, lambda kind: not pa.types.is_nested(kind), "a plain type"
                )

    def stored_columns(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a new table for rows of a schema."""
        return self.stored(self.columns_of(schema))

    def columns_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of rows that the table has."""
        return pa.schema([field for field in schema if field.name != self.gone])

    def describe(self) -> str:
        upserts = f", upserts by {', '.join(self.key)}" if self.key else ""
        return f"{self.format} table {self.name}{upserts}"
