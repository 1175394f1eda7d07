"""Tables of Spark as sinks: `tables.sink("db.events")`, `tables.sink("s3://lake/events")`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from rheos.connectors.files.partitions import partition_columns
from rheos.connectors.registration import ConnectorRegistration, SinkGuarantee
from rheos.connectors.urls import absolute
from rheos.core.connectors.contract import Sink, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset, path_dataset
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.site import located_at_call

TableFormat = Literal["parquet", "delta", "iceberg"]

FORMATS: tuple[TableFormat, ...] = ("parquet", "delta", "iceberg")

_NAME = re.compile(r"(?:`(?:[^`]|``)+`|[^`.\s]+)(?:\.(?:`(?:[^`]|``)+`|[^`.\s]+))*")


@located_at_call
def sink(
    target: str | os.PathLike[str],
    *,
    format: TableFormat | None = None,
    partition_by: Sequence[str] = (),
    mode: Literal["append"] = "append",
) -> TableSink:
    """Append rows to a Spark table, each once: tasks stage Parquet files, and the driver publishes the
    files of a checkpoint through Spark when the checkpoint is complete.

    ```python
    events.sink_to(rh.tables.sink("sales.orders"))
    events.sink_to(rh.tables.sink("/data/orders", partition_by=["day"]))
    ```

    Args:
        target: the name of a table ("orders", "sales.orders", "lake.sales.orders"), or a path or URL
            (with a slash in it) of a folder. A table that does not exist is created.
        format: "parquet", "delta" or "iceberg". By default, the format of the existing table. For a new
            table, it is the default of the catalog, or Parquet for a folder.
        partition_by: the partition columns of a new table. For an existing Parquet table, its own
            partition columns.
        mode: "append", the only mode. A table keeps its rows: a job that starts over, without the
            checkpoints of the last run, appends its rows once more.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as a name that is not that of a table.
    """
    text = os.fspath(target)
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(
            f"{target!r} is not a table name", hint='write rh.tables.sink("sales.orders")'
        )
    if format is not None and format not in FORMATS:
        raise ProgramError(
            f"format={format!r} is not known", hint='write "parquet", "delta" or "iceberg"'
        )
    if mode != "append":
        raise ProgramError(
            f"mode={mode!r} is not valid: a stream can only append rows",
            hint="leave it out; to replace a table, run a Spark batch job over the written rows",
        )
    columns = partition_columns(partition_by)
    is_path = isinstance(target, os.PathLike) or "/" in text or os.sep in text
    if not is_path and _NAME.fullmatch(text) is None:
        raise ProgramError(
            f"{text!r} is not the name of a table",
            hint='write "sales.orders", with `back quotes` around names that are not plain words; '
            'a path contains a slash: "./orders"',
        )
    return TableSink(absolute(text) if is_path else text, is_path, format, columns)


@dataclass(frozen=True)
class TableSink(Sink):
    """Sink that `tables.sink` creates. When the job is submitted, Rheos inspects the table and derives
    the actual sink from it."""

    target: str
    is_path: bool
    format: TableFormat | None
    partition_by: tuple[str, ...]

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> Sink:
        from rheos.connectors.spark.table_sink import prepared

        return prepared(self, schema)

    def validate(self, schema: pa.Schema) -> None:
        for name in self.partition_by:
            if name not in schema.names:
                raise ProgramError(
                    f"partition_by= names the column {name!r}, which the stream does not have",
                    hint=f"it has {', '.join(schema.names)}",
                )

    def open(self, ctx: SinkContext) -> SinkWriter:
        raise ConfigurationError(
            f"the runtime must inspect the table before it writes {self.describe()}",
            operator=ctx.name,
        )

    def datasets(self) -> Sequence[Dataset]:
        return [path_dataset(self.target)] if self.is_path else []

    def describe(self) -> str:
        return f"{self.format or ''} table {self.target}".strip()


CONNECTOR = ConnectorRegistration(
    name="tables",
    title="Spark tables",
    module=__name__,
    sink="sink",
    deliveries={SinkGuarantee.EXACTLY_ONCE: ""},
    docs="tables.md",
)
