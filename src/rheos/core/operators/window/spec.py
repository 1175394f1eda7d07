"""Windows over a keyed stream: their spec, and the operators built from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.aggregates import Agg
from rheos.core.graph.nodes import MAIN, Spec
from rheos.core.graph.render import spell_aggregates, spell_record
from rheos.core.graph.types import without
from rheos.core.graph.windows import Window
from rheos.core.operators.contract import Needed, Operator, OperatorContext, Phases, PortType, SplitSpec
from rheos.core.operators.origins import Origin, RowsOfKey, RowsOfWindow
from rheos.core.operators.window.aggregate_tables import Tables
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.contract import FixedWindows, MergingWindows
from rheos.core.operators.window.frames import key_names
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.operators.window.process import WindowProcessOperator
from rheos.core.operators.window.processing_time import (
    ProcessingTimeAggregateOperator,
    ProcessingTimeFunctionOperator,
    arrival_port,
    refuse_bounded,
)
from rheos.core.operators.window.states import window_states
from rheos.core.operators.window.two_phases import MergedWindowSpec, WindowCombineSpec, partials_of
from rheos.core.protocol.elements import SWM, WM
from rheos.core.protocol.shapes import StateShape


@dataclass(frozen=True)
class WindowSpec(SplitSpec):
    """Windows over a keyed stream: built-in aggregates, or a process function over the elements."""

    kind: ClassVar[str] = "window"

    window: Window
    lateness_ms: int
    aggregates: Mapping[str, Agg]
    fn: Any | None = None
    """A WindowFunction, or None. If it is set, `aggregates` is empty."""
    record: type | None = None
    late_tag: str | None = None
    """Side output of late rows, if the program reads it."""

    @property
    def _by_clock(self) -> bool:
        return self.window.time == "processing_time"

    @property
    def window_lifetime_ms(self) -> int | None:
        if self._by_clock:
            return None
        size_ms = getattr(self.window, "size_ms", None)
        return size_ms + self.lateness_ms if isinstance(size_ms, int) else None

    @property
    def window_pane_ms(self) -> int | None:
        shares_rows = self.fn is None and all(agg.can_run() for agg in self.aggregates.values())
        if not shares_rows or self.window_lifetime_ms is None:
            return None
        panes = (getattr(self.window, name, None) for name in ("slide_ms", "step_ms", "size_ms"))
        return next((pane_ms for pane_ms in panes if isinstance(pane_ms, int)), None)

    def _windows(self, ctx: OperatorContext) -> WindowOperator:
        if self.fn is None:
            aggregates = ProcessingTimeAggregateOperator if self._by_clock else WindowAggregateOperator
            return aggregates(ctx, self)
        function = ProcessingTimeFunctionOperator if self._by_clock else WindowProcessOperator
        return function(ctx, self)

    def operator(self, ctx: OperatorContext) -> Operator:
        return self._windows(ctx)

    def check_bounded(self) -> None:
        refuse_bounded(self.window.time)

    def in_batch(self, ctx: OperatorContext) -> Operator:
        operator = self._windows(ctx)
        operator.fire_once()
        return operator

    def combines_in_batch(self, read: Collection[str]) -> bool:
        # Late rows can be emitted only if the operator receives the rows themselves.
        return self.fn is None and self.late_tag not in read

    def phases(self, rows: PortType, read: Collection[str]) -> Phases | str:
        if self.fn is not None:
            return super().phases(rows, read)
        if self._by_clock:
            return "the time at which a row arrives here decides its window"
        if self.late_tag in read:
            return "late rows are read"
        windows = windows_of(self.window)
        if not isinstance(windows, FixedWindows):
            return "windows merge depending on every row"
        tables = Tables(key_names(rows.keys), self.aggregates, rows.schema, windows)
        if any(table.keeps_rows for table in tables.others):
            return "an aggregate needs every row"
        (key,) = rows.keys
        partials = partials_of(self, key, rows.schema).schema
        return Phases(WindowCombineSpec(self, key), partials, MergedWindowSpec(self, rows))

    def reading_side_output(self, tag: str) -> Spec:
        return replace(self, late_tag=tag)

    def looks_at(self, column: str) -> bool | None:
        # Its rows are emitted as the watermark advances, so their own event time shows the progress.
        return {WM: not self._by_clock, SWM: False}.get(column)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        [port] = ports
        return window_states(self, arrival_port(port) if self._by_clock else port)

    @property
    def keeps_rows(self) -> bool:
        # Rows that may be late for merging windows are buffered unchanged.
        return isinstance(windows_of(self.window), MergingWindows) and not self._by_clock

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        if self.fn is not None:
            return None
        read = {name for agg in self.aggregates.values() for name in agg.columns}
        late = (names for tag, names in needed.items() if tag != MAIN)
        return frozenset(read).union(*late).intersection(columns.names)

    def narrowed(self, tag: str, columns: pa.Schema, gone: frozenset[str]) -> pa.Schema:
        return columns if tag == MAIN else without(columns, gone)

    def origin(self) -> Origin:
        if self._by_clock:
            return RowsOfKey(calls_function=self.fn is not None)
        return RowsOfWindow(self.lateness_ms, calls_function=self.fn is not None)

    def summary(self) -> str:
        late = f", {self.lateness_ms} ms of lateness allowed" if self.lateness_ms else ""
        does = spell_aggregates(self.aggregates) or f"takes {spell_record(self.record)}"
        time = " in processing time" if self._by_clock else ""
        return f"{self.window} windows{time}{late}: {does}"
