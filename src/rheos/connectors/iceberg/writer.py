"""Writers of an Iceberg table's data files."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.casts import cast_rows
from rheos.connectors.files.partitions import AnyContext
from rheos.connectors.iceberg.iceberg_table import IcebergTarget
from rheos.connectors.iceberg.partitioning import Partitioning
from rheos.connectors.iceberg.statistics import file_statistics
from rheos.connectors.table_log.data_files import DataFiles
from rheos.core.protocol.elements import Batch


class IcebergDataFiles(DataFiles):
    """Data files of one writer, with the field ids by which readers find columns."""

    def __init__(
        self,
        target: IcebergTarget,
        columns: pa.Schema,
        partitioning: Partitioning | None,
        ctx: AnyContext,
        sort_by: Sequence[str] = (),
    ) -> None:
        """Create the writer, without opening a file.

        Args:
            target: the table.
            columns: columns of the rows, with the table's types and field ids.
            partitioning: computes the partition of each row; None for files of changes, which have
                neither partitions nor statistics.
            ctx: names the files.
            sort_by: columns by which the rows of each file are sorted; empty for files of changes,
                whose order counts.
        """
        partitions = () if partitioning is None else partitioning.names
        super().__init__(target, columns, partitions, ctx, in_folders=False, sort_by=sort_by)
        self._rows = columns
        self._partitioning = partitioning
        self._settings = target.settings

    def stored(self, batch: Batch) -> Batch:
        rows = cast_rows(batch, self._rows)
        rows = pa.RecordBatch.from_arrays(rows.columns, schema=self._rows)
        return rows if self._partitioning is None else self._partitioning.with_keys(rows)

    def statistics(self, footer: pq.FileMetaData) -> str:
        """Return the number of rows, and the bounds and sizes of columns, as a manifest has them."""
        if self._partitioning is None:
            return ""
        return encoded_statistics(file_statistics(footer, self._partitioning.schema, self._settings))


def encoded_statistics(statistics: dict[str, Any]) -> str:
    """Return statistics of a data file as a string."""
    return base64.b64encode(msgspec.msgpack.encode(statistics)).decode()


def decoded_statistics(encoded: str) -> Any:
    """Return what `encoded_statistics` was given."""
    return msgspec.msgpack.decode(base64.b64decode(encoded))
