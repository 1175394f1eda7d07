"""The explanation of an output row: the operators that it passed, and the input rows that led to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint
from rheos.core.errors import ConfigurationError, Site
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import TS, visible
from rheos.ops.lineage.ledger import CallReason, FunctionCall, Ledger, SplitPlace, TracedRow
from rheos.ops.lineage.operator_rules import TracedOperator
from rheos.ops.lineage.reasons import Reason
from rheos.ops.savepoints.pending_by_key import kept_for_key


@dataclass(frozen=True)
class SourceRow:
    """A row of a source that led to an output row."""

    source: str
    split: str
    unit: str | None
    """Unit in which the source counts positions in its splits: `offset`, `line`, `row`, `index`, `id`.
    """
    place: int | str | None
    """Position of the row in that unit. Both are None if the source does not report it."""
    event_time_ms: int | None
    row: Mapping[str, Any]


@dataclass(frozen=True)
class StepFiring:
    """The reason why an operator emitted rows, if it was not the arrival of a row."""

    key: Mapping[str, Any]
    window: tuple[int, int] | None
    """Start and end of the window, in ms since the epoch."""
    timer_ms: int | None
    """Time of the timer that fired."""
    watermark_ms: int | None
    """Watermark of the operator that caused the firing; None if a row caused it."""


@dataclass(frozen=True)
class WayStep:
    """One operator on the path of the row."""

    operator: str
    id: str
    site: Site
    rows: int
    """Number of its rows that led to the output row."""
    firings: Sequence[StepFiring]
    before: bool
    """Whether state of the checkpoint contributed to its rows. The earlier rows in that state are not
    named."""
    doubts: Sequence[str]
    """Reasons why rows other than those listed after this step may have contributed."""


@dataclass(frozen=True)
class ExplainedRow:
    """A row that a sink received, and the rows that led to it."""

    row: Mapping[str, Any]
    """The row as the sink would have received it."""
    event_time_ms: int | None
    steps: Sequence[WayStep]
    """Operators from the sources to the sink."""
    inputs: Sequence[SourceRow]
    """Input rows in the order in which they were read."""

    @property
    def exact(self) -> bool:
        """Whether exactly these input rows led to the row, as far as its operators can tell."""
        return not any(step.before or step.doubts for step in self.steps)


class Answers:
    """The explanations of rows of a completed replay."""

    def __init__(
        self,
        ledger: Ledger,
        watched: Sequence[TracedOperator],
        checkpoint: CopiedCheckpoint | None,
    ) -> None:
        """Begin with a replay's ledger. `checkpoint` is the one from which the replay started."""
        self._ledger = ledger
        self._watched = watched
        self._checkpoint = checkpoint

    def explained(self, number: int) -> ExplainedRow:
        """Return the explanation of the row with that number in the ledger, which a sink received."""
        reasons = self._reasons(number)
        by_place: defaultdict[int, list[int]] = defaultdict(list)
        for one in sorted(reasons):
            by_place[self._ledger.rows[one].place].append(one)
        last = self._ledger.rows[number]
        return ExplainedRow(
            _visible_values(last),
            _event_time_ms(last),
            [self._step(place, by_place[place], reasons) for place in sorted(by_place)],
            [
                self._input(row, row.detail)
                for one in sorted(reasons)
                for row in [self._ledger.rows[one]]
                if isinstance(row.detail, SplitPlace)
            ],
        )

    def input_rows(self, *numbers: int) -> list[int]:
        """Return the numbers of the source rows that led to the rows with these numbers."""
        rows = self._ledger.rows
        return [
            one for one in sorted(self._reasons(*numbers)) if isinstance(rows[one].detail, SplitPlace)
        ]

    def _reasons(self, *numbers: int) -> dict[int, Reason]:
        """Return the reasons of the rows, and of all rows that led to them, by their numbers."""
        reasons: dict[int, Reason] = {}
        todo = list(numbers)
        while todo:
            one = todo.pop()
            if one not in reasons:
                row = self._ledger.rows[one]
                reasons[one] = self._watched[row.place].rule.reason(one, row)
                todo += reasons[one].rows
        return reasons

    def _planned(self, place: int) -> PlannedOperator:
        return self._watched[place].rule.planned

    def _input(self, row: TracedRow, origin: SplitPlace) -> SourceRow:
        name = self._planned(row.place).name
        return SourceRow(
            name, origin.split, origin.unit, origin.at, _event_time_ms(row), _visible_values(row)
        )

    def _step(self, place: int, rows: Sequence[int], reasons: Mapping[int, Reason]) -> WayStep:
        planned = self._planned(place)
        firings = {}
        before = False
        for one in rows:
            row, reason = self._ledger.rows[one], reasons[one]
            watermark_ms = row.call.at_ms if row.call.by is CallReason.WATERMARK else None
            if isinstance(row.detail, FunctionCall) and row.detail.watermark_ms is not None:
                watermark_ms = row.detail.watermark_ms
            fired = StepFiring(reason.key, reason.window, reason.timer_ms, watermark_ms)
            if fired.window is not None or fired.timer_ms is not None or watermark_ms is not None:
                firings[repr(fired)] = fired
            before = before or self._was_before(planned, reason)
        doubts = dict.fromkeys(reasons[one].doubt for one in rows)
        return WayStep(
            planned.name,
            planned.id,
            planned.site,
            len(rows),
            list(firings.values()),
            before,
            [doubt for doubt in doubts if doubt is not None],
        )

    def _was_before(self, planned: PlannedOperator, reason: Reason) -> bool:
        """Return whether the state of the checkpoint was a part of the reason."""
        if reason.from_state is not None or self._checkpoint is None:
            return bool(reason.from_state)
        key = {name: _text(value) for name, value in reason.key.items()}
        try:
            kept = kept_for_key(self._checkpoint, planned.id, key or None)
        except ConfigurationError:  # It keeps no state by that key.
            return False
        if reason.window is None:
            return bool(kept.rows or kept.unread)
        start, end = reason.window
        held = any(start <= window.start_ms < end for window in kept.windows)
        return held or bool(kept.unread)


def _visible_values(row: TracedRow) -> dict[str, Any]:
    return {name: row.value(name) for name in visible(row.batch.schema).names}


def _event_time_ms(row: TracedRow) -> int | None:
    return row.value(TS) if TS in row.batch.schema.names else None


def _text(value: Any) -> str:
    """Return the value as a string, as DataFrames show it."""
    return str(pl.Series([value]).cast(pl.String)[0])
