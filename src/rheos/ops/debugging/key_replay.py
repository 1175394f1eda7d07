"""Replays the rows that arrived at one operator for one key, and reports the effect of each row and
timer on its state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rheos.core.errors import RheosError, unexpected
from rheos.core.operators.contract import Operator, PortType
from rheos.core.operators.keyed_core import KeyedCore
from rheos.core.operators.keyed_function import KeyedFunctionOperator
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SWM, TS, Batch
from rheos.core.protocol.shown_rows import rows_values
from rheos.ops.debugging.call_watcher import CallKind, CallWatcher, GivenRow, WatchedCall, watch
from rheos.ops.debugging.deliveries import (
    DeliveredBatch,
    Delivery,
    Rows,
    WatermarkAdvance,
    deliver,
    pieces,
)
from rheos.ops.debugging.key_state import KeyState, StateChange, changes
from rheos.ops.debugging.replica import Replica


class StepKind(Enum):
    ROW = "row"
    """A row of the key, or of an input without keys."""
    TIMER = "timer"
    """A timer of the key."""
    WATERMARK = "watermark"
    """A watermark by which an operator without a function of the key, such as windows, emitted rows or
    changed its state."""


@dataclass(frozen=True)
class DebugStep:
    """The effect of one row or timer of a key on its state, and the rows emitted."""

    number: int
    """Number of the step, from 1."""
    kind: StepKind
    port: int | None
    """Number of the row's input."""
    row: dict[str, Any] | None
    event_time_ms: int | None
    """Event time of the row or timer."""
    watermark_ms: int | None
    """Watermark before the step, as a function sees it; None if there was none yet."""
    before: KeyState
    after: KeyState
    out: tuple[GivenRow, ...]
    """Rows that the operator emitted."""
    counted: dict[str, int]
    """Counts of the operator in this step, such as `late`."""
    error: RheosError | None = None
    """Error that ended the job in this step."""

    @property
    def changes(self) -> tuple[StateChange, ...]:
        """The changes of the key's state."""
        return changes(self.before, self.after)


class ReplayListener:
    """A receiver of each step as it happens: before and after a function is called."""

    def before(self, call: WatchedCall, state: KeyState) -> None:
        """Receive a call before it happens. `state` is the key's state."""

    def after(self, step: DebugStep) -> None:
        """Receive a step after it happened, even if it called no function."""


def watched_core(operator: Operator) -> KeyedCore | None:
    """Return the part of the operator that calls its function for each row and timer; None if it has
    none."""
    core = operator.core if isinstance(operator, KeyedFunctionOperator) else None
    return core if isinstance(core, KeyedCore) else None


class KeyReplay(CallWatcher):
    """A single replay of one replica."""

    def __init__(self, replica: Replica, delivered: DeliveredBatch, listener: ReplayListener) -> None:
        self._replica = replica
        self._delivered = delivered
        self._listener = listener
        self._state = replica.state()
        self._counters = replica.counters
        self._steps: deque[DebugStep] = deque()
        """Steps of the last delivery."""
        self._number = 0
        self._call: WatchedCall | None = None
        """The current call, or the one that has failed."""
        core = watched_core(replica.operator)
        self._watches = core is not None
        """Whether calls are watched. If not, the effect of a row on the operator is one step."""
        if core is not None:
            watch(core, self)

    def steps(self) -> Iterator[DebugStep]:
        """Yield the steps. An error of the function is in the last step. Raise an error of an upstream
        operator after the rows that precede it."""
        for delivery in self._delivered.deliveries:
            for piece in pieces(delivery):
                error = self._drive(piece)
                while self._steps:
                    yield self._steps.popleft()
                if error is not None:
                    return
        if self._delivered.error is not None:
            raise self._delivered.error

    # --- delivery ---------------------------------------------------------------------------------

    def _drive(self, piece: Delivery) -> RheosError | None:
        """Process one row, or a watermark. Return the error that ends the job there."""
        first, planned = self._number, self._replica.keyed.planned
        out: list[GivenRow] = []
        error: RheosError | None = None
        try:
            for given in deliver(self._replica.operator, piece):
                out += (GivenRow(row, given.tag) for row in rows_values(given.batch))
        except RheosError as raised:
            error = raised.located(site=planned.site, operator=planned.name)
        except Exception as raised:
            error = unexpected(raised).located(site=planned.site, operator=planned.name)
        if error is not None and self._call is not None:
            self._step_of(self._call, error)
        elif error is not None or (first == self._number and self._shows(piece, out)):
            self._step_of_piece(piece, out, error)
        return error

    def _shows(self, piece: Delivery, out: Sequence[GivenRow]) -> bool:
        """Return whether the delivery is a step although no call was watched. A row that waits for its
        time is not a step; a late row is one."""
        if out or self._counters != self._replica.counters:
            return True
        if isinstance(piece, Rows):
            return not (self._watches and self._replica.keyed.planned.ports[piece.port].keys)
        return not self._watches and self._state != self._replica.state()

    # --- steps ------------------------------------------------------------------------------------

    def begins(self, call: WatchedCall) -> None:
        self._call = call
        self._listener.before(call, self._state)

    def ended(self, call: WatchedCall) -> None:
        if call is self._call and call.error is None:
            self._call = None
            self._step_of(call, None)

    def _step_of(self, call: WatchedCall, error: RheosError | None) -> None:
        kind = StepKind.ROW if call.kind is CallKind.ROW else StepKind.TIMER
        times = (call.event_time_ms, call.watermark_ms)
        self._step(kind, call.port, call.row(self._ports), times, call.out, error)

    def _step_of_piece(
        self, piece: Delivery, out: Sequence[GivenRow], error: RheosError | None
    ) -> None:
        if isinstance(piece, WatermarkAdvance):
            self._step(StepKind.WATERMARK, None, None, (None, piece.watermark_ms), out, error)
        else:
            (row,) = rows_values(piece.batch)
            times = (_hidden_value(piece.batch, TS), _hidden_value(piece.batch, SWM))
            self._step(StepKind.ROW, piece.port, row, times, out, error)

    def _step(
        self,
        kind: StepKind,
        port: int | None,
        row: dict[str, Any] | None,
        times: tuple[int | None, int | None],
        out: Sequence[GivenRow],
        error: RheosError | None,
    ) -> None:
        self._number += 1
        before, counted = self._state, self._counters
        self._state, self._counters = self._replica.state(), self._replica.counters
        news = {name: n - counted.get(name, 0) for name, n in self._counters.items()}
        event_time_ms, watermark_ms = times
        step = DebugStep(
            self._number,
            kind,
            port,
            row,
            event_time_ms,
            None if watermark_ms == MIN_TIMESTAMP_MS else watermark_ms,
            before,
            self._state,
            tuple(out),
            {name: n for name, n in news.items() if n},
            error,
        )
        self._steps.append(step)
        self._listener.after(step)

    @property
    def _ports(self) -> Sequence[PortType]:
        return self._replica.keyed.planned.ports


def _hidden_value(batch: Batch, name: str) -> int | None:
    """Return a hidden column of a batch of one row."""
    return batch.column(name)[0].as_py() if name in batch.schema.names else None
