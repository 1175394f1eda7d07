"""Writing a Delta table: the sink's writer and committer, compared with the client library alone.

Both write the same batches as transactions of equal size, in one process, alternating. Each writes
files of its own table. For upserts, the library's MERGE is the rival.

columns:
    appended, upserted   thousands of rows per second of processor time, median of the rounds
    ratio                the sink's rate divided by the library's, median of the rounds

usage: python -m benchmarks.delta_sink [--rows 500000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import rheos as rh
from rheos.core.connectors.contract import SinkContext
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId

BATCH = 8_192
SEED = 7


def rows_of(count: int, seed: int) -> pa.Table:
    """Return rows with keys in random order."""
    draw = np.random.default_rng(seed)
    keys = draw.permutation(count)
    shops = np.char.add("shop ", draw.integers(0, 50, count).astype(str))
    return pa.table({"k": keys, "shop": pa.array(shops), "total": draw.random(count)})


class SinkOfTable:
    """The sink's writer and its committer, without a job."""

    def __init__(self, path: Path, schema: pa.Schema, **settings: Any) -> None:
        self._sink = rh.delta.sink(path, **settings).prepared(schema, ("job", "table"))
        # The writer uses neither the clock nor the I/O executor.
        other: Any = SimpleNamespace()
        ctx = SinkContext(JobId("job"), Attempt(1), "table", 0, other, other, schema)
        self._writer = self._sink.open(ctx)
        self._checkpoint = 0

    def write(self, rows: pa.Table) -> None:
        self._checkpoint += 1
        for batch in rows.to_batches(BATCH):
            self._writer.write(batch)
        committer = self._sink.committer()
        assert committer is not None
        committer.commit(self._writer.prepare(CheckpointId(self._checkpoint)))


def merge(path: Path, rows: pa.Table) -> None:
    """Upsert rows by the library."""
    merging = DeltaTable(path).merge(rows, "t.k = s.k", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def rate(write: Callable[[pa.Table], None], rows: pa.Table) -> float:
    """Return thousands of rows per second of processor time, of all threads of the process."""
    began = time.process_time()
    write(rows)
    return int(rows.num_rows) / (time.process_time() - began) / 1000


def compare(
    what: str,
    ours: Callable[[pa.Table], None],
    theirs: Callable[[pa.Table], None],
    data: list[pa.Table],
) -> None:
    pairs = [(rate(ours, rows), rate(theirs, rows)) for rows in data]
    sink, library = (statistics.median(each) for each in zip(*pairs[1:], strict=True))
    ratio = statistics.median(a / b for a, b in pairs[1:])
    print(f"{what:<10} sink {sink:8.0f}   library {library:8.0f}   ratio {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    data = [rows_of(arguments.rows, SEED + n) for n in range(arguments.rounds + 1)]
    changes = [rows.slice(0, arguments.rows // 10) for rows in data]
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        ours = SinkOfTable(at / "ours", data[0].schema)
        compare(
            "appended",
            ours.write,
            lambda rows: write_deltalake(at / "theirs", rows, mode="append"),
            data,
        )
        for name in ("upserts", "merges"):
            write_deltalake(at / name, data[0])
        upserts = SinkOfTable(at / "upserts", data[0].schema, key="k")
        compare("upserted", upserts.write, lambda rows: merge(at / "merges", rows), changes)


if __name__ == "__main__":
    main()
