"""Differences between the versions of Spark that Rheos runs on: 3.5 to 4.3.

Each difference is one function here, and no other module asks which Spark is installed. A function asks
for the feature rather than for the version number, because vendors publish builds of their own.

| since | what differs |
|---|---|
| 4.0 | the JVM's classes of a classic session are in `org.apache.spark.sql.classic` |
| 4.0 | `RuntimeConfig.getAll` exists |
| 4.0 | strings have collations |
| 4.0 | Python classes for the types variant and calendar interval |
| 4.1 | the types time, geometry and geography |
"""

from __future__ import annotations

from typing import Any, Literal

import pyspark
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

FIRST_WITH = {
    "CalendarIntervalType": "4.0",
    "VariantType": "4.0",
    "TimeType": "4.1",
    "GeometryType": "4.1",
    "GeographyType": "4.1",
}
"""First version of Spark with a Python class for the type, for types that 3.5 lacks."""

_BINARY = "UTF8_BINARY"


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
