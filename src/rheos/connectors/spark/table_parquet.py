"""Publishing to Parquet tables: staged files are renamed into the table, and Spark hears of them.

A file's name is never used twice, so the rename is done once, whoever does it and how often. Parquet
has no transactions: for a moment a reader may see some files of a checkpoint, and not yet the others.
"""

from __future__ import annotations

import posixpath

import msgspec
from pyspark.sql import SparkSession

from rheos.connectors.files.committer import FileCommitter
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.spark.table_committer import TableCommitter
from rheos.connectors.spark.table_session import publishing, quoted
from rheos.connectors.spark.table_writer import StagedPart


class ParquetCommitter(TableCommitter):
    def _publish(self, session: SparkSession, parts: list[StagedPart]) -> None:
        staging = self.table.staging
        folder = SinkFolder(staging.folder)
        for inside in sorted({posixpath.dirname(part.target) for part in parts} - {""}):
            folder.system.makedirs(folder.path(inside), exist_ok=True)
        FileCommitter(staging.folder).commit([msgspec.msgpack.encode(part.file) for part in parts])
        if self.table.by_name:
            self._announce(session, parts)

    def _announce(self, session: SparkSession, parts: list[StagedPart]) -> None:
        """The catalog lists the partitions of a table, and sessions remember the files."""
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
        with publishing(f"the catalog did not take the new files of {name}"):
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
