"""The state of one key: its part of a restored state, and its rows for display and comparison."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import RheosError
from rheos.core.operators.shapes import state_shapes
from rheos.core.operators.window.process import STATE as WINDOW_ROWS
from rheos.core.protocol.shapes import VALUE, StatePurpose, StateShape
from rheos.core.protocol.snapshots import PartMode, Snapshot, SnapshotPart
from rheos.ops.debugging.debugged_key import KeyOfOperator
from rheos.ops.savepoints.layouts import layout_of
from rheos.runtimes.state_tables.key_columns import KeyColumns
from rheos.runtimes.state_tables.state_layout import key_prefix

Row: TypeAlias = Mapping[str, Any]
_Entry: TypeAlias = tuple[bytes, bytes]
"""Key and namespace of an entry."""

_PLACE = {
    StatePurpose.VALUE: (),
    StatePurpose.RUNNING: (),
    StatePurpose.LIST: ("position",),
    StatePurpose.MAP: ("map_key",),
    StatePurpose.WINDOW_CONTENT: ("pane_start", "pane_end", "first_window_end"),
}
"""Columns that identify a row of state before and after a change, by kind of state. Rows of other kinds
are only added or removed."""
_BY_ENTRY = (StatePurpose.VALUE, StatePurpose.MAP, StatePurpose.TIMERS)
"""Kinds of state in which each entry is a row."""
_PURGED = (StatePurpose.WINDOW_CONTENT, StatePurpose.UNDECIDED)
"""States whose rows are also removed without being written, together with their windows."""
_WINDOW = ("window_start", "window_end")
"""Columns of states that are by key and window."""


@dataclass(frozen=True)
class StateRows:
    """The rows of one state, without the columns of the key."""

    rows: Sequence[Row]
    place: tuple[str, ...] | None
    """Columns that identify a changed row; None: a changed row counts as another one."""


KeyState: TypeAlias = Mapping[str, StateRows]
"""The rows by the names of states. States without rows are omitted."""


@dataclass(frozen=True)
class StateChange:
    """The change of one row of state."""

    state: str
    before: Row | None
    """The row before; None if it did not exist."""
    after: Row | None
    """The row after; None if it no longer exists."""


def changes(before: KeyState, after: KeyState) -> tuple[StateChange, ...]:
    """Return the changes of the rows of each state."""
    nothing = StateRows((), None)
    return tuple(
        change
        for state in dict.fromkeys((*before, *after))
        if before.get(state) is not after.get(state)
        for change in _changes(state, before.get(state, nothing), after.get(state, nothing))
    )


def _changes(state: str, before: StateRows, after: StateRows) -> Iterator[StateChange]:
    old_rows, new_rows = _without_same(before.rows, after.rows), _without_same(after.rows, before.rows)
    left = Counter(map(repr, old_rows))
    left.subtract(map(repr, new_rows))
    gone = _extra_rows(old_rows, left)
    new = _extra_rows(new_rows, Counter({row: -n for row, n in left.items()}))
    place = after.place if after.rows else before.place
    if place is None:
        yield from (StateChange(state, row, None) for row in gone)
        yield from (StateChange(state, None, row) for row in new)
        return
    places: defaultdict[str, deque[Row]] = defaultdict(deque)
    for row in new:
        places[_place_text(row, place)].append(row)
    for row in gone:
        there = places[_place_text(row, place)]
        yield StateChange(state, row, there.popleft() if there else None)
    yield from (StateChange(state, None, row) for there in places.values() for row in there)


def _without_same(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Return the rows that are not the same objects as on the other side. Most are, between two
    steps."""
    same = set(map(id, others))
    return [row for row in rows if id(row) not in same]


def _extra_rows(rows: Sequence[Row], more: Counter[str]) -> list[Row]:
    """Return the last rows of each kind: as many as there are more here than on the other side."""
    found: list[Row] = []
    for row in reversed(rows):
        if more[repr(row)] > 0:
            more[repr(row)] -= 1
            found.append(row)
    return found[::-1]


def _place_text(row: Row, place: Sequence[str]) -> str:
    return repr([row[name] for name in place])


class KeyStates:
    """The keyed states of one operator, as its plan describes them. Rows that are unchanged from one
    `shown` to the next are the same objects."""

    def __init__(self, keyed: KeyOfOperator) -> None:
        self._shapes = state_shapes([keyed.planned]).get(keyed.planned.id, {})
        self._parts = list(keyed.values.values())
        self.unread: set[str] = set()
        """States that cannot be shown, with the reasons."""
        self._last: dict[str, StateRows] = {}
        self._entries: dict[str, dict[_Entry, Row]] = {}
        """The row of each entry of the key, for states of `_BY_ENTRY`."""

    def of_key(self, state: str, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Return the part of restored tables that belongs to the key. State without keys is not
        changed."""
        shape = self._shapes.get(state)
        for table in tables:
            yield table if shape is None or not shape.key else self._filtered(table, shape)

    def _filtered(self, table: pa.Table, shape: StateShape) -> pa.Table:
        wanted = len(self._parts)
        if {"key", "namespace"} <= set(table.column_names):
            decode = KeyColumns(shape.key).codec.decode
            single = len(shape.key) == 1
            keys = (decode(key) for key in table.column("key").to_pylist())
            mask = [_same([key] if single else key[:wanted], self._parts) for key in keys]
            return table.filter(pa.array(mask, pa.bool_()))
        columns = [key_prefix(shape) + field.name for field in shape.key[:wanted]]
        if not set(columns) <= set(table.column_names):
            return table
        rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
        return table.filter(pa.array([_same(row, self._parts) for row in rows], pa.bool_()))

    def shown(self, snapshot: Snapshot, parts: Iterable[SnapshotPart]) -> KeyState:
        """Return the key's state. `parts` are the FULL parts of the snapshot's savepoint. They are only
        written if the snapshot lacks the changes since the previous one."""
        since = {part.state: part for part in snapshot.parts if part.mode is PartMode.DELTA}
        found: dict[str, StateRows] = {}
        for part in parts:
            shape = self._shapes.get(part.state)
            if shape is None or not shape.key or shape.holds == StatePurpose.PROGRESS:
                continue
            try:
                rows = self._rows_of_part(part, since.get(part.state), shape)
            except RheosError as error:
                self.unread.add(f"{part.state}: {error.what}")
                continue
            if rows is not None:
                found[part.state] = rows
        self._last = found
        return found

    def _rows_of_part(
        self, part: SnapshotPart, delta: SnapshotPart | None, shape: StateShape
    ) -> StateRows | None:
        unchanged = delta is not None and delta.unchanged
        if unchanged and StatePurpose(shape.holds) not in _PURGED:
            return self._last.get(part.state)
        if StatePurpose(shape.holds) in _BY_ENTRY:
            rows = self._by_entry(part, delta, shape)
        else:
            layout = layout_of(part.state, self._shapes, trusted=True)
            of_tables = (self._rows(layout.rows(table), shape) for table in tables_of(part))
            rows = [row for found in of_tables for row in found if row is not None]
        return StateRows(rows, _place(part.state, shape, rows[0])) if rows else None

    def _by_entry(self, part: SnapshotPart, delta: SnapshotPart | None, shape: StateShape) -> list[Row]:
        layout = layout_of(part.state, self._shapes, trusted=True)
        kept = self._entries.setdefault(part.state, {})
        if delta is None:
            kept.clear()
        for table in tables_of(part if delta is None else delta):
            is_there = pc.is_valid(table.column("value"))
            written = table.filter(is_there)
            for entry in _entries(table.filter(pc.invert(is_there))):
                kept.pop(entry, None)
            rows = self._rows(layout.rows(written), shape)
            kept.update(
                (e, row) for e, row in zip(_entries(written), rows, strict=True) if row is not None
            )
        return [kept[entry] for entry in sorted(kept)]

    def _rows(self, table: pa.Table, shape: StateShape) -> Iterator[Row | None]:
        """Yield a value for each row; None for rows of other keys."""
        names = [field.name for field in shape.key[: len(self._parts)]]
        for row in table.to_pylist():
            is_own = _same([row[name] for name in names], self._parts)
            yield {n: value for n, value in row.items() if n not in names} if is_own else None


def _entries(table: pa.Table) -> Iterator[_Entry]:
    """Return entries by their keys and namespaces."""
    return zip(table.column("key").to_pylist(), table.column("namespace").to_pylist(), strict=True)


def tables_of(part: SnapshotPart) -> Iterable[pa.Table]:
    written = part.write()
    return [written] if isinstance(written, pa.Table) else written


def _place(state: str, shape: StateShape, row: Row) -> tuple[str, ...] | None:
    place = None if state == WINDOW_ROWS else _PLACE.get(StatePurpose(shape.holds))
    if place is None:
        return None
    values = (field.name for field in shape.key if field.type.label == VALUE)
    return tuple(name for name in (*place, *_WINDOW, *values) if name in row)


def _same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether the values are equal. NaN equals NaN."""
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))
