"""Results of firing windows: a function's records, or aggregates in columns for many firings at
once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.aggregates import Agg
from rheos.core.aggregates.sum_too_large import SumTooLarge
from rheos.core.errors import InputError, RheosError
from rheos.core.graph.functions import TimeWindow
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.window_functions import GLOBAL, Element
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.records import (
    HiddenColumns,
    is_single,
    not_iterable,
    user_error,
    with_hidden,
    wrong_type,
)
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.operators.window.contract import PaneAssignment
from rheos.core.operators.window.frames import frame_of, key_names
from rheos.core.protocol.elements import TS
from rheos.core.protocol.polars_frames import arrow_table
from rheos.core.protocol.types import RecordCollector, TypeMismatch, batch_of
from rheos.core.safe_strings import shown

_ELEMENTS_AT_ONCE = 1 << 16
"""Approximate number of elements whose aggregates are computed together."""


class FiredWindow(NamedTuple):
    """A window that fires, and the hidden columns of its result."""

    key: Any
    window: TimeWindow
    timestamp: int | None
    mark: int
    reached: int

    @property
    def text(self) -> str:
        if self.window == GLOBAL:
            return "of the whole key"
        return f"of the window from {self.window.start_ms} to {self.window.end_ms} ms"


class WindowResults(ABC):
    """Results of the windows of one subtask, emitted in batches."""

    def __init__(self, ctx: OperatorContext) -> None:
        self.ctx = ctx
        self._fired: list[FiredWindow] = []
        """Windows of the pending rows, one for each row."""

    @abstractmethod
    def add(self, fired: FiredWindow, elements: Sequence[Element]) -> Iterator[Out]:
        """Add the firing of a window with these elements."""

    @abstractmethod
    def flush(self) -> Iterator[Out]:
        """Emit all pending results."""

    def _stamp_batch(self, batch: pa.RecordBatch, fired: Sequence[FiredWindow]) -> Iterator[Out]:
        schema = self.ctx.outputs[MAIN].schema
        times = None
        if TS in schema.names:
            times = np.array([one.timestamp for one in fired], np.int64)
        marks = np.array([one.mark for one in fired], np.int64)
        hidden = HiddenColumns(times, marks, np.array([one.reached for one in fired], np.int64))
        for begin in range(0, batch.num_rows, self.ctx.batch_rows):
            span = slice(begin, begin + self.ctx.batch_rows)
            rows = batch.slice(begin, self.ctx.batch_rows)
            yield Out(with_hidden(rows, schema, hidden.at(span)))


class FunctionResults(WindowResults):
    """The records of a function that is called with records, key and window."""

    def __init__(
        self,
        ctx: OperatorContext,
        call: Callable[[list[Any]], Any],
        finish: Callable[[list[Any]], list[Any]],
    ) -> None:
        """Create the results. `call` finds key and window in its context, and receives the result of
        `finish` for the records."""
        super().__init__(ctx)
        self._call, self._finish = call, finish
        output = ctx.outputs.get(MAIN)
        self._made = None if output is None else RecordCollector(output.schema, output.type.record)

    def add(self, fired: FiredWindow, elements: Sequence[Element]) -> Iterator[Out]:
        if self._made is None:
            return
        if len(elements) > 1 and elements[0].timestamp is not None:
            elements = sorted(elements, key=lambda element: element.timestamp or 0)
        result = self._call(self._finish([element.record for element in elements]))
        if result is None:
            return
        if is_single(result):
            raise not_iterable(self.ctx, result, record=None, key=fired.key)
        outputs = iter(result)
        while more := list(islice(outputs, self.ctx.batch_rows - len(self._fired))):
            for output in more:
                try:
                    self._made.add(output)
                except (AttributeError, KeyError, TypeError):
                    mismatch = self._made.mismatch(0, output)
                    raise wrong_type(self.ctx, mismatch, key=fired.key) from None
                self._fired.append(fired)
            if len(self._fired) >= self.ctx.batch_rows:
                yield from self.flush()

    def flush(self) -> Iterator[Out]:
        if self._made is None or not self._fired:
            return
        fired, self._fired = self._fired, []
        try:
            batch = self._made.batch()
        except TypeMismatch as mismatch:
            of = fired[mismatch.index]
            error = wrong_type(self.ctx, mismatch, key=of.key)
            error.record = of.text
            raise error from None
        self._made.clear()
        yield from self._stamp_batch(batch, fired)


class AggregateResults(WindowResults):
    """A row for each window that fires: keys, bounds, and built-in aggregates of its records."""

    def __init__(self, ctx: OperatorContext, aggregates: Mapping[str, Agg]) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        self._ports_keys = port.keys
        self._keys = key_names(port.keys)
        self._aggregates = aggregates
        self._tables = Tables(self._keys, aggregates, port.schema, _BY_FIRING)
        self._columns = dict(zip(self._keys, port.keys, strict=True)) | self._tables.inputs
        used = dict.fromkeys(self._columns.values())
        self._in_order = TS in used
        self._schema = pa.schema([port.type.schema.field(name) for name in used if name != TS])
        self._records: list[Any] = []
        self._times: list[int] = []
        self._counts: list[int] = []

    def add(self, fired: FiredWindow, elements: Sequence[Element]) -> Iterator[Out]:
        if MAIN not in self.ctx.outputs:
            return
        self._records.extend(element.record for element in elements)
        if self._in_order:
            # Without event time, rows are in the order of their arrival.
            times = (element.timestamp for element in elements)
            self._times.extend(at if time is None else time for at, time in enumerate(times))
        self._counts.append(len(elements))
        self._fired.append(fired)
        if len(self._records) >= _ELEMENTS_AT_ONCE or len(self._fired) >= self.ctx.batch_rows:
            yield from self.flush()

    def flush(self) -> Iterator[Out]:
        if not self._fired:
            return
        fired, records, counts = self._fired, self._records, self._counts
        self._fired, self._records, self._counts = [], [], []
        batch = batch_of(records, self._schema)
        if self._in_order:
            batch = batch.append_column(TS, pa.array(self._times, pa.int64()))
            self._times = []
        rows = frame_of(batch, self._columns, _ONE_PANE, ())
        firing = np.repeat(np.arange(len(fired)), counts)
        rows = rows.with_columns(pl.Series(_FIRING, firing, pl.Int64))
        on = [*self._keys, _FIRING]
        result = self._finished(self._tables.totals, rows, fired)
        for table in self._tables.others:
            result = result.join(self._finished(table, rows, fired), on=on, how="left")
        result = result.sort(_FIRING)
        yield from self._stamp_batch(self._output_rows(result, fired), fired)

    def _finished(self, table: Any, rows: pl.DataFrame, fired: Sequence[FiredWindow]) -> pl.DataFrame:
        merged = table.merge([table.partial(rows, (_FIRING,))], (_FIRING,))
        try:
            finished: pl.DataFrame = table.finish(merged)
            return finished
        except SumTooLarge as error:
            of = fired[merged[_FIRING][error.row]]
            what, hint = error.text(self._aggregates.values())
            raise InputError(
                f"{what} {of.text}",
                site=self.ctx.site,
                operator=self.ctx.name,
                key=shown(of.key),
                hint=hint,
            ) from None

    def _output_rows(self, result: pl.DataFrame, fired: Sequence[FiredWindow]) -> pa.RecordBatch:
        """Return the output rows: a row for each of `fired`, in their order."""
        schema = self.ctx.outputs[MAIN].type.schema
        columns: list[pl.Series] = [
            result[inside].alias(key) for inside, key in zip(self._keys, self._ports_keys, strict=True)
        ]
        if "window_start" in schema.names and "window_start" not in self._aggregates:
            time = pl.Datetime("ms", "UTC")
            starts = pl.Series("window_start", [one.window.start_ms for one in fired], pl.Int64)
            ends = pl.Series("window_end", [one.window.end_ms for one in fired], pl.Int64)
            columns += [starts.cast(time), ends.cast(time)]
        for name in self._aggregates:
            values = result[name] if name in result.columns else pl.Series(name, [None] * len(fired))
            of_nothing = self._tables.of_nothing.get(name)
            columns.append(values if of_nothing is None else values.fill_null(of_nothing))
        table = arrow_table(pl.DataFrame(columns)).cast(schema)
        arrays = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


_FIRING = "firing"


class _ByFiring:
    """Grouping of aggregate tables by the number of a firing. No state is kept by pane."""

    pane = ()
    window = (_FIRING,)


_BY_FIRING = _ByFiring()
_ONE_PANE = PaneAssignment((np.zeros(1, np.int64),), None, None)


def located(
    error: Exception | SystemExit, ctx: OperatorContext, key: Any, window: TimeWindow
) -> RheosError:
    """Return the error of a user's function with its key and window."""
    fired = FiredWindow(key, window, None, 0, 0)
    found = user_error(ctx, error, key=key)
    found.record = f"{found.record}, {fired.text}" if found.record else fired.text
    return found
