"""Data files of one version of a table: how an upsert reads them, and writes new ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from rheos.connectors.calls.file_systems import url_to_fs
from rheos.connectors.casts import cast_array
from rheos.connectors.files.partitions import FileContext
from rheos.connectors.table_log.data_files import DataFiles
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.connectors.table_log.target import TableTarget
from rheos.core.errors import CheckpointError, UnrestorableError

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class LiveFile:
    """A data file of a version of the table."""

    path: str
    """Path by which the table's log names the file."""
    size_bytes: int
    constants: dict[str, Any] = field(default_factory=dict)
    """Values of columns that the file itself does not have, because they are equal in all rows."""
    least: dict[str, Any] = field(default_factory=dict)
    """Lower bounds by column. A column without a known bound is missing."""
    greatest: dict[str, Any] = field(default_factory=dict)
    described: Any = None
    """Description of the file by the library, for the removal of the file."""
    partition: Hashable | None = ()
    """The file's partition. Files of one may be merged; None for a file that compaction leaves."""
    written_ms: int = 0
    """Time at which the file came into the table, as far as the table knows it."""


class TableFiles(ABC):
    """Data files of one version of a table, and files of changes."""

    empty_is_null: frozenset[str] = frozenset()
    """Columns in which the table stores an empty string as null."""

    def __init__(self, target: TableTarget, columns: pa.Schema, key: Sequence[str]) -> None:
        """Create it, without reading a file.

        Args:
            target: the table when the job was submitted.
            columns: columns of the version.
            key: the key columns, by their names in the version.
        """
        self.target = target
        self.columns = columns
        self.key = tuple(key)

    # --- what formats of tables do differently ------------------------------------------------------

    @abstractmethod
    def url(self, file: LiveFile) -> str:
        """Return the absolute path or URL of a data file."""

    @abstractmethod
    def logged_path(self, file: StagedDataFile) -> str:
        """Return the path by which the table's log will name a new file."""

    @abstractmethod
    def names_in(self, path: str, schema: pa.Schema) -> Mapping[str, str]:
        """Return the names that the table's columns have in a file, without those that it lacks."""

    @abstractmethod
    def identity_of(self, field: pa.Field) -> object:
        """Return what identifies a field of a nested type in files, such as its name."""

    @abstractmethod
    def new_files(self, ctx: FileContext) -> DataFiles:
        """Return a writer of data files with the columns of the version."""

    @abstractmethod
    def drop(self, file: StagedDataFile) -> None:
        """Remove a new file that the table's log does not name, unless it may name it later."""

    # --- reading ------------------------------------------------------------------------------------

    def change_url(self, file: StagedDataFile) -> str:
        """Return the absolute path or URL of a file of changes."""
        return f"{self.target.folder}/{file.path}"

    def read(
        self, path: str, constants: Mapping[str, Any], names: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, in their order.

        Args:
            path: path or URL of the file.
            constants: values of columns that the file does not have.
            names: the columns to read; None for all columns of the table.

        Raises:
            UnrestorableError: the file is missing.
            CheckpointError: a record in the file has other fields than in the table.
        """
        wanted = self.columns if names is None else pa.schema([self.columns.field(n) for n in names])
        with _opened(path) as parquet:
            there = self.names_in(path, parquet.schema_arrow)
            found = {name: there[name] for name in wanted.names if name in there}
            for name in found:
                self._check_fields(path, name, parquet.schema_arrow.field(found[name]))
            # The number of rows is that of any column.
            read = list(found.values()) or parquet.schema_arrow.names[:1]
            for rows in parquet.iter_batches(BATCH_ROWS, columns=read, use_threads=False):
                columns = [
                    cast_array(rows[found[each.name]], each.type)
                    if each.name in found
                    else _repeated(constants.get(each.name), each.type, rows.num_rows)
                    for each in wanted
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    def read_deletions(self, path: str, column: str) -> pa.ChunkedArray:
        """Return the column of a file of changes that marks deletions."""
        with _opened(path) as parquet:
            return parquet.read(columns=[column])[column]

    def _check_fields(self, path: str, name: str, in_file: pa.Field) -> None:
        expected = self.columns.field(name)
        if types.is_nested(expected.type) and self._shape(in_file) != self._shape(expected):
            raise CheckpointError(
                f"column {name!r} has other fields in the file {path} than in the table, so the sink "
                "cannot replace the file",
                hint="compact the table by a program that rewrites its files, and start again",
            )

    def _shape(self, field: pa.Field) -> object:
        """Return the identities of a field's children, at every depth."""
        kind = field.type
        if types.is_struct(kind):
            return [(self.identity_of(child), self._shape(child)) for child in kind]
        if types.is_map(kind):
            return [self._shape(kind.key_field), self._shape(kind.item_field)]
        if types.is_list(kind) or types.is_large_list(kind):
            return [self._shape(kind.value_field)]
        return None


def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    """Open a file. Raises UnrestorableError if it is missing (DL4)."""
    system, inner = url_to_fs(path)
    try:
        raw = system.open(inner, "rb")
    except FileNotFoundError as error:
        raise UnrestorableError(
            f"{path} is lost: the file does not exist",
            hint="check whether unused files of the table were removed while the job was down; "
            "restore the file, or start the job from an earlier savepoint",
        ) from error
    with raw, pq.ParquetFile(raw, coerce_int96_timestamp_unit="us") as parquet:
        yield parquet
