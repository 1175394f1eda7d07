"""What all window operators share: late rows, when windows fire, and how that survives a restart.

A row goes into every window that holds its timestamp and for which it is not late. It is late *for a
window* that ends at e when e - 1 + lateness <= `__wm`, the watermark of its own split: by the data
alone. A window fires when the operator's watermark passes e - 1. It is kept for rows that come later,
which fire it again for their keys, until the watermark passes e - 1 + lateness; then it is purged.

            __wm of the row
    ----------|------------------------------------> event time
       [ late )[ already fired: update )[ to fire   )
              e - 1 + lateness <= __wm

The operator's watermark is never ahead of a split's own unless the split was idle. A row that is late
only because of this is late too, and counted as `late_purged` besides `late`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.errors import InputError, UnrestorableError
from rheos.graph.nodes import MAIN, WindowSpec
from rheos.operators.contract import Operator, OperatorContext, Out, Restored
from rheos.operators.records import hidden_column, with_hidden
from rheos.operators.spill import SpillFolder
from rheos.operators.window.assign import Assigned, Ints, WindowGrid, assign, progressions
from rheos.operators.window.firing import Lagging, Which, last_looked_at
from rheos.operators.window.frames import KEY_GROUP, frame_of, key_frame, key_names
from rheos.operators.window.layout import Layout
from rheos.operators.window.panes import PanePart, PaneStore, Room
from rheos.operators.window.segments import END, SLICE, VALID, Merge, cut, places_of_groups
from rheos.protocol.elements import MIN_TIMESTAMP_MS, TS, WM, Batch, strip_hidden
from rheos.protocol.ids import CheckpointId
from rheos.protocol.snapshots import PartMode, Snapshot, SnapshotPart, StateKind
from rheos.state.key_groups import NullKeyError, key_groups

GATHERED_ROWS = 1 << 16
"""How many rows of state are gathered at once, unless one window has more."""

_PAIRS = 1 << 20
"""How many pairs of pane and window are looked at, at once."""

FIRED = "fired"
_FIRED_SCHEMA = pa.schema(
    [
        ("first_group", pa.int32()),
        ("end_group", pa.int32()),
        ("fired_through", pa.int64()),
        ("size_ms", pa.int64()),
        ("slide_ms", pa.int64()),
        ("offset_ms", pa.int64()),
        ("states", pa.list_(pa.string())),
        ("lateness_ms", pa.int64()),
    ]
)


class WindowOperator(Operator):
    """Assigns rows to panes, and decides when which windows give results.

    A subclass keeps state by pane. `_index` is its store that has a row for every key and pane.
    """

    _index: PaneStore

    def __init__(self, ctx: OperatorContext, spec: WindowSpec) -> None:
        super().__init__(ctx)
        self._spec = spec
        self._grid = WindowGrid.of(spec.window)
        self._keys = key_names(ctx.ports[0].keys)
        self._watermark = MIN_TIMESTAMP_MS
        self._lagging = Lagging()
        self._restored_names: set[str] = set()
        folder = None if ctx.scratch is None else SpillFolder(ctx.scratch)
        self._places = places_of_groups(ctx.key_groups, ctx.max_parallelism)
        self._room = Room(ctx.state_bytes, folder, self._places)

    def _store(self, merge: Merge) -> PaneStore:
        return PaneStore(self._grid, merge, self._keys, self._room)

    # --- what a subclass does -----------------------------------------------------------------------

    @abstractmethod
    def _columns(self) -> dict[str, str]:
        """The columns of the input that state is made of: their names in frames, and in the input."""

    @abstractmethod
    def _absorb(self, rows: pl.DataFrame, assigned: Assigned) -> pl.DataFrame:
        """Adds rows to state. Returns a frame with the key and pane of each, or of each group."""

    @abstractmethod
    def _fire(self, which: Which) -> Iterator[Out]:
        """The results of windows, in the order of their ends."""

    @abstractmethod
    def _stores(self) -> Iterable[PaneStore]:
        """All stores."""

    @abstractmethod
    def _state_names(self) -> list[str]:
        """The names of the states that together tell all of a pane."""

    @abstractmethod
    def _layouts(self) -> Iterable[Layout]:
        """How the stores are written: every store by one layout or several."""

    @abstractmethod
    def _restore(self, restored: Restored) -> None:
        """Takes up what was written. It reads the tables of a state by `_restored_frames`."""

    # --- rows -----------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        yield from self._catch_up()
        self._refuse_null_keys(batch)
        wm = batch.column(WM).to_numpy() if WM in batch.schema.names else None
        ts = batch.column(TS).to_numpy()
        assigned = assign(self._grid, ts, wm, self._spec.lateness_ms, self._watermark)
        if assigned.outside:
            self.ctx.count("outside_windows", assigned.outside)
        if assigned.late is not None:
            yield from self._divert(batch.filter(pa.array(assigned.late)), assigned.purged)
        if assigned.taken is not None:
            batch = batch.filter(pa.array(assigned.taken))
        if batch.num_rows:
            rows = frame_of(batch, self._columns(), assigned)
            touched = self._absorb(rows, assigned)
            self._room.relieve(self._stores())
            yield from self._update(touched)

    def on_in_flight(self, port: int, batch: Batch) -> Iterator[Out]:
        # Rows of a group that is behind come before it catches up: they meet the windows as they were
        # in the subtask that the rows were on their way to.
        if not self._lagging.groups:
            yield from self.on_batch(port, batch)
            return
        self._refuse_null_keys(batch)
        groups = key_groups(batch, self.ctx.ports[0].keys, self.ctx.max_parallelism)
        reached, lagging = self._watermark, self._lagging
        fired = np.array([lagging.groups.get(group, reached) for group in groups.tolist()])
        for through in np.unique(fired).tolist():
            of_these = pa.array(fired == through)
            self._watermark, self._lagging = through, Lagging()
            yield from self.on_batch(port, batch.filter(of_these))
            self._watermark, self._lagging = reached, lagging
        keys = key_frame(batch, dict(zip(self._keys, self.ctx.ports[0].keys, strict=True)))
        lagging.note(keys.with_columns(pl.Series(KEY_GROUP, groups)), self._keys)

    def _refuse_null_keys(self, batch: Batch) -> None:
        keys = self.ctx.ports[0].keys
        for position, key in enumerate(keys):
            column = batch.column(key)
            if column.null_count:
                row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                error: InputError = NullKeyError(position, row).located_in(batch, keys)
                raise error.located(site=self.ctx.site, operator=self.ctx.name)

    def _divert(self, late: Batch, purged: int) -> Iterator[Out]:
        """Counts late rows, and emits them where they are wanted."""
        self.ctx.count("late", late.num_rows)
        if purged:
            self.ctx.count("late_purged", purged)
        tag = self._spec.late_tag
        if tag is None or tag not in self.ctx.outputs:
            return
        hidden = hidden_column(late, TS), hidden_column(late, WM)
        batch = with_hidden(strip_hidden(late), self.ctx.outputs[tag].schema, *hidden)
        for begin in range(0, batch.num_rows, self.ctx.batch_rows):
            yield Out(batch.slice(begin, self.ctx.batch_rows), tag)

    # --- windows --------------------------------------------------------------------------------------

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        yield from self._catch_up()
        if timestamp_ms <= self._watermark:
            return
        for first_end, last_end in self._due(self._watermark + 1, timestamp_ms + 1):
            yield from self._fire_parts(first_end, last_end, None)
        self._watermark = timestamp_ms
        for store in self._stores():
            store.purge(timestamp_ms + 1 - self._spec.lateness_ms)

    def on_end(self) -> Iterator[Out]:
        return self._catch_up()

    def _update(self, touched: pl.DataFrame) -> Iterator[Out]:
        """Fires the windows again that had fired before these keys got more rows."""
        valids = touched[VALID].to_numpy()
        if int(valids.min()) > self._watermark + 1:
            return
        slices = touched[SLICE].to_numpy()
        first, count = self._grid.due(slices, valids, MIN_TIMESTAMP_MS, self._watermark + 1)
        ends, owner = progressions(first, count, self._grid.slide)
        only = touched.select(self._keys)[owner].with_columns(pl.Series(END, ends)).unique()
        among = np.unique(ends)
        for first_end, last_end in self._due(int(among[0]) - 1, int(among[-1]), among):
            yield from self._fire_parts(first_end, last_end, only)

    def _due(self, above: int, upto: int, among: Ints | None = None) -> Iterator[tuple[int, int]]:
        """The windows that have rows and end after `above`, `upto` at the latest, as ranges of ends in
        ascending order. Where `among` is given, only ranges that hold one of these ends."""
        if MAIN not in self.ctx.outputs:
            return
        grid = self._grid
        slices, valids, sizes = self._index.panes()
        while True:
            first, count = grid.due(slices, valids, above, upto)
            if not count.any():
                return
            horizon = upto
            if int(count.sum()) > _PAIRS:
                horizon = last_looked_at(grid, slices, valids, above, upto, _PAIRS)
                first, count = grid.due(slices, valids, above, horizon)
            ends, owner = progressions(first, count, grid.slide)
            rows = sizes[owner]
            if among is not None:
                wanted = np.isin(ends, among)
                ends, rows = ends[wanted], rows[wanted]
            windows, window = np.unique(ends, return_inverse=True)
            weight = np.bincount(window, weights=rows, minlength=len(windows))
            chunk = (np.cumsum(weight) - weight) // GATHERED_ROWS
            bounds = np.concatenate([[0], np.flatnonzero(np.diff(chunk)) + 1, [len(windows)]])
            for begin, stop in pairwise(bounds):
                if begin < stop:
                    yield int(windows[begin]), int(windows[stop - 1])
            above = horizon

    def _fire_parts(self, first_end: int, last_end: int, only: pl.DataFrame | None) -> Iterator[Out]:
        """Fires at once what memory takes at once."""
        parts = max(store.parts(first_end, last_end) for store in self._stores())
        for places in cut(self._places, parts):
            yield from self._fire(Which(first_end, last_end, only, places))

    # --- snapshots ------------------------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        return Snapshot(self._parts({store: store.next_part() for store in self._stores()}))

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        if all(part.mode is PartMode.FULL for part in snapshot.parts):
            return snapshot.parts
        return self._parts({store: store.whole() for store in self._stores()})

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        for store in self._stores():
            store.force_full()

    def unordered_state(self) -> list[SnapshotPart]:
        """The whole state as a savepoint has it, but in no order within a key group: for who hands it
        on at once."""
        return self._parts({store: store.whole() for store in self._stores()}, in_order=False)

    def _parts(
        self, taken: Mapping[PaneStore, PanePart | None], *, in_order: bool = True
    ) -> list[SnapshotPart]:
        fired = self._fired_table()
        parts = [SnapshotPart(FIRED, StateKind.UNION, lambda: fired)]
        for layout in self._layouts():
            part = taken[layout.store]
            if part is not None:
                write = partial(
                    layout.write, part, self._keys, self.ctx.max_parallelism, in_order=in_order
                )
                mode = part.size.mode
                parts.append(SnapshotPart(layout.state, StateKind.KEYED, write, mode, part.unchanged))
        return parts

    def states(self) -> list[str]:
        """The names of its keyed states, in the order in which `open` reads them."""
        return [layout.state for layout in self._layouts()]

    @property
    def state_bytes(self) -> int:
        """How much memory its state takes."""
        return sum(store.memory_bytes for store in self._stores())

    def next_keys(self) -> None:
        assert not self._lagging.groups, "what was restored has caught up"
        self.close()
        self._watermark = MIN_TIMESTAMP_MS

    def close(self) -> None:
        for store in self._stores():
            store.clear()

    def open(self, restored: Restored) -> None:
        self._restore_fired(restored.get(FIRED, ()))
        self._restore(restored)

    def _fired_table(self) -> pa.Table:
        groups = self.ctx.key_groups
        fired = np.full(len(groups), self._watermark)
        for group, through in self._lagging.groups.items():
            fired[group - groups.start] = through
        starts = np.concatenate([[0], np.flatnonzero(np.diff(fired)) + 1])[: len(fired)]
        ends = np.concatenate([starts[1:], [len(fired)]])[: len(starts)]
        grid = self._grid
        rows = len(starts)
        columns = [
            starts + groups.start,
            ends + groups.start,
            fired[starts],
            *(np.full(rows, value) for value in (grid.size, grid.slide, grid.offset)),
            [self._state_names()] * rows,
            np.full(rows, self._spec.lateness_ms),
        ]
        return pa.Table.from_arrays(
            [pa.array(column, of.type) for column, of in zip(columns, _FIRED_SCHEMA, strict=True)],
            schema=_FIRED_SCHEMA,
        )

    def _restore_fired(self, tables: Iterable[pa.Table]) -> None:
        # Subtasks need not have the same watermark at a barrier: where channels turn idle and back,
        # it depends on how each subtask met their marks. So what has fired is known by key group. The
        # subtask goes on from the highest watermark of its own groups, as windows of these are purged
        # already; groups that were behind catch up first. Nothing fires twice, and nothing is lost.
        own = self.ctx.key_groups
        fired = np.full(len(own), MIN_TIMESTAMP_MS)
        purged = np.full(len(own), MIN_TIMESTAMP_MS)
        grid = self._grid
        for table in tables:
            for row in table.to_pylist():
                if (row["size_ms"], row["slide_ms"], row["offset_ms"]) != (
                    grid.size,
                    grid.slide,
                    grid.offset,
                ):
                    raise UnrestorableError(
                        f"the state was made with windows of {row['size_ms']} ms every "
                        f"{row['slide_ms']} ms, offset {row['offset_ms']} ms, and the program now says "
                        f"{grid.size} ms every {grid.slide} ms, offset {grid.offset} ms",
                        site=self.ctx.site,
                        operator=self.ctx.name,
                        hint="keep the windows, or give the operator another uid to start it afresh",
                    )
                self._restored_names.update(row["states"])
                begin, stop = max(row["first_group"], own.start), min(row["end_group"], own.stop)
                if begin < stop:
                    mine = slice(begin - own.start, stop - own.start)
                    fired[mine] = row["fired_through"]
                    # Parts written without it are whole.
                    if "lateness_ms" in row:
                        purged[mine] = row["fired_through"] + 1 - row["lateness_ms"]
        if len(fired):
            self._watermark = int(fired.max())
        behind = np.flatnonzero(fired < self._watermark)
        self._lagging = Lagging({own.start + int(group): int(fired[group]) for group in behind})
        self._purged = purged

    def _add(self, store: PaneStore, rows: pl.DataFrame) -> None:
        """Adds restored rows."""
        store.add(rows)
        self._room.relieve(self._stores())

    def _restored_frames(
        self, restored: Restored, state: str, kinds: Mapping[str, pl.DataType]
    ) -> Iterator[pl.DataFrame]:
        """The tables of a state, without the panes that were purged after they were written, and with
        the columns of `kinds` in these types. Raises UnrestorableError where one lacks a column."""
        for table in restored.get(state, ()):
            frame = pl.DataFrame(table)
            groups = frame[KEY_GROUP].to_numpy().astype(np.int64) - self.ctx.key_groups.start
            there = self._grid.last_end(frame[SLICE].to_numpy()) > self._purged[groups]
            frame = frame if there.all() else frame.filter(pl.Series(there))
            yield frame.with_columns(self._fitting(state, frame, kinds))

    def _fitting(
        self, state: str, frame: pl.DataFrame, kinds: Mapping[str, pl.DataType]
    ) -> Iterator[pl.Expr]:
        """The columns that were written otherwise: narrower, or not at all where they may be null."""
        for column, kind in kinds.items():
            if column in frame.columns:
                if frame[column].dtype != kind:
                    yield pl.col(column).cast(kind)
            elif column in self._nullable():
                yield pl.lit(None, kind).alias(column)
            else:
                raise self._missing_state(state, column)

    def _nullable(self) -> Container[str]:
        """The columns that restored state can do without."""
        return ()

    def _note_restored(self, table: pl.DataFrame) -> None:
        """Finds the keys of the groups that have to catch up, in a table of the index's state."""
        self._lagging.note(table, self._keys)

    def _catch_up(self) -> Iterator[Out]:
        lagging, self._lagging = self._lagging, Lagging()
        for through, keys in lagging.by_watermark():
            for first_end, last_end in self._due(through + 1, self._watermark + 1):
                yield from self._fire_parts(first_end, last_end, keys)

    def _missing_state(self, state: str, column: str) -> UnrestorableError:
        return UnrestorableError(
            f"the restored state {state!r} lacks {column!r}, which an aggregate of the program needs",
            site=self.ctx.site,
            operator=self.ctx.name,
            hint="restore with the aggregates the state was made with, or give the operator another "
            "uid to start it afresh",
        )
