"""A keyed state of an operator in one checkpoint, as a table that readers look up and scan.

The name of the table is that of the operator: its id, which is its uid if the program sets one. If the
operator has several keyed states, the name of the state follows, after a dot: `sessions.total`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import ConfigurationError, SchemaError
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shapes import VALUE, WINDOW, StatePurpose, StateShape
from rheos.core.protocol.snapshots import PartMode, StateHandle
from rheos.core.state.key_groups import key_groups
from rheos.core.state.parts import GROUP
from rheos.runtimes.state_tables.catalogue import EntryCatalogue
from rheos.runtimes.state_tables.entry_layouts import EntryLayout
from rheos.runtimes.state_tables.key_columns import KeyColumns
from rheos.runtimes.state_tables.keyed_layouts import KEYED, keyed_layout_of
from rheos.runtimes.state_tables.state_layout import StateLayout
from rheos.runtimes.views.stored_table import StoredTable


@dataclass(frozen=True)
class StoredKeyedState(StoredTable):
    """A keyed state in one checkpoint."""

    label: str
    """Name of the operator, and of the state if the operator has several."""
    state_name: str

    @property
    def state(self) -> str:
        return self.state_name

    @property
    def name(self) -> str:
        return self.label

    @cached_property
    def handles(self) -> list[StateHandle]:
        """Its parts. If the operator keeps its state in RocksDB, they are the files of each subtask."""
        return super().handles or [
            each
            for each in self.entry.handles
            if each.operator == self.operator and each.mode is PartMode.FILE
        ]

    @property
    def what(self) -> str:
        return f"the state {self.label!r}"

    @property
    def shape(self) -> StateShape:
        return self.entry.states[self.operator][self.state]

    @property
    def layout(self) -> StateLayout:
        """Return a new layout: that of lists has a position."""
        return keyed_layout_of(self.state, self.shape)

    @cached_property
    def types(self) -> Mapping[str, str]:
        """Arrow types of its columns, by their names."""
        return {field.name: str(field.type) for field in self.layout.schema}

    @cached_property
    def key(self) -> Sequence[str]:
        """Names of the columns that decide the key group."""
        added = (WINDOW, VALUE)
        return [field.name for field in self.shape.key if field.type.label not in added]

    def rows(self, parts: Sequence[pa.Table]) -> pa.Table:
        layout = self.layout
        if not parts:
            rows = layout.schema.empty_table()
        elif isinstance(layout, EntryLayout):
            rows = layout.rows(_current_entries(parts))
        else:
            frame = pl.concat([pl.DataFrame(pl.from_arrow(layout.rows(part))) for part in parts])
            frame = frame.unique(self.key, keep="last", maintain_order=True)
            rows = frame.to_arrow().cast(layout.schema)
        groups = self._groups(rows)
        order = np.argsort(groups, kind="stable")
        return rows.append_column(GROUP, pa.array(groups)).take(pa.array(order))

    def _groups(self, rows: pa.Table) -> np.ndarray:
        if not rows.num_rows:
            return np.empty(0, np.int64)
        stored = KeyColumns(self.shape.key).batch(rows, self.key)
        return np.asarray(key_groups(stored, self.key, self.entry.max_parallelism), np.int64)

    def group_of(self, key: Mapping[str, pa.Scalar]) -> int:
        for name, value in key.items():
            if not value.is_valid:
                raise ConfigurationError(
                    f"the key {name!r} of {self.what} is null",
                    hint="pass a value: rows with a null in the key have no state",
                )
        stored = KeyColumns(self.shape.key).stored
        columns = []
        for name in self.key:
            kind = stored.field(name).type
            try:
                columns.append(pa.array([key[name].as_py()], key[name].type).cast(kind))
            except (pa.ArrowException, ValueError, OverflowError):
                raise ConfigurationError(
                    f"the key {name!r} of {self.what} is {kind}, not {key[name]}",
                    hint=f"pass a value of the type {kind}",
                ) from None
        batch = pa.RecordBatch.from_arrays(columns, names=list(self.key))
        return int(key_groups(batch, self.key, self.entry.max_parallelism)[0])


def _current_entries(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the entries that are left, sorted as a full part is."""
    if len(parts) == 1:
        return parts[0].filter(pc.is_valid(parts[0].column("value")))
    frame = pl.concat([pl.DataFrame(pl.from_arrow(part)) for part in parts])
    frame = frame.unique(["key", "namespace"], keep="last").filter(pl.col("value").is_not_null())
    return frame.sort(GROUP, "key", "namespace").to_arrow().cast(parts[0].schema)


# --- finding states -----------------------------------------------------------------------------------


def keyed_states_of(entry: CheckpointCompleted) -> Iterator[StoredKeyedState]:
    """Yield the keyed states of a checkpoint that can be read."""
    for operator in entry.states:
        names = _readable(entry, operator)
        for state in names:
            label = operator if names == [state] else f"{operator}.{state}"
            try:
                found = StoredKeyedState(entry, operator, label, state)
                found.types  # noqa: B018
            except SchemaError:
                continue
            yield found


def find_keyed_state(entry: CheckpointCompleted, name: str) -> StoredKeyedState:
    """Return a keyed state by its name.

    Args:
        entry: The checkpoint.
        name: Id of the operator, or its name if only one operator has it. If the operator has several
            keyed states, a dot and the name of one follow.

    Raises:
        ConfigurationError: The operator or the state does not exist, or only the job can read it.
        SchemaError: The state cannot be looked up by a key.
    """
    catalogue = EntryCatalogue(entry, f"checkpoint {entry.checkpoint}")
    wanted, state = _split(entry, name)
    operator = catalogue.operator(wanted)
    if state is None:
        keyed = _readable(entry, operator)
        if len(keyed) != 1:
            raise ConfigurationError(
                f"the operator {operator!r} has {len(keyed) or 'no'} keyed states that can be read",
                hint=f"name one: {', '.join(f'{operator}.{each}' for each in keyed)}"
                if keyed
                else "read another operator; see the page on savepoints for other kinds of state",
            )
        (state,) = keyed
    shape = catalogue.shape(operator, state)
    if not shape.key or shape.holds not in KEYED:
        raise SchemaError(
            f"the state {state!r} of {operator!r} cannot be looked up: it has {shape.holds}",
            hint="values, lists, maps, timers and running aggregates of keys can; take a savepoint, "
            "and read it by rh.savepoint",
        )
    return StoredKeyedState(entry, operator, name, state)


def _split(entry: CheckpointCompleted, name: str) -> tuple[str, str | None]:
    """Return the operator that a name begins with, and the state that follows. Ids may contain dots."""
    known = {*entry.states, *(entry.operators.get(operator, "") for operator in entry.states)}
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        operator, state = ".".join(parts[:end]), ".".join(parts[end:])
        if operator in known:
            return operator, state or None
    return name, None


def _readable(entry: CheckpointCompleted, operator: OperatorId) -> list[str]:
    """Return the names of the keyed states of an operator that have a layout. Timers count only if the
    operator has no other."""
    shapes = entry.states[operator]
    keyed = [name for name, shape in shapes.items() if shape.key and shape.holds in KEYED]
    return [name for name in keyed if shapes[name].holds != StatePurpose.TIMERS] or keyed
