"""The source operator: reads its share of the splits, assigns event time, generates watermarks.

Requirement: the event time and split watermark of a row depend on its split alone. `__ts` is the row's
event time. `__wm` is the split's watermark just before the row: the latest event time so far, less the
bound and one. Neither depends on how rows are cut into batches, on other splits or on the parallelism;
after a restore, a split continues from its position. `__swm`, the operator's own watermark just before
the row, does depend on other splits. Its value is what the operator would emit if it emitted a
watermark after each row.

    split a   rows at   10   12   11   20          bound 3
              __ts      10   12   11   20
              __wm       -    6    8    8          (- is MIN_TIMESTAMP_MS)
              then the split's watermark is 16

The engine calls `poll`; the operator has no input ports.

Splits may be discovered while the job runs (`found`). Every subtask is notified of all of them, in the
same order, and reads those assigned to it. A source that may discover splits does not end; if no rows
are left to read, it is idle.

Splits have phases. A split waits until those of lower phases are read, in all subtasks. Each subtask
reports the phase that it has reached (`reached_phase`), and the driver announces the phase that may be
opened (`open_phase`). State holds the splits of all subtasks, so that each knows by itself what was
read before a restore.

A split may follow others of its phase, and waits until these are read. Each subtask reports the splits
that it has read (`take_read_splits`), and the driver announces them (`splits_ended`).

```python
def build(env):
    clicks = env.from_source(
        rh.collection([{"page": "home", "at": at} for at in (10, 12, 11, 20, 9, 18)]),
        watermark=rh.Watermark.bounded_out_of_orderness("3ms", on="at"),
    )
    counts = clicks.key_by("page").window(rh.Tumbling("10ms")).aggregate(n=rh.agg.count())
    return {"counts": counts, "late": counts.side_output("late")}

done = simulate(build)
assert sorted(done.rows["counts"]["n"].to_pylist()) == [1, 4]
assert done.rows["late"]["at"].to_pylist() == [9]
```
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    ReaderContext,
    Source,
    Split,
    TimeReached,
)
from rheos.core.connectors.rejected_records import SKIPPED, BadRecord, rows_ahead
from rheos.core.errors import RheosError
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.render import spell_watermark
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.ahead_rows import AHEAD, AheadRows
from rheos.core.operators.contract import Operator, OperatorContext, Out, PortType, Restored, RowSpec
from rheos.core.operators.event_times import split_watermarks
from rheos.core.operators.origins import NoRow, Origin
from rheos.core.operators.source_alignment import DRIFT_LOOK_US, SourceAlignment
from rheos.core.operators.source_client import ClientNotices
from rheos.core.operators.source_forgetting import SourceForgetting
from rheos.core.operators.source_progress import Pauses, SourceProgress, source_progress
from rheos.core.operators.source_split import SPLIT_ROWS, SPLITS, SplitState
from rheos.core.operators.watermarks import progress_shapes, reach_of
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, SPLIT, SWM, WM, Batch
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.polars_frames import table_of_rows
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.shown_rows import shown_record
from rheos.core.protocol.snapshots import Snapshot, SnapshotPart, StateKind
from rheos.core.redaction import redacted

REJECTED = "rejected"
"""Tag of the side output of rejected rows."""

MAX_OPEN_SPLITS = 16
"""Maximum number of splits with an end that a subtask reads at a time. The others wait, and hold back
the watermark. Endless splits are all open: one that waited for others would never be read."""


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """Result of `poll` when all splits of the subtask are read to their ends."""


Read: TypeAlias = list[Out] | Pending | EndOfInput


@dataclass(frozen=True)
class SourceSpec(RowSpec):
    """Reads splits, assigns event time, generates watermarks."""

    kind: ClassVar[str] = "source"
    keeps_splits: ClassVar[bool] = True
    side_outputs_hint: ClassVar[str | None] = (
        'the side output "rejected" exists only if the source skips bad rows (on_error="skip")'
    )

    source: Source
    watermark: Watermark | None
    until_now: bool = False
    """Whether the job stops after the rows that the source holds when the job starts; set at the start.
    """
    columns: tuple[str, ...] | None = None
    """Columns that the operator emits; None: all. Set by the planner. Other columns are not read, if
    the source can leave them out."""
    only: pl.Expr | None = field(default=None, compare=False)
    """Condition for reading a split, on columns that are known per split; None: all are read. Set by
    the planner."""

    def operator(self, ctx: OperatorContext, splits: Sequence[Split] = ()) -> Operator:
        """Build the operator. `splits` are all splits of the source."""
        return SourceOperator(ctx, self, splits)

    @property
    def columns_to_read(self) -> frozenset[str]:
        """Return the columns of the source that it emits, or takes event time from."""
        schema = self.source.schema
        if self.columns is None:
            return frozenset(schema.names)
        stamped = self.watermark.columns_read(schema) if self.watermark is not None else ()
        return frozenset(self.columns).union(stamped)

    @property
    def reads_from(self) -> Source | None:
        return self.source

    @property
    def stamps(self) -> Watermark | None:
        return self.watermark

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        value = TypeShape(name="source", label=self.source.positions())
        positions = StateShape(kind=StateKind.UNION, holds=StatePurpose.POSITIONS, value=value)
        return {SPLITS: positions, **progress_shapes(self.watermark)}

    def origin(self) -> Origin:
        return NoRow()

    def differs_elsewhere(self) -> Sequence[str]:
        if self.watermark is None or self.watermark.on is not None:
            return ()
        return ("it uses ingestion time, which in a replay differs from the job's",)

    def summary(self) -> str:
        source = self.source
        ends = "bounded" if source.bounded else "never ends"
        reads = f"reads {redacted(source.describe())} ({ends})"
        if self.watermark is None:
            return f"{reads}; no event time"
        return f"{reads}; {spell_watermark(self.watermark)}"


class SourceOperator(Operator):
    """Reads its share of all `splits`: those whose index modulo the parallelism is the subtask. State
    holds the splits of all subtasks, so a job restores at any parallelism."""

    def __init__(self, ctx: OperatorContext, spec: SourceSpec, splits: Sequence[Split]) -> None:
        super().__init__(ctx)
        self._spec = spec
        self._all = list(splits)
        self._waiting: deque[SplitState] = deque()
        self._open: list[SplitState] = []
        self._finished: list[dict[str, object]] = []
        """State rows of the finished splits. There may be many, and they do not change."""
        self._open_phase = 0
        """Highest open phase. Splits of higher phases wait."""
        self._last_phase = 0
        follows = capabilities.orders_splits(spec.source)
        self.announces_splits = follows and ctx.parallelism > 1
        """Whether splits of this subtask may follow those of others."""
        self._read_ids: set[str] | None = set() if follows else None
        """Ids of the splits of all subtasks that were read; None if no split follows another."""
        self._newly_read: list[str] = []
        self.until_now = spec.until_now
        self.may_stop = capabilities.may_stop(spec.source)
        """Whether the job stops after the rows that the source holds now."""
        goes_on = spec.until_now and not spec.source.bounded
        self.may_find = goes_on or capabilities.discovery_ms(spec.source) is not None
        """Whether unknown splits may be discovered, in this run or in a later one."""
        self._known: set[str] = set()
        """Ids of the splits of all subtasks, and of those that must not be read."""
        forget_ms = capabilities.forget_ms(spec.source)
        self._forgetting = None if forget_ms is None else SourceForgetting(spec.source, forget_ms)
        self._forgotten: set[str] = set()
        """Ids of this subtask's splits that are forgotten as soon as they are read."""
        self._discovered = 0
        """Number of splits that were assigned to all subtasks together."""
        self._turn = 0
        self._outs: list[Out] = []
        self._waiting_ms = MAX_TIMESTAMP_MS
        """Least watermark of the splits that wait to be opened."""
        self._watermark = MIN_TIMESTAMP_MS
        strategy = spec.watermark
        self._bound_ms = 0 if strategy is None else strategy.bound_ms
        self._reach = reach_of(ctx, strategy)
        max_ahead_ms = None if strategy is None else strategy.max_ahead_ms
        self._ahead = None if max_ahead_ms is None else AheadRows(max_ahead_ms)
        self._periods_us: list[int] = []
        """Intervals in µs at which `poll` has to be called to update event-time progress."""
        if self._reach.period_ms is not None:
            self._periods_us.append(self._reach.period_ms * 1000)
        self._periodic_us = 0
        max_drift_ms = None if strategy is None else strategy.max_drift_ms
        self.alignment: SourceAlignment | None = None
        """Watermark alignment, if splits wait for slower ones."""
        if max_drift_ms is not None:
            self.alignment = SourceAlignment(
                ctx, self._open, max_drift_ms=max_drift_ms, bound_ms=self._bound_ms
            )
        idle_after_ms = None if strategy is None else strategy.idle_after_ms
        self._idle_after_us = None if idle_after_ms is None else idle_after_ms * 1000
        self._idle_afters_us = [] if self._idle_after_us is None else [self._idle_after_us]
        read = spec.columns_to_read
        less = None if spec.columns is None else capabilities.reading(spec.source, read)
        self._read = spec.source if less is None else less
        if spec.only is not None:
            self._read = capabilities.skipping(self._read, spec.only)
        main = ctx.outputs.get(MAIN)
        self._schema = None if main is None else main.schema
        self._carries_wm = main is not None and WM in main.schema.names
        self._carries_swm = main is not None and SWM in main.schema.names
        self._carries_split = main is not None and SPLIT in main.schema.names
        self._reader_context = ReaderContext(ctx.clock, ctx.io, ctx.count, self._reject, ctx.io.wake)
        self.pauses = Pauses()
        self._client: ClientNotices | None = None
        self._has_opened = False

    def open(self, restored: Restored) -> None:
        self._reach.restore(restored)
        if self._ahead is not None:
            self._ahead.restore(restored)
        rows = [row for table in restored.get(SPLITS, ()) for row in table.to_pylist()]
        known = {row["split"]: row for row in rows}
        listed = {split.id for split in self._all}
        gone = [
            # Older state has no phases.
            Split(name, known[name]["payload"], known[name].get("phase", 0))
            for name in sorted(known.keys() - listed)
        ]
        payloads = {name: row["payload"] for name, row in known.items()}
        source = self._spec.source
        listed_now = capabilities.resumed(source, self._all, payloads) if known else self._all
        if self._forgetting is not None:
            before = [Split(name, payload) for name, payload in payloads.items()]
            unread = self._forgetting.restored(before, listed_now)
            listed_now = [split for split in listed_now if split.id not in unread]
            listed -= unread
        everything = [*listed_now, *gone]
        phases = [s.phase for s in everything if s.id not in known or not known[s.id]["finished"]]
        coming = [capabilities.discovery_phase(self._spec.source)] if self.may_find else []
        self._last_phase = max([*coming, *(split.phase for split in everything)], default=0)
        self._open_phase = min(phases, default=self._last_phase)
        self._known = listed | known.keys()
        if self._read_ids is not None:
            self._read_ids.update(name for name, row in known.items() if row["finished"])
        unread_own: list[SplitState] = []
        for split in self._share_of(everything):
            row = known.get(split.id)
            state = self._state_of(split)
            if row is not None:
                state.position = row["position"]
                if self._reach.clock_ms is None:
                    # A program that used a column before may have been ahead of the clock.
                    state.max_ts = row["max_ts"]
            if row is not None and row["finished"]:
                self._finished.append(state.row(finished=True))
            else:
                unread_own.append(state)
        self._wait(unread_own)

    def found(self, splits: Sequence[Split]) -> None:
        """Assign newly discovered splits to subtasks, and read this subtask's like its others. All
        subtasks are called with the same splits in the same order."""
        new = [split for split in splits if split.id not in self._known]
        if self._forgetting is not None:
            with self._located():
                self._forgetting.found(splits, new)
        self._known.update(split.id for split in new)
        own = [self._state_of(split) for split in self._share_of(new)]
        if own:
            self.ctx.count("splits_found", len(own))
            self._wait(own)

    def gone(self, ids: Sequence[str], *, whole: bool) -> None:
        """Note splits that are no longer in the source; `whole` means that all existing splits were
        found. All subtasks are called with the same splits."""
        if self._forgetting is None:
            return
        with self._located():
            forgotten = self._forgetting.gone(ids, whole=whole)
        if forgotten:
            self._known -= forgotten
            unread = {state.split.id for state in (*self._open, *self._waiting)}
            self._forgotten |= forgotten & unread
            self._finished = [row for row in self._finished if row["split"] not in forgotten]

    def _share_of(self, splits: Sequence[Split]) -> Sequence[Split]:
        """Return this subtask's share of the next splits, which all subtasks assign in the same way."""
        subtask, parallelism = self.ctx.subtask, self.ctx.parallelism
        first = (subtask - self._discovered) % parallelism
        self._discovered += len(splits)
        return splits[first::parallelism] if subtask < parallelism else ()

    def _state_of(self, split: Split) -> SplitState:
        return SplitState(
            split,
            self._earliest_watermark(split),
            capabilities.is_endless(self._spec.source, split),
            capabilities.read_after(self._spec.source, split),
        )

    def _earliest_watermark(self, split: Split) -> int:
        """Return the highest watermark for which no row of the split is late."""
        strategy = self._spec.watermark
        if strategy is None or self._reach.clock_ms is not None:
            return MIN_TIMESTAMP_MS
        earliest = capabilities.earliest_ms(self._spec.source, split, strategy.column)
        return MIN_TIMESTAMP_MS if earliest is None else max(earliest - 1, MIN_TIMESTAMP_MS)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        raise AssertionError("a source has no input")

    # --- what the engine calls ----------------------------------------------------------------------

    def poll(self, max_rows: int) -> Read:
        """Return rows of several splits, at most `max_rows` on the main output, or the reason why there
        are none.

        Rejected rows are batches with the tag `rejected`, which do not count towards `max_rows`. Read
        `watermark` and `idle` after each poll. After `EndOfInput`, `poll` is not called again.
        """
        try:  # Not by `_located`: a context manager costs as much as a small read.
            return self._poll(max_rows)
        except RheosError as error:
            raise self._placed(error) from error.__cause__

    @contextmanager
    def _located(self) -> Iterator[None]:
        try:
            yield
        except RheosError as error:
            raise self._placed(error) from error.__cause__

    def _placed(self, error: RheosError) -> RheosError:
        return error.located(site=self.ctx.site, operator=self.ctx.name)

    def watermark(self) -> int:
        """Return the least watermark of the unfinished splits that are not idle. It never falls."""
        if self._reach.period_ms is not None:
            self._reach_periodically(self._reach.period_ms)
        if self._reach.clock_ms is None:
            marks = [state.watermark(self._bound_ms) for state in self._open if not state.idle]
            if self._waiting:
                marks.append(self._waiting_ms)
        else:
            may_read = self._open or self._waiting or self.may_find
            marks = [self._reach.clock_ms - 1] if may_read else []
        if marks:
            merged = min(marks)
        elif self._open or self.may_find:
            merged = self._watermark
        else:
            merged = MAX_TIMESTAMP_MS
        self._watermark = max(self._watermark, merged)
        return self._watermark

    def idle(self) -> bool:
        """Return whether the operator is idle. It is if open splits exist or may be discovered, and all
        open splits have had no rows for `idle_after`. It never is if event time follows the clock."""
        if self._reach.clock_ms is not None:
            return False
        may_read = bool(self._open) or self.may_find
        return may_read and not self._waiting and all(state.idle for state in self._open)

    def unread(self, idle_after_us: int | None) -> list[tuple[int, bool]]:
        """Return the splits that are not read to their ends, by number, each with whether it has had no
        rows for `idle_after_us`."""
        now_us = self.ctx.clock.monotonic_us()
        found = [(state.number, state.is_quiet(now_us, idle_after_us)) for state in self._open]
        return found + [(state.number, False) for state in self._waiting]

    def progress(self, now_ms: int) -> SourceProgress:
        """Return the progress for the metrics; `now_ms` is the wall-clock time."""
        by_column = self._spec.watermark is not None and self._reach.clock_ms is None
        now_us = self.ctx.clock.monotonic_us() if by_column else None
        return source_progress(self._open, len(self._waiting), self._bound_ms, now_ms, now_us)

    def wake_every(self, period_us: int) -> None:
        """Register a further interval at which `poll` has to be called."""
        self._periods_us.append(period_us)

    def wake_for_idle(self, idle_after_us: int) -> None:
        """Register a further time without rows, after which `poll` has to be called."""
        self._idle_afters_us.append(idle_after_us)

    # --- phases ---------------------------------------------------------------------------------------

    @property
    def waits_for_others(self) -> bool:
        """Return whether later phases exist that open only when other subtasks have read earlier
        ones."""
        return self.ctx.parallelism > 1 and self._open_phase < self._last_phase

    def reached_phase(self) -> int:
        """Return the lowest phase with splits that this subtask has to read, else the last phase."""
        phases = [state.split.phase for state in self._open]
        if self._waiting:
            phases.append(self._waiting[0].split.phase)
        return min(phases, default=self._last_phase)

    def open_phase(self, phase: int) -> None:
        """Open the splits up to `phase`: all subtasks have read the lower phases."""
        self._open_phase = max(self._open_phase, phase)

    def take_read_splits(self) -> list[str]:
        """Return the splits that this subtask has read since the last call."""
        read, self._newly_read = self._newly_read, []
        return read

    def splits_ended(self, ids: Sequence[str]) -> None:
        """Open the splits that follow these, which were read by any subtask."""
        if self._read_ids is not None:
            self._read_ids.update(ids)

    def has_caught_up(self) -> bool:
        """Return, for a job that stops at what the source held at its start, whether all such rows of
        this subtask were emitted."""
        readers = (state.reader for state in self._open)
        return not self._waiting and all(
            reader is not None and capabilities.has_caught_up(reader) for reader in readers
        )

    def stop_reason(self) -> str | None:
        """Return why a reader cannot continue with this program; None if all can."""
        for state in self._open:
            if state.reader is not None and (why := capabilities.stop_reason(state.reader)):
                return why
        return None

    # --- reading --------------------------------------------------------------------------------------

    def _poll(self, max_rows: int) -> Read:
        left = max_rows
        has_read = False
        wakes: list[int] = []
        if self._client is not None:
            self._client.poll()
        self._open_more()
        order = self._open[self._turn :] + self._open[: self._turn]
        if self.alignment is not None:
            self.alignment.look()
        for state in order:
            if left <= 0:
                break
            if self.alignment is not None and self.alignment.holds(state):
                wakes.append(DRIFT_LOOK_US)
                continue
            assert state.reader is not None
            polled = state.reader.poll(left)
            if isinstance(polled, EndOfSplit):
                self._finish(state)
            elif isinstance(polled, Pending):
                wakes += self._quiet(state, polled)
            elif isinstance(polled, TimeReached):
                state.quiet_since_us, state.idle = None, False
                if self._reach.clock_ms is None:
                    state.reached(polled.event_time_ms, self.ctx.clock.monotonic_us())
                has_read = True
            else:
                state.quiet_since_us, state.idle = None, False
                has_read = True
                if polled.num_rows:
                    self._outs += self._stamped(state, polled)
                    left -= polled.num_rows
        if left < max_rows:
            self.pauses.received(self.ctx.clock.monotonic_us())
        self._turn = (self._turn + 1) % len(self._open) if self._open else 0
        if self._outs:
            outs, self._outs = self._outs, []
            return outs
        if not self._open and not self._waiting and not self.may_find:
            return EndOfInput()
        wakes += self._periods_us
        if has_read or len(order) != len(self._open):
            # Rows that no operator needs were read, or a split has ended and the next may have some.
            return Pending(0)
        return Pending(min(wakes) if wakes else None)

    def _open_more(self) -> None:
        if self.ctx.parallelism == 1 and self._open_phase < self._last_phase:
            self.open_phase(self.reached_phase())
        while (at := self._next_to_open()) is not None:
            state = self._waiting[at]
            if not state.endless and self._ending() >= MAX_OPEN_SPLITS:
                return
            del self._waiting[at]
            if all(other.before > self._waiting_ms for other in self._waiting):
                self._note_waiting()
            self._make_client()
            state.reader = self._read.open(state.split, state.position, self._reader_context)
            state.advanced_us = self.ctx.clock.monotonic_us()
            self._open.append(state)

    def _next_to_open(self) -> int | None:
        """Return the index of the first waiting split that waits for no other; None if all do."""
        for at, state in enumerate(self._waiting):
            if state.split.phase > self._open_phase:
                return None
            if not state.after or not any(map(self._is_unread, state.after)):
                return at
        return None

    def _is_unread(self, id: str) -> bool:
        """Return whether a split exists that is not read to its end. Others may be forgotten."""
        assert self._read_ids is not None, "splits follow others only if the source declares it"
        return id in self._known and id not in self._read_ids

    def _make_client(self) -> None:
        """Create the client that the readers share, before the first reader is opened."""
        if self._has_opened:
            return
        self._has_opened = True
        context = self._reader_context
        context.client = capabilities.shared_client(self._spec.source, context)
        if context.client is not None:
            self._client = ClientNotices(context.client, context.io, context.count)

    def _wait(self, states: Sequence[SplitState]) -> None:
        """Queue further splits: lower phases first, and within a phase endless splits first. There may
        be many calls with many splits, which mostly belong at the end of the queue."""
        behind = sorted(states, key=SplitState.place)
        out_of_order = self._waiting and behind and behind[0].place() < self._waiting[-1].place()
        self._waiting.extend(behind)
        if out_of_order:
            self._waiting = deque(sorted(self._waiting, key=SplitState.place))
        self._waiting_ms = min([self._waiting_ms, *(state.before for state in states)])

    def _note_waiting(self) -> None:
        self._waiting_ms = min((state.before for state in self._waiting), default=MAX_TIMESTAMP_MS)

    def _ending(self) -> int:
        """Return the number of open splits that have an end."""
        return sum(not state.endless for state in self._open)

    def _finish(self, state: SplitState) -> None:
        assert state.reader is not None
        state.position = state.reader.position()
        state.reader.close()
        state.reader = None
        self._open.remove(state)
        if self._read_ids is not None:
            self._read_ids.add(state.split.id)
            if self.announces_splits:
                self._newly_read.append(state.split.id)
        if state.split.id in self._forgotten:
            self._forgotten.remove(state.split.id)
        else:
            self._finished.append(state.row(finished=True))

    def _quiet(self, state: SplitState, pending: Pending) -> list[int]:
        """Note that a split has no rows now, and return the times at which to poll again."""
        wakes = [] if pending.wake_after_us is None else [pending.wake_after_us]
        if self._idle_afters_us:
            now = self.ctx.clock.monotonic_us()
            if state.quiet_since_us is None:
                state.quiet_since_us = now
            quiet_us = now - state.quiet_since_us
            state.idle = state.is_quiet(now, self._idle_after_us)
            wakes += [after_us - quiet_us for after_us in self._idle_afters_us if after_us > quiet_us]
        return wakes

    def _reject(self, batch: Batch) -> None:
        output = self.ctx.outputs.get(REJECTED)
        if output is None:
            return
        if self._ahead is not None:
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=output.type.schema)
        self._outs.append(Out(batch, REJECTED))

    # --- event time -----------------------------------------------------------------------------------

    def _emitted(self, batch: Batch) -> list[pa.Array]:
        names = self._spec.columns
        shown: list[pa.Array] = (batch if names is None else batch.select(names)).columns
        return shown

    def _stamped(self, state: SplitState, batch: Batch) -> list[Out]:
        strategy = self._spec.watermark
        polled = batch
        if strategy is not None:
            ts = self._reach.times(batch, first=state.max_ts == MIN_TIMESTAMP_MS)
        if self._ahead is not None:
            counts = self._ahead.counting(state.split.id, ts)
            if counts is not None:
                self._reject_ahead(state, polled, ts, np.flatnonzero(~counts))
                batch, ts = batch.filter(pa.array(counts)), ts[counts]
                if not len(ts):
                    return []
        number = [pa.array(np.full(batch.num_rows, state.number))] if self._carries_split else []
        if strategy is None and not number and self._is_output(batch):
            return [Out(batch)]
        if strategy is None:
            return self._fit_output([*self._emitted(batch), *number])
        reached = np.maximum.accumulate(self._reach.of_rows(state.split.id, batch, ts))
        before = state.max_ts
        state.reached(int(reached[-1]), self.ctx.clock.monotonic_us())
        columns = [*self._emitted(batch), pa.array(ts)]
        if self._carries_wm or self._carries_swm:
            wm = split_watermarks(reached, before, self._bound_ms)
        if self._carries_wm:
            columns.append(pa.array(wm))
        if self._carries_swm:
            columns.append(pa.array(self._merged(state, wm)))
        return self._fit_output([*columns, *number])

    def _reject_ahead(
        self, state: SplitState, batch: Batch, ts: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> None:
        self.ctx.count(AHEAD, len(rows))
        self.ctx.count(SKIPPED, len(rows))
        output, strategy = self.ctx.outputs.get(REJECTED), self._spec.watermark
        if output is None:
            return
        assert strategy is not None
        assert state.reader is not None
        bad = [
            BadRecord(
                shown_record(batch, row),
                None,
                f"its event time {np.datetime64(time, 'ms')}Z is more than {strategy.max_ahead} "
                f"ahead of its split {state.split.id!r}",
            )
            for row, time in zip(rows.tolist(), ts[rows].tolist(), strict=True)
        ]
        schema, places = output.type.schema, capabilities.places(state.reader)
        self._outs.append(Out(rows_ahead(schema, state.split.id, places, rows.tolist(), bad), REJECTED))

    def _reach_periodically(self, period_ms: int) -> None:
        now_us = self.ctx.clock.monotonic_us()
        if now_us < self._periodic_us:
            return
        self._periodic_us = now_us + period_ms * 1000
        self._reach.look()
        for state in self._open:
            reached_ms = self._reach.periodic(state.split.id, self.ctx.clock.now_ms())
            state.reached(reached_ms, now_us)

    def _merged(self, state: SplitState, wm: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the operator's watermark before each of the next rows of a split. `wm` holds the
        split's watermark before each."""
        if self._reach.clock_ms is not None:
            self._watermark = self._reach.clock_ms - 1
            return np.full(len(wm), self._watermark)
        others = [
            other.watermark(self._bound_ms)
            for other in self._open
            if other is not state and not other.idle
        ]
        merged = np.clip(wm, state.before, min([*others, self._waiting_ms]))
        np.clip(merged, self._watermark, None, out=merged)
        self._watermark = int(merged[-1])
        return merged

    def _is_output(self, batch: Batch) -> bool:
        """Return whether the batch is emitted as it is."""
        return self._schema is not None and batch.schema.equals(self._schema, check_metadata=True)

    def _fit_output(self, columns: list[pa.Array]) -> list[Out]:
        if self._schema is None:
            return []
        fitted = [
            column if column.type == field.type else column.cast(field.type)
            for field, column in zip(self._schema, columns, strict=True)
        ]
        return [Out(pa.RecordBatch.from_arrays(fitted, schema=self._schema))]

    # --- state ----------------------------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        unread = [state.row(finished=False) for state in (*self._open, *self._waiting)]
        rows = [*self._finished, *unread]
        if self._client is not None:
            begun = {str(row["split"]): row["position"] for row in rows}
            positions = {id: at for id, at in begun.items() if isinstance(at, bytes)}
            self._client.snapshot(checkpoint, positions)
        part = SnapshotPart(SPLITS, StateKind.UNION, lambda: table_of_rows(rows, SPLIT_ROWS))
        splits = [str(row["split"]) for row in unread]
        ahead = [] if self._ahead is None else [self._ahead.part(splits)]
        return Snapshot(parts=[part, *ahead, *self._reach.parts(splits)])

    def completed(self, checkpoint: CheckpointId) -> None:
        if self._client is not None:
            self._client.completed(checkpoint)

    def close(self) -> None:
        try:
            for state in self._open:
                if state.reader is not None:
                    state.reader.close()
                    state.reader = None
        finally:
            if self._client is not None:
                client, self._client = self._client, None
                client.close()
