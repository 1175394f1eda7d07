"""Source of a Delta table: `delta.source("lake/orders")`.

It reads the data files of one version, and on request the files that later versions append. A split is
a data file; its id is the file's path in the table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from rheos.connectors.delta.appended_files import AppendedFiles, version_files
from rheos.connectors.delta.delta_table import inspecting, lone_call, readable_columns, table_uri
from rheos.connectors.delta.file_decoder import DataFileDecoder, partition_values
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.delta.versions import DataFile
from rheos.connectors.files.chunks import ChunkReader, EndedReader
from rheos.connectors.files.parquet import START
from rheos.connectors.files.parquet_bounds import has_bounds, may_hold
from rheos.connectors.files.partitions import partition_columns
from rheos.connectors.urls import absolute
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.datasets import Dataset, path_dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import located_at_call


@located_at_call
def source(
    path: str | os.PathLike[str],
    *,
    schema: Any = None,
    version: int | None = None,
    discover: Duration | None = None,
    partition_by: Sequence[str] = (),
) -> DeltaSource:
    """Read the rows of a Delta table: those of one version, or also those that are appended later.

    ```python
    orders = env.from_source(rh.delta.source("lake/orders"))
    ```

    Args:
        path: the folder of the table: a local path, or a URL of S3, Google Cloud Storage or Azure.
        schema: the columns to read: a dataclass, a pyarrow.Schema or a dict. By default all columns.
        version: the version to read; by default the newest one when the program is built.
        discover: interval at which to look for appended rows ("10s"); the source never ends. It needs
            `version`, so that each restart begins at the same one.
        partition_by: the table's partition columns, if they are to be checked.

    Returns:
        The source, for `env.from_source`. It is bounded unless `discover` is set.

    Raises:
        ProgramError: An argument is invalid, or lacks another that it needs.
        SchemaError: The table does not have the columns.
        ConfigurationError: The table cannot be read.
    """
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip():
        raise ProgramError(f"{path!r} is not a path", hint='write rh.delta.source("lake/orders")')
    if version is not None and (
        isinstance(version, bool) or not isinstance(version, int) or version < 0
    ):
        raise ProgramError(f"version={version!r} is not a version", hint="write a number from 0 on")
    if discover is not None and version is None:
        raise ProgramError(
            "discover= needs version=, so that each restart of the job begins at the same version",
            hint="write version=0 for all rows, or the newest: deltalake.DeltaTable(path).version()",
        )
    interval_ms = None if discover is None else duration_ms(discover)
    location = absolute(text).rstrip("/")
    wanted = None if schema is None else resolve(schema)

    def inspect(progressed: object) -> tuple[int, pa.Schema, tuple[str, ...]]:
        with inspecting(location):
            table = CONNECTOR.client().DeltaTable(table_uri(location), version=version)
            columns = readable_columns(table, location)
            return table.version(), columns, tuple(table.metadata().partition_columns)

    number, columns, partitions = lone_call(location, f"inspection of the table {location}", inspect)
    rows, record = (columns, None) if wanted is None else wanted
    for each in rows:
        if each.name not in columns.names:
            raise SchemaError(
                f"the table {location} has no column {each.name!r}",
                hint=f"it has {', '.join(columns.names)}",
            )
    if partition_by and partition_columns(partition_by) != partitions:
        raise SchemaError(
            f"partition_by={list(partition_by)}, but the table {location} is partitioned by "
            f"{', '.join(partitions) or 'no column'}",
            hint="leave out partition_by: the table determines it",
        )
    return DeltaSource(
        location, number, rows, partitions, record, interval_ms, bounded=interval_ms is None
    )


@dataclass(frozen=True)
class DeltaSource(Source):
    """Source that `delta.source` creates."""

    location: str
    version: int
    schema: pa.Schema
    partition_by: tuple[str, ...]
    record: type | None = None
    discovery_ms: int | None = None
    only: pl.Expr | None = field(default=None, compare=False)
    """Condition on partition columns and on columns with bounds: files without a row that fulfils it
    are not read."""
    bounded: bool = True
    appended: AppendedFiles = field(default_factory=AppendedFiles, compare=False, repr=False)

    def record_class(self) -> type | None:
        return self.record

    def endless(self, split: Split) -> bool:
        return False

    def as_of_now(self) -> DeltaSource:
        return replace(self, discovery_ms=None)

    @property
    def split_columns(self) -> Sequence[str]:
        return [name for name in self.partition_by if name in self.schema.names]

    @property
    def bounded_columns(self) -> Sequence[str]:
        return [
            each.name
            for each in self.schema
            if each.name not in self.partition_by and has_bounds(each.type)
        ]

    def skipping(self, condition: pl.Expr) -> DeltaSource:
        return replace(self, only=condition)

    def reading(self, columns: frozenset[str]) -> DeltaSource | None:
        named = columns if self.only is None else {*columns, *self.only.meta.root_names()}
        kept = [each for each in self.schema if not each.nullable or each.name in named]
        return None if len(kept) == len(self.schema) else replace(self, schema=pa.schema(kept))

    def splits(self) -> Sequence[Split]:
        files = lone_call(
            self.location, f"listing of the table {self.location}", lambda progressed: self._files()
        )
        return [Split(file.path, msgspec.msgpack.encode(file)) for file in files]

    def _files(self) -> list[DataFile]:
        files = version_files(self.location, self.version)
        return files if self.bounded else files + self.appended.after(self.location, self.version)

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        # The newest version is another one now; the job continues with the files of its first run.
        return [split for split in splits if split.id in known] if self.bounded else splits

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        file = msgspec.msgpack.decode(split.payload, type=DataFile)
        start = START if position is None else position
        values = partition_values(file, self.schema)
        if self.only is not None and not may_hold(self.only, self.schema, values, {}):
            return EndedReader(start)
        path = f"{self.location}/{file.path}"
        decoder = DataFileDecoder(path, self.schema, values, start, self.only)
        return ChunkReader(path, decoder, start, ctx)

    def datasets(self) -> Sequence[Dataset]:
        return [path_dataset(self.location)]

    def describe(self) -> str:
        then = "" if self.bounded else ", then what is appended"
        return f"Delta table {self.location}, version {self.version}{then}"
