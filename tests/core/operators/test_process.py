"""Keyed process functions: calls, state, timers, outputs, errors, snapshots at another parallelism."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from rheos.core.errors import InputError, ProgramError, StateAccessError, UserFunctionError
from rheos.core.graph.functions import KeyedProcessFunction
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.graph.state import ListState, ValueState
from rheos.core.operators.contract import Operator, Out, OutputType
from rheos.core.operators.process import ProcessOperator, ProcessSpec
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, TS, WM, visible
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.types import schema_of
from rheos.core.state.format import decode, encode
from tests.core.operators.contexts import context


@dataclass
class Event:
    user: str | None
    n: int


@dataclass
class Total:
    user: str
    total: int


@dataclass(frozen=True)
class Warn:
    text: str


HIDDEN = [pa.field(TS, pa.int64()), pa.field(WM, pa.int64())]
INPUT = pa.schema([*schema_of(Event), *HIDDEN])
OUTPUT = pa.schema([*schema_of(Total), *HIDDEN])
WARNS = pa.schema([*schema_of(Warn), HIDDEN[0]])


class Count(KeyedProcessFunction):
    total = ValueState(int, default=0)

    def process_element(self, event: Event, ctx: Any) -> Iterator[Total]:
        self.total.value += event.n
        yield Total(ctx.key, self.total.value)


def make(
    fn: KeyedProcessFunction,
    *,
    kind: type[ProcessOperator] = ProcessOperator,
    record: type | None = Event,
    outputs: dict[str, pa.Schema] | None = None,
    input_schema: pa.Schema = INPUT,
    subtask: int = 0,
    parallelism: int = 1,
    batch_rows: int = 1000,
    restored: dict[str, list[pa.Table]] | None = None,
) -> ProcessOperator:
    records = {MAIN: Total, "warn": Warn, "late": Event}
    by_tag = {MAIN: OUTPUT} if outputs is None else outputs
    ctx = context(
        input_schema,
        by_tag,
        keys=("user",),
        subtask=subtask,
        parallelism=parallelism,
        batch_rows=batch_rows,
    )
    ctx.outputs = {
        tag: OutputType(StreamType(visible(schema), TS in schema.names, records[tag]), schema)
        for tag, schema in by_tag.items()
    }
    sides = {tag: schema_of(cls) for tag, cls in type(fn).side_outputs.items()}
    operator = kind(ctx, ProcessSpec(fn, "arrival", record, sides))
    operator.open(restored or {})
    return operator


def events(*rows: tuple[Any, ...], schema: pa.Schema = INPUT) -> pa.RecordBatch:
    """Return rows of user, n, timestamp, and the watermark before them."""
    padded = [(*row, *(0, MIN_TIMESTAMP_MS)[len(row) - 2 :]) for row in rows]
    columns = [list(column) for column in zip(*padded, strict=True)] or [[], [], [], []]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=False)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows(outs: Iterable[Out], tag: str = MAIN) -> list[tuple[Any, ...]]:
    found = [out.batch for out in outs if out.tag == tag]
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def feed(operator: Operator, *events_: tuple[Any, ...]) -> list[Out]:
    return list(operator.on_batch(0, events(*events_)))


def save(
    operator: Operator, chains: dict[str, list[pa.Table]] | None = None
) -> dict[str, list[pa.Table]]:
    """Take a snapshot and append it to the previous chains."""
    chains = {} if chains is None else chains
    for part in operator.snapshot(CheckpointId(1)).parts:
        table = decode(encode(part.write(), part.kind, part.mode), None)
        before = [] if part.mode.value == "full" else chains[part.state]
        chains[part.state] = [*before, table]
    return chains


def test_each_key_has_its_own_state_and_outputs_keep_the_time_of_their_record() -> None:
    operator = make(Count())
    assert rows(feed(operator, ("a", 1, 10, 5), ("b", 2, 20, 6), ("a", 3, 30, 7))) == [
        ("a", 1, 10, 5),
        ("b", 2, 20, 6),
        ("a", 4, 30, 7),
    ]
    assert rows(feed(operator, ("a", 1, 11))) == [("a", 5, 11, MIN_TIMESTAMP_MS)]
    assert feed(operator) == []


def test_subtasks_do_not_share_the_function() -> None:
    fn = Count()
    first, second = make(fn), make(fn)
    feed(first, ("a", 1))
    assert rows(feed(second, ("a", 1))) == [("a", 1, 0, MIN_TIMESTAMP_MS)]
    assert "total" not in vars(fn)


class Repeat(KeyedProcessFunction):
    def process_element(self, event: Event, ctx: Any) -> Iterator[Total]:
        total = Total(event.user or "", 0)
        for i in range(event.n):
            total.total = i
            yield total


def test_outputs_are_bounded_and_emitted_as_they_are_produced() -> None:
    operator = make(Repeat(), batch_rows=4)
    batches: Any = operator.on_batch(0, events(("a", 0), ("b", 3, 1), ("c", 10**9, 2)))
    firsts = [next(batches).batch for _ in range(3)]
    assert [batch.num_rows for batch in firsts] == [4, 4, 4]
    # A record that is changed after it was yielded does not change what was yielded.
    assert firsts[0].column("total").to_pylist() == [0, 1, 2, 0]
    assert firsts[0].column(TS).to_pylist() == [1, 1, 1, 2]
    assert firsts[1].column("total").to_pylist() == [1, 2, 3, 4]
    batches.close()


@dataclass
class Small:
    user: str
    n: int

    def __post_init__(self) -> None:
        if self.n > 3:
            raise ValueError("too large")


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_a_row_that_its_dataclass_refuses_is_named(refused: int) -> None:
    operator = make(Count(), record=Small)
    with pytest.raises(UserFunctionError) as caught:
        feed(operator, *[("a", 4 if at == refused else 1, at) for at in range(3)])
    assert caught.value.what == "Small cannot be created from a row: ValueError: too large"
    assert "'n': 4" in str(caught.value.record)


@dataclass
class Nothing(KeyedProcessFunction):
    given: Any = None

    def process_element(self, event: Event, ctx: Any) -> Any:
        return self.given


@pytest.mark.parametrize("given", [None, [], (), iter(())])
def test_a_function_may_give_nothing(given: Any) -> None:
    assert feed(make(Nothing(None)), ("a", 1)) == []


def test_a_function_may_give_a_list() -> None:
    assert rows(feed(make(Nothing([Total("x", 1), Total("y", 2)])), ("a", 1, 5))) == [
        ("x", 1, 5, MIN_TIMESTAMP_MS),
        ("y", 2, 5, MIN_TIMESTAMP_MS),
    ]


@pytest.mark.parametrize("given", [Total("a", 1), {"user": "a", "total": 1}, "text", 7])
def test_a_single_record_is_not_an_output(given: Any) -> None:
    with pytest.raises(UserFunctionError, match="but must yield its outputs") as caught:
        feed(make(Nothing(given)), ("a", 1))
    assert caught.value.record == "Event(user='a', n=1)"
    assert caught.value.key == "'a'"
    assert "yield record" in str(caught.value.hint)


class Timed(KeyedProcessFunction):
    seen = ListState(int)

    def process_element(self, event: Event, ctx: Any) -> None:
        self.seen.append(event.n)
        ctx.timers.register(ctx.timestamp + 10)
        if event.n < 0:
            ctx.timers.delete(ctx.timestamp + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Total]:
        assert timestamp == ctx.timestamp
        yield Total(f"{ctx.key}@{ctx.watermark}", sum(self.seen))
        if timestamp < 100:
            ctx.timers.register(timestamp + 50)


def test_timers_fire_when_the_watermark_passes_in_order_of_time_and_key() -> None:
    operator = make(Timed())
    feed(operator, ("b", 1, 5), ("a", 2, 5), ("a", 3, 4), ("c", -1, 5))
    assert list(operator.on_watermark(13)) == []
    low = MIN_TIMESTAMP_MS
    assert rows(operator.on_watermark(70)) == [
        ("a@70", 5, 14, low),
        ("a@70", 5, 15, low),
        ("b@70", 1, 15, low),
        ("a@70", 5, 64, low),
        ("a@70", 5, 65, low),
        ("b@70", 1, 65, low),
    ]
    # A timer in the past fires at the next watermark.
    feed(operator, ("d", 9, 1))
    assert rows(operator.on_watermark(71)) == [("d@71", 9, 11, low), ("d@71", 9, 61, low)]
    assert len(rows(operator.on_watermark(MAX_TIMESTAMP_MS))) == 4


def test_many_timers_emit_bounded_batches() -> None:
    operator = make(Timed(), batch_rows=7)
    feed(operator, *((f"user {i}", i, 200 + i) for i in range(50)))
    sizes = [out.batch.num_rows for out in operator.on_watermark(1000)]
    assert sizes == [7] * 7 + [1]


class Clocked(KeyedProcessFunction):
    def process_element(self, event: Event, ctx: Any) -> None:
        ctx.timers.register_processing(ctx.processing_time + event.n)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Total]:
        yield Total(ctx.key, timestamp)


def test_processing_time_timers_fire() -> None:
    operator = make(Clocked())
    assert operator.next_processing_time_ms() is None
    feed(operator, ("a", 30), ("b", 20), ("b", 20), ("c", 40))
    assert operator.next_processing_time_ms() == 20
    assert rows(operator.on_processing_time(30)) == [
        ("b", 20, 20, MIN_TIMESTAMP_MS),
        ("a", 30, 30, MIN_TIMESTAMP_MS),
    ]
    assert operator.next_processing_time_ms() == 40
    assert list(operator.on_watermark(MAX_TIMESTAMP_MS)) == []
    assert list(operator.on_end()) == []
    assert operator.ctx.counters == {"dropped_processing_timers": 1}
    assert operator.next_processing_time_ms() is None


class Sided(KeyedProcessFunction):
    side_outputs: ClassVar[dict[str, type]] = {"warn": Warn}

    def process_element(self, event: Event, ctx: Any) -> Iterator[Total]:
        if event.n < 0:
            ctx.output(
                "warn" if event.n > -9 else "other", Warn(f"{event.n}") if event.n > -5 else event
            )
        else:
            yield Total(ctx.key, event.n)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        ctx.output("warn", Warn("timer"))


def test_side_outputs_are_emitted() -> None:
    outs = feed(
        make(Sided(), outputs={MAIN: OUTPUT, "warn": WARNS}), ("a", 1, 1), ("a", -2, 2), ("b", -3, 3)
    )
    assert rows(outs, "warn") == [("-2", 2), ("-3", 3)]
    assert rows(outs) == [("a", 1, 1, MIN_TIMESTAMP_MS)]
    assert rows(feed(make(Sided()), ("a", 1, 1), ("a", -2, 2))) == [("a", 1, 1, MIN_TIMESTAMP_MS)]
    assert feed(make(Sided(), outputs={}), ("a", 1, 1), ("a", -2, 2)) == []


def test_wrong_side_outputs_are_named() -> None:
    operator = make(Sided(), outputs={MAIN: OUTPUT, "warn": WARNS})
    with pytest.raises(ProgramError, match="'other' is not a declared side output") as caught:
        feed(operator, ("a", -9))
    assert caught.value.site is not None
    assert caught.value.site.file == __file__
    with pytest.raises(UserFunctionError, match="should be Warn, but is Event"):
        feed(operator, ("a", -6))


def test_without_event_time_there_is_no_timestamp() -> None:
    class Look(KeyedProcessFunction):
        def process_element(self, event: Any, ctx: Any) -> Iterator[Total]:
            assert ctx.timestamp is None
            yield Total(event.user, event.n)

    schema = schema_of(Event)
    operator = make(Look(), record=None, outputs={MAIN: schema_of(Total)}, input_schema=schema)
    assert rows(operator.on_batch(0, events(("a", 1), schema=schema))) == [("a", 1)]
    operator = make(Timed(), outputs={MAIN: schema_of(Total)}, input_schema=schema)
    with pytest.raises(UserFunctionError):
        list(operator.on_batch(0, events(("a", 1), schema=schema)))


class Fails(KeyedProcessFunction):
    def process_element(self, event: Event, ctx: Any) -> Iterator[Any]:
        if event.n == 0:
            yield Total(ctx.key, 1 // event.n)
        elif event.n == 1:
            yield event
        elif event.n == 2:
            yield Total(ctx.key, "two")  # type: ignore[arg-type]
        elif event.n == 3:
            yield None
        elif event.n == 4:
            yield int("four")
        elif event.n == 5:
            ctx.timers.register(1.5)
        elif event.n == 6:
            yield event.nothing  # type: ignore[attr-defined]
        else:
            yield Total(ctx.key, event.n)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        raise ValueError("no")


def line_of(text: str) -> int:
    with open(__file__) as file:
        return next(n for n, line in enumerate(file, 1) if text in line)


@pytest.mark.parametrize(
    ("n", "said", "line"),
    [
        (0, "ZeroDivisionError: integer division or modulo by zero", "1 // event.n"),
        (4, "ValueError: invalid literal for int()", 'int("four")'),
        (5, "TypeError: a timer must be set to an int, in milliseconds", "register(1.5)"),
        (6, "AttributeError: 'Event' object has no attribute 'nothing'", "event.nothing"),
    ],
)
def test_an_error_of_the_function_starts_with_its_line(n: int, said: str, line: str) -> None:
    with pytest.raises(UserFunctionError) as caught:
        feed(make(Fails()), ("a", 9), ("b", n), ("c", 9))
    error = caught.value
    assert said in error.what
    assert str(error.site) == f"{__file__}:{line_of(line)}"
    assert (error.record, error.key, error.operator) == (
        f"Event(user='b', n={n})",
        "'b'",
        "the operator",
    )
    assert "keyed_core.py" not in str(error)


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (1, "a record should be Total, but is Event"),
        (2, "field 'total' should be int64, but is str: 'two'"),
        (3, "a record should be Total, but is NoneType: None"),
    ],
)
def test_an_output_of_another_type_is_named_with_its_record_and_key(n: int, said: str) -> None:
    with pytest.raises(UserFunctionError) as caught:
        feed(make(Fails()), ("a", 9), ("b", n), ("c", 9))
    assert said in caught.value.what
    assert (caught.value.record, caught.value.key) == (f"Event(user='b', n={n})", "'b'")


def test_an_error_in_a_timer_has_its_time_and_key() -> None:
    class Late(Fails):
        def process_element(self, event: Event, ctx: Any) -> Iterator[Any]:
            ctx.timers.register(5)
            return iter(())

    operator = make(Late())
    feed(operator, ("b", 1))
    with pytest.raises(UserFunctionError, match="ValueError: no") as caught:
        list(operator.on_watermark(9))
    assert (caught.value.record, caught.value.key) == ("Timer(timestamp_ms=5)", "'b'")


def test_a_null_key_is_refused_with_its_record() -> None:
    with pytest.raises(InputError, match="key column 'user' is null") as caught:
        feed(make(Count()), ("a", 1), (None, 7))
    assert caught.value.record == "{'user': None, 'n': 7}"


@dataclass
class Careless(KeyedProcessFunction):
    where: str = ""
    total: ClassVar[Any] = ValueState(int, default=0)

    def open(self) -> None:
        if self.where == "open":
            self.total.value = 1

    def process_element(self, event: Event, ctx: Any) -> None:
        self.total.value = "x" if event.n == 13 else event.n

    def close(self) -> None:
        if self.where == "close":
            self.total.value += 1


def test_state_without_a_key_is_refused() -> None:
    with pytest.raises(StateAccessError, match="outside a keyed context") as caught:
        make(Careless("open"))
    assert str(caught.value.site) == f"{__file__}:{line_of('self.total.value = 1')}"
    operator = make(Careless("close"))
    feed(operator, ("a", 1))
    with pytest.raises(StateAccessError, match="outside a keyed context"):
        operator.close()


class Assigns(KeyedProcessFunction):
    total = ValueState(int, default=0)
    seen = ListState(int)

    def __init__(self, to: str) -> None:
        self.to = to

    def process_element(self, event: Event, ctx: Any) -> None:
        if self.to == "value":
            self.total = event.n
        else:
            setattr(self, "seen", [event.n])  # noqa: B010


def test_an_assignment_to_a_declared_state_is_refused() -> None:
    with pytest.raises(StateAccessError, match="'total' is a declared state, and an") as caught:
        feed(make(Assigns("value")), ("a", 1))
    assert str(caught.value.site) == f"{__file__}:{line_of('self.total = event.n')}"
    assert caught.value.hint == "write self.total.value = ..."
    with pytest.raises(StateAccessError, match="'seen' is a declared state") as caught:
        feed(make(Assigns("list")), ("a", 1))
    assert caught.value.hint == "write self.seen.append(...), or self.seen.replace([...])"


def test_a_wrong_value_of_state_is_named() -> None:
    with pytest.raises(StateAccessError, match="state 'total' is declared as int, but was assigned"):
        feed(make(Careless()), ("a", 1), ("b", 13))


class Both(Count):
    seen = ListState(int)

    def process_element(self, event: Event, ctx: Any) -> Iterator[Total]:
        self.seen.append(event.n)
        ctx.timers.register(1000 + event.n)
        yield from super().process_element(event, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Total]:
        yield Total(ctx.key, sum(self.seen) * 1000 + self.total.value)


def of(table: pa.Table, groups: range) -> pa.Table:
    return table.filter([group in groups for group in table["key_group"].to_pylist()])


def test_a_function_resumes_at_another_parallelism() -> None:
    users = [f"user {i}" for i in range(40)]
    first = [(user, i, i) for i, user in enumerate(users)]
    second = [(user, 2 * i, i) for i, user in enumerate(users[:7])]
    whole = make(Both())
    feed(whole, *first)
    chains = save(whole)
    feed(whole, *second)
    save(whole, chains)
    assert [len(chain) for chain in chains.values()] == [2, 2, 2]
    parts = []
    for subtask in range(3):
        ctx = context(INPUT, OUTPUT, keys=("user",), subtask=subtask, parallelism=3)
        own = {state: [of(table, ctx.key_groups) for table in chain] for state, chain in chains.items()}
        parts.append(make(Both(), subtask=subtask, parallelism=3, restored=own))
    expected = rows(whole.on_watermark(MAX_TIMESTAMP_MS))
    found = [row for part in parts for row in rows(part.on_watermark(MAX_TIMESTAMP_MS))]
    assert sorted(found) == sorted(expected)
    assert len(expected) == 46


def test_after_a_lost_snapshot_all_parts_are_full() -> None:
    operator = make(Both())
    feed(operator, *((f"user {i}", 1) for i in range(9)))
    chains = save(operator)
    feed(operator, ("user 1", 1))
    operator.snapshot(CheckpointId(2))
    operator.snapshot_failed(CheckpointId(2))
    chains = save(operator, chains)
    assert [len(chain) for chain in chains.values()] == [1, 1, 1]
    again = make(Both(), restored=chains)
    assert rows(feed(again, ("user 1", 1))) == [("user 1", 3, 0, MIN_TIMESTAMP_MS)]


def test_batches_may_be_cut_anywhere() -> None:
    everything = [(f"user {i % 5}", i, i) for i in range(60)]
    whole = rows(feed(make(Both(), batch_rows=1000), *everything))
    for size in (1, 7):
        operator = make(Both(), batch_rows=3)
        found: list[tuple[Any, ...]] = []
        for start in range(0, 60, size):
            found += rows(feed(operator, *everything[start : start + size]))
            operator = make(Both(), batch_rows=3, restored=save(operator))
        assert found == whole


def test_a_timestamp_without_event_time_is_an_error() -> None:
    class Later(KeyedProcessFunction):
        def process_element(self, event: Event, ctx: Any) -> Iterator[Total]:
            yield Total(event.user or "", ctx.timestamp + 12345)

    ctx = context(
        pa.schema([("user", pa.string()), ("n", pa.int64())]),
        {MAIN: pa.schema([("user", pa.string()), ("total", pa.int64())])},
        keys=("user",),
    )
    operator = ProcessOperator(ctx, ProcessSpec(Later(), "arrival", Event))
    operator.open({})
    given = pa.RecordBatch.from_pylist([{"user": "a", "n": 1}], ctx.ports[0].schema)
    with pytest.raises(UserFunctionError, match="NoneType") as caught:
        list(operator.on_batch(0, given))
    assert "the stream has no event time, so ctx.timestamp is None" in (caught.value.hint or "")
    assert str(caught.value.site) == f"{__file__}:{line_of('timestamp + 12345)')}"
