"""Frames on the local disk: rows that do not fit in memory, read back a range at a time.

A `SpilledRows` is written once and never changed. Its files are deleted with the last reference to it.
So a snapshot can read its rows for as long as it needs them, from any thread.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Sequence
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.errors import StateError

BLOCK_ROWS = 1 << 14
"""Minimum number of rows that are read at once."""

PLACE = "place"
"""Column with the place of a row's key in the range of all keys."""

Places = npt.NDArray[np.uint16]


class SpillFolder:
    """Folder of an operator's files. It is created with the first file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._numbers = count()

    def write(self, frames: Iterable[pl.DataFrame]) -> SpilledRows:
        """Write consecutive frames, each with the column PLACE. Raise StateError if the disk fails."""
        files: list[_File] = []
        writer: _Writer | None = None
        try:
            os.makedirs(self._path, exist_ok=True)
            for frame in frames:
                # Frames of exact sums have different limbs, but a file has one schema.
                if writer is None or frame.schema != writer.schema:
                    if writer is not None:
                        files.append(writer.close())
                    path = os.path.join(self._path, f"{next(self._numbers):06d}.arrow")
                    writer = _Writer(path, frame)
                writer.write(frame)
            if writer is not None:
                files.append(writer.close())
        except OSError as error:
            if writer is not None:
                writer.discard()
            raise _not_written(error) from error
        return SpilledRows(files)

    def mapped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the same rows in a file that is mapped into memory, whose pages are read on access.
        The file is deleted with the last reference. Raise StateError if the disk fails."""
        path = os.path.join(self._path, f"{next(self._numbers):06d}.arrow")
        try:
            os.makedirs(self._path, exist_ok=True)
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_batch(rows)
            with pa.memory_map(path) as source, pa.ipc.open_file(source) as reader:
                found = reader.get_batch(0)
            # The mapping remains valid after the file name is removed.
            _remove(path)
        except OSError as error:
            raise _not_written(error) from error
        return found


def _not_written(error: OSError) -> StateError:
    return StateError(
        f"state could not be written to the local disk: {error}",
        hint="free some space, or choose a larger disk: Environment(state_directory=...)",
    )


class _Writer:
    def __init__(self, path: str, first: pl.DataFrame) -> None:
        self.path = path
        self.schema = first.schema
        self._arrow = _to_arrow(first.clear()).schema
        self._sink = pa.OSFile(path, "wb")
        self._writer = pa.ipc.new_file(self._sink, self._arrow)
        self._blocks: list[tuple[int, int, int]] = []

    def write(self, frame: pl.DataFrame) -> None:
        for block in frame.iter_slices(BLOCK_ROWS):
            for batch in _to_arrow(block).combine_chunks().to_batches():
                self._writer.write_batch(batch)
            places = block[PLACE].to_numpy()
            self._blocks.append((block.height, int(places.min()), int(places.max())))

    def close(self) -> _File:
        self._writer.close()
        self._sink.close()
        return _File(self.path, self.schema, self._blocks)

    def discard(self) -> None:
        self._sink.close()
        _remove(self.path)


class _File:
    """One Arrow file."""

    def __init__(self, path: str, schema: pl.Schema, blocks: Sequence[tuple[int, int, int]]) -> None:
        self._path = path
        self._schema = schema
        self.nothing = pl.DataFrame(schema=schema).drop(PLACE)
        rows = np.array([rows for rows, _, _ in blocks], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(rows)])
        self._least = np.array([least for _, least, _ in blocks])
        self._greatest = np.array([greatest for _, _, greatest in blocks])
        self.height = int(self._starts[-1])
        weakref.finalize(self, _remove, path)

    def read(self, begin: int, stop: int, places: range | None) -> list[pl.DataFrame]:
        """Return the rows of a range, as frames. Raise StateError if the file is missing or damaged."""
        try:
            return self._read(begin, stop, places)
        except (OSError, pa.ArrowInvalid) as error:
            raise StateError(f"state could not be read from the local disk: {error}") from error

    def _read(self, begin: int, stop: int, places: range | None) -> list[pl.DataFrame]:
        low = int(np.searchsorted(self._starts, begin, side="right")) - 1
        high = int(np.searchsorted(self._starts, stop, side="left"))
        wanted = np.arange(low, high)
        if places is not None:
            above, below = self._greatest[wanted] >= places.start, self._least[wanted] < places.stop
            wanted = wanted[above & below]
        frames = []
        with pa.OSFile(self._path) as source, pa.ipc.open_file(source) as reader:
            for block in wanted.tolist():
                start = int(self._starts[block])
                frame = pl.DataFrame(reader.get_batch(block), schema=self._schema)
                first, last = max(begin - start, 0), min(stop - start, frame.height)
                frame = frame.slice(first, last - first)
                at, frame = frame[PLACE], frame[self.nothing.columns]
                frames.append(frame if places is None else among(frame, at, places))
        return [frame for frame in frames if frame.height]


class SpilledRows:
    """Rows on disk, in one or more files."""

    def __init__(self, files: Sequence[_File]) -> None:
        self._files = files
        self._starts = [0]
        for file in files:
            self._starts.append(self._starts[-1] + file.height)

    @property
    def height(self) -> int:
        return self._starts[-1]

    def read(self, begin: int, stop: int, places: range | None = None) -> pl.DataFrame:
        """Return the rows from `begin` to before `stop`, without PLACE. If `places` is passed, return
        only rows there; that reads little if rows are sorted by PLACE in long runs."""
        frames = [file.nothing for file in self._files]
        for file, (start, end) in zip(self._files, pairwise(self._starts), strict=True):
            if begin < stop and begin < end and start < stop:
                frames += file.read(max(begin - start, 0), min(stop, end) - start, places)
        return pl.concat(frames, how="diagonal")


def among(frame: pl.DataFrame, at: pl.Series, places: range) -> pl.DataFrame:
    """Return the rows whose place is among `places`; `at` has the place of each row."""
    where = at.to_numpy()
    return frame[np.flatnonzero((where >= places.start) & (where < places.stop))]


def _to_arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.newest())


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        # The task's folder is deleted with the task anyway.
        return
