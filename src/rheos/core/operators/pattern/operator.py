"""`detect`: finds rows of a key that form a pattern, in the order of event time.

Rows are buffered until the watermark has passed them, and reach the matcher sorted by time. Rows of the
same time are sorted by the whole row, column by column. So the matches depend on the data alone. Late
rows are not matched; they are counted, and emitted to the side output `late`.

Conditions are computed for whole batches. If a row fulfils no condition, and no edge of the pattern
wakes for every row, the row is dropped on arrival. Of the remaining rows, the matcher receives only
those that a key or a starting edge wakes for.

A match is emitted when it is certain: when it is complete or, if other matches may rule it out, later.
Its event time is that of the row that made it certain, or the time at which a deadline passed.

```python
def rises(prices):
    low = rh.pattern.begin("low").where(rh.col("price") < 10)
    pattern = low.followed_by("high").where(rh.col("price") > 20).within("10ms")
    found = prices.key_by("item").detect(pattern)
    return {"found": found, "timed out": found.side_output("timed_out")}

tea = {"item": "tea"}
came = check_example(
    OperatorExample(
        rises,
        pa.schema([("item", pa.string()), ("price", pa.int64()), ("at", pa.int64())]),
        [
            {"item": "tea", "price": 5, "at": 1},
            {"item": "tea", "price": 30, "at": 7},
            {"item": "tea", "price": 12, "at": 4},
            WatermarkMark(9),
            {"item": "tea", "price": 8, "at": 10},
        ],
        on="at",
    )
)
assert [(row["low"]["at"], row["high"]["at"]) for row in came["found"]] == [(1, 7)]
assert [(row["low"]["at"], row["high"]) for row in came["timed out"]] == [(10, None)]
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.callables import function_name
from rheos.core.compiler.eligibility import Automatic, form_of
from rheos.core.graph.patterns import Function, PatternTree
from rheos.core.operators.contract import (
    Operator,
    OperatorContext,
    OperatorSpec,
    Out,
    PortType,
    Restored,
    SplitSpec,
)
from rheos.core.operators.keyed_state import columns_shape, keyed_shape
from rheos.core.operators.origins import Origin, RowsOfMatch
from rheos.core.operators.pattern.automaton import EVERY
from rheos.core.operators.pattern.compiled_conditions import CompiledConditions
from rheos.core.operators.pattern.conditions import Bits, ConditionBits, ConditionFunctions
from rheos.core.operators.pattern.following_rows import UNDECIDED, FollowingRows, following_types
from rheos.core.operators.pattern.live_matches import NEVER_MS, LiveMatches, events_of
from rheos.core.operators.pattern.matched_rows import MatchedRows
from rheos.core.operators.pattern.matcher import Matcher, MatchOutcome, TooManyMatchesError
from rheos.core.operators.pattern.matches import MatchRows
from rheos.core.operators.pattern.pattern_compiler import compiled
from rheos.core.operators.pattern.previous_rows import previous_types, with_previous
from rheos.core.operators.pattern.stored_matches import MATCHES, FrozenKey, restored, stored
from rheos.core.operators.rows_by_time import RowsByTime, held_shapes
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, SWM, TS, WM, Batch, visible
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import PartMode, Snapshot, SnapshotPart
from rheos.core.state.key_index import KeyIndex
from rheos.core.state.key_limit import KeyContents
from rheos.core.state.keys import KeyCodec
from rheos.core.state.numbered_array import with_room
from rheos.core.state.numbered_rows import Numbers
from rheos.core.state.parts import DeltaChain, keyed_part
from rheos.core.state.slots import Slots

LEAST_ROWS = 1 << 12
"""Minimum number of rows, and of keys, before unneeded ones are dropped. They are dropped when twice as
many exist as remained the last time."""


@dataclass(frozen=True)
class PatternSpec(SplitSpec):
    """Rows of a key that form a pattern."""

    pattern: PatternTree
    automatic: Mapping[Function, Automatic] = field(default_factory=dict)
    """For each function of a condition, how it is compiled, or why it is not."""

    kind: ClassVar[str] = "pattern"

    def operator(self, ctx: OperatorContext) -> PatternOperator:
        return PatternOperator(ctx, self)

    def looks_at(self, column: str) -> bool | None:
        # The output is emitted as the watermark advances, and carries its own progress.
        return {WM: True, SWM: False}.get(column)

    def states(self, ports: Sequence[PortType]) -> dict[str, StateShape]:
        port = ports[0]
        structure = TypeShape(name="pattern", label=self.pattern.structure())
        shapes = {
            **held_shapes(ports),
            MATCHES: keyed_shape(port, StatePurpose.MATCHES, structure),
        }
        if self.pattern.following:
            rows = columns_shape(visible(port.schema))
            shapes[UNDECIDED] = keyed_shape(port, StatePurpose.ROWS, rows)
        return shapes

    def interpreted(self) -> OperatorSpec:
        return replace(self, automatic={})

    def function_forms(self) -> Mapping[str, str]:
        return {
            function_name(function.call): form
            for function, how in self.automatic.items()
            if (form := form_of(how))
        }

    def summary(self) -> str:
        forms = (f"; {name} is {form}" for name, form in self.function_forms().items())
        return f"{self.pattern}{''.join(forms)}"

    def origin(self) -> Origin:
        return RowsOfMatch()


class PatternOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: PatternSpec) -> None:
        super().__init__(ctx)
        port = ctx.ports[0]
        shown = visible(port.schema)
        self._schema = pa.schema([*shown, (TS, pa.int64())])
        self._waiting = RowsByTime(ctx)
        self._key_types = KeyCodec(port.schema, port.keys).types
        self._automaton = compiled(spec.pattern)
        self._begins = self._automaton.begin_wakes
        following = spec.pattern.following
        self._following = FollowingRows(ctx, following, self._schema) if following else None
        # A row cannot be judged on arrival if its conditions read later ones.
        self._quiet = self._automaton.quiet and not following
        self._previous = spec.pattern.previous
        around = [*following_types(following, shown), *previous_types(self._previous, shown)]
        asked = pa.schema([*shown, *around])
        self._bits = ConditionBits(ctx, self._automaton, asked)
        self._compiled = CompiledConditions(ctx, spec.automatic)
        self._rows = MatchRows(ctx, self._automaton)
        self._after_match = spec.pattern.after_match
        self._chain = DeltaChain()
        self._limit = ctx.key_limit(KeyContents.MATCHES)
        ctx.gauges["partial_matches"] = lambda: int(self._sizes[: len(self._keys)].sum())
        self._forget()

    def _forget(self) -> None:
        self._keys = KeyIndex(self._key_types)
        self._alive: dict[int, LiveMatches] = {}
        """Live matches by slot."""
        # Indexed by slot: the bits that a key wakes for, the next expiry of its matches, and their
        # number.
        self._wakes: Bits = np.zeros(1 << 10, np.uint64)
        self._expires: Numbers = np.full(1 << 10, NEVER_MS, np.int64)
        self._sizes: Numbers = np.zeros(1 << 10, np.int64)
        self._changed: set[int] = set()
        """Slots whose matches have changed since the last snapshot."""
        self._kept = MatchedRows(self._schema)
        self._functions = ConditionFunctions(self.ctx, self._automaton, self._kept, self._compiled)
        self._matcher = Matcher(
            self._automaton, self._after_match, self._functions.holds, self._limit.most
        )
        self._next_event = 0
        self._tidy_after = LEAST_ROWS

    # --- rows -----------------------------------------------------------------------------------------

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        batch = yield from self._waiting.in_time(port, batch)
        if self._quiet:
            batch = batch.filter(pa.array(self._bits.of(batch) != EVERY))
        self._waiting.add(port, batch)

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        if timestamp_ms <= self._waiting.passed_ms:
            return
        given: list[MatchOutcome] = []
        for rows in self._due(timestamp_ms):
            touched: set[int] = set()
            first_event = self._next_event
            given += self._matched(rows, touched)
            self._keep_taken(rows, first_event)
            self._settle(touched)
        given += self._expired(timestamp_ms)
        yield from self._rows.out(given, self._kept)
        self._tidy()

    def _due(self, timestamp_ms: int) -> list[Batch]:
        """Return the rows to match after the watermark has reached `timestamp_ms`, in order."""
        due = [rows for _, rows in self._waiting.take(timestamp_ms)]
        if self._following is None:
            return due
        decided = [self._following.decided(rows) for rows in due]
        if timestamp_ms == MAX_TIMESTAMP_MS:
            decided.append(self._following.rest())
        return [rows for rows in decided if rows.num_rows]

    def _matched(self, rows: Batch, touched: set[int]) -> list[MatchOutcome]:
        """Process rows in order, and return the outcomes. Add slots with changed matches to
        `touched`."""
        slots = self._keys.lookup_or_add([rows.column(key) for key in self.ctx.ports[0].keys])
        self._make_room()
        asked = rows
        if self._previous:
            asked = with_previous(self._previous, rows, slots, self._alive, self._kept)
        bits = self._bits.of(asked)
        chosen = self._candidates(slots, bits)
        stamps = rows.column(TS).to_numpy()
        first = self._next_event
        self._next_event += rows.num_rows
        self._functions.begin(rows, first)
        alive_by_slot, begins, matcher = self._alive, self._begins, self._matcher
        given: list[MatchOutcome] = []
        for place, slot, at_ms, of_row in zip(
            chosen.tolist(),
            slots[chosen].tolist(),
            stamps[chosen].tolist(),
            bits[chosen].tolist(),
            strict=True,
        ):
            alive = alive_by_slot.get(slot)
            if alive is None:
                if not of_row & begins:
                    continue
                alive = LiveMatches([], [])
                alive_by_slot[slot] = alive
            elif alive.expires_ms <= at_ms:
                given += matcher.expired(alive, at_ms)
                touched.add(slot)
            if of_row & (alive.wakes | begins):
                try:
                    given += matcher.row(alive, first + place, at_ms, of_row)
                except TooManyMatchesError:
                    self._limit.see(self._limit.most + 1, self._key_of(slot))
                    raise
                touched.add(slot)
        return given

    def _key_of(self, slot: int) -> list[Any]:
        return [column[slot].as_py() for column in self._keys.columns()]

    def _candidates(self, slots: Slots, bits: Bits) -> Numbers:
        """Return the rows that may change something. Per key, these start with the first row that the
        key or a starting edge wakes for."""
        wakes = self._wakes[slots] | np.uint64(self._begins)
        relevant = np.flatnonzero(bits & wakes)
        first = np.full(len(self._keys), len(slots), np.int64)
        # If a slot is written several times, the last value wins. Reversed, that is the first row to
        # arrive.
        first[slots[relevant[::-1]]] = relevant[::-1]
        from_there = np.arange(len(slots)) >= first[slots]
        if self._quiet:
            from_there &= bits != EVERY
        return np.flatnonzero(from_there)

    def _keep_taken(self, rows: Batch, first_event: int) -> None:
        """Keep the rows that matches have taken; `first_event` is the number of the first row."""
        numbers = np.array(list(dict.fromkeys(self._matcher.took)), np.int64)
        self._matcher.took.clear()
        taken = rows.select(self._schema.names).take(pa.array(numbers - first_event))
        self._kept.add(numbers, taken)
        self._functions.end()

    def _settle(self, slots: Collection[int]) -> None:
        """Update the bits and expiry times of these keys, and drop keys that have no match."""
        if not slots:
            return
        changed = list(slots)
        alive = [self._alive[slot] for slot in changed]
        self._wakes[changed] = [each.wakes for each in alive]
        self._expires[changed] = [each.expires_ms for each in alive]
        sizes = np.array([len(each.partials) + len(each.found) for each in alive])
        self._sizes[changed] = sizes
        largest = int(sizes.argmax())
        if sizes[largest] > self._limit.due:
            self._limit.see(int(sizes[largest]), self._key_of(changed[largest]))
        for slot, each in zip(changed, alive, strict=True):
            if not each:
                del self._alive[slot]
        self._changed.update(changed)

    def _expired(self, until_ms: int) -> list[MatchOutcome]:
        given: list[MatchOutcome] = []
        until = np.full(len(self._keys), until_ms)
        if self._following is not None:
            # An undecided row may still extend the matches that are live at its time.
            columns, times = self._following.keys_and_times()
            slots_of_rows = self._keys.find(columns)
            known = slots_of_rows >= 0
            np.minimum.at(until, slots_of_rows[known], times[known])
        slots = np.flatnonzero(self._expires[: len(self._keys)] <= until).tolist()
        for slot in slots:
            given += self._matcher.expired(self._alive[slot], int(until[slot]))
        self._settle(slots)
        return given

    def _make_room(self) -> None:
        self._wakes = with_room(self._wakes, len(self._keys), 0)
        self._expires = with_room(self._expires, len(self._keys), NEVER_MS)
        self._sizes = with_room(self._sizes, len(self._keys), 0)

    def _tidy(self) -> None:
        """Drop rows that no match refers to any more, and keys that have no match (PM3)."""
        if max(len(self._kept), len(self._keys)) <= self._tidy_after:
            return
        events = events_of(node for alive in self._alive.values() for node in alive.last_nodes())
        self._kept.keep(np.array(sorted(events), np.int64))
        # Keys removed since the last snapshot must still be written as removed.
        left = sorted(self._alive.keys() | self._changed)
        if 2 * len(left) < len(self._keys):
            columns = [column.take(pa.array(left, pa.int32())) for column in self._keys.columns()]
            self._keys = KeyIndex(self._key_types)
            slots = self._keys.lookup_or_add(columns).tolist() if left else []
            moved = dict(zip(left, slots, strict=True))
            self._wakes[:], self._expires[:], self._sizes[:] = 0, NEVER_MS, 0
            self._alive = {moved[slot]: alive for slot, alive in self._alive.items()}
            changed = {moved[slot] for slot in self._changed}
            self._settle(self._alive)
            self._changed = changed
        self._tidy_after = max(LEAST_ROWS, 2 * max(len(self._kept), len(self._keys)))

    # --- snapshots ------------------------------------------------------------------------------------

    def open(self, restored_state: Restored) -> None:
        self._waiting.restore(restored_state)
        if self._following is not None:
            self._following.restore(restored_state.get(UNDECIDED, ()))
        alive, self._next_event = restored(
            restored_state.get(MATCHES, ()), self._keys, self._kept, self._automaton, 0
        )
        self._alive = dict(alive)
        self._make_room()
        for of_key in self._alive.values():
            self._matcher.refresh(of_key)
        self._settle(self._alive)
        self._changed = set()

    def snapshot(self, checkpoint: CheckpointId) -> Snapshot:
        mode = self._chain.next_mode(len(self._changed), len(self._alive))
        slots = list(self._alive) if mode is PartMode.FULL else sorted(self._changed)
        self._chain.taken(mode, len(slots))
        self._changed = set()
        return Snapshot([*self._waiting.parts(), *self._undecided(), self._part(mode, slots)])

    def savepoint(self, snapshot: Snapshot) -> list[SnapshotPart]:
        return [
            *self._waiting.savepoint(),
            *self._undecided(),
            self._part(PartMode.FULL, list(self._alive)),
        ]

    def _undecided(self) -> list[SnapshotPart]:
        return [] if self._following is None else [self._following.part()]

    def _part(self, mode: PartMode, slots: Sequence[int]) -> SnapshotPart:
        nothing = LiveMatches([], [])
        alive = (self._alive.get(slot, nothing) for slot in slots)
        frozen = [FrozenKey(each.partials, each.found) for each in alive]
        keys = [column.take(pa.array(slots, pa.int32())) for column in self._keys.columns()]
        write = partial(stored, keys, frozen, self._kept.frozen(), self.ctx.max_parallelism)
        return keyed_part(MATCHES, mode, len(slots), write)

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        self._waiting.force_full()
        self._chain.force_full()

    def next_keys(self) -> None:
        # All buffered rows have been taken already.
        self._forget()
        self._waiting.next_keys()
