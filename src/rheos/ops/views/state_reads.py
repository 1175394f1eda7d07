"""Reads keyed state of operators from the checkpoints of a job: `rh.query(job).state(...)`.

The job is not asked: only its checkpoint directory is read. A look-up reads the files of the subtask
that owns the key, and of these only the rows of the key's group. A scan reads a few key groups at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import ConfigurationError, SchemaError
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import VALUE, WINDOW, StatePurpose, StateShape
from rheos.core.protocol.snapshots import PartMode, StateHandle
from rheos.core.site import located_at_call
from rheos.core.state import format as state_format
from rheos.core.state.key_groups import key_groups
from rheos.core.state.parts import GROUP
from rheos.ops.savepoints.layouts import layout_of
from rheos.ops.views.view_rows import MAX_SCAN_ROWS, ViewRows
from rheos.runtimes.state_tables.catalogue import EntryCatalogue
from rheos.runtimes.state_tables.entry_layouts import EntryLayout
from rheos.runtimes.state_tables.key_columns import KeyColumns
from rheos.runtimes.state_tables.state_layout import StateLayout
from rheos.runtimes.views.checkpoint_reads import (
    TRIES,
    WITHIN_S,
    CheckpointReads,
    GoneError,
    chunks,
)

T = TypeVar("T")

_SHOWN = (
    StatePurpose.VALUE,
    StatePurpose.LIST,
    StatePurpose.MAP,
    StatePurpose.TIMERS,
    StatePurpose.RUNNING,
)


@dataclass(frozen=True)
class _StoredState:
    """A keyed state in one checkpoint."""

    entry: CheckpointCompleted
    operator: OperatorId
    name: str
    shape: StateShape
    shapes: Mapping[str, StateShape]

    @property
    def layout(self) -> StateLayout:
        """Return a new layout: that of lists has a position."""
        return layout_of(self.name, self.shapes)

    @property
    def handles(self) -> list[StateHandle]:
        return [
            each
            for each in self.entry.handles
            if each.operator == self.operator and each.state == self.name
        ]

    @property
    def key(self) -> list[str]:
        """Return the names of the columns that decide the key group."""
        added = (WINDOW, VALUE)
        return [field.name for field in self.shape.key if field.type.label not in added]


class KeyedState:
    """One keyed state of one operator of a job.

    ```python
    totals = rh.query("shop").state("totals")
    print(totals.get("ada").table, totals.scan(limit=10).table)
    ```
    """

    def __init__(self, reads: CheckpointReads, operator: str, state: str | None) -> None:
        self._reads = reads
        self._operator = operator
        self._state = state

    @located_at_call
    def get(self, *key: Any, **named: Any) -> ViewRows:
        """Look up a key.

        Args:
            key: Values of the key's columns, in their order.
            named: Values of the key's columns by name, instead of `key`.

        Returns:
            The rows of the key: one for a value, one for each element of a list and each entry of a
            map; none if the key has no state.

        Raises:
            ConfigurationError: The operator or the state does not exist, or a value has another type
                than its column.
            CheckpointError: The job has no checkpoint yet, or it cannot be read.
            TransportError: The store did not answer in time.
        """
        return self._read(lambda state, deadline_s: self._looked_up(state, key, named, deadline_s))

    @located_at_call
    def scan(self, *, limit: int | None = None) -> ViewRows:
        """Read the rows of all keys.

        Args:
            limit: Maximum number of rows; without it, more than a million are an error.

        Returns:
            The rows, in the order of key groups.

        Raises:
            ConfigurationError: The operator or the state does not exist, or there are too many rows.
            CheckpointError: The job has no checkpoint yet, or it cannot be read.
            TransportError: The store did not answer in time.
        """
        return self._read(lambda state, deadline_s: self._scanned(state, limit, deadline_s))

    def _read(self, read: Callable[[_StoredState, float], pa.Table]) -> ViewRows:
        """Return what `read` returns, for the newest checkpoint that is still there."""
        deadline_s = self._reads.now_s() + WITHIN_S
        for tries_left in reversed(range(TRIES)):
            entry = self._reads.entry(None)
            try:
                rows = read(_find_state(entry, self._operator, self._state), deadline_s)
            except GoneError:
                if not tries_left:
                    raise
                continue
            completed = datetime.fromtimestamp(entry.completed_ms / 1000, UTC)
            return ViewRows(rows, entry.checkpoint, completed)
        raise AssertionError("unreachable")

    def _looked_up(
        self, state: _StoredState, key: Sequence[Any], named: Mapping[str, Any], deadline_s: float
    ) -> pa.Table:
        values = _key_of(state, key, named)
        groups = state.entry.max_parallelism
        group = int(key_groups(values, state.key, groups)[0])
        owner = group * state.entry.width(state.operator) // groups
        mine = [handle for handle in state.handles if handle.subtask == owner]
        rows = self._rows(state, mine, range(group, group + 1), deadline_s)
        shown = KeyColumns(state.shape.key).shown
        for name in state.key:
            wanted = values.column(name)[0].cast(shown.field(name).type)
            rows = rows.filter(pc.equal(rows.column(name), wanted))
        return rows

    def _scanned(self, state: _StoredState, limit: int | None, deadline_s: float) -> pa.Table:
        found: list[pa.Table] = []
        left = MAX_SCAN_ROWS if limit is None else limit
        for handles, groups in chunks(state.entry, state.operator, state.handles):
            rows = self._rows(state, handles, groups, deadline_s)
            found.append(rows.slice(0, left))
            if rows.num_rows > left and limit is None:
                raise ConfigurationError(
                    f"the state {state.name!r} has more than {MAX_SCAN_ROWS:,} rows",
                    hint="pass limit=, or read a savepoint by rh.savepoint",
                )
            left -= found[-1].num_rows
            if left <= 0:
                break
        return pa.concat_tables(found) if found else state.layout.schema.empty_table()

    def _rows(
        self, state: _StoredState, handles: Sequence[StateHandle], groups: range, deadline_s: float
    ) -> pa.Table:
        """Return the current rows of key groups. Later parts of a subtask replace rows of earlier
        ones."""
        layout = state.layout
        parts = [state_format.decode(self._reads.part(each, deadline_s), groups) for each in handles]
        if not parts:
            return layout.schema.empty_table()
        if isinstance(layout, EntryLayout):
            return layout.rows(_current_entries(parts))
        rows = pl.concat([_frame(layout.rows(part)) for part in parts])
        return rows.unique(state.key, keep="last", maintain_order=True).to_arrow().cast(layout.schema)


def _current_entries(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the entries that are left, sorted as a full part is."""
    if len(parts) == 1:
        return parts[0].filter(pc.is_valid(parts[0].column("value")))
    frame = pl.concat([_frame(part) for part in parts])
    frame = frame.unique(["key", "namespace"], keep="last").filter(pl.col("value").is_not_null())
    return frame.sort(GROUP, "key", "namespace").to_arrow().cast(parts[0].schema)


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _find_state(entry: CheckpointCompleted, operator: str, state: str | None) -> _StoredState:
    what = f"checkpoint {entry.checkpoint}"
    catalogue = EntryCatalogue(entry, what)
    id = catalogue.operator(operator)
    shapes = entry.states[id]
    if state is None:
        keyed = [name for name, shape in shapes.items() if shape.key and shape.holds in _SHOWN]
        keyed = [name for name in keyed if shapes[name].holds != StatePurpose.TIMERS] or keyed
        if len(keyed) != 1:
            raise ConfigurationError(
                f"the operator {id!r} has {len(keyed) or 'no'} keyed states that can be read",
                hint=f"name one: {', '.join(keyed)}"
                if keyed
                else "read another operator; see the page on savepoints for other kinds of state",
            )
        (state,) = keyed
    shape = catalogue.shape(id, state)
    if not shape.key or shape.holds not in _SHOWN:
        raise SchemaError(
            f"the state {state!r} of {id!r} cannot be looked up: it has {shape.holds}",
            hint="values, lists, maps, timers and running aggregates of keys can; take a savepoint, "
            "and read it by rh.savepoint",
        )
    if any(each.operator == id and each.mode is PartMode.FILE for each in entry.handles):
        raise ConfigurationError(
            f"the state {state!r} of {id!r} is stored by the backend RocksDB, whose files only the job "
            "reads",
            hint="take a savepoint, and read it by rh.savepoint; or use the state backend memory",
        )
    return _StoredState(entry, id, state, shape, shapes)


def _key_of(state: _StoredState, key: Sequence[Any], named: Mapping[str, Any]) -> pa.RecordBatch:
    """Return a key as one row, in the types by which keys are hashed."""
    names = state.key
    given = dict(zip(names, key, strict=False)) if len(key) == len(names) and not named else dict(named)
    if set(given) != set(names) or (key and named):
        raise ConfigurationError(
            f"the key of {state.operator!r} is ({', '.join(names)})",
            hint="pass a value for each of these columns, in this order or by name",
        )
    stored = KeyColumns(state.shape.key).stored
    columns = []
    for name in names:
        kind = stored.field(name).type
        try:
            columns.append(pa.array([given[name]], kind))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise ConfigurationError(
                f"the key column {name!r} of {state.operator!r} is {kind}, not {given[name]!r}",
                hint=f"pass a value of the type {kind}",
            ) from None
        if columns[-1].null_count:
            raise ConfigurationError(
                f"the key column {name!r} is null", hint="rows with a null in the key have no state"
            )
    return pa.RecordBatch.from_arrays(columns, names=names)
