"""Publishing to Iceberg: one append for what a checkpoint has staged, whose snapshot says whose it is.

Before an append the table's snapshots are asked for the highest checkpoint of the sink. Iceberg's
appends know no condition, so what remains is this: a driver that was replaced, lives on, and stands
between the look and the append while its successor does both, appends an epoch a second time. A driver
that is dead, as most that are replaced, cannot.
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
