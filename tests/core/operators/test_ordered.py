"""`process(order="event_time")`: what a key's function sees depends on the rows alone. Arrival,
batching, watermarks and restores at another parallelism are random; the output of each key is compared
with that of a loop over all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import InputError
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.state import ListState, ValueState
from rheos.core.operators.buffered_rows import HELD_WATERMARKS
from rheos.core.operators.contract import Operator, OperatorContext
from rheos.core.operators.process import ProcessOperator, ProcessSpec
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, TS, WM
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import PartMode, Snapshot
from rheos.core.state.format import decode, encode
from rheos.core.state.key_groups import key_groups, subtask_of
from tests.core.operators.contexts import context

IN = pa.schema(
    [
        pa.field("user", pa.string()),
        pa.field("amount", pa.int64()),
        pa.field(TS, pa.int64(), nullable=False),
        pa.field(WM, pa.int64(), nullable=False),
    ]
)
OUT = pa.schema(
    [
        pa.field("user", pa.string()),
        pa.field("seen", pa.string()),
        pa.field(TS, pa.int64(), nullable=False),
    ]
)


@dataclass
class Payment:
    user: str
    amount: int | None


@dataclass
class Seen:
    user: str
    seen: str


class Diary(KeyedProcessFunction):
    """Records what it sees, and registers timers 5 ms after the first row, and 7 ms after that."""

    lines = ListState(str)
    pending = ValueState(int)

    def process_element(self, record: Payment, ctx: KeyedContext) -> None:
        self.lines.append(f"{ctx.timestamp}:{record.amount}")
        if self.pending.value is None:
            self.pending.value = ctx.timestamp + 5
            ctx.timers.register(ctx.timestamp + 5)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[Seen]:
        yield Seen(ctx.key, " ".join(self.lines))
        self.lines.clear()
        if timestamp == self.pending.value:
            ctx.timers.register(timestamp + 7)
        else:
            self.pending.clear()


Row = tuple[str, int | None, int]
"""User, amount, time."""


def batch(rows: Iterable[Row], watermark: int = MIN_TIMESTAMP_MS) -> pa.RecordBatch:
    made = [{"user": u, "amount": a, TS: t, WM: watermark} for u, a, t in rows]
    return pa.RecordBatch.from_pylist(made, IN)


def expected(rows: Iterable[Row]) -> list[tuple[str, str, int]]:
    """Compute the output by a loop: per key, rows in the order of time, then amount with None last;
    timers after the rows of their time."""
    found = []
    by_user: dict[str, list[tuple[int, int | None]]] = {}
    for user, amount, ts in rows:
        by_user.setdefault(user, []).append((ts, amount))
    for user, events in by_user.items():
        events.sort(key=lambda event: (event[0], event[1] is None, event[1] or 0))
        lines: list[str] = []
        timers: list[tuple[int, bool]] = []
        end = MAX_TIMESTAMP_MS
        for ts, amount in [*events, (end, None)]:
            while timers and timers[0][0] < ts:
                at, first = timers.pop()
                found.append((user, " ".join(lines), at))
                lines.clear()
                if first:
                    timers.append((at + 7, False))
            if ts != end:
                lines.append(f"{ts}:{amount}")
                if not timers:
                    timers.append((ts + 5, True))
    return sorted(found)


class Slots:
    """All subtasks of the operator, which can be stopped and restored as another number of them."""

    def __init__(self, parallelism: int) -> None:
        self.outputs: list[tuple[str, str, int]] = []
        self.deltas = 0
        self._checkpoints = 0
        self._start(parallelism, {})

    def _start(self, parallelism: int, written: dict[str, list[bytes]]) -> None:
        self.chains: list[dict[str, list[bytes]]] = [{} for _ in range(parallelism)]
        self.operators = []
        for subtask in range(parallelism):
            ctx = context(
                IN, OUT, keys=("user",), subtask=subtask, parallelism=parallelism, batch_rows=3
            )
            operator = ProcessOperator(ctx, ProcessSpec(Diary(), "event_time", Payment))
            operator.open(
                {
                    name: [decode(data, ctx.key_groups) for data in chain]
                    for name, chain in written.items()
                }
            )
            self.operators.append(operator)

    def rows(self, rows: list[Row]) -> None:
        given = batch(rows)
        owners = subtask_of(key_groups(given, ["user"], 128), len(self.operators), 128)
        for subtask, operator in enumerate(self.operators):
            self._take(operator.on_batch(0, given.filter(pa.array(owners == subtask))))

    def watermark(self, timestamp_ms: int) -> None:
        for operator in self.operators:
            self._take(operator.on_watermark(timestamp_ms))

    def _take(self, outputs: Iterable[tuple[pa.RecordBatch, str]]) -> None:
        for made, tag in outputs:
            assert tag == MAIN
            assert made.num_rows <= 3
            assert made.schema.equals(OUT)
            self.outputs += [(row["user"], row["seen"], row[TS]) for row in made.to_pylist()]

    def checkpoint(self) -> list[Snapshot]:
        self._checkpoints += 1
        taken = [operator.snapshot(CheckpointId(self._checkpoints)) for operator in self.operators]
        for chains, snapshot in zip(self.chains, taken, strict=True):
            for part in snapshot.parts:
                if part.mode is PartMode.FULL:
                    chains[part.state] = []
                chains[part.state].append(encode(part.write(), part.kind, part.mode))
                self.deltas += part.mode is PartMode.DELTA and not part.unchanged
        return taken

    def restart(self, parallelism: int, *, by_savepoint: bool = False) -> None:
        taken = self.checkpoint()
        written: dict[str, list[bytes]] = {}
        for operator, chains, snapshot in zip(self.operators, self.chains, taken, strict=True):
            if by_savepoint:
                chains = {}
                for part in operator.savepoint(snapshot):
                    assert part.mode is PartMode.FULL
                    chains[part.state] = [encode(part.write(), part.kind, part.mode)]
            for state, chain in chains.items():
                written.setdefault(state, []).extend(chain)
            operator.close()
        self._start(parallelism, written)


rows_drawn = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.integers(-2, 2), st.integers(0, 30)), max_size=25
)


@given(rows_drawn, st.data())
def test_lateness_of_a_key_depends_only_on_its_rows(rows: list[Row], data: st.DataObject) -> None:
    arrival = data.draw(st.permutations(rows))
    slots = Slots(data.draw(st.integers(1, 4)))
    left = list(arrival)
    while left:
        size = data.draw(st.integers(1, len(left)))
        slots.rows(left[:size])
        left = left[size:]
        if data.draw(st.booleans()):
            # As far as no row to come is late.
            slots.watermark(min((ts for _, _, ts in left), default=40) - 1)
        match data.draw(st.sampled_from(["go on", "checkpoint", "lost", "restart"])):
            case "checkpoint":
                slots.checkpoint()
            case "lost":
                for operator in slots.operators:
                    operator.snapshot_failed(CheckpointId(1))
            case "restart":
                slots.restart(data.draw(st.integers(1, 4)), by_savepoint=data.draw(st.booleans()))
    slots.watermark(MAX_TIMESTAMP_MS)
    assert sorted(slots.outputs) == expected(rows)


def test_a_checkpoint_contains_rows_that_arrived_since_the_last_one() -> None:
    slots = Slots(1)
    slots.rows([("a", i, 100 + i) for i in range(50)])
    [first] = slots.checkpoint()
    slots.rows([("b", 1, 100), ("b", 2, 300)])
    slots.watermark(110)
    [second] = slots.checkpoint()
    held = [
        (part.mode, part.write().num_rows)
        for taken in (first, second)
        for part in taken.parts
        if part.state == "held"
    ]
    # Of what came, one row was delivered before the second checkpoint; nor is what left written again.
    assert held == [(PartMode.FULL, 50), (PartMode.DELTA, 1)]
    before = slots.operators[0]
    slots.restart(3)
    slots.watermark(MAX_TIMESTAMP_MS)
    seen = [line for _, lines, _ in slots.outputs for line in lines.split()]
    assert sorted(seen) == sorted([f"{100 + i}:{i}" for i in range(50)] + ["100:1", "300:2"])
    assert before not in slots.operators


def test_a_savepoint_does_not_affect_the_next_checkpoint() -> None:
    slots = Slots(1)
    slots.rows([("a", i, 100 + i) for i in range(50)])
    slots.checkpoint()
    slots.rows([("b", 1, 300)])
    [operator] = slots.operators
    whole = {part.state: part.write().num_rows for part in operator.savepoint(Snapshot())}
    assert whole == {"held": 51, "held behind": 128, "lines": 0, "pending": 0, "timers": 0}
    slots.checkpoint()
    assert slots.deltas == 1


# --- late rows ------------------------------------------------------------------------------------


def one(outputs: dict[str, pa.Schema]) -> tuple[Operator, OperatorContext]:
    ctx = context(IN, outputs, keys=("user",))
    operator = ProcessOperator(ctx, ProcessSpec(Diary(), "event_time", Payment))
    operator.open({})
    return operator, ctx


LATE_OUT = pa.schema([IN.field("user"), IN.field("amount"), IN.field(TS)])


def test_a_row_is_late_by_the_watermark_of_its_own_split() -> None:
    operator, ctx = one({MAIN: OUT, "late": LATE_OUT})
    late = list(operator.on_batch(0, batch([("a", 1, 9), ("a", 2, 10), ("a", 3, 11)], watermark=10)))
    assert [(out.tag, out.batch.to_pylist()) for out in late] == [
        ("late", [{"user": "a", "amount": 1, TS: 9}, {"user": "a", "amount": 2, TS: 10}])
    ]
    assert late[0].batch.schema.equals(LATE_OUT)
    assert ctx.counters == {"late": 2}
    seen = [
        row["seen"] for out in operator.on_watermark(MAX_TIMESTAMP_MS) for row in out.batch.to_pylist()
    ]
    assert seen == ["11:3", ""]


def test_a_row_that_only_other_splits_have_passed_is_counted_separately() -> None:
    operator, ctx = one({MAIN: OUT, "late": LATE_OUT})
    list(operator.on_watermark(20))
    late = list(operator.on_batch(0, batch([("a", 1, 20), ("a", 2, 21)], watermark=5)))
    assert [out.batch.column("amount").to_pylist() for out in late] == [[1]]
    assert ctx.counters == {"late": 1, "late_purged": 1}


@pytest.mark.parametrize("checkpoints", [1, 2])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_watermark_before_a_restore_holds_after_it(parallelism: int, checkpoints: int) -> None:
    """Check this with an idle split that becomes active with rows older than those already emitted."""
    slots = Slots(2)
    users = [f"user {i}" for i in range(20)]
    slots.rows([(user, 1, 20) for user in users])
    # One subtask has come further than the other.
    ahead, behind = slots.operators
    list(ahead.on_watermark(20))
    list(behind.on_watermark(15))
    for _ in range(checkpoints):
        slots.restart(parallelism)
    for operator in slots.operators:
        list(operator.on_watermark(10))
    slots.rows([(user, 2, 20) for user in users] + [(user, 3, 15) for user in users])
    slots.watermark(MAX_TIMESTAMP_MS)
    groups = key_groups(batch([(user, 0, 0) for user in users]), ["user"], 128)
    first = sum(groups < 64)
    assert 0 < first < len(users)
    counters = [operator.ctx.counters.get("late_purged", 0) for operator in slots.operators]
    assert sum(counters) == len(users) + first
    lines = {user: seen for user, seen, at in slots.outputs if at == 25}
    assert Counter(lines.values()) == {"20:1": first, "20:1 20:2": len(users) - first}


def test_late_rows_without_a_reader_are_counted() -> None:
    operator, ctx = one({MAIN: OUT})
    assert list(operator.on_batch(0, batch([("a", 1, 9)], watermark=10))) == []
    assert ctx.counters == {"late": 1}


def test_a_null_key_is_an_error() -> None:
    operator, _ = one({MAIN: OUT})
    with pytest.raises(InputError, match="'user' is null") as raised:
        list(operator.on_batch(0, batch([("a", 1, 9), (None, 2, 9)])))  # type: ignore[list-item]
    assert "'amount': 2" in str(raised.value.record)


def test_without_buffered_rows_a_part_is_empty() -> None:
    operator, _ = one({MAIN: OUT})
    for part in operator.snapshot(CheckpointId(1)).parts:
        if part.state != HELD_WATERMARKS:
            assert decode(encode(part.write(), part.kind, part.mode), None).num_rows == 0


def test_later_rows_are_not_in_a_snapshot() -> None:
    operator, _ = one({MAIN: OUT})
    list(operator.on_batch(0, batch([("a", 1, 9)])))
    parts = {part.state: part for part in operator.snapshot(CheckpointId(1)).parts}
    list(operator.on_batch(0, batch([("a", 2, 3)])))
    list(operator.on_watermark(MAX_TIMESTAMP_MS))
    assert parts["held"].write().column("amount").to_pylist() == [1]
    assert parts["lines"].write().num_rows == 0
    assert parts["timers"].write().num_rows == 0
