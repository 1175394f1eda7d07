"""Differences between the versions of Spark that Rheos runs on: 3.5 to 4.3.

Each difference is one function here, and no other module asks which Spark is installed. A function asks
for the feature rather than for the version number, because vendors publish builds of their own.

| since | what differs |
|---|---|
| 4.0 | the JVM's classes of a classic session are in `org.apache.spark.sql.classic` |
| 4.0 | DataFrames of a classic session have a class of their own |
| 4.0 | `RuntimeConfig.getAll` exists |
| 4.0 | `DataFrame.toArrow` exists |
| 4.0 | strings have collations |
| 4.0 | the reader of Parquet files reads integers and floats as wider types |
| 4.0 | every error of a query is a `PySparkException` |
| 4.0 | the last stage of a cached plan has fewer partitions if they are small |
| 4.0 | Python classes for the types variant and calendar interval |
| 4.1 | the types time, geometry and geography |
| 4.1 | `DataFrame.repartitionById` exists |
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyspark
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as sql
from pyspark.sql.pandas.types import to_arrow_schema

FIRST_WITH = {
    "CalendarIntervalType": "4.0",
    "VariantType": "4.0",
    "TimeType": "4.1",
    "GeometryType": "4.1",
    "GeographyType": "4.1",
}
"""First version of Spark with a Python class for the type, for types that 3.5 lacks."""

QUERY_ERRORS = (PySparkException, Py4JError)
"""Errors of a failed query. Before 4.0, PySpark has no class of its own for some of them."""

_BINARY = "UTF8_BINARY"
_PARQUET = "org.apache.spark.sql.execution.datasources.parquet"


def installed() -> str:
    """Return the version of the installed PySpark."""
    return str(pyspark.__version__)


def type_named(name: str) -> type[sql.DataType] | None:
    """Return a class of `pyspark.sql.types`, or None if this version of Spark lacks it."""
    return getattr(sql, name, None)


def collation(kind: sql.StringType) -> str:
    """Return the name of a string type's collation: `UTF8_BINARY` in versions that know no other."""
    return str(getattr(kind, "collation", _BINARY))


def settings(session: SparkSession) -> dict[str, str]:
    """Return all settings of a session, with the defaults that its Spark names."""
    if hasattr(type(session.conf), "getAll"):
        return dict(session.conf.getAll)
    pairs: Any = session.conf._jconf.getAll().iterator()  # A map of Scala.
    found = {}
    while pairs.hasNext():
        pair = pairs.next()
        found[str(pair._1())] = str(pair._2())
    return found


def jvm_class(session: SparkSession, name: Literal["Dataset", "SparkSession"]) -> Any:
    """Return the JVM's class of a classic session or of its frames."""
    package: Any = session._jvm.org.apache.spark.sql
    classic = getattr(package.classic, name)
    return classic if isinstance(classic, JavaClass) else getattr(package, name)


def classic_dataframe() -> type[DataFrame]:
    """Return the class of the DataFrames of a classic session."""
    classic: type[DataFrame] = DataFrame
    try:
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    except ImportError:
        return classic
    classic = ClassicDataFrame
    return classic


def reads_parquet_as_wider(session: SparkSession) -> bool:
    """Return whether Spark reads a Parquet column of int or float as bigint or double."""
    loader: Any = session._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(f"{_PARQUET}.ParquetVectorUpdaterFactory$IntegerToLongUpdater")
    except Py4JJavaError:
        return False
    return True


def arrow_table(frame: DataFrame) -> pa.Table:
    """Collect a frame as an Arrow table."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    batches: list[pa.RecordBatch] = frame._collect_as_arrow()
    return pa.Table.from_batches(batches, None if batches else to_arrow_schema(frame.schema))


def repartition_by_id(frame: DataFrame, partitions: int, id: Column | str) -> DataFrame:
    """Move each row to the partition whose number is its id, an int from 0 below `partitions`."""
    column = f.col(id) if isinstance(id, str) else id
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(partitions, column)
    numbers = f.array(*map(f.lit, hashed_to_each(partitions)))
    return frame.repartition(partitions, f.element_at(numbers, column.cast("int") + 1))


def hashed_to_each(partitions: int) -> list[int]:
    """Return, for each partition, an int that Spark's hash partitioning assigns to it."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(_hash(number) % partitions, number)
        number += 1
    return [found[partition] for partition in range(partitions)]


def _hash(number: int) -> int:
    """Return Spark's hash of an int: Murmur3 with seed 42, as a signed int."""
    mask = 0xFFFFFFFF
    mixed = number * 0xCC9E2D51 & mask
    mixed = (mixed << 15 | mixed >> 17) & mask
    found = 42 ^ (mixed * 0x1B873593 & mask)
    found = (found << 13 | found >> 19) & mask
    found = (found * 5 + 0xE6546B64 & mask) ^ 4
    found = (found ^ found >> 16) * 0x85EBCA6B & mask
    found = (found ^ found >> 13) * 0xC2B2AE35 & mask
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found
