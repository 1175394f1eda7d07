"""Sink for an Iceberg table: `iceberg.sink("shop.orders", catalog=...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rheos.connectors.files.partitions import partition_columns
from rheos.connectors.iceberg.catalogs import IcebergCatalog, catalog_of
from rheos.connectors.iceberg.columns import TYPES
from rheos.connectors.iceberg.committer import IcebergTableCommitter
from rheos.connectors.iceberg.iceberg_table import IcebergTarget, found_target, lone_call
from rheos.connectors.iceberg.partitioning import parsed_terms
from rheos.connectors.iceberg.registration import CONNECTOR
from rheos.connectors.iceberg.writer import IcebergDataFiles
from rheos.connectors.key_argument import key_columns
from rheos.connectors.table_log.compaction_policy import Compaction, compaction
from rheos.connectors.table_log.data_files import TableLogWriter
from rheos.connectors.table_log.expiry_policy import VersionExpiry, expiry
from rheos.connectors.table_log.maintenance_policy import policy_of
from rheos.connectors.table_log.sink import TableLogSink, check_store, sort_columns
from rheos.core.connectors.contract import Committer, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset
from rheos.core.errors import ProgramError
from rheos.core.site import located_at_call


@located_at_call
def sink(
    table: str,
    *,
    catalog: str | Mapping[str, str] = "default",
    partition_by: Sequence[str] = (),
    evolve: bool = False,
    key: str | Sequence[str] = (),
    sort_by: Sequence[str] = (),
    compact: Compaction | Mapping[str, str] | None = None,
    expire: VersionExpiry | Mapping[str, str] | None = None,
) -> IcebergSink:
    """Write rows to an Iceberg table, each once: tasks write data files, and the driver adds the rows
    of a checkpoint to the table in one commit when the checkpoint is complete.

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
        evolve: whether, when the job is submitted, columns that the table lacks are added to it, and
            narrower types of the table are widened by Iceberg's rules (`int` to `long`, `float` to
            `double`, more digits before the point of a decimal). By default both are errors.
        key: the key column or columns of upserts: a row replaces the row with the same key. Of several
            rows of a key in one subtask, the last one remains. By default rows are appended, and the
            changes of an updating table are written by its own key.
        sort_by: the columns by which the rows of each data file are sorted, the most significant one
            first; nulls come first. A task sorts the rows of a checkpoint in 32 MB of memory, and on
            its local disk. By default rows stay in their order.
        compact: a policy by which the driver merges small data files after a checkpoint:
            `rh.compaction()`. By default none are merged.
        expire: a policy by which the driver removes old versions, and files that only they have:
            `rh.expiry(older_than="7d")`. By default all versions stay.

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
    return IcebergSink(
        table=table,
        catalog=catalog_of(catalog),
        partition_by=partition_columns(partition_by),
        evolve=evolve,
        key=key_columns(key),
        sort_by=sort_columns(sort_by),
        compact=policy_of(Compaction, compaction, "compact", compact),
        expire=policy_of(VersionExpiry, expiry, "expire", expire),
    )


@dataclass(frozen=True, kw_only=True)
class IcebergSink(TableLogSink):
    """Sink that `iceberg.sink` creates."""

    format = "Iceberg"
    table: str
    catalog: IcebergCatalog

    @property
    def name(self) -> str:
        return self.table

    def datasets(self) -> Sequence[Dataset]:
        return [self.catalog.dataset(self.table)]

    def stored(self, columns: pa.Schema) -> pa.Schema:
        return TYPES.table_schema(columns)

    def found(self, columns: pa.Schema) -> IcebergTarget:
        target = lone_call(
            self.catalog,
            self.table,
            f"inspection of the Iceberg table {self.table}",
            lambda _: found_target(
                self.catalog,
                self.table,
                columns,
                self.partition_by,
                self.evolve,
                self.key,
                self.gone,
            ),
        )
        check_store(target.folder, self.format)
        return target

    def open(self, ctx: SinkContext) -> SinkWriter:
        target: IcebergTarget = self.checked_target()
        partitioning = None if target.key else target.partitioning
        sort_by = () if target.key else target.sort_by
        return TableLogWriter(IcebergDataFiles(target, target.written, partitioning, ctx, sort_by))

    def committer(self) -> Committer | None:
        return (
            None
            if self.target is None
            else IcebergTableCommitter(self.target, self.compact, self.expire)
        )

    def validate(self, schema: pa.Schema) -> None:
        super().validate(schema)
        parsed_terms(self.partition_by, self.stored_columns(schema).names)
