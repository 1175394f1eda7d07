"""DataFrames as sources. Streaming DataFrames are in `stream.py`.

The batch runtime reads the DataFrame directly. The other runtimes must be able to read it again from
any position, but a DataFrame may return other rows each time, in another order. So its rows are staged
first (`staging.py`), once in the life of a job.

A DataFrame has no order, so none of its rows is ever late: the batch runtime reads it as a whole, and
staged files are sorted by event time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from rheos.connectors.hybrid import HybridSource
from rheos.connectors.spark.stream import StreamSettings, StreamSource
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError
from rheos.core.times import TimeColumn, is_time

POSITIONS = "a DataFrame"
"""Description of the splits and positions of staged rows, whatever produced them."""


def dataframe_source(frame: Any, event_time: str | None = None) -> DataFrameSource:
    """Create the source of a DataFrame's rows. Raises ProgramError if the DataFrame cannot be read, and
    SchemaError if a column has no type in Rheos or the event time is not a time."""
    if _checked(frame).isStreaming:
        raise ProgramError(
            "this DataFrame is streaming, but env.from_dataframe() reads a bounded one",
            hint="write env.from_stream(df), or rh.spark_stream(df); or read the rows that exist "
            "now: spark.read instead of spark.readStream",
        )
    schema = _schema_of(frame)
    if event_time is not None:
        _check_event_time(event_time, schema)
    return DataFrameSource(frame, schema, event_time)


def stream_source(frame: Any, settings: StreamSettings) -> StreamSource:
    """Create the source of a streaming DataFrame's rows. Raises as `dataframe_source` does."""
    if not _checked(frame).isStreaming:
        raise ProgramError(
            "this DataFrame is bounded, but env.from_stream() reads a streaming one",
            hint="write env.from_dataframe(df), or create it with spark.readStream",
        )
    return StreamSource(frame, _schema_of(frame), settings)


@dataclass(frozen=True, eq=False)
class DataFrameSource(Source):
    """Source that `dataframe_source` creates. It stays on the driver; workers read staged files."""

    frame: Any
    """Classic pyspark.sql.DataFrame, whose columns are those of `schema`, in the same order."""
    schema: pa.Schema
    event_time: str | None
    """Column by which the staged rows are sorted."""
    bounded: bool = field(default=True, init=False)

    def dataframe(self) -> Any:
        return self.frame

    def session(self) -> Any:
        return self.frame.sparkSession

    def only_reader(self) -> str | None:
        return "the job stages its rows first"

    def staged(self, folder: str) -> Source:
        # Only jobs with a DataFrame need this module.
        from rheos.connectors.spark.staging import staged

        return staged(self.frame, self.schema, self.event_time, folder)

    def splits(self) -> Sequence[Split]:
        raise AssertionError("a DataFrame is staged before its splits are listed")

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        raise AssertionError("a DataFrame is staged before it is read")

    def __reduce__(self) -> Any:
        raise AssertionError("a DataFrame is staged before its plan is sent")

    def positions(self) -> str:
        return POSITIONS

    def describe(self) -> str:
        return "DataFrame"


def ordered_by(source: Source, on: TimeColumn) -> Source:
    """Return the source with its DataFrames sorted by the column, so that none of their rows is late.
    Rows of a streaming DataFrame are sorted within each micro-batch.

    Raises ProgramError if a DataFrame has another event time.
    """
    if isinstance(source, HybridSource):
        return replace(source, parts=tuple(ordered_by(part, on) for part in source.parts))
    if isinstance(source, StreamSource):
        return _stream_ordered_by(source, on)
    if not isinstance(source, DataFrameSource) or source.event_time == on.name:
        return source
    if source.event_time is not None:
        raise ProgramError(
            f"the event time of the DataFrame is {source.event_time!r}, but that of the "
            f"watermark is {on.name!r}",
            hint="name the same column in both, or leave out event_time of rh.dataframe(...)",
        )
    return replace(source, event_time=on.name)


def _stream_ordered_by(source: StreamSource, on: TimeColumn) -> StreamSource:
    if not on.by_itself:
        raise ProgramError(
            f"the event time {on.name!r} of a Spark stream must be a timestamp, without unit= "
            "or format=",
            hint=f'convert it in Spark first: df.withColumn("{on.name}", '
            f'timestamp_seconds("{on.name}")), or to_timestamp(...)',
        )
    _check_event_time(on.name, source.schema)
    return replace(source, event_time=on.name)


# --- checks when the program is built ----------------------------------------------------------------


def _checked(frame: Any) -> Any:
    from pyspark.sql import DataFrame

    # Only Spark Connect DataFrames have such a class, and the package need not be installed.
    if any(base.__module__.startswith("pyspark.sql.connect.") for base in type(frame).__mro__):
        raise ConfigurationError(
            "this is a DataFrame of Spark Connect, whose session cannot run long-lived tasks",
            hint="create it in a classic session, on the driver of the cluster: unset SPARK_REMOTE "
            "and spark.api.mode=connect",
        )
    if not isinstance(frame, DataFrame):
        raise ProgramError(
            f"a Spark DataFrame is needed, but this is {_kind(frame)}",
            hint="use rh.collection(...) for a Polars DataFrame or an Arrow table; convert others "
            "with spark.createDataFrame(...)",
        )
    if frame.sparkSession.sparkContext._jsc is None:
        raise ConfigurationError(
            "the Spark session of this DataFrame has been stopped",
            hint="create the DataFrame again, in the current session",
        )
    return frame


def _kind(value: Any) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        return repr(value) if len(repr(value)) < 40 else f"a {kind.__name__}"
    return f"a {kind.__module__.partition('.')[0]}.{kind.__name__}"


def _schema_of(frame: Any) -> pa.Schema:
    from rheos.connectors.spark.spark_types import arrow_schema

    schema = arrow_schema(frame.schema)
    if not schema.names:
        raise SchemaError("the DataFrame has no columns", hint="select some of them")
    return schema


def _check_event_time(name: str, schema: pa.Schema) -> None:
    if name not in schema.names:
        raise SchemaError(
            f"the DataFrame has no column {name!r} for the event time",
            hint=f"its columns are {', '.join(schema.names)}",
        )
    kind = schema.field(name).type
    if not is_time(kind) or (pa.types.is_integer(kind) and not pa.types.is_int64(kind)):
        raise SchemaError(
            f"the event-time column {name!r} is {kind}, which is not a time",
            hint="use a timestamp, a date, or a long of milliseconds since the epoch; cast it "
            f'first: .withColumn("{name}", col("{name}").cast("timestamp"))',
        )
