"""Sink for a Delta table: `delta.sink("lake/orders")`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rheos.connectors.delta.columns import table_schema
from rheos.connectors.delta.committer import DeltaTableCommitter
from rheos.connectors.delta.delta_table import DeltaTarget, found_target, lone_call
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.delta.writer import DeltaDataFiles
from rheos.connectors.files.partitions import check_partitions, partition_columns
from rheos.connectors.files.sink import ROLL_BYTES, FileSink
from rheos.connectors.key_argument import key_columns
from rheos.connectors.table_log.compaction_policy import Compaction, compaction
from rheos.connectors.table_log.data_files import TableLogWriter
from rheos.connectors.table_log.expiry_policy import VersionExpiry, expiry
from rheos.connectors.table_log.maintenance_policy import policy_of
from rheos.connectors.table_log.sink import TableLogSink, check_store, sort_columns
from rheos.connectors.urls import absolute
from rheos.core.connectors.contract import Committer, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset, path_dataset
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.site import located_at_call


@located_at_call
def sink(
    path: str | os.PathLike[str],
    *,
    partition_by: Sequence[str] = (),
    evolve: bool = False,
    key: str | Sequence[str] = (),
    sort_by: Sequence[str] = (),
    compact: Compaction | Mapping[str, str] | None = None,
    expire: VersionExpiry | Mapping[str, str] | None = None,
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
        ConfigurationError: The library `deltalake` is not installed.
    """
    CONNECTOR.client()
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(f"{path!r} is not a path", hint='write rh.delta.sink("lake/orders")')
    if not isinstance(evolve, bool):
        raise ProgramError(f"evolve={evolve!r} is neither True nor False", hint="write evolve=True")
    return DeltaSink(
        location=absolute(text).rstrip("/"),
        partition_by=partition_columns(partition_by),
        evolve=evolve,
        key=key_columns(key),
        sort_by=sort_columns(sort_by),
        compact=policy_of(Compaction, compaction, "compact", compact),
        expire=policy_of(VersionExpiry, expiry, "expire", expire),
    )


@dataclass(frozen=True, kw_only=True)
class DeltaSink(TableLogSink):
    """Sink that `delta.sink` creates."""

    format = "Delta"
    location: str

    @property
    def name(self) -> str:
        return self.location

    def datasets(self) -> Sequence[Dataset]:
        return [path_dataset(self.location)]

    def stored(self, columns: pa.Schema) -> pa.Schema:
        return table_schema(columns)

    def found(self, columns: pa.Schema) -> DeltaTarget:
        return lone_call(
            self.location,
            f"inspection of the Delta table {self.location}",
            lambda _: found_target(
                self.location, columns, self.partition_by, self.evolve, self.key, self.gone
            ),
        )

    def open(self, ctx: SinkContext) -> SinkWriter:
        target: DeltaTarget = self.checked_target()
        partition_by = () if target.key else target.partition_by
        sort_by = () if target.key else target.sort_by
        return TableLogWriter(DeltaDataFiles(target, target.written, partition_by, ctx, sort_by))

    def committer(self) -> Committer | None:
        return (
            None if self.target is None else DeltaTableCommitter(self.target, self.compact, self.expire)
        )

    def validate(self, schema: pa.Schema) -> None:
        check_store(self.location, self.format)
        super().validate(schema)
        stored = self.stored_columns(schema)
        check_partitions(self.partition_by, stored)
        for name in self.partition_by:
            kind, t = stored.field(name).type, pa.types
            if not (t.is_string(kind) or t.is_integer(kind) or t.is_boolean(kind) or t.is_date(kind)):
                raise SchemaError(
                    f"the column {name!r} is {kind}, by which the sink cannot partition a Delta table",
                    hint="partition by strings, integers, booleans or dates; derive such a column",
                )
        FileSink(self.location, "parquet", ROLL_BYTES, "snappy").validate(stored)
