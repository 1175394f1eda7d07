"""The examples in the documentation of Spark's functions, computed by Spark and by Rheos.

The examples are those of the installed PySpark. Spark computes each of them, so that results are
compared as values, not as they are printed.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rheos as rh
from rheos.connectors.spark.versions import QUERY_ERRORS, arrow_table
from rheos.core.errors import RheosError
from rheos.sql import types
from rheos.sql.expressions import refused_functions
from tests.sql.compare import Rows, counted, key_of, rows_of

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings of a session under which Spark's results are those that Rheos promises."""

_OF_THE_MOMENT = (
    *("curdate", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"),
    *("now", "current_timezone", "rand", "randn", "random", "randstr", "uniform"),
    *("uuid", "shuffle", "monotonically_increasing_id", "user", "version"),
)
"""Functions of the moment and by chance, whose examples have no fixed result."""
LEFT_OUT = frozenset([*refused_functions.NAMES, *_OF_THE_MOMENT])
"""Functions that no stream computes."""


_VARIANT = pa.struct({field.name: pa.string() for field in types.VARIANT.fields})


class Verdict(StrEnum):
    AGREES = "agrees"
    REFUSED = "refused"
    """The error points to a place in the query."""
    DIFFERS = "differs"
    LEFT_OUT = "left out"
    """No stream computes the function, or this Spark does not compute the example."""


@dataclass(frozen=True)
class Example:
    function: str
    group: str
    """The group of the function, such as `math`."""
    sql: str


def examples(session: Any) -> Iterator[Example]:
    """Yield the queries among the examples of all functions, sorted by group and name."""
    listed = session._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    for info in sorted(listed, key=lambda each: (each.getGroup(), each.getName())):
        for written in re.split(r"^\s*> ?", info.getExamples(), flags=re.MULTILINE)[1:]:
            sql = re.split(r";\s*?(?:\n|\Z)", written)[0].strip()
            if re.match("(SELECT|WITH)\\b", sql, re.IGNORECASE):
                yield Example(info.getName(), info.getGroup().removesuffix("_funcs"), sql)


def judged(session: Any, example: Example) -> tuple[Verdict, str]:
    """Return whether Rheos computes what Spark computes, and why not."""
    if example.function in LEFT_OUT:
        return Verdict.LEFT_OUT, "no stream computes it"
    try:
        theirs = _found_by_spark(session, example.sql)
    except QUERY_ERRORS as error:
        return Verdict.LEFT_OUT, str(error).splitlines()[0]
    try:
        ours = _found_by_rheos(example.sql)
    except RheosError as error:
        return (Verdict.REFUSED if "^" in (error.detail or "") else Verdict.DIFFERS), error.what
    except Exception as error:
        return Verdict.DIFFERS, repr(error)
    if ours == theirs:
        return Verdict.AGREES, ""
    return Verdict.DIFFERS, f"{sorted(map(repr, ours))[:3]}, not {sorted(map(repr, theirs))[:3]}"


def _found_by_rheos(sql: str) -> Rows:
    env = rh.Environment(runtime="simulated")
    with contextlib.redirect_stdout(io.StringIO()):
        stream = env.sql(sql, state_ttl="forever")
        stream.collect("example")
        found = env.execute("example").collected["example"]
    for place, name in enumerate(found.column_names):
        if found.schema.field(place).type == _VARIANT:
            found = found.set_column(place, name, pc.struct_field(found[name], 0))
    return rows_of(found, key_of(stream))


def _found_by_spark(session: Any, sql: str) -> Rows:
    """Return Spark's rows, with VARIANT as JSON, and other types that Arrow lacks as strings."""
    frame = session.sql(sql)
    names = [f"c{place}" for place in range(len(frame.columns))]
    kinds = [field.dataType.simpleString() for field in frame.schema.fields]
    read = [
        f"TO_JSON({name})" if kind == "variant" else name
        for name, kind in zip(names, kinds, strict=True)
    ]
    frame = frame.toDF(*names).selectExpr(*read)
    try:
        table = arrow_table(frame)
    except (*QUERY_ERRORS, pa.ArrowException):
        table = arrow_table(frame.selectExpr(*(f"CAST(`{name}` AS STRING)" for name in frame.columns)))
    columns = (table.column(place).to_pylist() for place in range(table.num_columns))
    return counted(zip(*columns, strict=True))
