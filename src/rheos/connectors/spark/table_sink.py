"""Sink for a table of Spark after its inspection: location, columns, and committer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

from rheos.connectors.files.sink import ROLL_BYTES, FileSink
from rheos.connectors.spark import versions
from rheos.connectors.spark.collecting import collected
from rheos.connectors.spark.spark_table import SparkTable
from rheos.connectors.spark.spark_types import spark_arrow_schema, spark_schema
from rheos.connectors.spark.table_fit import columns_of, fitted_schema
from rheos.connectors.spark.table_publishing import (
    DeltaCommitter,
    IcebergCommitter,
    ParquetCommitter,
)
from rheos.connectors.spark.table_session import active_session, looking, quoted
from rheos.connectors.spark.table_writer import TableStaging, TableWriter
from rheos.connectors.tables import FORMATS, TableFormat, TableSink
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.datasets import common_scheme
from rheos.core.errors import ConfigurationError, SchemaError
from rheos.core.protocol.shapes import FieldShape, TypeShape

T = TypeVar("T")

_PACKAGES = {
    "delta": (
        "Delta Lake",
        "org.apache.spark.sql.delta.DeltaLog",
        "io.delta:delta-spark_2.13",
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ),
    "iceberg": (
        "Iceberg",
        "org.apache.iceberg.spark.SparkCatalog",
        "org.apache.iceberg:iceberg-spark-runtime-<Spark's version>_2.13",
        "a catalog, spark.sql.catalog.<name>=org.apache.iceberg.spark.SparkCatalog",
    ),
}
"""For each format: its name, one of its classes, the package with that class, and further requirements.
"""


_COMMITTERS: dict[TableFormat, Callable[[SparkTable], Committer]] = {
    "parquet": ParquetCommitter,
    "delta": DeltaCommitter,
    "iceberg": IcebergCommitter,
}


@dataclass(frozen=True)
class PreparedTable(SparkTable, Sink):
    """Sink that `prepared` creates for an existing table."""

    def open(self, ctx: SinkContext) -> SinkWriter:
        return TableWriter(self.staging, ctx)

    def committer(self) -> Committer:
        return _COMMITTERS[self.format](self)

    def target_shape(self) -> TypeShape | None:
        if not self.by_name and self.format == "parquet":
            return None  # A folder of files has no columns except those of its files.
        fields = [
            FieldShape(name=column.name, type=TypeShape(name=column.type), required=not column.nullable)
            for column in self.columns
        ]
        return TypeShape(name="table", label=self.label, fields=fields)

    def describe(self) -> str:
        return self.title


def prepared(sink: TableSink, schema: pa.Schema) -> PreparedTable:
    """Inspect the table, create it if it does not exist, and fit the stream's columns to it.

    Raises SchemaError, naming the column, if they do not fit; ConfigurationError if the session does
    not provide the format, or the table cannot be written.
    """
    session = active_session(sink.describe())
    with looking(f"the table {sink.target} could not be inspected"):
        return _folder(session, sink, schema) if sink.is_path else _table(session, sink, schema)


def _table(session: SparkSession, sink: TableSink, schema: pa.Schema) -> PreparedTable:
    name = _full_name(session, sink.target)
    if not session.catalog.tableExists(name):
        if sink.format is not None:
            require_format(session, sink.format)
        session.sql(_create(name, sink, schema))
    found = _described(session, name)
    if "VIEW" in found.get("Type", "").upper():
        raise _is_view(name)
    format = _checked_format(session, sink, found.get("Provider", "").lower(), name)
    location = found.get("Location", "")
    if not location:
        raise ConfigurationError(
            f"the table {name} has no location", hint="write to a table with a location"
        )
    table_schema = session.table(name).schema
    partitions: tuple[str, ...] = ()
    if format == "parquet":
        partitions = tuple(c.name for c in session.catalog.listColumns(name) if c.isPartition)
        if sink.partition_by and sink.partition_by != partitions:
            has = ", ".join(partitions) or "no column"
            raise SchemaError(
                f"partition_by={list(sink.partition_by)}, but the table {name} is partitioned by {has}",
                hint="leave out partition_by: the table determines it",
            )
    return _prepared(sink, schema, name, format, location, table_schema, partitions)


def _is_view(name: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is a view", hint="write to a table")


def _folder(session: SparkSession, sink: TableSink, schema: pa.Schema) -> PreparedTable:
    path = sink.target
    format = sink.format or ("delta" if _exists(session, f"{path}/_delta_log") else "parquet")
    if format == "iceberg":
        raise ConfigurationError(
            f"an Iceberg table is found by its name, but {path} is a path",
            hint='name a table of an Iceberg catalog: rh.tables.sink("lake.sales.orders")',
        )
    if format == "delta":
        require_format(session, format)
        if not _exists(session, f"{path}/_delta_log"):
            session.sql(_create(f"delta.{quoted(path)}", replace(sink, format="delta"), schema))
        table_schema = session.read.format("delta").load(path).schema
        return _prepared(sink, schema, path, format, path, table_schema, ())
    return _prepared(
        sink, schema, path, format, path, _read_schema(session, sink, schema), sink.partition_by
    )


def _read_schema(session: SparkSession, sink: TableSink, schema: pa.Schema) -> sql.StructType:
    """Return the schema of the files in the folder; if it has no files, the schema to be written."""
    given = spark_schema(schema)
    if not _exists(session, sink.target):
        return given
    statuses = _file_system(session, sink.target)
    names = [status.getPath().getName() for status in statuses]
    shown = [name for name in names if not name.startswith((".", "_"))]
    if not shown:
        return given
    folders = sorted({name.partition("=")[0] for name in shown if "=" in name})
    if folders != list(sink.partition_by[:1]):
        has = f"by {', '.join(folders)}" if folders else "by no column"
        raise SchemaError(
            f"partition_by={list(sink.partition_by)}, but the files in {sink.target} are "
            f"partitioned {has}",
            hint="use the same partitioning, or write to another folder",
        )
    found = session.read.parquet(sink.target).schema
    # Spark infers the types of values in folder names.
    guessed = {name: given[name] for name in sink.partition_by}
    return sql.StructType([guessed.get(field.name, field) for field in found.fields])


def _prepared(
    sink: TableSink,
    schema: pa.Schema,
    label: str,
    format: TableFormat,
    location: str,
    table_schema: sql.StructType,
    partitions: tuple[str, ...],
) -> PreparedTable:
    columns = columns_of(table_schema)
    staged = fitted_schema(spark_arrow_schema(schema), table_schema, label, partitions)
    staging = TableStaging(label, _fsspec_url(location), staged, partitions)
    if format == "parquet":
        # Its files are published by rename, as those of a file sink.
        FileSink(staging.folder, "parquet", ROLL_BYTES, "snappy").validate(staging.stored)
    return PreparedTable(label, format, location, staging, columns, not sink.is_path)


# --- formats ------------------------------------------------------------------------------------------


def require_format(session: SparkSession, format: str) -> None:
    """Raise ConfigurationError, naming the package, if the session does not support the format."""
    if format not in _PACKAGES:
        return
    name, known_class, package, settings = _PACKAGES[format]
    loader = session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(known_class)
    except Py4JError as error:
        raise ConfigurationError(
            f"the Spark session does not provide {name}",
            hint=f"configure the package {package}, in a version made for Spark "
            f"{versions.installed()}: spark.jars.packages={package}:<version>, and {settings}",
        ) from error


def _checked_format(session: SparkSession, sink: TableSink, provider: str, name: str) -> TableFormat:
    for format in FORMATS:
        if format == provider:
            if sink.format not in (None, format):
                raise ConfigurationError(
                    f"format={sink.format!r}, but {name} is a {format} table",
                    hint="leave out format: the table determines it",
                )
            require_format(session, format)
            return format
    raise ConfigurationError(
        f"{name} is a table of the format {provider or 'unknown'}, which the sink cannot write",
        hint=f"use a table of the format {', '.join(FORMATS)}",
    )


# --- names and locations
# --------------------------------------------------------------------------------

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def _full_name(session: SparkSession, name: str) -> str:
    """Return the name with catalog and database, which is unambiguous in every thread and at every
    start. Raises ConfigurationError if it is that of a temporary view."""
    parts = [inside.replace("``", "`") if inside else plain for inside, plain in _PART.findall(name)]
    if len(parts) == 1:
        catalog = session.catalog
        if catalog.tableExists(name) and catalog.getTable(name).isTemporary:
            raise _is_view(name)  # A view's full name would refer to a table.
        parts = [session.catalog.currentDatabase(), *parts]
    if len(parts) == 2:
        parts = [session.catalog.currentCatalog(), *parts]
    return ".".join(part if re.fullmatch(r"\w+", part) else quoted(part) for part in parts)


def _create(name: str, sink: TableSink, schema: pa.Schema) -> str:
    fields = spark_schema(schema).fields
    columns = ", ".join(
        f"{quoted(field.name)} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"
        for field in fields
    )
    using = sink.format or ("parquet" if name.startswith("spark_catalog.") else None)
    by = ", ".join(map(quoted, sink.partition_by))
    return (
        f"CREATE TABLE IF NOT EXISTS {name} ({columns})"
        + (f" USING {using}" if using else "")
        + (f" PARTITIONED BY ({by})" if by else "")
    )


def _described(session: SparkSession, name: str) -> dict[str, str]:
    """Return the catalog's details about the table, without its columns."""
    rows = collected(session.sql(f"DESCRIBE TABLE EXTENDED {name}")).rows
    begins = [i for i, row in enumerate(rows) if row[0].startswith("# Detailed Table Information")]
    return {row[0]: row[1] or "" for row in rows[begins[0] + 1 :]} if begins else {}


def _exists(session: SparkSession, path: str) -> bool:
    return _on_hadoop(session, path, lambda system, at: bool(system.exists(at)))


def _file_system(session: SparkSession, path: str) -> list[Any]:
    return _on_hadoop(session, path, lambda system, at: list(system.listStatus(at)))


def _on_hadoop(session: SparkSession, path: str, ask: Callable[[Any, Any], T]) -> T:
    at = session._jvm.org.apache.hadoop.fs.Path(path)
    return ask(at.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), at)


def _fsspec_url(location: str) -> str:
    """Return Hadoop's address of a location in fsspec's form."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    scheme, separator, rest = location.partition("://")
    return f"{common_scheme(scheme)}://{rest}" if separator else location
