"""Publishing to Delta Lake: one append for what a checkpoint has staged, known by its transaction id.

Delta keeps the highest version of each application in its log, and drops an append that does not
exceed it, in the same atomic step that would make it visible: so an epoch is appended once, also where
a driver that was replaced tries at the same time.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from rheos.connectors.spark.table_committer import TransactionCommitter
from rheos.connectors.spark.table_session import publishing


class DeltaCommitter(TransactionCommitter):
    def _appended(self, session: SparkSession, sink: str) -> int:
        return 0  # Delta itself drops what it has.

    def _append(self, session: SparkSession, rows: DataFrame, sink: str, checkpoint: int) -> None:
        writer = (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", sink)
            .option("txnVersion", str(checkpoint))
        )
        with publishing(f"Delta Lake did not take an append to {self.table.label}"):
            if self.table.by_name:
                writer.saveAsTable(self.table.label)
            else:
                writer.save(self.table.location)
