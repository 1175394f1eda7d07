"""Finds the data files of a table that have rows of changed keys, and rewrites them.

The changed keys, and those of one data file at a time, are in memory; rows pass in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.connectors.files.partitions import FileContext
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.connectors.table_log.table_files import LiveFile, TableFiles
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId

_FILE, _ROW = "file", "row"


class KeyedChanges:
    """The changes that one version applies, as `copy_on_write.ChangedFiles`."""

    def __init__(
        self,
        files: TableFiles,
        staged: Sequence[StagedDataFile],
        progressed: Callable[[], None] = lambda: None,
    ) -> None:
        """Create it, without reading a file.

        Args:
            files: the data files of the table.
            staged: files of changes. A later change of a key is in a later file, or later in its file.
            progressed: called after each step of bounded size.
        """
        self._progressed = progressed
        self._files = files
        self._staged = staged
        self._hits: dict[str, np.ndarray[Any, np.dtype[np.int64]]] = {}
        """Rows with changed keys, by the paths of touched files."""

    # --- what has changed -------------------------------------------------------------------------

    @cached_property
    def _newest(self) -> pl.DataFrame:
        """The newest change of each key: its key, file, row, and whether it deletes the row."""
        gone, frames = self._files.target.gone, []
        for number, file in enumerate(self._staged):
            path = self._files.change_url(file)
            keys = self._keys_in(path, {})
            if gone is None:
                deleted = pl.repeat(False, len(keys), eager=True, dtype=pl.Boolean)
            else:
                deleted = pl.Series(pl.from_arrow(self._files.read_deletions(path, gone)))
            frames.append(
                keys.with_columns(
                    deleted.alias("gone"),
                    pl.lit(number, pl.Int64).alias(_FILE),
                    pl.int_range(pl.len(), dtype=pl.Int64).alias(_ROW),
                )
            )
        return pl.concat(frames).unique(self._names, keep="last", maintain_order=True)

    @property
    def _names(self) -> list[str]:
        return [f"key {at}" for at in range(len(self._files.key))]

    def _keys_in(self, path: str, constants: Mapping[str, Any]) -> pl.DataFrame:
        """Return the keys in a file as the table stores them: some columns have no empty string."""
        key = self._files.key
        batches = list(self._files.read(path, constants, key))
        schema = pa.schema([self._files.columns.field(name) for name in key])
        rows = pa.Table.from_batches(batches, schema)
        series = []
        for name, as_ in zip(key, self._names, strict=True):
            values = pl.Series(as_, pl.from_arrow(rows[name]))
            if name in self._files.empty_is_null and values.dtype == pl.String:
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
        for name, as_ in zip(self._files.key, self._names, strict=True):
            changed = self._newest[as_]
            if changed.null_count() or not _has_sound_bounds(changed.dtype):
                continue
            ordered = changed.unique().sort()
            bounds = [_bounds(file, name) for file in files]
            known = np.array([bound is not None for bound in bounds], bool)
            if not known.any() or not len(ordered):
                continue
            least, greatest = zip(*(bound for bound in bounds if bound is not None), strict=True)
            first = ordered.search_sorted(pl.Series(least, dtype=ordered.dtype), side="left")
            after = ordered.search_sorted(pl.Series(greatest, dtype=ordered.dtype), side="right")
            possible[known] &= first.to_numpy() < after.to_numpy()
        return [file for file, is_possible in zip(files, possible, strict=True) if is_possible]

    def _keys_of(self, file: LiveFile) -> pl.DataFrame:
        return self._keys_in(self._files.url(file), file.constants)

    # --- the new files ----------------------------------------------------------------------------

    def rewrite(self, files: Sequence[LiveFile], *, with_changes: bool) -> list[StagedDataFile]:
        first = self._staged[0]
        ctx = FileContext(JobId(first.job), Attempt(0), first.operator, 0, self._files.columns)
        out = self._files.new_files(ctx)
        try:
            for file in files:
                hits = self._hits.pop(file.path)
                for rows in self._read_kept(file, hits):
                    out.write(rows)
            if with_changes:
                for number, staged in enumerate(self._staged):
                    for rows in self._read_newest(staged, number):
                        out.write(rows)
            return out.finish(CheckpointId(first.checkpoint))
        finally:
            out.close()

    def drop(self, files: Sequence[StagedDataFile]) -> None:
        for file in files:
            self._files.drop(file)

    def _read_kept(
        self, file: LiveFile, hits: np.ndarray[Any, np.dtype[np.int64]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file except for some."""
        for begin, rows in self._read(self._files.url(file), file.constants):
            inside = hits[np.searchsorted(hits, begin) : np.searchsorted(hits, begin + rows.num_rows)]
            kept = np.ones(rows.num_rows, bool)
            kept[inside - begin] = False
            if kept.any():
                yield rows if kept.all() else rows.filter(pa.array(kept))

    def _read_newest(self, file: StagedDataFile, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file of changes that are the newest of their keys."""
        newest = self._newest.filter((pl.col(_FILE) == number) & ~pl.col("gone"))[_ROW]
        wanted = np.sort(newest.to_numpy())
        for begin, rows in self._read(self._files.change_url(file), {}):
            inside = wanted[
                np.searchsorted(wanted, begin) : np.searchsorted(wanted, begin + rows.num_rows)
            ]
            if len(inside):
                yield rows.take(pa.array(inside - begin))

    def _read(self, path: str, constants: Mapping[str, Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the index of the first row of each batch, and the rows with the table's columns."""
        begin = 0
        for rows in self._files.read(path, constants):
            yield begin, rows
            begin += rows.num_rows
            self._progressed()


def _bounds(file: LiveFile, name: str) -> tuple[Any, Any] | None:
    value = file.constants.get(name)
    least, greatest = file.least.get(name, value), file.greatest.get(name, value)
    return None if least is None or greatest is None else (least, greatest)


def _has_sound_bounds(kind: pl.DataType) -> bool:
    """Return whether bounds of all writers are exact, or wider than the values. Those of floats are not
    (NaN), and those of times may be rounded inwards."""
    return kind.is_integer() or kind in (pl.String, pl.Date)
