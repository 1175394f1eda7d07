"""Watches the calls of a keyed function, one by one: the row or timer of each call, and the rows that
it emits."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.calls import Process
from rheos.core.operators.contract import PortType
from rheos.core.operators.keyed_core import KeyedCore
from rheos.core.operators.records import is_single
from rheos.core.protocol.elements import visible
from rheos.core.protocol.shown_rows import row_values
from rheos.core.protocol.types import RecordCollector, TypeMismatch


class CallKind(Enum):
    ROW = "row"
    TIMER = "timer"


@dataclass(frozen=True)
class GivenRow:
    """A row that an operator emitted."""

    row: dict[str, Any]
    output: str
    """Tag of a side output; empty for the main output."""


@dataclass
class WatchedCall:
    """A call of a function for one row or timer."""

    kind: CallKind
    method: Callable[..., Any]
    """The user's method."""
    port: int | None
    """Number of the row's input; None for a timer."""
    record: Any
    """The record that the function receives; None for a timer."""
    event_time_ms: int | None
    """Event time of the row or timer."""
    watermark_ms: int
    """Watermark as the function sees it."""
    out: list[GivenRow] = field(default_factory=list)
    error: BaseException | None = None

    def row(self, ports: Sequence[PortType]) -> dict[str, Any] | None:
        """Return the record by columns; None for a timer."""
        return None if self.port is None else as_row(self.record, ports[self.port].schema, None)


class ReplayStoppedError(BaseException):
    """The end of a replay by the user. No code of the program sees this exception."""


class CallWatcher(Protocol):
    def begins(self, call: WatchedCall) -> None:
        """Receive a call before it happens. An exception ends the replay."""

    def ended(self, call: WatchedCall) -> None:
        """Receive a call that has ended. If it failed, the function's exception follows."""


def watch(core: KeyedCore, watcher: CallWatcher) -> None:
    """Notify `watcher` of each call from now on."""
    _WatchedCore(core, watcher)


class _WatchedCore:
    def __init__(self, core: KeyedCore, watcher: CallWatcher) -> None:
        self._core = core
        self._watcher = watcher
        self._call: WatchedCall | None = None
        self._side_output = core.side_output
        core.methods = [self._of_rows(port, method) for port, method in enumerate(core.methods)]
        core.function.on_timer = self._of_timers(core.function.on_timer)
        core.side_output = self._watch_side_output  # type: ignore[method-assign]

    def _of_rows(self, port: int, method: Process) -> Process:
        def process(row: Any, ctx: Any) -> Any:
            call = WatchedCall(CallKind.ROW, method, port, row, ctx.timestamp, ctx.watermark)
            return self._called(call, row, ctx)

        return process

    def _of_timers(self, method: Process) -> Process:
        def on_timer(timestamp: int, ctx: Any) -> Any:
            call = WatchedCall(CallKind.TIMER, method, None, None, timestamp, ctx.watermark)
            return self._called(call, timestamp, ctx)

        return on_timer

    def _called(self, call: WatchedCall, first: Any, ctx: Any) -> Any:
        self._call = call
        self._watcher.begins(call)
        try:
            given = call.method(first, ctx)
        except BaseException as error:
            self._failed(call, error)
            raise
        if given is None or is_single(given):
            # The caller reports a result that is not iterable.
            self._end(call)
            return given
        return self._watch_outputs(call, given)

    def _watch_outputs(self, call: WatchedCall, given: Any) -> Iterator[Any]:
        try:
            for output in given:
                self._note(call, output, MAIN)
                yield output
        except BaseException as error:
            self._failed(call, error)
            raise
        self._end(call)

    def _watch_side_output(self, tag: str, record: Any, call: int) -> None:
        self._side_output(tag, record, call)
        assert self._call is not None, "only the function emits to side outputs"
        self._note(self._call, record, tag)

    def _note(self, call: WatchedCall, record: Any, tag: str) -> None:
        output = self._core.ctx.outputs.get(tag)
        if output is not None:
            call.out.append(GivenRow(as_row(record, output.schema, output.type.record), tag))

    def _end(self, call: WatchedCall) -> None:
        self._call = None
        self._watcher.ended(call)

    def _failed(self, call: WatchedCall, error: BaseException) -> None:
        if isinstance(error, BdbQuit):
            raise ReplayStoppedError from None
        call.error = error
        self._end(call)


def as_row(record: Any, schema: pa.Schema, kind: type | None) -> dict[str, Any]:
    """Return the values of a record by column. A record without these columns is returned under an
    empty name: the operator will raise the error."""
    collector = RecordCollector(visible(schema), kind)
    try:
        collector.add(record)
        row: dict[str, Any] = row_values(collector.batch(), 0)
    except (AttributeError, KeyError, TypeError, TypeMismatch):
        return {"": record}
    return row
