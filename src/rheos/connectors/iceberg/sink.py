"""Sink for an Iceberg table: `iceberg.sink("shop.orders", catalog=...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.connectors.files.partitions import partition_columns
from rheos.connectors.files.publication.schemes import scheme_of
from rheos.connectors.iceberg.catalogs import IcebergCatalog, catalog_of
from rheos.connectors.iceberg.columns import TYPES
from rheos.connectors.iceberg.committer import IcebergTableCommitter
from rheos.connectors.iceberg.iceberg_log import IcebergTarget, found_target, lone_call
from rheos.connectors.iceberg.partitioning import parsed_terms
from rheos.connectors.iceberg.registration import CONNECTOR
from rheos.connectors.iceberg.writer import IcebergWriter
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.protocol.shapes import FieldShape, TypeShape
from rheos.core.site import located_at_call

_SCHEMES = ("file", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")


@located_at_call
def sink(
    table: str,
    *,
    catalog: str | Mapping[str, str] = "default",
    partition_by: Sequence[str] = (),
    evolve: bool = False,
) -> IcebergSink:
    """Append rows to an Iceberg table, each once: tasks write data files, and the driver adds the files
    of a checkpoint to the table in one snapshot when the checkpoint is complete.

    ```python
    lake = {"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": "lake"}
    by_day = ["day(ordered_at)"]
    orders.sink_to(rh.iceberg.sink("shop.orders", catalog=lake, partition_by=by_day))
    ```

    Args:
        table: the name of the table in its catalog, with its namespace. A table that does not exist is
            created.
        catalog: the properties of a catalog, as pyiceberg documents them; or the name of a catalog
            that `.pyiceberg.yaml` or environment variables describe, so that the program contains no
            password.
        partition_by: the partition fields of a new table: columns, or transforms of them, such as
            `day(at)`, `hour(at)`, `bucket[16](customer)` and `truncate[4](zip)`.
        evolve: whether columns that the table lacks are added to it when the job is submitted. By
            default such a column is an error.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The library `pyiceberg` is not installed.
    """
    CONNECTOR.client()
    if not isinstance(table, str) or not all(part.strip() for part in table.split(".")):
        raise ProgramError(
            f"{table!r} is not the name of a table", hint='write rh.iceberg.sink("shop.orders", ...)'
        )
    if not isinstance(evolve, bool):
        raise ProgramError(f"evolve={evolve!r} is neither True nor False", hint="write evolve=True")
    if "." not in table:
        raise ProgramError(
            f"the table {table!r} has no namespace", hint=f'write rh.iceberg.sink("shop.{table}", ...)'
        )
    return IcebergSink(table, catalog_of(catalog), partition_columns(partition_by), evolve)


@dataclass(frozen=True)
class IcebergSink(Sink):
    """Sink that `iceberg.sink` creates."""

    table: str
    catalog: IcebergCatalog
    partition_by: tuple[str, ...]
    evolve: bool
    target: IcebergTarget | None = None
    """The table; None until the sink is prepared."""

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> IcebergSink:
        target = lone_call(
            self.catalog,
            self.table,
            "inspection of",
            lambda: found_target(self.catalog, self.table, schema, self.partition_by, self.evolve),
        )
        if (scheme := scheme_of(target.folder)) not in _SCHEMES:
            raise ConfigurationError(
                f"Iceberg tables on {scheme}:// are not supported",
                hint="use a local or shared folder, or s3://, gs:// or abfs://",
            )
        return replace(self, target=target)

    def open(self, ctx: SinkContext) -> SinkWriter:
        if self.target is None:
            raise ConfigurationError(f"the runtime must inspect {self.describe()} before it is written")
        return IcebergWriter(self.target, ctx)

    def committer(self) -> Committer | None:
        return None if self.target is None else IcebergTableCommitter(self.target)

    def target_shape(self) -> TypeShape | None:
        if self.target is None:
            return None
        fields = [
            FieldShape(
                name=column.name, type=TypeShape(name=str(column.type)), required=not column.nullable
            )
            for column in self.target.columns
        ]
        return TypeShape(name="table", label=self.table, fields=fields)

    def validate(self, schema: pa.Schema) -> None:
        stored = TYPES.table_schema(schema)
        parsed_terms(self.partition_by, stored.names)

    def describe(self) -> str:
        return f"Iceberg table {self.table}"
