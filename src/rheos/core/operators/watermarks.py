"""Event-time progress of a split according to its rows, by the strategy that the user has chosen.

Strategies differ in the reach of a row (`split_event_time`). The last one also determines the row's
time:

bounded every row reaches its own time punctuated a row that meets a condition reaches its own time;
other rows reach nothing generated a row reaches the watermark that the user's generator returns for it,
plus 1 ms ingestion every row reaches its own time, as does the clock (`ingestion_time`)

A generator is the user's object, one for each split. Its attributes are state, as reach itself is. They
are plain values, and their size is limited.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.errors import ProgramError, UserFunctionError
from rheos.core.graph.exact_decimals import ExactExpression
from rheos.core.graph.expression_trees import FAILURES
from rheos.core.graph.watermark import Watermark
from rheos.core.graph.watermark_generators import WatermarkGenerator
from rheos.core.operators.ahead_rows import AHEAD
from rheos.core.operators.contract import OperatorContext, Restored
from rheos.core.operators.ingestion_time import INGESTED, IngestionTime
from rheos.core.operators.records import UserRaised, user_error
from rheos.core.operators.split_event_time import SplitEventTime
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Batch, strip_hidden
from rheos.core.protocol.polars_frames import polars_frame, table_of_rows
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import SnapshotPart, StateKind
from rheos.core.protocol.types import rows_of
from rheos.core.safe_strings import shown
from rheos.core.times import Times

GENERATORS = "generators"
"""Name of the state."""

_STATE = pa.schema(
    [pa.field("split", pa.string(), nullable=False), pa.field("values", pa.binary(), nullable=False)]
)
_MOST_BYTES = 64 * 1024
"""Maximum size in bytes of the stored generator of one split."""


def progress_shapes(watermark: Watermark | None) -> dict[str, StateShape]:
    """Return the shape of the state from which event-time progress resumes."""
    if watermark is None:
        return {}
    ahead: dict[str, StateShape] = {}
    if watermark.max_ahead is not None:
        of_splits = TypeShape(name="latest times of splits")
        ahead[AHEAD] = StateShape(kind=StateKind.UNION, holds=StatePurpose.PROGRESS, value=of_splits)
    if watermark.on is None:
        value = TypeShape(name="ingestion time", label="")
        return {INGESTED: StateShape(kind=StateKind.UNION, holds=StatePurpose.PROGRESS, value=value)}
    if watermark.generated_by is None:
        return ahead
    value = TypeShape(name="generator", label=type(watermark.generated_by).__name__)
    return {
        **ahead,
        GENERATORS: StateShape(kind=StateKind.UNION, holds=StatePurpose.PROGRESS, value=value),
    }


def reach_of(ctx: OperatorContext, watermark: Watermark | None) -> SplitEventTime:
    if watermark is not None and watermark.on is None:
        return IngestionTime(ctx.clock, watermark)
    if watermark is None or (watermark.when is None and watermark.generated_by is None):
        return _Latest(watermark)
    if watermark.when is not None:
        return _PunctuatedEventTime(ctx, watermark, watermark.when)
    return _GeneratedEventTime(ctx, watermark)


class _Latest(SplitEventTime):
    def of_rows(self, split: str, batch: Batch, times: Times) -> Times:
        return times


class _PunctuatedEventTime(SplitEventTime):
    def __init__(self, ctx: OperatorContext, watermark: Watermark, when: pl.Expr) -> None:
        super().__init__(watermark)
        self._ctx = ctx
        self._when = ExactExpression(when)

    def of_rows(self, split: str, batch: Batch, times: Times) -> Times:
        frame = polars_frame(strip_hidden(batch))
        try:
            holds = self._when.values(frame)
        except FAILURES as error:
            raise UserFunctionError(
                f"the condition of the watermark failed: {str(error).strip().partition(chr(10))[0]}",
                site=self._ctx.site,
                operator=self._ctx.name,
                record=f"one of {len(frame)}, the first of which is {shown(frame.row(0, named=True))}",
            ) from None
        if len(holds) != len(frame):
            holds = holds.new_from_index(0, len(frame))
        return np.where(holds.fill_null(False).to_numpy(), times, MIN_TIMESTAMP_MS)


class _GeneratedEventTime(SplitEventTime):
    def __init__(self, ctx: OperatorContext, watermark: Watermark) -> None:
        super().__init__(watermark)
        generator = watermark.generated_by
        assert generator is not None
        self._ctx = ctx
        self._prototype = generator
        self._record = watermark.record
        self.period_ms = watermark.period_ms
        self._restored: dict[str, bytes] = {}
        self._generators: dict[str, WatermarkGenerator] = {}

    def of_rows(self, split: str, batch: Batch, times: Times) -> Times:
        on_event = self._generator_of(split).on_event
        rows = rows_of(strip_hidden(batch), self._record)
        found: list[int] = []
        for row, time in zip(rows, times.tolist(), strict=True):
            try:
                given = on_event(row, time)
            except UserRaised as error:
                raise user_error(self._ctx, error, record=row) from error
            found.append(self._reach(given, row))
        return np.array(found, np.int64)

    def periodic(self, split: str, now_ms: int) -> int:
        try:
            given = self._generator_of(split).on_periodic(now_ms)
        except UserRaised as error:
            raise user_error(self._ctx, error) from error
        return self._reach(given, None)

    def _reach(self, given: Any, record: Any) -> int:
        if given is None:
            return MIN_TIMESTAMP_MS
        if type(given) is not int or not MIN_TIMESTAMP_MS <= given < MAX_TIMESTAMP_MS:
            raise UserFunctionError(
                f"the watermark generator returned {shown(given)}",
                site=self._ctx.site,
                operator=self._ctx.name,
                record=None if record is None else shown(record),
                hint="return milliseconds since the epoch as an int, or None",
            )
        return given + 1

    def _generator_of(self, split: str) -> WatermarkGenerator:
        generator = self._generators.get(split)
        if generator is None:
            generator = self._generators[split] = copy.deepcopy(self._prototype)
            if split in self._restored:
                vars(generator).update(msgspec.msgpack.decode(self._restored.pop(split)))
        return generator

    # --- state ------------------------------------------------------------------------------------

    def restore(self, restored: Restored) -> None:
        for table in restored.get(GENERATORS, ()):
            for row in table.to_pylist():
                self._restored[row["split"]] = row["values"]

    def parts(self, splits: Iterable[str]) -> list[SnapshotPart]:
        wanted = set(splits)
        self._generators = {id: each for id, each in self._generators.items() if id in wanted}
        self._restored = {id: values for id, values in self._restored.items() if id in wanted}
        values = self._restored | {id: self._packed(each) for id, each in self._generators.items()}
        rows = [{"split": id, "values": packed} for id, packed in sorted(values.items())]
        return [SnapshotPart(GENERATORS, StateKind.UNION, lambda: table_of_rows(rows, _STATE))]

    def _packed(self, generator: WatermarkGenerator) -> bytes:
        values: Mapping[str, Any] = vars(generator)
        try:
            packed = msgspec.msgpack.encode(values)
            same = msgspec.msgpack.decode(packed) == values
        except (TypeError, ValueError, OverflowError, NotImplementedError):
            same = False
        if not same or len(packed) > _MOST_BYTES:
            raise ProgramError(
                f"the state of {type(generator).__name__} cannot be stored: {shown(values)}",
                site=self._ctx.site,
                operator=self._ctx.name,
                hint="use numbers, strings, and lists and dicts of them, up to 64 KiB",
            )
        return packed
