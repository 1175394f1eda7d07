"""Helpers of window tests: the subtasks of an operator, and an oracle."""

from __future__ import annotations

import gc
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, TypeAlias
from unittest.mock import patch

import polars as pl
import pyarrow as pa

from rheos.core.aggregates import Agg
from rheos.core.aggregates.quantile import Quantile
from rheos.core.errors import Site
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.graph.windows import Window
from rheos.core.operators.contract import OperatorContext, Out, OutputType, PortType
from rheos.core.operators.shapes import state_shapes
from rheos.core.operators.window import panes
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, TS, WM
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.snapshots import PartMode, SnapshotPart, StateKind
from rheos.core.state import spill
from rheos.core.state.key_groups import key_groups
from rheos.core.state.parts import DeltaChain
from tests.core.operators.contexts import AtOnce, StillClock

MAX_PARALLELISM = 8
HIDDEN = [(TS, pa.int64()), (WM, pa.int64())]
TIME = pa.timestamp("ms", "UTC")


def aggregate_schema(
    schema: pa.Schema, keys: Sequence[str], aggregates: Mapping[str, Agg]
) -> pa.Schema:
    """Return the result schema of a window operator for rows of `schema`."""
    return pa.schema(
        [schema.field(key) for key in keys]
        + [pa.field("window_start", TIME), pa.field("window_end", TIME)]
        + [pa.field(name, agg.result_type(schema)) for name, agg in aggregates.items()]
    )


def context(
    schema: pa.Schema,
    keys: Sequence[str],
    outputs: Mapping[str, pa.Schema],
    *,
    subtask: int = 0,
    parallelism: int = 1,
    batch_rows: int = 1000,
    records: Mapping[str, type] | None = None,
) -> OperatorContext:
    hidden = [pa.field(*pair) for pair in HIDDEN]
    records = records or {}
    return OperatorContext(
        job=JobId("job"),
        attempt=Attempt(1),
        operator=OperatorId("window"),
        name="per key",
        site=Site("flights.py", 12),
        subtask=subtask,
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        ports=(
            PortType(
                StreamType(schema, True),
                tuple(keys),
                pa.schema([*schema, *hidden]),
                Site("flights.py", 11),
            ),
        ),
        outputs={
            tag: OutputType(StreamType(out, True, records.get(tag)), pa.schema([*out, *hidden]))
            for tag, out in outputs.items()
        },
        clock=StillClock(),
        io=AtOnce(),
        batch_rows=batch_rows,
    )


@contextmanager
def deltas_wherever_they_can_be() -> Iterator[None]:
    """Write deltas wherever possible, however small the state is."""
    with (
        patch.object(panes, "WORTH_A_DELTA", -1),
        patch.object(DeltaChain, "next_is_full", lambda chain, *_: chain._full_next),
    ):
        yield


@contextmanager
def state_on_disk(bench: Bench) -> Iterator[str]:
    """Use no memory for state: every row goes to disk, and few are read at once. Return the folder."""
    with (
        TemporaryDirectory() as folder,
        patch.object(panes, "_LEAST_ROWS", 2),
        patch.object(spill, "BLOCK_ROWS", 3),
    ):
        inside, numbers = bench.make, count()

        def make(subtask: int, parallelism: int) -> WindowOperator:
            operator = inside(subtask, parallelism)
            ctx = replace(operator.ctx, scratch=f"{folder}/{next(numbers)}", state_bytes=0)
            return type(operator)(ctx, operator._spec)

        bench.make = make
        bench.restart(bench.parallelism)
        yield folder
        bench.close()
        gc.collect()
        left = [name for _, _, names in os.walk(folder) for name in names]
        assert not left, "files are gone with the last reference to them"


Chains: TypeAlias = dict[str, tuple[StateKind, list[pa.Table]]]


@dataclass
class Bench:
    """All subtasks of a window operator. Rows go to the owner of their key; watermarks to all."""

    make: Callable[[int, int], WindowOperator]
    keys: Sequence[str]
    schema: pa.Schema
    parallelism: int = 1
    out: list[dict[str, Any]] = field(default_factory=list)
    sides: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    counters: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    chains: dict[int, Chains] = field(default_factory=dict)
    """What each subtask has written: of each state, a full part and the deltas since."""

    def __post_init__(self) -> None:
        self.subtasks = [self.make(i, self.parallelism) for i in range(self.parallelism)]
        for operator in self.subtasks:
            operator.open({})

    @classmethod
    def of_aggregates(
        cls,
        window: Window,
        aggregates: Mapping[str, Agg],
        schema: pa.Schema,
        *,
        keys: Sequence[str] = ("k",),
        lateness_ms: int = 0,
        late: bool = True,
        parallelism: int = 1,
        batch_rows: int = 1000,
    ) -> Bench:
        spec = WindowSpec(window, lateness_ms, aggregates, late_tag="late")
        outputs = {MAIN: aggregate_schema(schema, keys, aggregates)} | (
            {"late": schema} if late else {}
        )

        def make(subtask: int, parallelism: int) -> WindowOperator:
            ctx = context(
                schema, keys, outputs, subtask=subtask, parallelism=parallelism, batch_rows=batch_rows
            )
            return WindowAggregateOperator(ctx, spec)

        return cls(make, keys, schema, parallelism)

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Process rows with `ts` and optionally `wm`; return the output."""
        if not rows:
            return []
        batch = self.batch(rows)
        if self.parallelism == 1:
            return self.collect(self.subtasks[0].on_batch(0, batch))
        groups = key_groups(batch, self.keys, MAX_PARALLELISM)
        came: list[dict[str, Any]] = []
        for operator in self.subtasks:
            own = operator.ctx.key_groups
            mine = batch.filter(pa.array((groups >= own.start) & (groups < own.stop)))
            came += self.collect(operator.on_batch(0, mine))
        return came

    def batch(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        names = self.schema.names
        arrays = [
            pa.array([row.get(name) for row in rows], self.schema.field(name).type) for name in names
        ]
        arrays += [
            pa.array([row["ts"] for row in rows], pa.int64()),
            pa.array([row.get("wm", MIN_TIMESTAMP_MS) for row in rows], pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(
            arrays, schema=pa.schema([*self.schema, *(pa.field(*pair) for pair in HIDDEN)])
        )

    def watermark(self, ts: int) -> list[dict[str, Any]]:
        return [row for operator in self.subtasks for row in self.collect(operator.on_watermark(ts))]

    def end(self) -> list[dict[str, Any]]:
        came = self.watermark(MAX_TIMESTAMP_MS)
        for operator in self.subtasks:
            came += self.collect(operator.on_end())
        return came

    def checkpoint(self, *, kept: bool = True) -> dict[str, list[pa.Table]]:
        """Take snapshots of all subtasks. Kept ones are appended to the chains; otherwise the subtasks
        are notified. Return the tables by state."""
        written: dict[str, list[pa.Table]] = defaultdict(list)
        # All are frozen before one is written.
        for operator, snapshot in [(op, op.snapshot(CheckpointId(1))) for op in self.subtasks]:
            if not kept:
                operator.snapshot_failed(CheckpointId(1))
                continue
            before, chains = self.chains.get(operator.ctx.subtask, {}), {}
            for part in snapshot.parts:
                tables = tables_of(part)
                written[part.state] += tables
                if part.mode is PartMode.FULL:
                    chains[part.state] = (part.kind, tables)
                else:
                    # What a snapshot leaves out is gone; a chain begins with a full part.
                    chains[part.state] = (part.kind, [*before[part.state][1], *tables])
            self.chains[operator.ctx.subtask] = chains
        return written

    def savepoint(self) -> dict[int, Chains]:
        """Take savepoints of all subtasks, which replace their chains; return them."""
        savepoints: dict[int, Chains] = {}
        for operator in self.subtasks:
            snapshot = operator.snapshot(CheckpointId(1))
            parts = operator.savepoint(snapshot)
            operator.snapshot_failed(CheckpointId(1))
            assert all(part.mode is PartMode.FULL for part in parts)
            savepoints[operator.ctx.subtask] = {
                part.state: (part.kind, tables_of(part)) for part in parts
            }
        return savepoints

    def restart(self, parallelism: int) -> None:
        """Take a checkpoint, and restore it at this parallelism."""
        self.checkpoint()
        self.restore(self.chains, parallelism)

    def restore(self, written: Mapping[int, Chains], parallelism: int) -> None:
        parts: dict[str, list[tuple[StateKind, pa.Table]]] = defaultdict(list)
        for _, chains in sorted(written.items()):
            for name, (kind, tables) in chains.items():
                parts[name] += [(kind, table) for table in tables]
        for operator in self.subtasks:
            for name, by in operator.ctx.counters.items():
                self.counters[name] += by
        self.chains = {}
        self.parallelism = parallelism
        self.subtasks = [self.make(i, parallelism) for i in range(parallelism)]
        for operator in self.subtasks:
            own = operator.ctx.key_groups
            operator.open(
                {
                    name: [
                        _of_groups(table, own) if kind is StateKind.KEYED else table
                        for kind, table in of
                    ]
                    for name, of in parts.items()
                }
            )

    def close(self) -> None:
        for operator in self.subtasks:
            operator.close()

    def shapes(self) -> Mapping[str, StateShape]:
        """Return the shapes of the states, by name."""
        operator = self.subtasks[0]
        planned: Any = SimpleNamespace(
            id="w", name="w", site=None, spec=operator._spec, ports=operator.ctx.ports
        )
        return state_shapes([planned])[OperatorId("w")]

    def count(self, name: str) -> int:
        return self.counters[name] + sum(
            operator.ctx.counters.get(name, 0) for operator in self.subtasks
        )

    def collect(self, outs: Iterable[Out]) -> list[dict[str, Any]]:
        """Add the output of a subtask; return the rows of the main output."""
        came = []
        for batch, tag in outs:
            assert batch.num_rows <= self.subtasks[0].ctx.batch_rows
            assert batch.schema == self.subtasks[0].ctx.outputs[tag].schema
            rows = batch.to_pylist()
            if tag == MAIN:
                came += rows
            else:
                self.sides[tag] += rows
        self.out += came
        return came


def tables_of(part: SnapshotPart) -> list[pa.Table]:
    written = part.write()
    return [written] if isinstance(written, pa.Table) else list(written)


def _of_groups(table: pa.Table, own: range) -> pa.Table:
    groups = table.column("key_group").to_numpy()
    assert (groups[1:] >= groups[:-1]).all()
    return table.filter(pa.array((groups >= own.start) & (groups < own.stop)))


# --- the oracle: record by record, with exact numbers ----------------------------------------------


def windows_of(window: Window, ts: int) -> list[int]:
    """Return the ends of the windows that contain a timestamp, one by one."""
    size, slide, offset = window.size_ms, window.slide_ms, window.offset_ms
    start = math.floor((ts - offset) / slide) * slide + offset
    ends = []
    while start > ts - size:
        ends.append(start + size)
        start -= slide
    return sorted(ends)


@dataclass
class Oracle:
    """Final content of every window, computed from each record's own watermark."""

    window: Window
    lateness_ms: int
    late: list[dict[str, Any]] = field(default_factory=list)
    outside: int = 0
    windows: dict[tuple[Any, int], list[dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def take(self, row: dict[str, Any], keys: Sequence[str]) -> None:
        ends = windows_of(self.window, row["ts"])
        if not ends:
            self.outside += 1
            return
        open_ends = [end for end in ends if not end - 1 + self.lateness_ms <= row["wm"]]
        if not open_ends:
            self.late.append(row)
        for end in open_ends:
            self.windows[tuple(row[key] for key in keys), end].append(row)

    def results(self, aggregates: Mapping[str, Agg]) -> dict[tuple[Any, int], dict[str, Any]]:
        return {
            where: {name: aggregated(agg, rows) for name, agg in aggregates.items()}
            for where, rows in self.windows.items()
        }


def aggregated(agg: Agg, rows: list[dict[str, Any]]) -> Any:
    if agg.column is None:
        return len(rows)
    values = [row[agg.column] for row in rows if row[agg.column] is not None]
    match agg.kind:
        case "count":
            return len(values)
        case "count_distinct":
            return len(set(values))
    if not values:
        return None
    match agg.kind:
        case "sum":
            return _exact(values) if isinstance(values[0], float) else sum(values)
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "mean":
            return _exact(values) / len(values)
        case "quantile":
            assert isinstance(agg, Quantile)
            return pl.Series(values, dtype=pl.Float64).quantile(agg.q, interpolation="linear")


def _exact(values: Iterable[float]) -> float:
    return float(sum((Fraction(value) for value in values), Fraction(0)))


def timeline(text: str, wm: int = MIN_TIMESTAMP_MS) -> Iterator[dict[str, Any]]:
    """Return rows from an ASCII drawing: each character is a millisecond, a letter is a row with that
    key and its timestamp as value, a dot is nothing."""
    for ts, mark in enumerate(text):
        if mark.isalpha():
            yield {"k": mark, "v": ts, "ts": ts, "wm": wm}
