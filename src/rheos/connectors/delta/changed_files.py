"""Finds the data files of a Delta table that have rows of changed keys, and rewrites them.

The keys of one checkpoint, and those of one data file at a time, are in memory; rows pass in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.casts import cast_array
from rheos.connectors.delta.copy_on_write import LiveFile
from rheos.connectors.delta.delta_log import DeltaTarget
from rheos.connectors.delta.writer import DataFiles
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.partitions import FileContext
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId

_BATCH_ROWS = 65_536
_FILE, _ROW = "file", "row"


class KeyedChanges:
    """The changes of one checkpoint, as `copy_on_write.ChangedFiles`."""

    def __init__(
        self,
        target: DeltaTarget,
        columns: pa.Schema,
        staged: Sequence[StagedDataFile],
        progressed: Callable[[], None] = lambda: None,
    ) -> None:
        """Create it, without reading a file.

        Args:
            target: the table.
            columns: the table's columns now.
            staged: files of changes. A later change of a key is in a later file, or later in its file.
            progressed: called after each step of bounded size.
        """
        self._progressed = progressed
        self._target = target
        self._columns = columns
        self._staged = staged
        self._folder = SinkFolder(target.location)
        self._hits: dict[str, np.ndarray[Any, np.dtype[np.int64]]] = {}
        """Rows with changed keys, by the paths of touched files."""

    # --- what has changed -------------------------------------------------------------------------

    @cached_property
    def _newest(self) -> pl.DataFrame:
        """The newest change of each key: its key, file, row, and whether it deletes the row."""
        target, frames = self._target, []
        names = [*target.key, *([target.gone] if target.gone else [])]
        for number, file in enumerate(self._staged):
            with self._opened(file.path) as parquet:
                rows = parquet.read(columns=names)
            gone = rows[target.gone] if target.gone else pa.array([False]).take([0] * rows.num_rows)
            frames.append(
                self._keys([rows[name] for name in target.key]).with_columns(
                    pl.Series("gone", pl.from_arrow(gone), pl.Boolean),
                    pl.lit(number, pl.Int64).alias(_FILE),
                    pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW),
                )
            )
        return pl.concat(frames).unique(self._names, keep="last", maintain_order=True)

    @property
    def _names(self) -> list[str]:
        return [f"key {at}" for at in range(len(self._target.key))]

    def _keys(self, columns: Sequence[Any]) -> pl.DataFrame:
        """Return columns of keys as the table stores them: a partition has no empty string."""
        series = []
        for name, as_, column in zip(self._target.key, self._names, columns, strict=True):
            values = pl.Series(as_, pl.from_arrow(column))
            if name in self._target.partition_by and values.dtype == pl.String:
                values = values.replace("", None)
            series.append(values)
        return pl.DataFrame(series)

    # --- what it touches --------------------------------------------------------------------------

    def touched(self, files: Sequence[LiveFile]) -> list[LiveFile]:
        found = []
        for file in self._possible(files):
            self._progressed()
            keys = self._keys_of(file).with_row_index(_ROW)
            hits = keys.join(self._newest, on=self._names, how="semi", nulls_equal=True)[_ROW]
            if len(hits):
                self._hits[file.path] = np.sort(hits.to_numpy().astype(np.int64))
                found.append(file)
        return found

    def _possible(self, files: Sequence[LiveFile]) -> list[LiveFile]:
        """Return the files whose bounds do not exclude all changed keys."""
        possible = np.ones(len(files), bool)
        for name, as_ in zip(self._target.key, self._names, strict=True):
            changed = self._newest[as_]
            if changed.null_count() or not _has_sound_bounds(changed.dtype):
                continue
            ordered = changed.unique().sort()
            bounds = [self._bounds(file, name) for file in files]
            known = np.array([bound is not None for bound in bounds], bool)
            if not known.any() or not len(ordered):
                continue
            least, greatest = zip(*(bound for bound in bounds if bound is not None), strict=True)
            first = ordered.search_sorted(pl.Series(least, dtype=ordered.dtype), side="left")
            after = ordered.search_sorted(pl.Series(greatest, dtype=ordered.dtype), side="right")
            possible[known] &= first.to_numpy() < after.to_numpy()
        return [file for file, is_possible in zip(files, possible, strict=True) if is_possible]

    def _bounds(self, file: LiveFile, name: str) -> tuple[Any, Any] | None:
        if name in self._target.partition_by:
            value = file.partition[self._target.partition_by.index(name)]
            return None if value is None else (value, value)
        least, greatest = file.least.get(name), file.greatest.get(name)
        return None if least is None or greatest is None else (least, greatest)

    def _keys_of(self, file: LiveFile) -> pl.DataFrame:
        key, of_folder = self._target.key, self._of_folder(file)
        with self._opened(file.path) as parquet:
            names = [
                name for name in key if name not in of_folder and name in parquet.schema_arrow.names
            ]
            rows = parquet.read(columns=names)
            count = parquet.metadata.num_rows
        return self._keys(
            [self._column(name, rows if name in names else None, of_folder, count) for name in key]
        )

    # --- the new files ----------------------------------------------------------------------------

    def rewrite(self, files: Sequence[LiveFile], *, with_changes: bool) -> list[StagedDataFile]:
        target, first = self._target, self._staged[0]
        ctx = FileContext(JobId(first.job), Attempt(0), first.operator, 0, self._columns)
        out = DataFiles(target, self._columns, target.partition_by, ctx)
        try:
            for file in files:
                hits = self._hits.pop(file.path)
                for rows in self._read_kept(file.path, self._of_folder(file), hits):
                    out.write(rows)
            if with_changes:
                for number, staged in enumerate(self._staged):
                    for rows in self._read_newest(staged.path, number):
                        out.write(rows)
            return out.finish(CheckpointId(first.checkpoint))
        finally:
            out.close()

    def drop(self, files: Sequence[StagedDataFile]) -> None:
        for file in files:
            self._folder.remove(file.path)

    def _read_kept(
        self, path: str, of_folder: Mapping[str, Any], hits: np.ndarray[Any, np.dtype[np.int64]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file except for some."""
        for begin, rows in self._read(path, of_folder):
            inside = hits[np.searchsorted(hits, begin) : np.searchsorted(hits, begin + rows.num_rows)]
            kept = np.ones(rows.num_rows, bool)
            kept[inside - begin] = False
            if kept.any():
                yield rows if kept.all() else rows.filter(pa.array(kept))

    def _read_newest(self, path: str, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file of changes that are the newest of their keys."""
        newest = self._newest.filter((pl.col(_FILE) == number) & ~pl.col("gone"))[_ROW]
        wanted = np.sort(newest.to_numpy())
        for begin, rows in self._read(path, {}):
            inside = wanted[
                np.searchsorted(wanted, begin) : np.searchsorted(wanted, begin + rows.num_rows)
            ]
            if len(inside):
                yield rows.take(pa.array(inside - begin))

    def _read(self, path: str, of_folder: Mapping[str, Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the index of the first row of each batch, and the rows with the table's columns."""
        begin = 0
        with self._opened(path) as parquet:
            there = set(parquet.schema_arrow.names)
            names = [field.name for field in self._columns if field.name in there]
            for read in parquet.iter_batches(_BATCH_ROWS, columns=names, use_threads=False):
                count = read.num_rows
                columns = [
                    self._column(name, read if name in there else None, of_folder, count)
                    for name in self._columns.names
                ]
                yield begin, pa.RecordBatch.from_arrays(columns, schema=self._columns)
                begin += count
                self._progressed()

    def _column(
        self,
        name: str,
        rows: pa.RecordBatch | pa.Table | None,
        of_folder: Mapping[str, Any],
        count: int,
    ) -> Any:
        """Return a column with the table's type: from the rows, the folder, or nulls."""
        kind = self._columns.field(name).type
        if name in of_folder:
            return pa.repeat(pa.scalar(of_folder[name], kind), count)
        if rows is None:
            return pa.nulls(count, kind)
        column = rows[name]
        if isinstance(column, pa.ChunkedArray):
            return pa.chunked_array([cast_array(chunk, kind) for chunk in column.chunks], kind)
        return cast_array(column, kind)

    def _of_folder(self, file: LiveFile) -> dict[str, Any]:
        return dict(zip(self._target.partition_by, file.partition, strict=True))

    @contextmanager
    def _opened(self, path: str) -> Iterator[pq.ParquetFile]:
        """Open a file. Raises UnrestorableError if it is missing (DL4)."""
        try:
            raw = self._folder.system.open(self._folder.path(path), "rb")
        except FileNotFoundError as error:
            raise UnrestorableError(
                f"{self._folder.path(path)} is lost: the file does not exist",
                hint="check whether the table was vacuumed with a short retention while the job was "
                "down; restore the file, or start the job from an earlier savepoint",
            ) from error
        with raw, pq.ParquetFile(raw, coerce_int96_timestamp_unit="us") as parquet:
            yield parquet


def _has_sound_bounds(kind: pl.DataType) -> bool:
    """Return whether bounds of all writers are exact, or wider than the values. Those of floats are not
    (NaN), and those of times may be rounded inwards."""
    return kind.is_integer() or kind in (pl.String, pl.Date)
