"""The filter operator on lines of about 100 bytes, against Polars' own filter on the same frames.

usage: grep_filter.py [SECONDS]          (POLARS_MAX_THREADS=1, as in a slot)
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.errors import Site
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.operators.contract import OperatorContext, OutputType, PortType
from rheos.core.operators.expressions import ExpressionOperator, ExpressionSpec
from rheos.core.protocol.elements import TS, visible
from rheos.core.protocol.ids import Attempt, JobId, OperatorId

SCHEMA = pa.schema([("line", pa.string()), (TS, pa.int64())])
WORDS = [
    "GET",
    "POST",
    "/index.html",
    "/api/v1/users",
    "200",
    "404",
    "500",
    "error",
    "timeout",
    "10.0.0.1",
]
CONDITION = pl.col("line").str.contains(r"timeout .* 500")


def batch(rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(rows)
    lines = [" ".join(rng.choice(WORDS, 16))[:100] for _ in range(rows)]
    return pa.record_batch([pa.array(lines), pa.array(np.arange(rows))], schema=SCHEMA)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    stream = StreamType(visible(SCHEMA), True)
    context = OperatorContext(
        job=JobId("bench"),
        attempt=Attempt(1),
        operator=OperatorId("grep"),
        name="grep",
        site=Site(__file__, 1),
        subtask=0,
        parallelism=1,
        max_parallelism=128,
        ports=(PortType(stream, (), SCHEMA),),
        outputs={MAIN: OutputType(stream, SCHEMA)},
        clock=None,  # type: ignore[arg-type]
        io=None,  # type: ignore[arg-type]
        batch_rows=16_384,
    )
    operator = ExpressionOperator(context, ExpressionSpec("filter", (CONDITION,)))
    print(f"{'rows':>6} {'polars alone':>14} {'operator':>14}")
    for rows in (16_384, 1_000, 100):
        lines = batch(rows)
        frame = pl.from_arrow(lines)
        assert isinstance(frame, pl.DataFrame)
        best = [float("inf")] * 2
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            started = time.perf_counter()
            frame.filter(CONDITION)
            between = time.perf_counter()
            list(operator.on_batch(0, lines))
            ended = time.perf_counter()
            best = [min(best[0], between - started), min(best[1], ended - between)]
        print(f"{rows:>6} {rows / best[0] / 1e6:>8.2f} Mrows/s {rows / best[1] / 1e6:>7.2f} Mrows/s")


if __name__ == "__main__":
    main()
