"""Rows on disk in sorted runs, merged into one order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from rheos.core.errors import StateError
from rheos.core.protocol.state_config import MIB

_BLOCK_ROWS = 1 << 14
_BLOCK_BYTES = 4 * MIB
"""Approximate size in bytes of the part of each run that is in memory."""

_MERGED_AT_ONCE = 16
"""Number of successive runs, merged equally often, that are merged into one. This limits the blocks in
memory and the open files."""

Rank: TypeAlias = tuple[int, ...]
"""A row's position in an order: the values of its columns."""


@dataclass(frozen=True)
class Order:
    """An order by columns of integers, which are never null. Equal rows keep their order."""

    columns: tuple[str, ...]

    def sorted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        keys = [rows.column(name).to_numpy() for name in reversed(self.columns)]
        return rows.take(pa.array(np.lexsort(keys)))

    def last(self, rows: pa.RecordBatch) -> Rank:
        return tuple(rows.column(name)[-1].as_py() for name in self.columns)

    def until(self, rows: pa.RecordBatch, rank: Rank, including: bool) -> int:
        """Return the number of these sorted rows before a rank, or up to and including it."""
        low, high = 0, rows.num_rows
        for name, value in zip(self.columns, rank, strict=True):
            values = rows.column(name).to_numpy()[low:high]
            low, high = (
                low + int(values.searchsorted(value, side="left")),
                low + int(values.searchsorted(value, side="right")),
            )
        return high if including else low


class SortedRuns:
    """Runs in the files of a folder, which is made for the first one."""

    def __init__(self, order: Order, folder: str) -> None:
        self._order = order
        self._folder = folder
        self._names = count()
        self._runs: list[tuple[int, str]] = []
        """Number of merges of its rows, and its file, for each run in the order of arrival."""

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add sorted rows. Equal rows of earlier runs come first. Raise StateError if the disk
        fails."""
        schema = rows.schema
        self._write(0, schema, iter([rows]))
        del rows
        while alike := self._runs_alike():
            del self._runs[-_MERGED_AT_ONCE:]
            self._write(alike[0][0] + 1, schema, self._merged(alike))

    def _runs_alike(self) -> list[tuple[int, str]]:
        """Return the last runs if enough of them were merged equally often to be merged now."""
        last = self._runs[-_MERGED_AT_ONCE:]
        return last if len(last) == _MERGED_AT_ONCE and last[0][0] == last[-1][0] else []

    def merged(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order, in batches, and remove the runs. Raise StateError if the disk
        fails."""
        runs, self._runs = self._runs, []
        yield from self._merged(runs)

    def _write(self, merges: int, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        path = os.path.join(self._folder, f"{next(self._names):06d}.arrow")
        self._runs.append((merges, path))
        with _disk("written"):
            os.makedirs(self._folder, exist_ok=True)
            with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
                for rows in batches:
                    writer.write_table(pa.Table.from_batches([rows]), max_chunksize=_block_rows(rows))

    def _merged(self, runs: Sequence[tuple[int, str]]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these runs, and remove the runs at the end."""
        with contextlib.ExitStack() as files:
            with _disk("read"):
                blocks = [_blocks(files.enter_context(pa.OSFile(path))) for _, path in runs]
                heads = {number: next(block) for number, block in enumerate(blocks)}
            while heads:
                # All rows up to the smallest last row of a loaded block are in memory; later rows may
                # not be.
                rank, ending = min((self._order.last(head), number) for number, head in heads.items())
                parts = []
                for number, head in list(heads.items()):
                    until = self._order.until(head, rank, including=number <= ending)
                    parts.append(head.slice(0, until))
                    heads[number] = head.slice(until)
                    if until == head.num_rows:
                        with _disk("read"):
                            following = next(blocks[number], None)
                        if following is None:
                            del heads[number]
                        else:
                            heads[number] = following
                yield self._order.sorted(pa.concat_batches(parts))
        for _, path in runs:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


@contextlib.contextmanager
def _disk(done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(
            f"rows that are sorted on the local disk could not be {done}: {error}",
            hint="free some space, or give Spark a larger disk (spark.local.dir)",
        ) from error


def _block_rows(rows: pa.RecordBatch) -> int:
    blocks: int = rows.nbytes // _BLOCK_BYTES + 1
    return max(min(int(rows.num_rows) // blocks, _BLOCK_ROWS), 1)


def _blocks(file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
