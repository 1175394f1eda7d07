"""The native form of running aggregates in memory: a kernel looks keys up and updates the cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from rheos.core.aggregates.contract import Agg
from rheos.core.native.library import Kernels
from rheos.core.native.running import MOST_ROWS, NativeRows, NativeRunning
from rheos.core.operators.running_state import MemoryRunningState
from rheos.core.protocol.elements import Batch
from rheos.core.state.slots import Slots


class NativeForm:
    """Computes the output of an operator by a kernel, where a kernel knows all of it."""

    def __init__(self, keys: Sequence[str], made: pa.Schema, aggregates: Mapping[str, Agg]) -> None:
        """Create the form. `made` is the schema of the output."""
        self._keys = keys
        self._made = made
        self._columns = {name: agg.column for name, agg in aggregates.items()}
        self._rows: NativeRows | None = None
        self._native: NativeRunning | None = None
        self._of: MemoryRunningState | None = None
        """State that `_native` reads."""
        self._version = 0

    def run(
        self,
        kernels: Kernels,
        state: MemoryRunningState,
        batch: Batch,
        slots_of: Callable[[Batch], Slots],
    ) -> Batch | None:
        """Return the rows with their aggregates; None if the Python form must do the work, and no
        aggregate has changed.

        Args:
            kernels: The kernels.
            state: The state, which is updated.
            batch: Rows of the input; at least one.
            slots_of: Function that adds the keys of a batch to the state, and returns their slots.
        """
        if batch.num_rows > MOST_ROWS:
            return None
        native = self._prepared(state, batch.schema)
        if native is None:
            return None
        if native.looks_up and (made := native.run(kernels, batch, None)) is not None:
            return made
        slots = slots_of(batch)
        native = self._prepared(state, batch.schema)  # New keys may have replaced the arrays.
        return None if native is None else native.run(kernels, batch, slots)

    def _prepared(self, state: MemoryRunningState, given: pa.Schema) -> NativeRunning | None:
        """Return the state as a kernel reads it; None if no kernel knows it, or the batch."""
        rows = self._rows
        if rows is None or not rows.given.equals(given):
            rows = self._rows = NativeRows(given, self._made, self._columns)
            self._of = None
        if self._of is not state or self._version != state.version:
            self._version = state.version
            self._native = self._described(state, rows, self._native if self._of is state else None)
            self._of = state
        return self._native

    def _described(
        self, state: MemoryRunningState, rows: NativeRows, before: NativeRunning | None
    ) -> NativeRunning | None:
        """Return the description of a state that has changed since `before`, which is changed where
        that suffices; None if no kernel knows all cells."""
        of_name = state.native_cells()
        cells = [cell for name, cell in of_name.items() if cell is not None and rows.knows(name, cell)]
        if not rows.is_known or len(cells) < len(of_name):
            return None
        table = state.native_table()
        if before is not None and before.has_grown(table, cells, state.changes, len(state)):
            return before
        return NativeRunning(rows, self._keys[0], table, cells, state.changes, len(state))
