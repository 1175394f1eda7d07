"""Publishing to Iceberg: one append for the files of a checkpoint, whose snapshot records the sink and
the checkpoint.

Before an append, the committer reads the highest checkpoint of the sink from the table's snapshots.
Iceberg's appends cannot be conditional. So one gap remains: if a driver that was replaced is still
alive, and pauses between this check and its append while its successor does both, it appends an epoch a
second time. A dead driver, the usual reason for a replacement, cannot do this.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from rheos.connectors.spark.collecting import collected
from rheos.connectors.spark.table_committer import TransactionCommitter
from rheos.connectors.spark.table_session import publishing

_SINK = "rheos.sink"
_CHECKPOINT = "rheos.checkpoint"


class IcebergCommitter(TransactionCommitter):
    def _appended(self, session: SparkSession, sink: str) -> int:
        name = self.table.label
        with publishing(f"the snapshots of {name} could not be read"):
            session.catalog.refreshTable(name)
            summary = fn.col("summary")
            of_sink = session.table(f"{name}.snapshots").where(summary[_SINK] == sink)
            [row] = collected(of_sink.agg(fn.max(summary[_CHECKPOINT].cast("bigint")))).rows
        return int(row[0] or 0)

    def _append(self, session: SparkSession, rows: DataFrame, sink: str, checkpoint: int) -> None:
        with publishing(f"Iceberg did not take an append to {self.table.label}"):
            (
                rows.writeTo(self.table.label)
                .option(f"snapshot-property.{_SINK}", sink)
                .option(f"snapshot-property.{_CHECKPOINT}", str(checkpoint))
                .append()
            )
