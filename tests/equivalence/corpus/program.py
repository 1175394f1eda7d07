"""Programs of the corpus, and how modes pass the input to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import rheos as rh
from tests.equivalence.corpus.found import FoundLate

Golden = pl.DataFrame | Iterable[Mapping[str, Any]]
View = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, eq=False)
class Rows:
    """Input of a program: rows in order of arrival, distributed to the splits in turn, so that row i is
    in split `i % splits`. With `on` it has event time."""

    table: pa.Table
    splits: int = 3
    on: str | None = "at"
    bound: str = "5s"

    def split(self, number: int) -> pa.Table:
        return self.table.take(pa.array(range(number, self.table.num_rows, self.splits), pa.int64()))


class Handing(Enum):
    """How a program receives its rows. Splits and late rows are the same."""

    PACED = "by a generator, over a second"
    FAST = "by a generator"
    PARQUET = "as a Parquet file per split"
    FOUND = "by a generator, whose splits are found while the job runs"


@dataclass(frozen=True)
class Dealer:
    """Generator function that returns the rows of the table."""

    rows: Rows

    def __call__(self, block: rh.Block) -> pa.RecordBatch:
        part = self.rows.split(block.split).slice(block.start, block.rows).combine_chunks()
        return (part.to_batches() or [pa.RecordBatch.from_pylist([], part.schema)])[0]


@dataclass
class Given:
    """Arguments for building a program: an environment, and the rows as the mode passes them."""

    env: rh.Environment
    handing: Handing
    folder: Path
    """Of this run alone, for files that the program reads."""
    last_s: float = 1.0
    """How long paced rows last."""
    dealt: list[Rows] = field(default_factory=list, init=False)
    """What was handed out, once per source."""
    _files: int = field(default=0, init=False)

    def stream(self, rows: Rows) -> rh.DataStream:
        self.dealt.append(rows)
        return self.env.from_source(self._source(rows), watermark=watermark(rows))

    def dataframe(self, rows: Rows) -> rh.DataStream:
        """Return the same rows as a Spark DataFrame, which has no order."""
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        assert session is not None
        self.dealt.append(rows)
        df = session.read.parquet(*map(str, self._written(rows)))
        return self.env.from_dataframe(df, event_time=rows.on)

    def hybrid(self, history: Rows, live: Rows, switch: datetime | None) -> rh.DataStream:
        """Return files first, and then the source of the mode."""
        self.dealt += [history, live]
        parts = self._files_of(history), self._source(live)
        if switch is None:
            source = rh.hybrid(*parts)
        else:
            source = rh.hybrid(*parts, on=history.on, switch=switch)
        return self.env.from_source(source, watermark=watermark(history))

    def _files_of(self, rows: Rows) -> rh.files.FileSource:
        return rh.files.source(self._written(rows), schema=rows.table.schema)

    def _source(self, rows: Rows) -> Any:
        count = rows.table.num_rows
        if self.handing is Handing.FOUND:
            return FoundLate(self._generated(rows) if count else self._files_of(rows))
        if self.handing is Handing.PARQUET or not count:
            return self._files_of(rows)
        return self._generated(rows)

    def _generated(self, rows: Rows) -> Any:
        count = rows.table.num_rows
        paced = self.handing in (Handing.PACED, Handing.FOUND)
        rate = count / self.last_s if paced else None
        return rh.generator(
            Dealer(rows),
            count=count,
            rate_per_s=rate,
            splits=rows.splits,
            schema=rows.table.schema,
            block_rows=16,
        )

    def _written(self, rows: Rows) -> list[Path]:
        paths = []
        for number in range(rows.splits):
            paths.append(self.path("parquet"))
            pq.write_table(rows.split(number), paths[-1])
        return paths

    def path(self, suffix: str) -> Path:
        """Return the path where a file of the program may be written."""
        self._files += 1
        return self.folder / f"{self._files:03d}.{suffix}"


def watermark(rows: Rows) -> rh.Watermark | None:
    if rows.on is None:
        return None
    return rh.Watermark.bounded_out_of_orderness(rows.bound, on=rows.on)


@dataclass(frozen=True, eq=False)
class Program:
    """Program of the corpus. `build` returns the streams whose rows are compared; `golden` computes the
    same rows without Rheos."""

    name: str
    build: Callable[[Given], Mapping[str, rh.DataStream]]
    golden: Callable[[], Mapping[str, Golden]]
    views: Mapping[str, View] = field(default_factory=dict)
    """What of a sink's rows is compared, where order of arrival decides the rest."""
    empty: Sequence[str] = ()
    """The sinks that get no rows, on purpose."""
    stateful: bool = True
    spark: bool = False
    """Whether it needs a Spark session on every runtime."""
    lasts: bool = True
    """Whether its paced input takes so long that something can befall it meanwhile."""
