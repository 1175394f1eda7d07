"""`view`: keeps the current rows of a materialized view as state, and passes its changes on.

A checkpoint stores the rows by key group, so readers of the checkpoint's files find all rows of the
view, or those of one key, without asking the job. If a view has a key, a row replaces the previous row
of its key. Otherwise its rows may be equal, and a retraction removes the last equal row.

```python
check_example(
    OperatorExample(
        lambda rows: rows.key_by("id").transformation.add(
            ViewSpec(("id",), (ViewColumn("id", True, "int64"), ViewColumn("n", False, "int64"))),
            "totals",
            {MAIN: rows.transformation.type},
        ).stream,
        pa.schema([("id", pa.int64()), ("n", pa.int64()), ("op", pa.string())]),
        [
            {"id": 1, "n": 1, "op": "insert"},
            {"id": 1, "n": 2, "op": "update_after"},
            {"id": 1, "n": 2, "op": "delete"},
        ],
        upserts_by=("id",),
    ),
    {
        "out": [
            {"id": 1, "n": 1, "op": "insert"},
            {"id": 1, "n": 2, "op": "update_after"},
            {"id": 1, "n": 2, "op": "delete"},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.graph.nodes import MAIN
from rheos.core.graph.nullable_names import absence_name, value_name
from rheos.core.operators.change_rows import goes
from rheos.core.operators.contract import KeySpec, Operator, OperatorContext, Out, PortType, Restored
from rheos.core.operators.joins.table_side import GONE, TableSide
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.feature_terms import FeatureTerms
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import FieldShape, StateShape, TypeShape
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart
from rheos.core.state.key_groups import refuse_null_keys
from rheos.core.state.key_index import KeySlots
from rheos.core.state.marked_rows import last_of_ids
from rheos.core.state.parts import GROUP
from rheos.core.state.slots import Slots
from rheos.core.state.spill import SpillFolder

ROWS = "view"
"""Name of the state. Operators with such a state are views."""

KEY = "key"
"""Label of the columns of a view's key."""

_TIDY_ROWS = 1 << 14
"""Number of arriving rows after which deleted rows are removed. If more rows exist than this, their
number applies."""


@dataclass(frozen=True)
class ViewColumn:
    """A column of the view, as its readers see it."""

    name: str
    of_key: bool
    type: str
    """Its Arrow type."""


@dataclass(frozen=True)
class ViewSpec(KeySpec):
    kind: ClassVar[str] = "view"
    takes_changes: ClassVar[bool] = True
    keeps_changes: ClassVar[bool] = True

    own: tuple[str, ...] | None
    """Input columns of the view's key; empty if the view has no key; None if it has no key and its rows
    are never retracted."""
    columns: tuple[ViewColumn, ...]
    """Columns of the view. If the input lacks one, it has the two columns of a nullable key instead
    (`graph/nullable_names.py`)."""
    terms: FeatureTerms | None = None
    """Terms for readers if the rows are features."""

    def operator(self, ctx: OperatorContext) -> Operator:
        return ViewOperator(ctx, self)

    def in_batch(self, ctx: OperatorContext) -> Operator:
        return _WithoutState(ctx)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        shape = _side(self, ports[0], 1, None).shape(ports[0])
        columns = [
            FieldShape(
                name=column.name,
                type=TypeShape(name=column.type, label=KEY if column.of_key else ""),
            )
            for column in self.columns
        ]
        terms = [] if self.terms is None else [msgspec.json.encode(self.terms).decode()]
        described = TypeShape(name=ROWS, fields=columns, members=terms)
        value = msgspec.structs.replace(shape.value, args=[described])
        return {ROWS: msgspec.structs.replace(shape, value=value)}

    def summary(self) -> str:
        key = [column.name for column in self.columns if column.of_key]
        return f"keeps its rows by {', '.join(key)}" if key else "keeps its rows"


def _side(
    spec: ViewSpec, port: PortType, max_parallelism: int, folder: SpillFolder | None
) -> TableSide:
    return TableSide(
        ROWS,
        port,
        spec.own,
        keeps=False,
        where=None,
        ttl_ms=None,
        max_parallelism=max_parallelism,
        folder=folder,
    )


class ViewOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: ViewSpec) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        folder = None if ctx.scratch is None else SpillFolder(ctx.scratch)
        self._side = _side(spec, port, ctx.max_parallelism, folder)
        self._keyed_at = port.keyed_at
        self._changes = port.type.changes is not None
        self._keys = KeySlots(len(port.keys))
        self._since_tidy = 0

    def open(self, restored: Restored) -> None:
        self._side.restore(restored.get(ROWS, ()), self._keys)
        self._side.rows.spill(self.ctx.state_bytes)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if batch.num_rows:
            refuse_null_keys(batch, self._side.keys, self._keyed_at)
            self._apply(batch)
            self._side.rows.spill(self.ctx.state_bytes)
            self._since_tidy += batch.num_rows
            self._tidy()
        if MAIN in self.ctx.outputs:
            yield Out(batch)

    def _apply(self, batch: Batch) -> None:
        """Apply the last change of each row of the view."""
        side = self._side
        if side.own is None:
            self._add(batch, None)
            return
        comes = ~goes(batch) if self._changes else np.ones(batch.num_rows, np.bool_)
        places = side.places(batch, comes)
        # Reversed, the first index of a place is that of its last change.
        of_place, first = np.unique(places[::-1], return_index=True)
        last = len(places) - 1 - first
        replaced = side.at(of_place)
        side.remove(replaced[replaced >= 0])
        stays = np.sort(last[comes[last]])
        self._add(batch.take(pa.array(stays)), places[stays])

    def _add(self, rows: Batch, places: Slots | None) -> None:
        slots = self._keys.lookup_or_add([rows.column(key) for key in self._side.keys])
        unused = np.zeros(rows.num_rows, np.int64)
        self._side.add(slots, rows, unused, unused.astype(np.bool_), unused, places)

    def _tidy(self) -> None:
        """Copy the current rows, if they are less than half of all stored rows, and drop keys."""
        alive = self._side.alive
        if self._since_tidy < max(_TIDY_ROWS, alive):
            return
        self._since_tidy = 0
        if 2 * alive < len(self._side) or len(self._keys) > 2 * alive:
            self._keys = KeySlots(len(self._side.keys))
            self._side.rebuild(self._keys)
            self._side.rows.spill(self.ctx.state_bytes)

    def keys_held(self) -> int | None:
        return len(self._keys)

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return Snapshot([self._side.part()])

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [self._side.whole()]

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        self._side.force_full()


class _WithoutState(Operator):
    """The view in batch, where no checkpoint exists that could be read: passes changes on."""

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if MAIN in self.ctx.outputs:
            yield Out(batch)

    def next_keys(self) -> None:
        pass


# --- reading ------------------------------------------------------------------------------------------


def view_columns(shape: StateShape) -> tuple[ViewColumn, ...]:
    """Return the columns of a view from the shape of its state."""
    return tuple(
        ViewColumn(field.name, field.type.label == KEY, field.type.name)
        for described in shape.value.args
        for field in described.fields
    )


def feature_terms(shape: StateShape) -> FeatureTerms | None:
    """Return the terms of the features that a view contains; None if its rows are no features."""
    for described in shape.value.args:
        for written in described.members:
            return msgspec.json.decode(written, type=FeatureTerms)
    return None


def current_rows(parts: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Return the rows of a view that its stored parts contain, in the order of their key groups.

    Args:
        parts: Parts of some key groups, in the order in which they apply; at least one.
        names: Columns of the view. The column `parts.GROUP` follows them.
    """
    groups = np.concatenate([part.column(GROUP).to_numpy() for part in parts])
    rows = last_of_ids(parts, groups)
    rows = rows.filter(pc.invert(rows.column(GONE)))
    order = np.argsort(rows.column(GROUP).to_numpy(), kind="stable")
    rows = rows.take(pa.array(order))
    columns = [*(_restored(rows, name) for name in names), rows.column(GROUP)]
    return pa.table(columns, names=[*names, GROUP])


def _restored(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column of the view, also if it is stored as the two columns of a nullable key."""
    if name in rows.column_names:
        return rows.column(name)
    values = rows.column(value_name(name))
    return pc.if_else(rows.column(absence_name(name)), pa.scalar(None, values.type), values)
