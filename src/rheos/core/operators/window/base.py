"""Base of all window operators: assignment of rows to panes, late rows, firing, snapshots.

A row is in every window that contains its timestamp and for which the row is not late. A row is late
*for a window* that ends at e if e - 1 + lateness <= `__wm`, the watermark of the row's split. So
lateness depends on the data alone. A window fires when the operator's watermark passes e - 1. Rows that
arrive after that fire the window again for their keys. When the watermark passes e - 1 + lateness, the
window is purged.

            __wm of the row
    ----------|------------------------------------> event time
       [ late )[ already fired: update )[ to fire   )
              e - 1 + lateness <= __wm

The operator's watermark exceeds that of a split only if the split was idle. If a row is late only by
the operator's watermark, it is counted as `late_purged` as well as `late`.

This holds for fixed windows. With merging windows, the other rows of a key decide which window a row
goes into (`merging`). A row that may be late is buffered in `late_candidates`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.errors import UnrestorableError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Operator, OperatorContext, Out, Restored
from rheos.core.operators.late_rows import count_late, emit_late
from rheos.core.operators.window.contract import Mask, PaneAssignment
from rheos.core.operators.window.families import family_of
from rheos.core.operators.window.frames import KEY_GROUP, frame_of, key_frame, key_names
from rheos.core.operators.window.kinds import windows_of
from rheos.core.operators.window.layout import PaneLayout
from rheos.core.operators.window.newest_panes import ReduceOf
from rheos.core.operators.window.panes import MemoryBudget, PanePart, PaneStore
from rheos.core.operators.window.pending_rows import PendingRows
from rheos.core.operators.window.progress import FIRED, LaggingKeyGroups, WindowProgress
from rheos.core.operators.window.trigger import Firing
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, TS, WM, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import PartMode, Snapshot, SnapshotPart, StateKind
from rheos.core.state.key_groups import key_groups, refuse_null_keys
from rheos.core.state.pane_segments import Merge, places_of_groups
from rheos.core.state.spill import SpillFolder

if TYPE_CHECKING:
    from rheos.core.operators.window.spec import WindowSpec


class WindowOperator(Operator):
    """Assigns rows to panes, and decides which windows emit results at which time.

    A subclass keeps state by pane. `_index` is its store that has a row for every key and pane.
    """

    _index: PaneStore
    _waiting: PendingRows | None = None
    """Buffered rows that are added to state together; None if rows are added on arrival."""
    _held_ms = 0
    """Delay in ms of the first firing after a window's end; the allowed lateness if `fire_once`."""

    def __init__(self, ctx: OperatorContext, spec: WindowSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        self._windows = windows_of(spec.window)
        self._progress = WindowProgress(ctx, self._windows, spec.lateness_ms, spec.window.time)
        self._keys = key_names(ctx.ports[0].keys)
        folder = None if ctx.scratch is None else SpillFolder(ctx.scratch)
        self._places = places_of_groups(ctx.key_groups, ctx.max_parallelism)
        self._memory = MemoryBudget(ctx.state_bytes, folder, self._places)
        self._family = family_of(
            self._windows, self._keys, self._memory, ctx.ports[0], spec.lateness_ms
        )

    def fire_once(self) -> None:
        """Make each window fire only once, with its last result, when its allowed lateness is over.
        Called before `open` in batch, where rows arrive by event time."""
        self._held_ms = self._spec.lateness_ms

    def _store(self, merge: Merge, reduce_of: ReduceOf | None = None) -> PaneStore:
        """Create a store of panes. The first store has a row for every key and pane. `reduce_of`
        selects the columns that may be stored as arrays."""
        return self._family.store(merge, reduce_of)

    def _stores(self) -> list[PaneStore]:
        """Return all stores."""
        undecided = self._family.undecided
        return [*self._contents(), *(() if undecided is None else (undecided.store,))]

    # --- methods of subclasses ----------------------------------------------------------------------

    @abstractmethod
    def _columns(self) -> Mapping[str, str]:
        """Return the input columns that state consists of: their names in frames, and in the input."""

    @abstractmethod
    def _absorb(self, rows: pl.DataFrame, assigned: PaneAssignment) -> pl.DataFrame:
        """Add rows to state. Return a frame with the key and pane of each row, or of each group."""

    @abstractmethod
    def _fire(self, firing: Firing) -> Iterator[Out]:
        """Yield the results of windows, in the order of their ends."""

    @abstractmethod
    def _contents(self) -> Iterable[PaneStore]:
        """Return the stores of the windows' contents."""

    @abstractmethod
    def _state_names(self) -> list[str]:
        """Return the names of the states that together contain a whole pane."""

    @abstractmethod
    def _layouts(self) -> Iterable[PaneLayout]:
        """Return the layouts of these stores, one or several each."""

    @abstractmethod
    def _restore(self, restored: Restored) -> None:
        """Restore the written state. It reads the tables of a state with `_restored_frames`."""

    # --- rows -----------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        yield from self._catch_up()
        self._refuse_null_keys(batch)
        assigned = self._assigned(batch)
        if assigned.outside:
            self.ctx.count("outside_windows", assigned.outside)
        if assigned.late is not None:
            yield from self._divert(batch.filter(pa.array(assigned.late)), assigned.purged)
        if assigned.undecided is not None:
            undecided = batch.filter(pa.array(assigned.undecided))
            self._family.wait(undecided, self._progress.watermark)
        if assigned.taken is not None:
            batch = batch.filter(pa.array(assigned.taken))
        if batch.num_rows:
            yield from self._take(batch, assigned)

    def _assigned(self, batch: Batch) -> PaneAssignment:
        """Assign the batch's rows to windows."""
        wm = batch.column(WM).to_numpy() if WM in batch.schema.names else None
        ts = batch.column(TS).to_numpy()
        return self._windows.assign(ts, wm, self._spec.lateness_ms, self._progress.watermark)

    def _take(self, batch: Batch, assigned: PaneAssignment) -> Iterator[Out]:
        """Add rows to their windows. Windows that have fired fire again."""
        rows = frame_of(batch, self._columns(), assigned, self._windows.pane)
        fired_through = self._progress.watermark + 1 - self._held_ms
        waiting = self._waiting
        if waiting is not None and int(assigned.panes[1].min()) > fired_through:
            if waiting.add(rows, assigned):
                self._absorb_waiting()
            return
        touched = self._absorb(rows, assigned)
        self._memory.relieve(self._stores())
        yield from self._fire_all(self._family.trigger.refire(touched, fired_through))

    def _absorb_waiting(self, upto: int | None = None) -> None:
        """Add the buffered rows to state, or only those of windows that end at or before `upto`."""
        if self._waiting is not None and self._waiting.first_end is not None:
            for rows, assigned in self._waiting.take(upto):
                self._absorb(rows, assigned)
            self._memory.relieve(self._stores())

    def _decide(self, timestamp_ms: int) -> Iterator[Out]:
        """Add or divert the rows that were buffered until this watermark."""
        for decided in self._family.decided(timestamp_ms):
            rows, assigned = decided.rows, decided.assigned
            if assigned is None:
                yield from self._divert(rows, decided.purged)
                continue
            for of_these in self._by_progress(rows):
                panes = tuple(values[of_these] for values in assigned.panes)
                yield from self._take(rows.filter(pa.array(of_these)), replace(assigned, panes=panes))

    def on_in_flight(self, port: int, batch: Batch) -> Iterator[Out]:
        # Rows of a lagging group arrive before it catches up. They are assigned to windows as in the
        # subtask to which they were sent.
        progress = self._progress
        if not progress.lagging.groups:
            yield from self.on_batch(port, batch)
            return
        self._refuse_null_keys(batch)
        for of_these in self._by_progress(batch):
            yield from self.on_batch(port, batch.filter(pa.array(of_these)))
        groups = key_groups(batch, self.ctx.ports[0].keys, self.ctx.max_parallelism)
        keys = key_frame(batch, dict(zip(self._keys, self.ctx.ports[0].keys, strict=True)))
        progress.lagging.note(keys.with_columns(pl.Series(KEY_GROUP, groups)), self._keys)

    def _by_progress(self, batch: Batch) -> Iterator[Mask]:
        """Yield masks of rows whose groups have fired up to the same time. During each iteration, the
        operator's progress is set to that time."""
        progress = self._progress
        reached, lagging = progress.watermark, progress.lagging
        if not lagging.groups:
            yield np.ones(batch.num_rows, dtype=np.bool_)
            return
        of_groups = np.full(self.ctx.max_parallelism, reached)
        of_groups[list(lagging.groups)] = list(lagging.groups.values())
        fired = of_groups[key_groups(batch, self.ctx.ports[0].keys, self.ctx.max_parallelism)]
        for through in np.unique(fired).tolist():
            progress.watermark, progress.lagging = through, LaggingKeyGroups()
            yield fired == through
            progress.watermark, progress.lagging = reached, lagging

    def _refuse_null_keys(self, batch: Batch) -> None:
        port = self.ctx.ports[0]
        refuse_null_keys(batch, port.keys, port.keyed_at)

    def _count_late(self, late: Batch, purged: int) -> None:
        count_late(self.ctx, late.num_rows, purged)

    def _divert(self, late: Batch, purged: int) -> Iterator[Out]:
        """Count late rows, and emit them if the program has an output for them."""
        self._count_late(late, purged)
        yield from emit_late(self.ctx, self._spec.late_tag, late)

    # --- windows --------------------------------------------------------------------------------------

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        return self._advance(timestamp_ms)

    def _advance(self, timestamp_ms: int) -> Iterator[Out]:
        """Fire and purge the windows that this watermark passes."""
        yield from self._catch_up()
        progress = self._progress
        if timestamp_ms <= progress.watermark:
            return
        yield from self._decide(timestamp_ms)
        if self._waiting is not None and self._waiting.due(timestamp_ms + 1):
            self._absorb_waiting(timestamp_ms + 1)
        trigger = self._family.trigger
        fired, ending = progress.watermark - self._held_ms, timestamp_ms - self._held_ms
        if timestamp_ms == MAX_TIMESTAMP_MS:
            ending = timestamp_ms  # No later watermark follows.
        yield from self._fire_all(trigger.passed(fired + 1, ending + 1))
        progress.watermark = timestamp_ms
        trigger.purge(timestamp_ms + 1 - self._spec.lateness_ms)

    def on_end(self) -> Iterator[Out]:
        return self._catch_up()

    def _fire_all(self, firings: Iterable[Firing]) -> Iterator[Out]:
        if MAIN in self.ctx.outputs:
            for firing in firings:
                yield from self._fire(firing)

    def _catch_up(self) -> Iterator[Out]:
        if self._progress.lagging.groups:
            self._absorb_waiting()
            yield from self._decide(self._progress.watermark)
        lagging, self._progress.lagging = self._progress.lagging, LaggingKeyGroups()
        upto = self._progress.watermark + 1
        for through, keys in lagging.by_watermark():
            yield from self._fire_all(self._family.trigger.passed(through + 1, upto, keys))

    # --- snapshots ------------------------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        self._absorb_waiting()
        return Snapshot(self._parts({store: store.next_part() for store in self._stores()}))

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        if all(part.mode is PartMode.FULL for part in snapshot.parts):
            return snapshot.parts
        return self._parts({store: store.whole() for store in self._stores()})

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        for store in self._stores():
            store.force_full()

    def unordered_state(self) -> list[SnapshotPart]:
        """Return the whole state like a savepoint, but unsorted within key groups, to be passed on."""
        self._absorb_waiting()
        return self._parts({store: store.whole() for store in self._stores()}, in_order=False)

    def _parts(
        self, taken: Mapping[PaneStore, PanePart | None], *, in_order: bool = True
    ) -> list[SnapshotPart]:
        fired = self._progress.table(self._state_names())
        parts = [SnapshotPart(FIRED, StateKind.UNION, lambda: fired)]
        for layout in self._all_layouts():
            part = taken[layout.store]
            if part is not None:
                write = partial(
                    layout.write, part, self._keys, self.ctx.max_parallelism, in_order=in_order
                )
                mode = part.size.mode
                parts.append(SnapshotPart(layout.state, StateKind.KEYED, write, mode, part.unchanged))
        return parts

    def states(self) -> list[str]:
        """Return the names of the operator's keyed states, in the order in which `open` reads them."""
        return [layout.state for layout in self._all_layouts()]

    def _all_layouts(self) -> list[PaneLayout]:
        undecided = self._family.undecided
        return [*self._layouts(), *(() if undecided is None else (undecided.layout,))]

    @property
    def state_bytes(self) -> int:
        """Return the size of its state in memory."""
        waiting = 0 if self._waiting is None else self._waiting.memory_bytes
        return waiting + sum(store.memory_bytes for store in self._stores())

    def next_keys(self) -> None:
        self.close()
        self._progress.begin_anew()

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.clear()
        for store in self._stores():
            store.clear()

    def open(self, restored: Restored) -> None:
        self._progress.restore(restored.get(FIRED, ()))
        self._restore(restored)
        undecided = self._family.undecided
        if undecided is not None:
            columns = [*undecided.kinds, *self._windows.pane]
            state, kinds, nullable = undecided.layout.state, undecided.kinds, undecided.nullable
            for frame in self._restored_frames(restored, state, kinds, nullable):
                self._add(undecided.store, frame.select(columns))

    def _add(self, store: PaneStore, rows: pl.DataFrame) -> None:
        """Add restored rows."""
        store.add(rows)
        self._memory.relieve(self._stores())

    def _restored_frames(
        self,
        restored: Restored,
        state: str,
        kinds: Mapping[str, pl.DataType],
        nullable: Container[str],
        completed: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Yield the tables of a state, without panes that were purged after they were written. They
        have the columns of `kinds`, with these types. `completed` may add columns first. Raise
        UnrestorableError if a column that is not `nullable` is missing."""
        for table in restored.get(state, ()):
            frame = self._progress.unpurged(pl.DataFrame(table))
            if completed is not None:
                frame = completed(frame)
            yield frame.with_columns(self._fitting(state, frame, kinds, nullable))

    def _fitting(
        self,
        state: str,
        frame: pl.DataFrame,
        kinds: Mapping[str, pl.DataType],
        nullable: Container[str],
    ) -> Iterator[pl.Expr]:
        """Yield casts of columns that were written in a narrower form, and nulls for missing ones."""
        for column, kind in kinds.items():
            if column in frame.columns:
                if frame[column].dtype != kind:
                    yield pl.col(column).cast(kind)
            elif column in nullable:
                yield pl.lit(None, kind).alias(column)
            else:
                raise self._missing_state(state, column)

    def _note_restored(self, table: pl.DataFrame) -> None:
        """Note the keys of groups that have to catch up, from a table of the index's state."""
        self._progress.lagging.note(table, self._keys)

    def _missing_state(self, state: str, column: str) -> UnrestorableError:
        return UnrestorableError(
            f"the restored state {state!r} lacks {column!r}, which an aggregate of the program needs",
            site=self.ctx.site,
            operator=self.ctx.name,
            hint="restore with the old aggregates, or change the operator's uid to start it empty",
        )
