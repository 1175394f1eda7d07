"""Rows on disk in sorted runs, and all of them in order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from rheos.errors import StateError
from rheos.protocol.state_config import MIB

_BLOCK_ROWS = 1 << 14
_BLOCK_BYTES = 4 * MIB
"""About so much of each run is in memory."""

Place: TypeAlias = tuple[int, ...]
"""Where a row stands in an order: its values in the columns of that."""


@dataclass(frozen=True)
class Order:
    """By these columns of integers, which are never null; of equal rows the first comes first."""

    columns: tuple[str, ...]

    def sorted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        keys = [rows.column(name).to_numpy() for name in reversed(self.columns)]
        return rows.take(pa.array(np.lexsort(keys)))

    def last(self, rows: pa.RecordBatch) -> Place:
        return tuple(rows.column(name)[-1].as_py() for name in self.columns)

    def until(self, rows: pa.RecordBatch, place: Place, including: bool) -> int:
        """How many rows come before a place, in sorted rows; or up to it."""
        low, high = 0, rows.num_rows
        for name, value in zip(self.columns, place, strict=True):
            values = rows.column(name).to_numpy()[low:high]
            low, high = (
                low + int(values.searchsorted(value, side="left")),
                low + int(values.searchsorted(value, side="right")),
            )
        return high if including else low


class SortedRuns:
    """Runs in files of a folder of their own, which is made for the first one."""

    def __init__(self, order: Order, folder: str) -> None:
        self._order = order
        self._folder = folder
        self._runs: list[str] = []

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, rows: pa.RecordBatch) -> None:
        """Takes sorted rows. Of equal rows, those of a run before come first. Raises StateError where
        the disk refuses."""
        path = os.path.join(self._folder, f"{len(self._runs):06d}.arrow")
        self._runs.append(path)
        try:
            os.makedirs(self._folder, exist_ok=True)
            with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(pa.Table.from_batches([rows]), max_chunksize=_block_rows(rows))
        except OSError as error:
            raise StateError(
                f"rows could not be written to the local disk, to be sorted: {error}",
                hint="make room on it, or give Spark a larger one (spark.local.dir)",
            ) from error

    def merged(self) -> Iterator[pa.RecordBatch]:
        """All rows in order, in batches; afterwards there are no runs."""
        with contextlib.ExitStack() as files:
            runs = [_blocks(files.enter_context(pa.OSFile(path))) for path in self._runs]
            heads = {number: next(blocks) for number, blocks in enumerate(runs)}
            while heads:
                # What stands up to the first end of a head is there whole: the rest comes later.
                place, ending = min((self._order.last(head), number) for number, head in heads.items())
                parts = []
                for number, head in list(heads.items()):
                    until = self._order.until(head, place, including=number <= ending)
                    parts.append(head.slice(0, until))
                    heads[number] = head.slice(until)
                    if until == head.num_rows:
                        following = next(runs[number], None)
                        if following is None:
                            del heads[number]
                        else:
                            heads[number] = following
                yield self._order.sorted(pa.concat_batches(parts))
        self.remove()

    def remove(self) -> None:
        for path in self._runs:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._runs = []


def _block_rows(rows: pa.RecordBatch) -> int:
    blocks: int = rows.nbytes // _BLOCK_BYTES + 1
    return max(min(int(rows.num_rows) // blocks, _BLOCK_ROWS), 1)


def _blocks(file: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
