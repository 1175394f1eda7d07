"""Comparison of a table's sink with the client library alone, which benchmarks of sinks share."""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, RawTextHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.core.connectors.contract import Sink, SinkContext
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

    def __init__(self, sink: Sink, schema: pa.Schema) -> None:
        self._sink = sink.prepared(schema, ("job", "table"))
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
    """Print the rates of both, and the median of their ratios. The first round is not counted."""
    pairs = [(rate(ours, rows), rate(theirs, rows)) for rows in data]
    sink, library = (statistics.median(each) for each in zip(*pairs[1:], strict=True))
    ratio = statistics.median(a / b for a, b in pairs[1:])
    print(f"{what:<10} sink {sink:8.0f}   library {library:8.0f}   ratio {ratio:.2f}")


@dataclass(frozen=True)
class Data:
    appended: list[pa.Table]
    changes: list[pa.Table]
    """A tenth of the rows of each round."""


def data_of_arguments(description: str | None) -> Data:
    """Return the rows that the command line asks for."""
    parser = ArgumentParser(description=description, formatter_class=RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    appended = [rows_of(arguments.rows, SEED + n) for n in range(arguments.rounds + 1)]
    return Data(appended, [rows.slice(0, arguments.rows // 10) for rows in appended])
