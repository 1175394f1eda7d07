"""Windows over a whole stream, in one phase and in two: what each subtask has to do.

usage: whole_stream.py [ROUNDS]

The same batches go through both ways, in turns. In one phase the windows read every row. In two, every
subtask combines its own rows, and that of the windows merges the partials of all. Processor time in ns
for each row of the stream, medians of rounds; "sent" is what goes to the windows, in bytes for each
row, in one phase and in two. "at most" says how many times as many rows a second the subtask of the
windows can have, where it alone decides: one phase by merge.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

# One thread, as in a slot; Polars reads it when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import pyarrow as pa
from window_kernel import FLOATS, INTEGERS, Case, batches, window_context

from rheos.api.whole_stream_windows import ALL
from rheos.core import aggregates as agg
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.graph.windows import Sliding
from rheos.core.operators.contract import Operator, OperatorContext, Out, OutputType, PortType
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.operators.window.two_phases import MergedWindowSpec, WindowCombineSpec, partials_of

VALUES = {"different": agg.count_distinct("n"), "most": agg.top_k("v", 3)}
CASES = [
    replace(case, keys=1)  # It gives way to the key that `window_all` has.
    for case in (
        Case("count", {"rows": agg.count()}),
        Case("integers", INTEGERS),
        Case("floats", FLOATS),
        Case("floats, out of order", FLOATS, spread_ms=180_000),
        Case("floats, 1m every 10s", FLOATS, window=Sliding("1m", every="10s")),
        Case("distinct and top 3", VALUES),
        Case("floats, batches of 100", FLOATS, batch_rows=100),
    )
]
STEPS = 60
SUBTASKS = 8
"""So many give a batch each between two watermarks."""


def context(case: Case) -> OperatorContext:
    """That of windows over the whole stream."""
    keyed = window_context(case)
    (port,), results = keyed.ports, keyed.outputs[MAIN]
    of_all = PortType(StreamType(_of_all(port.type.schema), True), (ALL,), _of_all(port.schema))
    output = OutputType(StreamType(_of_all(results.type.schema), True), _of_all(results.schema))
    return replace(keyed, ports=(of_all,), outputs={MAIN: output})


def _of_all(schema: pa.Schema) -> pa.Schema:
    return schema.set(0, pa.field(ALL, pa.int64(), False))


def rows_of_all(case: Case) -> Iterator[tuple[pa.RecordBatch, int]]:
    schema, key = context(case).ports[0].schema, pa.array(np.zeros(case.batch_rows, np.int64))
    for batch, watermark in batches(case):
        yield pa.RecordBatch.from_arrays([key, *batch.columns[1:]], schema=schema), watermark


def two_phases(case: Case) -> tuple[Operator, Operator]:
    """The operators of the first phase and of the second."""
    rows = context(case)
    (port,) = rows.ports
    spec = WindowSpec(case.window, 0, case.aggregates)
    partials = StreamType(partials_of(spec, ALL, port.schema).schema, event_time=False)
    out = {MAIN: OutputType(partials, partials.schema)}
    combine = WindowCombineSpec(spec, ALL).operator(replace(rows, outputs=out))
    of_partials = PortType(partials, port.keys, partials.schema)
    merge = MergedWindowSpec(spec, port).operator(replace(rows, ports=(of_partials,)))
    combine.open({})
    merge.open({})
    return combine, merge


def taken(outs: Iterable[Out]) -> tuple[list[pa.RecordBatch], float]:
    """What an operator gives, and the seconds of processor time that it takes."""
    begin = time.process_time()
    came = [out.batch for out in outs]
    return came, time.process_time() - begin


def round_of(case: Case) -> tuple[float, ...]:
    """In ns of each row: one phase, the two; in bytes: what is sent in one, and in two."""
    one = WindowAggregateOperator(context(case), WindowSpec(case.window, 0, case.aggregates))
    one.open({})
    combine, merge = two_phases(case)
    spent, sent = [0.0, 0.0, 0.0], [0, 0]
    for batch, watermark in islice(rows_of_all(case), STEPS):
        for _ in range(SUBTASKS):
            _, seconds = taken(one.on_batch(0, batch))
            spent[0] += seconds
            partials, seconds = taken(combine.on_batch(0, batch))
            spent[1] += seconds
            for part in partials:
                _, seconds = taken(merge.on_batch(0, part))
                spent[2] += seconds
            sent[0] += batch.nbytes
            sent[1] += sum(part.nbytes for part in partials)
        fired, seconds = taken(one.on_watermark(watermark))
        spent[0] += seconds
        fired_too, seconds = taken(merge.on_watermark(watermark))
        spent[2] += seconds
        assert fired == fired_too, "both give the same"
    rows = STEPS * SUBTASKS * case.batch_rows
    return *(seconds / rows * 1e9 for seconds in spent), *(size / rows for size in sent)


def main(arguments: list[str]) -> None:
    rounds = int(arguments[0]) if arguments else 5
    print(
        f"{'case':<26}{'one phase':>10}{'combine':>9}{'merge':>9}{'at most':>9}{'sent':>8}{'in two':>9}"
    )
    for case in CASES:
        found = [round_of(case) for _ in range(rounds)]
        one, combine, merge, rows, partials = map(statistics.median, zip(*found, strict=True))
        at_most = statistics.median(first / third for first, _, third, *_ in found)
        print(
            f"{case.name:<26}{one:>10.1f}{combine:>9.1f}{merge:>9.2f}{at_most:>9.1f}"
            f"{rows:>8.1f}{partials:>9.2f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
