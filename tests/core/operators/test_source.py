from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.connectors.collection import collection
from rheos.connectors.generator import generator
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Source,
    Split,
    SplitReader,
)
from rheos.core.errors import InputError, Site
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.source import (
    MAX_OPEN_SPLITS,
    REJECTED,
    EndOfInput,
    SourceOperator,
    SourceSpec,
)
from rheos.core.operators.source_split import SPLITS
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, SWM, TS, WM
from rheos.core.protocol.ids import CheckpointId
from rheos.core.times import TimeColumn
from tests.connectors.ports import ManualClock
from tests.core.operators.contexts import context

SCHEMA = pa.schema([("at", pa.int64()), ("n", pa.int64())])
REJECTS = pa.schema([("why", pa.string())])


class Script(Source):
    """Source whose splits follow a script of steps: a list of event times is a batch of at most that
    many rows, an int a pause (us; None waits for I/O), a string a rejected row."""

    schema = SCHEMA
    bounded = True

    def __init__(self, **splits: Sequence[Any]) -> None:
        self.steps = splits
        self.opened: list[str] = []
        self.closed: list[str] = []

    def splits(self) -> Sequence[Split]:
        return [Split(name, name.encode()) for name in self.steps]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert split.payload == split.id.encode()
        self.opened.append(split.id)
        at = (0, 0) if position is None else msgspec.msgpack.decode(position, type=tuple[int, int])
        return ScriptReader(self, split.id, at, ctx)


class ScriptReader(SplitReader):
    def __init__(self, source: Script, name: str, at: tuple[int, int], ctx: ReaderContext) -> None:
        self.source, self.name, self.ctx = source, name, ctx
        self.step, self.row = at

    def poll(self, max_rows: int) -> Polled:
        steps = self.source.steps[self.name]
        while self.step < len(steps):
            step = steps[self.step]
            if isinstance(step, list) and self.row < len(step):
                times = step[self.row : self.row + max_rows]
                self.row += len(times)
                return pa.RecordBatch.from_pydict({"at": times, "n": times}, schema=SCHEMA)
            self.step, self.row = self.step + 1, 0
            if isinstance(step, str):
                self.ctx.reject(pa.RecordBatch.from_pydict({"why": [step]}, schema=REJECTS))
            elif not isinstance(step, list):
                return Pending(step)
        return EndOfSplit()

    def position(self) -> bytes:
        return msgspec.msgpack.encode((self.step, self.row))

    def close(self) -> None:
        self.source.closed.append(self.name)


def output_schema(*, ts: bool = True, wm: bool = True, schema: pa.Schema = SCHEMA) -> pa.Schema:
    if ts:
        schema = schema.append(pa.field(TS, pa.int64(), nullable=False))
    return schema.append(pa.field(WM, pa.int64(), nullable=False)) if wm else schema


def operator(
    source: Source,
    *,
    strategy: Watermark | None = None,
    outputs: Mapping[str, pa.Schema] | None = None,
    restored: Mapping[str, Any] | None = None,
    splits: Sequence[Split] | None = None,
    subtask: int = 0,
    parallelism: int = 1,
) -> tuple[SourceOperator, OperatorContext]:
    if outputs is None:
        outputs = {MAIN: output_schema(ts=strategy is not None, wm=strategy is not None)}
    ctx = context(source.schema, outputs, subtask=subtask, parallelism=parallelism)
    ctx.clock = ManualClock()
    spec = SourceSpec(source, strategy)
    made = SourceOperator(ctx, spec, source.splits() if splits is None else splits)
    made.open(restored or {})
    return made, ctx


def saved(*operators: SourceOperator) -> dict[str, list[pa.Table]]:
    parts = [part for one in operators for part in one.snapshot(CheckpointId(1)).parts]
    assert {part.state for part in parts} == {SPLITS}
    return {SPLITS: [part.write() for part in parts]}


def drain(op: SourceOperator, max_rows: int = 100, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the rows to the end of input, or about `limit`; pauses are skipped."""
    rows: list[dict[str, Any]] = []
    while limit is None or len(rows) < limit:
        read = op.poll(max_rows)
        if isinstance(read, EndOfInput):
            break
        if isinstance(read, list):
            main = [out for out in read if out.tag == MAIN]
            assert sum(out.batch.num_rows for out in read) > 0
            assert sum(out.batch.num_rows for out in main) <= max_rows
            rows += [row for out in main for row in out.batch.to_pylist()]
    return rows


BOUNDED = Watermark.bounded_out_of_orderness("3ms", on="at")


# --- stamping --------------------------------------------------------------------------------------


def test_rows_carry_their_time_and_the_watermark_before_them() -> None:
    op, _ = operator(Script(a=[[10, 12, 11, 20]]), strategy=BOUNDED)
    assert [(row[TS], row[WM]) for row in drain(op)] == [
        (10, MIN_TIMESTAMP_MS),
        (12, 6),
        (11, 8),
        (20, 8),
    ]


@given(
    a=st.lists(st.integers(0, 50), max_size=8),
    b=st.lists(st.integers(0, 50), max_size=8),
    max_rows=st.integers(1, 20),
)
def test_rows_carry_the_watermark_of_the_whole_source(
    a: list[int], b: list[int], max_rows: int
) -> None:
    outputs = {MAIN: output_schema(wm=False).append(pa.field(SWM, pa.int64(), nullable=False))}
    op, _ = operator(Script(a=[a], b=[b, 5]), strategy=BOUNDED, outputs=outputs)
    one_by_one, _ = operator(Script(a=[a], b=[b, 5]), strategy=BOUNDED, outputs=outputs)
    for row in drain(op, max_rows):
        # A row's split may end before the others go on: then they alone count.
        assert op.watermark() >= row[SWM]
    reached = one_by_one.watermark()
    while not isinstance(read := one_by_one.poll(1), EndOfInput):
        for out in read if isinstance(read, list) else []:
            [row] = out.batch.to_pylist()
            assert reached <= row[SWM] <= one_by_one.watermark()
        reached = one_by_one.watermark()


def test_a_split_alone_sets_the_watermark_and_another_holds_it() -> None:
    outputs = {MAIN: output_schema(wm=False).append(pa.field(SWM, pa.int64(), nullable=False))}
    op, _ = operator(Script(a=[[10, 12, 11], [20]], b=[[15], [40]]), strategy=BOUNDED, outputs=outputs)
    assert [(row["n"], row[SWM]) for row in drain(op)] == [
        (10, MIN_TIMESTAMP_MS),
        (12, MIN_TIMESTAMP_MS),
        (11, MIN_TIMESTAMP_MS),
        (15, MIN_TIMESTAMP_MS),
        # The other split has come to 15 - 3 - 1, and then to 20 - 3 - 1.
        (40, 8),
        (20, 8),
    ]


def scalar_oracle(times: list[int], bound_ms: int) -> list[tuple[int, int]]:
    stamped, latest = [], None
    for at in times:
        stamped.append((at, MIN_TIMESTAMP_MS if latest is None else latest - bound_ms - 1))
        latest = at if latest is None else max(latest, at)
    return stamped


@given(
    batches=st.lists(st.lists(st.integers(-50, 50), max_size=6), max_size=6),
    other=st.lists(st.integers(-50, 50), max_size=9),
    bound_ms=st.integers(0, 20),
    max_rows=st.integers(1, 8),
    cut=st.integers(0, 40),
)
def test_stamps_depend_on_the_split_alone(
    batches: list[list[int]], other: list[int], bound_ms: int, max_rows: int, cut: int
) -> None:
    """Check this for any sizes of batches and polls, another split, and any restored position."""
    strategy = Watermark.bounded_out_of_orderness(f"{bound_ms}ms", on="at")
    source = Script(a=[b for b in batches if b], b=[[], other, 5])
    first, _ = operator(source, strategy=strategy)
    rows = drain(first, max_rows, limit=cut)
    second, _ = operator(source, strategy=strategy, restored=saved(first))
    rows += drain(second, max_rows)
    times = [at for batch in batches for at in batch]
    expected = scalar_oracle(times, bound_ms) + scalar_oracle(other, bound_ms)
    assert sorted((row[TS], row[WM]) for row in rows) == sorted(expected)


@given(
    a=st.lists(st.integers(0, 50), max_size=8),
    b=st.lists(st.integers(0, 50), max_size=8),
    max_rows=st.integers(1, 5),
)
def test_the_watermark_rises_and_is_never_ahead_of_a_row_not_late(
    a: list[int], b: list[int], max_rows: int
) -> None:
    op, _ = operator(Script(a=[a], b=[b]), strategy=BOUNDED)
    reached = op.watermark()
    while not isinstance(read := op.poll(max_rows), EndOfInput):
        for out in read if isinstance(read, list) else []:
            for row in out.batch.to_pylist():
                # The merged watermark before a row is at or below its own split's.
                assert reached <= row[WM]
        assert op.watermark() >= reached
        reached = op.watermark()
    assert op.watermark() == MAX_TIMESTAMP_MS


@pytest.mark.parametrize(
    ("type_", "value", "ms"),
    [
        (pa.timestamp("ns", "UTC"), datetime(2026, 1, 1, 0, 0, 0, 1999, UTC), 1_767_225_600_001),
        (pa.timestamp("us"), datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
        (pa.timestamp("s", "Europe/Berlin"), datetime(2026, 1, 1, tzinfo=UTC), 1_767_225_600_000),
        (pa.date32(), date(1970, 1, 3), 2 * 86_400_000),
        (pa.date64(), date(1970, 1, 3), 2 * 86_400_000),
        (pa.int64(), 17, 17),
    ],
)
def test_event_time_is_read_from_every_time_column(type_: pa.DataType, value: Any, ms: int) -> None:
    schema = pa.schema([("at", type_)])
    source = collection(pa.table({"at": pa.array([value], type_)}))
    outputs = {MAIN: output_schema(wm=False, schema=schema)}
    op, _ = operator(source, strategy=Watermark.monotonic(on="at"), outputs=outputs)
    assert [row[TS] for row in drain(op)] == [ms]


@pytest.mark.parametrize(
    ("type_", "value", "said", "ms"),
    [
        (pa.int64(), 1_767_225_600, {"unit": "s"}, 1_767_225_600_000),
        (pa.int32(), 1_767_225_600, {"unit": "s"}, 1_767_225_600_000),
        (pa.int64(), 1_767_225_600, {"unit": "ms"}, 1_767_225_600),
        (pa.int64(), -1, {"unit": "us"}, -1),
        (pa.uint64(), 1_767_225_600_000_999_999, {"unit": "ns"}, 1_767_225_600_000),
        (pa.float64(), 1_767_225_600.5, {"unit": "s"}, 1_767_225_600_500),
        (pa.string(), "2026-01-01 00:00:00", {"format": "%Y-%m-%d %H:%M:%S"}, 1_767_225_600_000),
        (pa.string(), "2026-01-01T02:00+0200", {"format": "%Y-%m-%dT%H:%M%z"}, 1_767_225_600_000),
        (
            pa.large_string(),
            "1.1.2026 0:05:00.250",
            {"format": "%d.%m.%Y %H:%M:%S%.f"},
            1_767_225_900_250,
        ),
    ],
)
def test_numbers_have_a_unit_and_strings_a_format(
    type_: pa.DataType, value: Any, said: dict[str, Any], ms: int
) -> None:
    schema = pa.schema([("at", type_)])
    source = collection(pa.table({"at": pa.array([value], type_)}))
    outputs = {MAIN: output_schema(wm=False, schema=schema)}
    op, _ = operator(source, strategy=Watermark.monotonic(on="at", **said), outputs=outputs)
    assert [row[TS] for row in drain(op)] == [ms]


@pytest.mark.parametrize(
    ("values", "said", "what", "record"),
    [
        ([1_767_225_600, 1_767_225_601], {}, "look like seconds", "1767225600"),
        ([1_767_225_600_000_000], {}, "look like microseconds", "1767225600000000"),
        ([1_767_225_600_000_000_000], {}, "look like nanoseconds", "1767225600000000000"),
        ([1.0, float("nan")], {"unit": "s"}, "a record's event time in column", "nan"),
        ([1, 2**60], {"unit": "s"}, "a record's event time in column", str(2**60)),
        (["2026-01-01", "1 Jan"], {"format": "%Y-%m-%d"}, "a record's event time does", "'1 Jan'"),
    ],
)
def test_an_implausible_time_is_an_error_with_its_record(
    values: list[Any], said: dict[str, Any], what: str, record: str
) -> None:
    source = collection(pa.table({"at": values}))
    outputs = {MAIN: output_schema(wm=False, schema=source.schema)}
    op, _ = operator(source, strategy=Watermark.monotonic(on="at", **said), outputs=outputs)
    with pytest.raises(InputError, match=what) as caught:
        drain(op)
    assert caught.value.record == f"{{'at': {record}}}"
    assert caught.value.site is not None


def test_small_numbers_are_milliseconds_and_a_split_is_checked_once() -> None:
    op, _ = operator(Script(a=[[5, 10], [2 * 10**9]]), strategy=BOUNDED)
    assert [row[TS] for row in drain(op)] == [5, 10, 2 * 10**9]


def test_without_a_watermark_strategy_rows_are_forwarded_unchanged() -> None:
    op, _ = operator(Script(a=[[3, 1]]))
    assert drain(op) == [{"at": 3, "n": 3}, {"at": 1, "n": 1}]
    assert op.watermark() == MAX_TIMESTAMP_MS


def test_columns_are_converted_to_the_streams_types() -> None:
    source = collection(pa.table({"s": pa.array(["x"], pa.large_string())}))
    schema = pa.schema([("s", pa.string())])
    op, _ = operator(source, outputs={MAIN: schema})
    [out] = op.poll(1)  # type: ignore[misc]
    assert out.batch.schema == schema


def test_a_record_without_event_time_is_reported_with_its_place() -> None:
    op, ctx = operator(Script(a=[[1, None]]), strategy=BOUNDED)
    with pytest.raises(InputError, match="column 'at' is null") as caught:
        drain(op)
    assert caught.value.record == "{'at': None, 'n': None}"
    assert (caught.value.site, caught.value.operator) == (Site("program.py", 7), ctx.name)
    op, _ = operator(Script(a=[[1, 2**62]]), strategy=BOUNDED)
    with pytest.raises(InputError, match="out of range"):
        drain(op)


# --- splits, watermarks, idleness ------------------------------------------------------------------


def numbers(read: object) -> list[int]:
    assert isinstance(read, list), read
    return [n for out in read for n in out.batch.column("n").to_pylist()]


def test_splits_are_assigned_by_their_index() -> None:
    source = Script(a=[[1]], b=[[2]], c=[[3]], d=[[4]], e=[[5]])
    shares = [drain(operator(source, subtask=i, parallelism=3)[0]) for i in range(3)]
    assert [[row["n"] for row in share] for share in shares] == [[1, 4], [2, 5], [3]]


def test_a_subtask_without_splits_ends_at_once() -> None:
    op, _ = operator(Script(a=[[1]]), subtask=1, parallelism=2, strategy=BOUNDED)
    assert op.poll(10) == EndOfInput()
    assert op.watermark() == MAX_TIMESTAMP_MS
    assert not op.idle()


def test_a_pending_split_holds_the_watermark_but_not_the_rows() -> None:
    op, _ = operator(Script(a=[7, [100]], b=[[10], [20]]), strategy=BOUNDED)
    assert numbers(op.poll(1)) == [10]
    assert op.watermark() == MIN_TIMESTAMP_MS
    assert sorted(numbers(op.poll(10))) == [20, 100]
    assert op.watermark() == 16


def test_the_earliest_wake_up_is_requested() -> None:
    op, _ = operator(Script(a=[7], b=[None], c=[3]))
    assert op.poll(10) == Pending(3)
    op, _ = operator(Script(a=[None]))
    assert op.poll(10) == Pending(None)


def test_busy_splits_are_read_alternately() -> None:
    op, _ = operator(Script(a=[[1, 2, 3]], b=[[11, 12, 13]]))
    assert [numbers(op.poll(1)) for _ in range(4)] == [[1], [11], [2], [12]]
    assert sorted(numbers(op.poll(10))) == [3, 13]


def test_a_finished_split_no_longer_holds_the_watermark() -> None:
    op, _ = operator(Script(a=[[5]], b=[[50], 1, [60]]), strategy=BOUNDED)
    assert sorted(numbers(op.poll(10))) == [5, 50]
    assert op.watermark() == 1
    assert op.poll(10) == Pending(0)
    assert op.watermark() == 46


def test_idle_splits_release_the_watermark_and_return_without_regress() -> None:
    strategy = Watermark.bounded_out_of_orderness("3ms", on="at", idle_after="1s")
    op, ctx = operator(
        Script(a=[[10], None, None, None, [30], [40]], b=[[20], None, None, None, None, [50]]),
        strategy=strategy,
    )
    clock = ctx.clock
    assert isinstance(clock, ManualClock)
    assert sorted(numbers(op.poll(10))) == [10, 20]
    assert op.watermark() == 6
    assert op.poll(10) == Pending(1_000_000)
    clock.us += 600_000
    assert op.poll(10) == Pending(400_000)
    assert not op.idle()
    clock.us += 400_000
    assert op.poll(10) == Pending(None)
    assert op.idle()
    assert op.watermark() == 6
    assert numbers(op.poll(10)) == [30]
    assert not op.idle()
    assert op.watermark() == 26  # Split b is idle and steps aside.
    assert sorted(numbers(op.poll(10))) == [40, 50]
    assert op.watermark() == 36


def test_a_returning_split_behind_the_watermark_does_not_pull_it_back() -> None:
    strategy = Watermark.monotonic(on="at", idle_after="1s")
    op, ctx = operator(Script(a=[None, None, [5]], b=[[100], [200], [300]]), strategy=strategy)
    clock = ctx.clock
    assert isinstance(clock, ManualClock)
    op.poll(1)
    assert op.watermark() == MIN_TIMESTAMP_MS
    clock.us += 2_000_000
    op.poll(2)
    reached = op.watermark()
    assert reached >= 99
    op.poll(10)
    assert op.watermark() >= reached


def test_the_number_of_open_splits_is_bounded_and_others_hold_the_watermark() -> None:
    source = Script(**{f"s{i:02d}": [[i + 10]] for i in range(MAX_OPEN_SPLITS + 1)})
    op, _ = operator(source, strategy=BOUNDED)
    assert len(numbers(op.poll(100))) == MAX_OPEN_SPLITS
    assert len(source.opened) == MAX_OPEN_SPLITS
    assert op.watermark() == MIN_TIMESTAMP_MS
    assert op.poll(100) == Pending(0)
    assert numbers(op.poll(100)) == [MAX_OPEN_SPLITS + 10]
    assert op.watermark() == MAX_OPEN_SPLITS + 10 - 4
    assert op.poll(100) == EndOfInput()
    assert sorted(source.closed) == sorted(source.opened)


class Endless(Script):
    """Source in which splits whose names begin with `live` never end."""

    bounded = False

    def splits(self) -> Sequence[Split]:
        return [Split(name, name.encode(), phase=int(name.startswith("live"))) for name in self.steps]

    def endless(self, split: Split) -> bool:
        return split.id.startswith("live")


def test_endless_splits_are_all_open_and_read_alternately() -> None:
    steps = {f"live{i:02d}": [[i, i + 100, i + 200]] for i in range(MAX_OPEN_SPLITS + 4)}
    op, _ = operator(Endless(**steps), strategy=BOUNDED)
    rounds = [[n for _ in steps for n in numbers(op.poll(1))] for _ in range(3)]
    assert [sorted(n % 100 for n in read) for read in rounds] == [list(range(len(steps)))] * 3
    assert op.watermark() == 200 - 4


def test_bounded_splits_are_read_before_endless_ones() -> None:
    past = {f"past{i:02d}": [[i]] for i in range(MAX_OPEN_SPLITS + 2)}
    live = {f"live{i:02d}": [[1000 + i], None] for i in range(MAX_OPEN_SPLITS + 2)}
    source = Endless(**past, **live)
    op, _ = operator(source, strategy=BOUNDED)
    assert len(numbers(op.poll(100))) == len(source.opened) == MAX_OPEN_SPLITS
    assert op.poll(100) == Pending(0)
    assert numbers(op.poll(100)) == [MAX_OPEN_SPLITS, MAX_OPEN_SPLITS + 1]
    assert op.watermark() == MIN_TIMESTAMP_MS
    assert op.poll(100) == Pending(0)
    assert sorted(numbers(op.poll(100))) == [1000 + i for i in range(len(live))]
    assert op.watermark() == 1000 - 4


def test_a_generator_without_end_is_read_from_every_split() -> None:
    """Check this at the generator's rate, in virtual time."""
    made = generator(lambda block: {"at": block.index()}, rate_per_s=1700, splits=17)
    outputs = {MAIN: output_schema(wm=False, schema=made.schema)}
    op, ctx = operator(made, strategy=BOUNDED, outputs=outputs)
    assert isinstance(ctx.clock, ManualClock)
    op.poll(1000)
    ctx.clock.us += 1_000_000
    rows = 0
    while isinstance(read := op.poll(1000), list):
        rows += sum(out.batch.num_rows for out in read)
    assert 1700 <= rows <= 1717
    assert 95 <= op.watermark() <= 100


def test_rejected_rows_are_emitted_if_their_output_is_read() -> None:
    source = Script(a=["bad 1", [1], "bad 2"])
    outputs = {MAIN: SCHEMA, REJECTED: REJECTS}
    op, _ = operator(source, outputs=outputs)
    read: list[Out] = []
    while not isinstance(polled := op.poll(10), EndOfInput):
        read += polled if isinstance(polled, list) else []
    assert [out.batch.to_pylist()[0] for out in read if out.tag == REJECTED] == [
        {"why": "bad 1"},
        {"why": "bad 2"},
    ]
    op, _ = operator(source)
    assert [row["n"] for row in drain(op)] == [1]


def test_time_advances_if_only_rejected_rows_are_read() -> None:
    op, _ = operator(Script(a=[[10], "bad", 1]), strategy=BOUNDED, outputs={REJECTED: REJECTS})
    assert op.poll(10) == Pending(0)
    assert op.watermark() == 6
    [rejected] = op.poll(10)  # type: ignore[misc]
    assert rejected.batch.to_pylist() == [{"why": "bad"}]
    assert op.poll(10) == EndOfInput()


# --- phases ----------------------------------------------------------------------------------------


class Phased(Script):
    """Source with the phase of a split in its name; `earliest` is the known begin of splits of phase
    1."""

    earliest: int | None = None

    def splits(self) -> Sequence[Split]:
        return [Split(name, name.encode(), int(name[1:])) for name in self.steps]

    def earliest_ms(self, split: Split, on: TimeColumn) -> int | None:
        return self.earliest if split.phase == 1 else None


def test_a_single_subtask_reads_phase_by_phase() -> None:
    source = Phased(b1=[[5]], c2=[[7]], a0=[[1], [2]])
    op, _ = operator(source)
    assert not op.waits_for_others
    assert [row["n"] for row in drain(op)] == [1, 2, 5, 7]
    assert source.opened == ["a0", "b1", "c2"]


def test_a_phase_waits_for_the_other_subtasks() -> None:
    source = Phased(a0=[[1]], b0=[[2]], c1=[[3]], d1=[[4]])
    op, _ = operator(source, subtask=0, parallelism=2)
    assert op.waits_for_others
    assert numbers(op.poll(10)) == [1]
    assert op.reached_phase() == 0
    assert op.poll(10) == Pending(0)
    assert op.reached_phase() == 1
    assert op.poll(10) == Pending(None)
    assert source.opened == ["a0"]
    op.open_phase(1)
    assert numbers(op.poll(10)) == [3]
    assert op.poll(10) == EndOfInput()


def test_a_subtask_without_splits_of_a_phase_is_past_it_at_once() -> None:
    source = Phased(a0=[[1]], b2=[[3]], c1=[[2]])
    shares = [operator(source, subtask=i, parallelism=4)[0] for i in range(4)]
    assert [op.reached_phase() for op in shares] == [0, 2, 1, 2]
    assert shares[3].poll(10) == EndOfInput()
    assert [op.poll(10) for op in shares[1:3]] == [Pending(None)] * 2
    shares[2].open_phase(1)
    shares[2].open_phase(0)
    assert numbers(shares[2].poll(10)) == [2]


def test_a_waiting_phase_holds_the_watermark_and_is_not_idle() -> None:
    strategy = Watermark.bounded_out_of_orderness("3ms", on="at", idle_after="1s")
    source = Phased(a0=[[10], [90]], b0=[[1]], c1=[[100], None, None, None])
    op, ctx = operator(source, subtask=0, parallelism=2, strategy=strategy)
    clock = ctx.clock
    assert isinstance(clock, ManualClock)
    op.poll(10)
    assert op.watermark() == MIN_TIMESTAMP_MS
    op.poll(10)
    assert op.poll(10) == Pending(0)
    clock.us += 5_000_000
    assert op.poll(10) == Pending(None)
    assert not op.idle()
    assert op.watermark() == MIN_TIMESTAMP_MS
    op.open_phase(1)
    assert numbers(op.poll(10)) == [100]
    assert op.watermark() == 96
    assert op.poll(10) == Pending(1_000_000)
    clock.us += 1_000_000
    assert op.poll(10) == Pending(None)
    assert op.idle()


def test_a_phase_that_is_known_to_begin_late_holds_the_watermark_there() -> None:
    source = Phased(a0=[[10], [300]], c1=[[201, 200]])
    source.earliest = 200
    op, _ = operator(source, strategy=BOUNDED)
    op.poll(1)
    assert op.watermark() == 6
    op.poll(1)
    assert op.watermark() == 199  # Of a row at 300 with a bound of 3 it would be 296.
    assert op.poll(1) == Pending(0)
    assert op.watermark() == 199
    [out] = op.poll(10)  # type: ignore[misc]
    assert [row[WM] for row in out.batch.to_pylist()] == [MIN_TIMESTAMP_MS, 197]
    assert op.watermark() == 199
    op.poll(1)
    assert op.watermark() == MAX_TIMESTAMP_MS


def test_a_restored_subtask_knows_what_the_others_had_read() -> None:
    source = Phased(a0=[[1]], b0=[[2]], c1=[[3]], d1=[[4]])
    firsts = [operator(source, subtask=i, parallelism=2)[0] for i in range(2)]
    drain(firsts[0], limit=1)
    firsts[0].poll(1)
    halfway = saved(*firsts)
    drain(firsts[1], limit=1)
    firsts[1].poll(1)
    all_read = saved(*firsts)

    op, _ = operator(source, subtask=1, parallelism=3, restored=halfway)
    assert op.waits_for_others
    op, _ = operator(source, subtask=2, parallelism=3, restored=halfway)
    assert op.poll(10) == Pending(None)
    op, _ = operator(source, subtask=2, parallelism=3, restored=all_read)
    assert not op.waits_for_others
    assert numbers(op.poll(10)) == [3]


def test_an_unlisted_split_keeps_its_phase() -> None:
    source = Phased(a0=[[1]], b1=[[2]])
    state = saved(operator(source)[0])
    op, _ = operator(source, restored=state, splits=source.splits()[1:])
    assert [row["n"] for row in drain(op)] == [1, 2]


def test_state_without_phases_is_read() -> None:
    source = Script(a=[[1, 2]], b=[[3]])
    first, _ = operator(source)
    first.poll(1)
    state = {SPLITS: [table.drop_columns(["phase"]) for table in saved(first)[SPLITS]]}
    second, _ = operator(source, restored=state, splits=[])
    assert sorted(row["n"] for row in drain(second)) == [2, 3]


class Empties(Script):
    """Source that first emits as many empty batches as its first step tells."""

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        reader = ScriptReader(self, split.id, (1, 0), ctx)
        empty = [pa.RecordBatch.from_pylist([], schema=SCHEMA)] * self.steps[split.id][0]
        rows = reader.poll
        reader.poll = lambda max_rows: empty.pop() if empty else rows(max_rows)  # type: ignore[method-assign]
        return reader


def test_an_empty_batch_is_not_a_pause() -> None:
    strategy = Watermark.bounded_out_of_orderness("3ms", on="at", idle_after="1s")
    op, ctx = operator(Empties(a=[3, [7]]), strategy=strategy)
    clock = ctx.clock
    assert isinstance(clock, ManualClock)
    for _ in range(3):
        assert op.poll(10) == Pending(0)
        clock.us += 900_000
        assert not op.idle()
    assert numbers(op.poll(10)) == [7]


# --- state -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5), (2, 2)])
def test_a_job_is_restored_at_another_parallelism(before: int, after: int) -> None:
    source = Script(**{f"s{i}": [[100 * i + n for n in range(i + 3)]] for i in range(4)})
    firsts = [
        operator(source, subtask=i, parallelism=before, strategy=BOUNDED)[0] for i in range(before)
    ]
    rows = [row for op in firsts for row in drain(op, 2, limit=5)]
    state = saved(*firsts)
    for i in range(after):
        op, _ = operator(source, subtask=i, parallelism=after, strategy=BOUNDED, restored=state)
        rows += drain(op, 2)
    assert len(rows) == 3 + 4 + 5 + 6
    expected = [pair for steps in source.steps.values() for pair in scalar_oracle(steps[0], 3)]
    assert sorted((row[TS], row[WM]) for row in rows) == sorted(expected)


def test_added_and_removed_splits_are_read() -> None:
    source = Script(a=[[1, 2]], b=[[3]], z=[[9]])
    first, _ = operator(source, splits=source.splits()[:2])
    assert drain(first, 1, limit=2) == [{"at": 1, "n": 1}, {"at": 3, "n": 3}]
    state = saved(first)
    gone_and_new = source.splits()[1:]
    found = [
        drain(operator(source, restored=state, splits=gone_and_new, subtask=i, parallelism=2)[0])
        for i in range(2)
    ]
    assert sorted(row["n"] for rows in found for row in rows) == [2, 9]


def test_finished_splits_are_not_opened_again() -> None:
    source = Script(a=[[1]])
    first, _ = operator(source, strategy=BOUNDED)
    drain(first)
    source.opened.clear()
    second, _ = operator(source, strategy=BOUNDED, restored=saved(first))
    assert second.poll(10) == EndOfInput()
    assert source.opened == []
    assert second.watermark() == MAX_TIMESTAMP_MS


def test_a_snapshot_is_frozen_when_it_is_taken() -> None:
    op, _ = operator(Script(a=[[1, 2, 3]]))
    op.poll(1)
    [part] = op.snapshot(CheckpointId(1)).parts
    op.poll(1)
    source = Script(a=[[1, 2, 3]])
    again, _ = operator(source, restored={SPLITS: [part.write()]})
    assert [row["n"] for row in drain(again)] == [2, 3]


def test_closing_closes_the_readers() -> None:
    source = Script(a=[[1, 2]], b=[[3]])
    op, _ = operator(source)
    op.poll(1)
    op.close()
    assert sorted(source.closed) == ["a", "b"]
