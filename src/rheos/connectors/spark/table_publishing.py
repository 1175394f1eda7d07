"""Publication of a checkpoint's staged files in a table: Parquet, Delta Lake or Iceberg."""

from __future__ import annotations

import posixpath

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from rheos.connectors.files.committer import FileCommitter
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.spark.collecting import collected
from rheos.connectors.spark.table_committer import TableCommitter, TransactionCommitter
from rheos.connectors.spark.table_session import publishing, quoted
from rheos.connectors.spark.table_writer import StagedPart


class ParquetCommitter(TableCommitter):
    def _publish(self, session: SparkSession, parts: list[StagedPart]) -> None:
        staging = self.table.staging
        folder = SinkFolder(staging.folder)
        for inside in sorted({posixpath.dirname(part.target) for part in parts} - {""}):
            folder.system.makedirs(folder.path(inside), exist_ok=True)
        files = [msgspec.msgpack.encode(part.file) for part in parts]
        FileCommitter(staging.folder, by_rename=True).commit(files)
        if self.table.by_name:
            self._announce(session, parts)

    def _announce(self, session: SparkSession, parts: list[StagedPart]) -> None:
        """Add new partitions to the catalog, and refresh the list of files that sessions cache."""
        name, columns = self.table.label, self.table.staging.partition_by
        types = {column.name: column.type for column in self.table.columns}
        partitions = sorted({tuple(part.partition) for part in parts}, key=str) if columns else []
        specs = [
            ", ".join(
                f"{quoted(column)} = {_literal(value, types[column])}"
                for column, value in zip(columns, partition, strict=True)
            )
            for partition in partitions
        ]
        with publishing(f"the catalog rejected the new files of {name}"):
            if specs:
                clauses = " ".join(f"PARTITION ({spec})" for spec in specs)
                session.sql(f"ALTER TABLE {name} ADD IF NOT EXISTS {clauses}")
            session.catalog.refreshTable(name)


def _literal(value: str | None, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind in ("string", "date"):
        text = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"DATE '{text}'" if kind == "date" else f"'{text}'"
    return value


class DeltaCommitter(TransactionCommitter):
    def _appended(self, session: SparkSession, sink: str) -> int:
        return 0  # Delta itself ignores repeated appends.

    def _append(self, session: SparkSession, rows: DataFrame, sink: str, checkpoint: int) -> None:
        writer = (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", sink)
            .option("txnVersion", str(checkpoint))
        )
        with publishing(f"Delta Lake rejected an append to {self.table.label}"):
            if self.table.by_name:
                writer.saveAsTable(self.table.label)
            else:
                writer.save(self.table.location)


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
        with publishing(f"Iceberg rejected an append to {self.table.label}"):
            (
                rows.writeTo(self.table.label)
                .option(f"snapshot-property.{_SINK}", sink)
                .option(f"snapshot-property.{_CHECKPOINT}", str(checkpoint))
                .append()
            )
