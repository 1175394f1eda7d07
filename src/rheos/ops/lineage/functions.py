"""Traces user functions: records which rows a call had seen when it emitted a row.

A call has seen its own row (or the row that set its timer), and all rows that had been seen when the
state that it reads was written. So an emitted row leads to the rows from which its key's state was
made. State that a call overwrote without reading it, or that was cleared, no longer counts.

The trace does not cover data that a function keeps outside its declared state.
"""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from rheos.core.graph.functions import WindowFunction
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.state import UnkeyedStateDeclaration, ValueState, bind, declarations
from rheos.core.operators.calls import ContextWithoutKey
from rheos.core.operators.contract import Out
from rheos.core.operators.records import is_single
from rheos.core.protocol.elements import TS
from rheos.core.protocol.types import Row, rows_of
from rheos.ops.lineage.ledger import FROM_STATE, CallReason, FunctionCall, Ledger, TracedCall

_IMMUTABLE = (int, float, str, bytes, bool, type(None), tuple, frozenset)


class FunctionTrace:
    """The trace of one function: the current call, and the rows from which its state was made."""

    def __init__(self, ledger: Ledger, place: int, *, restored: bool) -> None:
        """Begin without calls. `restored` is whether the function has restored state."""
        self._ledger = ledger
        self._place = place
        self._restored = restored
        self.call_of: Callable[[], TracedCall] = lambda: TracedCall(CallReason.END)
        """Function that returns the current call of the operator."""
        self._given: defaultdict[str, deque[FunctionCall]] = defaultdict(deque)
        """Calls that emitted the records which are in no batch yet, by tag."""
        self._seen: list[int] = []
        self._key: Any = None
        self._window: tuple[int, int] | None = None
        self._timer_ms: int | None = None
        self._watermark_ms: int | None = None
        self._state: dict[Any, dict[Any, int]] = {}
        """Origin of each item of state, by state and key. State other than a map has one item."""
        self._touched: set[tuple[Any, Any]] = set()
        """Values that were read, and may have been changed in place since."""
        self._timers: dict[tuple[Any, int, bool], list[int]] = {}
        self._held: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        """Rows that have arrived, by port and time; and the number of arrivals that were added."""
        self._looked_at = 0

    def details(self, out: Out) -> Sequence[FunctionCall | None]:
        """Return the call that emitted each row; None for rows that the operator emits by itself, such
        as late rows."""
        calls, rows = self._given.get(out.tag), out.batch.num_rows
        return [None] * rows if calls is None else [calls.popleft() for _ in range(rows)]

    # --- calls ------------------------------------------------------------------------------------

    def _begin(self, seen: list[int], key: Any, timer_ms: int | None) -> None:
        self._end()
        self._seen, self._key, self._timer_ms = seen, key, timer_ms
        self._window = self._watermark_ms = None

    def _end(self) -> None:
        """End the call. Objects that it changed in place depend on everything that it had seen."""
        for at, item in self._touched:
            self._state.setdefault(at, {})[item] = self._link()
        self._touched.clear()

    def _link(self) -> int:
        return self._ledger.link(tuple(self._seen))

    def row(self, port: int, record: Any, timestamp: int | None, key: Any) -> None:
        """Begin a call of the function for a row."""
        call = self.call_of()
        if call.by is CallReason.ROW:
            self._begin([call.row], key, None)
        elif call.by is CallReason.WATERMARK and timestamp is not None:
            self._begin([self._held_row(port, record, timestamp)], key, None)
        else:
            self._begin([FROM_STATE], key, None)

    def timer(self, timestamp_ms: int, key: Any, watermark_ms: int) -> None:
        by_clock = self.call_of().by is CallReason.CLOCK
        set_by = self._timers.pop((key, timestamp_ms, by_clock), [FROM_STATE])
        self._begin(set_by, key, timestamp_ms)
        self._watermark_ms = None if by_clock else watermark_ms

    def window(self, key: Any, window: tuple[int, int]) -> None:
        self._begin([], key, None)
        self._window = window

    def given(self, result: Any) -> Any:
        """Return the result of the call, noting each record as it is taken."""
        if result is None or is_single(result):
            return result
        return self._noted(result)

    def _noted(self, result: Iterable[Any]) -> Iterator[Any]:
        for record in result:
            self.emits(MAIN)
            yield record

    def emits(self, tag: str) -> None:
        call = FunctionCall(self._link(), self._key, self._window, self._timer_ms, self._watermark_ms)
        self._given[tag].append(call)

    def _held_row(self, port: int, record: Any, timestamp: int) -> int:
        """Return the row that was buffered until the watermark. Equal rows may be mistaken for each
        other."""
        ledger = self._ledger
        arrivals = ledger.arrivals(self._place)
        for arrival in arrivals[self._looked_at :]:
            if (self._place, arrival.row) not in ledger.late:
                at = ledger.rows[arrival.row].value(TS)
                self._held[arrival.port, at].append(arrival.row)
        self._looked_at = len(arrivals)
        waiting = self._held[port, timestamp]
        for row in waiting:
            if self._is(record, row):
                waiting.remove(row)
                return row
        return FROM_STATE

    def _is(self, record: Any, row: int) -> bool:
        traced = self._ledger.rows[row]
        kind = None if isinstance(record, Row) else type(record)
        (came,) = rows_of(traced.batch.slice(traced.at, 1), kind)
        # A NaN does not equal itself, but its repr does.
        return bool(came == record) or repr(came) == repr(record)

    # --- timers -----------------------------------------------------------------------------------

    def sets_timer(self, timestamp_ms: int, *, by_clock: bool) -> None:
        self._timers.setdefault((self._key, timestamp_ms, by_clock), []).append(self._link())

    def deletes_timer(self, timestamp_ms: int, *, by_clock: bool) -> None:
        self._timers.pop((self._key, timestamp_ms, by_clock), None)

    # --- state ------------------------------------------------------------------------------------

    def _state_place(self, state: _WatchedState) -> Any:
        return (state.name, self._key if state.keyed else None)

    def reads(self, state: _WatchedState, item: Any, value: Any) -> None:
        """Record that the call reads one item of state; all of it, unless it is a map."""
        at = self._state_place(state)
        made_of = self._state.get(at, {})
        if item in made_of:
            self._seen.append(made_of[item])
        elif self._restored and value is not None and value != state.nothing:
            self._seen.append(FROM_STATE)
        if not isinstance(value, _IMMUTABLE):
            self._touched.add((at, item))

    def writes(self, state: _WatchedState, item: Any = None) -> None:
        self._state.setdefault(self._state_place(state), {})[item] = self._link()

    def adds(self, state: _WatchedList | _WatchedSum) -> None:
        """Record that the call adds to state without reading it. Called before the addition."""
        made_of = self._state.setdefault(self._state_place(state), {})
        before = [made_of[None]] if None in made_of else []
        if self._restored and not before and state.holds_anything():
            before = [FROM_STATE]
        made_of[None] = self._ledger.link((*before, self._link()))

    def clears(self, state: _WatchedState) -> None:
        self._state[self._state_place(state)] = {None: self._ledger.link(())}

    def removes(self, state: _WatchedState, item: Any) -> None:
        self._state.setdefault(self._state_place(state), {})[item] = self._ledger.link(())


# --- state --------------------------------------------------------------------------------------------


class _WatchedState:
    """The handle of a state, with its trace."""

    def __init__(self, handle: Any, trace: FunctionTrace, name: str, declared: Any) -> None:
        self._handle = handle
        self._trace = trace
        self.name = name
        self.keyed = not isinstance(declared, UnkeyedStateDeclaration)
        self.nothing = declared.default if isinstance(declared, ValueState) else None

    def clear(self) -> None:
        self._trace.clears(self)
        self._handle.clear()

    def __repr__(self) -> str:
        return repr(self._handle)


class _WatchedValue(_WatchedState):
    @property
    def value(self) -> Any:
        value = self._handle.value
        self._trace.reads(self, None, value)
        return value

    @value.setter
    def value(self, value: Any) -> None:
        self._handle.value = value
        self._trace.writes(self)


class _WatchedSum(_WatchedState):
    """A handle that traces reducing and aggregating state."""

    def add(self, value: Any) -> None:
        self._trace.adds(self)
        self._handle.add(value)

    def holds_anything(self) -> bool:
        return self._handle.value is not None

    @property
    def value(self) -> Any:
        value = self._handle.value
        self._trace.reads(self, None, value)
        return value


class _WatchedList(_WatchedState):
    def append(self, value: Any) -> None:
        self._trace.adds(self)
        self._handle.append(value)

    def holds_anything(self) -> bool:
        return len(self._handle) > 0

    def extend(self, values: Iterable[Any]) -> None:
        for value in values:
            self.append(value)

    def replace(self, values: Iterable[Any]) -> None:
        self._handle.replace(values)
        self._trace.writes(self)

    def __iter__(self) -> Iterator[Any]:
        values = list(self._handle)
        self._trace.reads(self, None, values[0] if values else None)
        return iter(values)

    def __len__(self) -> int:
        length = len(self._handle)
        self._trace.reads(self, None, length or None)
        return length


class _WatchedMap(_WatchedState, MutableMapping[Any, Any]):
    """A handle that traces map state and broadcast state."""

    def __getitem__(self, item: Any) -> Any:
        value = self._handle[item]
        self._trace.reads(self, item, value)
        return value

    def get(self, item: Any, default: Any = None) -> Any:
        value = self._handle.get(item, default)
        self._trace.reads(self, item, value if item in self._handle else None)
        return value

    def __contains__(self, item: Any) -> bool:
        there = item in self._handle
        self._trace.reads(self, item, there or None)
        return there

    def __setitem__(self, item: Any, value: Any) -> None:
        self._handle[item] = value
        self._trace.writes(self, item)

    def __delitem__(self, item: Any) -> None:
        del self._handle[item]
        self._trace.removes(self, item)

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def keys(self) -> Any:
        return tuple(item for item, _ in self.items())

    def values(self) -> Any:
        return tuple(value for _, value in self.items())

    def items(self) -> Any:
        items = tuple(self._handle.items())
        for item, value in items:
            self._trace.reads(self, item, value)
        return items

    def clear(self) -> None:
        for item in tuple(self._handle.keys()):
            self._trace.removes(self, item)
        self._handle.clear()


def _watched(handle: Any, trace: FunctionTrace, name: str, declared: Any) -> _WatchedState:
    if hasattr(handle, "append"):
        return _WatchedList(handle, trace, name, declared)
    if hasattr(handle, "add"):
        return _WatchedSum(handle, trace, name, declared)
    if hasattr(handle, "items"):
        return _WatchedMap(handle, trace, name, declared)
    return _WatchedValue(handle, trace, name, declared)


# --- contexts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _WatchedTimers:
    timers: Any
    trace: FunctionTrace

    def register(self, timestamp_ms: int) -> None:
        self.timers.register(timestamp_ms)
        self.trace.sets_timer(timestamp_ms, by_clock=False)

    def delete(self, timestamp_ms: int) -> None:
        self.timers.delete(timestamp_ms)
        self.trace.deletes_timer(timestamp_ms, by_clock=False)

    def register_processing(self, timestamp_ms: int) -> None:
        self.timers.register_processing(timestamp_ms)
        self.trace.sets_timer(timestamp_ms, by_clock=True)

    def delete_processing(self, timestamp_ms: int) -> None:
        self.timers.delete_processing(timestamp_ms)
        self.trace.deletes_timer(timestamp_ms, by_clock=True)


class _WatchedContext:
    """The context that the user's method receives in place of its own."""

    __slots__ = ("_context", "_trace")

    def __init__(self, context: Any, trace: FunctionTrace) -> None:
        self._context = context
        self._trace = trace

    @property
    def timers(self) -> _WatchedTimers:
        return _WatchedTimers(self._context.timers, self._trace)

    def output(self, tag: str, record: Any) -> None:
        self._context.output(tag, record)
        self._trace.emits(tag)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


# --- functions ----------------------------------------------------------------------------------------


def watched_function(function: Any, trace: FunctionTrace, ports: Mapping[str, int]) -> Any:
    """Return a copy of a function whose calls are traced. `ports` are the inputs of its methods for
    rows. The copy has a derived class, so code that would be compiled is called as it is written."""
    cls = type(function)
    methods: dict[str, Any] = {name: _for_rows(cls, name, port, trace) for name, port in ports.items()}
    if hasattr(cls, "on_timer"):
        methods["on_timer"] = _for_timers(cls, trace)
    methods["open"] = _opening(cls, trace)
    watched = copy.copy(function)
    watched.__class__ = type(cls.__name__, (cls,), methods)
    return watched


def _opening(cls: Any, trace: FunctionTrace) -> Any:
    """Return an `open` that traces the function's state from when it is bound."""
    method = cls.open

    def watch(function: Any) -> None:
        for name, declared in declarations(function).items():
            bind(function, name, _watched(vars(function)[name], trace, name, declared))

    def with_context(self: Any, context: Any) -> Any:
        watch(self)
        return method(self, context)

    def without(self: Any) -> Any:
        watch(self)
        return method(self)

    takes_context = len(inspect.signature(method).parameters) > 1
    return with_context if takes_context else without


def _for_rows(cls: type, name: str, port: int, trace: FunctionTrace) -> Any:
    method = getattr(cls, name)

    def called(self: Any, record: Any, context: Any) -> Any:
        key = None if isinstance(context, ContextWithoutKey) else context.key
        trace.row(port, record, context.timestamp, key)
        return trace.given(method(self, record, _WatchedContext(context, trace)))

    return called


def _for_timers(cls: Any, trace: FunctionTrace) -> Any:
    method = cls.on_timer

    def called(self: Any, timestamp: int, context: Any) -> Any:
        trace.timer(timestamp, context.key, context.watermark)
        return trace.given(method(self, timestamp, _WatchedContext(context, trace)))

    return called


class WatchedWindows(WindowFunction):
    """A traced function of windows, or of a co-group of windows."""

    def __init__(self, function: Any, trace: FunctionTrace) -> None:
        self._function = function
        self._trace = trace

    def __deepcopy__(self, memo: dict[int, Any]) -> WatchedWindows:
        return WatchedWindows(copy.deepcopy(self._function, memo), self._trace)

    def process(self, records: list[Any], ctx: Any) -> Any:
        self._trace.window(ctx.key, tuple(ctx.window))
        return self._trace.given(self._function.process(records, ctx))

    def co_group(self, left: list[Any], right: list[Any], ctx: Any) -> Any:
        self._trace.window(ctx.key, tuple(ctx.window))
        return self._trace.given(self._function.co_group(left, right, ctx))
