"""Sorts the rows of a data file in bounded memory: runs of sorted rows on the local disk, then a merge.

```python
rows = SortedRows(["n"])
rows.add(pa.RecordBatch.from_pydict({"n": [3, 1, 2]}))
assert [n for batch in rows.drain() for n in batch["n"].to_pylist()] == [1, 2, 3]
```
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.protocol.elements import Batch

_Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

RUN_BYTES = 32 << 20
"""Size of the rows that are sorted in memory."""
MOST_RUNS = 64
"""Maximum number of runs on the disk. Their rows must then be drained."""
_TOGETHER_BYTES = RUN_BYTES // MOST_RUNS
"""Size of the rows of one run that a merge has in memory."""


class SortedRows:
    """Rows of one writer that leave in order. Nulls are first, and equal rows stay in their order."""

    def __init__(self, by: Sequence[str]) -> None:
        """Create it, without a file.

        Args:
            by: the columns by which to sort, the most significant one first.
        """
        self._by = list(dict.fromkeys(by))
        self._rows: list[Batch] = []
        self._bytes = 0
        self._runs: list[IO[bytes]] = []

    @property
    def is_full(self) -> bool:
        """Return whether the rows must be drained before more are added."""
        return len(self._runs) >= MOST_RUNS

    def add(self, rows: Batch) -> None:
        """Add rows, all with the same columns."""
        self._rows.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= RUN_BYTES:
            self._write_run()

    def drain(self) -> Iterator[Batch]:
        """Yield all rows in order, and forget them."""
        try:
            if not self._runs:
                if self._rows:
                    yield from self._sorted(pa.Table.from_batches(self._rows)).to_batches()
                return
            if self._rows:
                self._write_run()
            yield from self._merged([_read(run) for run in self._runs])
        finally:
            self.close()

    def close(self) -> None:
        """Forget all rows."""
        for run in self._runs:
            run.close()
        self._runs, self._rows, self._bytes = [], [], 0

    def _write_run(self) -> None:
        table = self._sorted(pa.Table.from_batches(self._rows))
        together = max(table.num_rows * _TOGETHER_BYTES // max(table.nbytes, 1), 1)
        run = tempfile.TemporaryFile()  # noqa: SIM115 - open until the rows are drained
        self._runs.append(run)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(run, table.schema, options=options) as out:
            out.write_table(table, max_chunksize=together)
        self._rows, self._bytes = [], 0

    def _merged(self, runs: Sequence[Iterator[Batch]]) -> Iterator[Batch]:
        """Yield the rows of several runs. The pool has some rows of each run that is not at its end. So
        its first rows are next, up to the last one of any such run."""
        pool: list[Any] = []
        numbers: _Integers = np.empty(0, np.int64)
        """Number of the run of each row in the pool."""
        open_runs, empty = set(range(len(runs))), list(range(len(runs)))
        while True:
            for number in empty:
                rows = next(runs[number], None)
                if rows is None:
                    open_runs.discard(number)
                else:
                    pool.append(pa.Table.from_batches([rows]))
                    numbers = np.concatenate([numbers, np.full(rows.num_rows, number)])
            table = pa.concat_tables(pool)
            order = self._order(table, numbers)
            table, numbers = table.take(pa.array(order)), numbers[order]
            if not open_runs:
                yield from table.to_batches()
                return
            lasts = {number: np.flatnonzero(numbers == number)[-1] for number in open_runs}
            number = min(lasts, key=lambda each: lasts[each])
            end = int(lasts[number]) + 1
            yield from table.slice(0, end).to_batches()
            pool, numbers, empty = [table.slice(end)], numbers[end:], [number]

    def _sorted(self, table: pa.Table) -> pa.Table:
        return table.take(pa.array(self._order(table, np.zeros(table.num_rows, np.int64))))

    def _order(self, table: pa.Table, numbers: _Integers) -> _Integers:
        """Return the indices of rows in order: equal rows by the numbers of their runs, then as they
        are."""
        keys = [pl.Series(str(at), pl.from_arrow(table[name])) for at, name in enumerate(self._by)]
        frame = pl.DataFrame([*keys, pl.Series("number", numbers)])
        order = frame.select(pl.arg_sort_by(frame.columns, nulls_last=False, maintain_order=True))
        return order.to_series().to_numpy().astype(np.int64)


def _read(run: IO[bytes]) -> Iterator[Batch]:
    run.seek(0)
    yield from pa.ipc.open_stream(run)
