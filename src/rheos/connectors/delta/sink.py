"""Sink for a Delta table: `delta.sink("lake/orders")`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.connectors.delta.columns import table_schema
from rheos.connectors.delta.committer import DeltaTableCommitter
from rheos.connectors.delta.delta_log import DeltaTarget, found_target, lone_call
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.delta.writer import DeltaWriter
from rheos.connectors.files.partitions import check_partitions, partition_columns
from rheos.connectors.files.publication.schemes import scheme_of
from rheos.connectors.files.sink import ROLL_BYTES, FileSink
from rheos.connectors.urls import absolute
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.schemas import check_changes_key, check_column
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError
from rheos.core.protocol.shapes import FieldShape, TypeShape
from rheos.core.site import located_at_call

_SCHEMES = ("file", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")


@located_at_call
def sink(
    path: str | os.PathLike[str],
    *,
    partition_by: Sequence[str] = (),
    evolve: bool = False,
    key: str | Sequence[str] = (),
) -> DeltaSink:
    """Write rows to a Delta table, each once: tasks write data files, and the driver adds the rows of a
    checkpoint to the table in one transaction when the checkpoint is complete.

    ```python
    orders.sink_to(rh.delta.sink("lake/orders", partition_by=["state"]))
    ```

    Args:
        path: the folder of the table: a local path, or a URL of S3 (`s3://`), Google Cloud Storage
            (`gs://`) or Azure (`abfs://`). A table that does not exist is created.
        partition_by: the partition columns of a new table: strings, integers, booleans or dates.
        evolve: whether columns that the table lacks are added to it when the job is submitted. By
            default such a column is an error.
        key: the key column or columns of upserts: a row replaces the row with the same key. Of several
            rows of a key in one subtask, the last one remains. By default rows are appended, and the
            changes of an updating table are written by its own key.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The library `deltalake` is not installed.
    """
    CONNECTOR.client()
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(f"{path!r} is not a path", hint='write rh.delta.sink("lake/orders")')
    if not isinstance(evolve, bool):
        raise ProgramError(f"evolve={evolve!r} is neither True nor False", hint="write evolve=True")
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not all(isinstance(each, str) for each in keys) or len(set(keys)) < len(keys):
        raise ProgramError(
            f"key={key!r} does not name columns", hint='write key="id" or key=["a", "b"]'
        )
    return DeltaSink(absolute(text).rstrip("/"), partition_columns(partition_by), evolve, keys)


@dataclass(frozen=True)
class DeltaSink(Sink):
    """Sink that `delta.sink` creates."""

    location: str
    partition_by: tuple[str, ...]
    evolve: bool
    key: tuple[str, ...] = ()
    """Key of upserts; empty to append rows."""
    gone: str | None = None
    """In a changelog: boolean column that marks rows which delete the row with their key."""
    target: DeltaTarget | None = None
    """The table; None until the sink is prepared."""

    def of_changes(self, key: Sequence[str], delete: str) -> DeltaSink:
        if self.key:
            check_changes_key("key", self.key, key, None)
        return replace(self, key=tuple(key), gone=delete)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> DeltaSink:
        columns = self._columns(schema)
        target = lone_call(
            self.location,
            f"inspection of the Delta table {self.location}",
            lambda _: found_target(
                self.location, columns, self.partition_by, self.evolve, self.key, self.gone
            ),
        )
        return replace(self, target=target)

    def open(self, ctx: SinkContext) -> SinkWriter:
        if self.target is None:
            raise ConfigurationError(f"the runtime must inspect {self.describe()} before it is written")
        return DeltaWriter(self.target, ctx)

    def committer(self) -> Committer | None:
        return None if self.target is None else DeltaTableCommitter(self.target)

    def target_shape(self) -> TypeShape | None:
        if self.target is None:
            return None
        fields = [
            FieldShape(
                name=column.name, type=TypeShape(name=str(column.type)), required=not column.nullable
            )
            for column in self.target.columns
        ]
        return TypeShape(name="table", label=self.location, fields=fields)

    def _columns(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that the table has."""
        return pa.schema([field for field in schema if field.name != self.gone])

    def validate(self, schema: pa.Schema) -> None:
        scheme = scheme_of(self.location)
        if scheme not in _SCHEMES:
            raise ConfigurationError(
                f"Delta tables on {scheme}:// are not supported",
                hint="use a local or shared folder, or s3://, gs:// or abfs://",
            )
        stored = table_schema(self._columns(schema))
        for name in self.key:
            check_column(stored, "key", name, lambda kind: not pa.types.is_nested(kind), "a plain type")
        check_partitions(self.partition_by, stored)
        for name in self.partition_by:
            kind, t = stored.field(name).type, pa.types
            if not (t.is_string(kind) or t.is_integer(kind) or t.is_boolean(kind) or t.is_date(kind)):
                raise SchemaError(
                    f"the column {name!r} is {kind}, by which the sink cannot partition a Delta table",
                    hint="partition by strings, integers, booleans or dates; derive such a column",
                )
        FileSink(self.location, "parquet", ROLL_BYTES, "snappy").validate(stored)

    def describe(self) -> str:
        return f"Delta table {self.location}" + (
            f", upserts by {', '.join(self.key)}" if self.key else ""
        )
