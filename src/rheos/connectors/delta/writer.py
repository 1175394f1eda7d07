"""Writers of a Delta table's data files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.casts import cast_rows
from rheos.connectors.delta.delta_table import DeltaTarget
from rheos.connectors.delta.statistics import file_statistics
from rheos.connectors.files.partitions import AnyContext
from rheos.connectors.table_log.data_files import DataFiles
from rheos.core.protocol.elements import Batch


class DeltaDataFiles(DataFiles):
    """Data files of one writer. The values of partition columns are in the names of folders."""

    compression = "snappy"

    def __init__(
        self,
        target: DeltaTarget,
        rows: pa.Schema,
        partition_by: Sequence[str],
        ctx: AnyContext,
        sort_by: Sequence[str] = (),
    ) -> None:
        """Create the writer, without opening a file.

        Args:
            target: the table.
            rows: columns of the rows, with the table's types.
            partition_by: columns that are in the names of folders, not in the files.
            ctx: names the files.
            sort_by: columns by which the rows of each file are sorted; empty for files of changes,
                whose order counts.
        """
        stored = pa.schema([field for field in rows if field.name not in partition_by])
        super().__init__(target, stored, partition_by, ctx, in_folders=True, sort_by=sort_by)
        self._rows = rows
        self._stored = stored

    def stored(self, batch: Batch) -> Batch:
        return cast_rows(batch, self._rows)

    def statistics(self, footer: pq.FileMetaData) -> str:
        return file_statistics(footer, self._stored)
