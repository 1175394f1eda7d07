"""Functions of whole batches: rounds and groups, state as arrays, timers, outputs, errors, and state
that other forms of the function read."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import InputError, ProgramError, RheosError, SchemaError, StateAccessError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.batch_state import RowKeys
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, WatermarkMark, visible
from rheos.core.state.columnar.state import columnar_state
from rheos.core.state.keys import KeyCodec
from rheos.core.state.memory import MemoryBackend
from rheos.core.state.scope import KeyScope
from rheos.testing import OperatorExample, check_example
from rheos.testing.harness import replay
from tests.core.operators.contexts import StillClock
from tests.core.operators.test_process import OUTPUT, Count, Event, events, feed, make, rows, save

STEPS = pa.schema([("user", pa.string()), ("n", pa.int64()), ("at", pa.int64())])


def keys_of(names: list[str]) -> RowKeys:
    schema = pa.schema([("user", pa.string())])
    codec = KeyCodec(schema, ("user",))
    state = columnar_state([], codec, MemoryBackend(codec, 8, KeyScope(StillClock())))
    return RowKeys(state, state.enter([pa.array(names, pa.string())]), None, ("user",))


@pytest.mark.parametrize("users", [1, 3, 50])
def test_rounds_contain_each_key_once_and_keep_the_order(users: int) -> None:
    draw = random.Random(users)
    names = [f"u{draw.randrange(users)}" for _ in range(200)]
    seen: Counter[str] = Counter()
    came: list[int] = []
    for number, positions in enumerate(keys_of(names).rounds()):
        assert positions.tolist() == sorted(positions.tolist())
        for row in positions.tolist():
            assert seen[names[row]] == number == names[:row].count(names[row])
            seen[names[row]] += 1
        came += positions.tolist()
    assert sorted(came) == list(range(200))
    for rows_of_one in (0, 1, 8, 9):
        assert len(list(keys_of(["a"] * rows_of_one).rounds())) == rows_of_one


def test_groups_bring_the_rows_of_a_key_together() -> None:
    names = list("abacabb")
    keys = keys_of(names)
    order, starts = keys.groups()
    found = {names[part[0]]: part.tolist() for part in np.split(order, starts[1:])}
    assert found == {"a": [0, 2, 4], "b": [1, 5, 6], "c": [3]}
    assert keys[order[starts]].frame()["user"].to_list() == [names[row] for row in order[starts]]


# --- one function in two forms ------------------------------------------------------------------------


class CountBatches(rh.KeyedBatchFunction):
    """Batch form of `Count`, with a state of the same name."""

    total = rh.ValueState(int, default=0)

    def process_batch(
        self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState
    ) -> Iterator[rh.Emit[Any]]:
        numbers = batch["n"].to_numpy()
        totals = np.empty(len(keys), np.int64)
        for at in keys.rounds():
            totals[at] = state.total[keys[at]] + numbers[at]
            state.total[keys[at]] = totals[at]
        yield rh.Emit({"user": batch["user"], "total": totals})


class CountArrow(CountBatches):
    """The same with Arrow's batches."""

    form = "arrow"
    emitted = "batch"

    def process_batch(
        self, keys: rh.BatchKeys, batch: Any, state: rh.BatchState
    ) -> Iterator[rh.Emit[Any]]:
        assert isinstance(batch, pa.RecordBatch)
        assert batch.schema.names == ["user", "n"], "the user's columns alone"
        for emit in super().process_batch(keys, pl.DataFrame(batch), state):
            given: Any = {name: emit.columns[name] for name in ("user", "total")}
            given["user"] = batch["user"]
            if self.emitted == "frame":
                given = pl.DataFrame(given)
            elif self.emitted != "arrays":
                made = pa.table({"total": given["total"], "user": given["user"]})
                given = made if self.emitted == "table" else made.to_batches()[0]
            yield rh.Emit(given)


@pytest.mark.parametrize("emitted", ["batch", "table", "frame", "arrays"])
def test_a_function_receives_arrow_and_may_return_any_form(emitted: str) -> None:
    given = [("a", 1, 9, 5), ("b", 1), ("a", 5), ("a", 1)]
    arrow: Any = CountArrow()
    arrow.emitted = emitted
    polars: Any = CountBatches()
    assert rows(feed(make(arrow), *given)) == rows(feed(make(polars), *given))


def test_forms_of_a_function_share_their_state() -> None:
    plain = make(Count())
    feed(plain, ("a", 1), ("b", 2), ("a", 3))
    chains = save(plain)
    feed(plain, ("b", 10))
    batches: Any = CountBatches()
    vectorised = make(batches, restored=save(plain, chains))
    assert rows(feed(vectorised, ("a", 1, 9, 5), ("b", 1), ("c", 5), ("a", 1))) == [
        ("a", 5, 9, 5),
        ("b", 13, 0, MIN_TIMESTAMP_MS),
        ("c", 5, 0, MIN_TIMESTAMP_MS),
        ("a", 6, 0, MIN_TIMESTAMP_MS),
    ]
    chains = save(vectorised)
    feed(vectorised, ("c", 1))
    again = save(vectorised, chains)
    assert [table.num_rows for table in again["total"]] == [3, 1], "a delta has what has changed"
    assert [row[:2] for row in rows(feed(make(Count(), restored=again), ("c", 1), ("a", 0)))] == [
        ("c", 7),
        ("a", 6),
    ]


def test_a_null_key_is_refused_by_batch_functions_too() -> None:
    batches: Any = CountBatches()
    with pytest.raises(InputError, match="the key column 'user' is null"):
        feed(make(batches), ("a", 1), (None, 2))


# --- timers -------------------------------------------------------------------------------------------


class Quiet(rh.KeyedBatchFunction):
    """Emits how many steps a user took before it was idle for 10 ms."""

    side_outputs = {"kinds": Event}
    steps = rh.ValueState(int, default=0)
    last = rh.ValueState(int, default=0)
    active = rh.ValueState(bool, default=False)
    mean = rh.ValueState(float, default=0.0)

    def process_batch(
        self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState
    ) -> Iterator[rh.Emit[Any]]:
        numbers = batch["n"].to_numpy()
        for at in keys.rounds():
            users, times = keys[at], keys.timestamps[at]
            opened = state.active[users]
            was_quiet = opened & (times > state.last[users] + 10)
            if was_quiet.any():
                yield self.ended(users[was_quiet], state, at[was_quiet])
                state.steps[users[was_quiet]] = 0
                state.mean.clear(users[was_quiet])
            state.timers.delete(users[opened], state.last[users[opened]] + 10)
            steps = state.steps[users]
            state.mean[users] = (state.mean[users] * steps + numbers[at]) / (steps + 1)
            state.steps[users] = steps + 1
            state.last[users] = times
            state.active[users] = True
            state.timers.register(users, times + 10)

    def on_timers(
        self, keys: rh.BatchKeys, timestamps: Any, state: rh.BatchState
    ) -> Iterator[rh.Emit[Any]]:
        assert (timestamps == state.last[keys] + 10).all()
        assert state.active.is_set(keys).all()
        yield self.ended(keys, state, np.arange(len(keys)))
        for column in (state.steps, state.last, state.active, state.mean):
            column.clear(keys)

    def ended(self, keys: rh.BatchKeys, state: rh.BatchState, at: Any) -> rh.Emit[Any]:
        columns = {"steps": state.steps[keys], "last": state.last[keys], "mean": state.mean[keys]}
        return rh.Emit(keys.frame().with_columns(**columns), rows=at)


def test_timers_are_registered_deleted_and_fired_as_arrays() -> None:
    columns = {"user": str, "steps": int, "last": int, "mean": float}
    check_example(
        OperatorExample(
            lambda steps: steps.key_by("user").process(Quiet(), returns=columns),
            STEPS,
            [
                {"user": "a", "n": 1, "at": 1},
                {"user": "b", "n": 2, "at": 4},
                {"user": "a", "n": 4, "at": 8},
                WatermarkMark(15),
                {"user": "b", "n": 1, "at": 20},
                WatermarkMark(17),
                {"user": "b", "n": 4, "at": 21},
            ],
            on="at",
        ),
        {
            "out": [
                {"user": "b", "steps": 1, "last": 4, "mean": 2.0},
                {"user": "a", "steps": 2, "last": 8, "mean": 2.5},
                {"user": "b", "steps": 2, "last": 21, "mean": 2.5},
            ]
        },
    )


class OnClock(rh.KeyedBatchFunction):
    def process_batch(self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState) -> None:
        state.timers.register_processing(keys, np.array([30, 20, 40]))
        state.timers.delete_processing(keys[batch["n"].to_numpy() == 3], 40)

    def on_timers(
        self, keys: rh.BatchKeys, timestamps: Any, state: rh.BatchState
    ) -> Iterator[rh.Emit[Any]]:
        yield rh.Emit({"user": keys.frame()["user"], "total": timestamps}, np.arange(len(keys)))


def test_processing_time_timers_fire() -> None:
    clock: Any = OnClock()
    operator = make(clock)
    feed(operator, ("a", 1), ("b", 2), ("c", 3))
    assert operator.next_processing_time_ms() == 20
    assert [row[:2] for row in rows(operator.on_processing_time(35))] == [("b", 20), ("a", 30)]
    assert operator.next_processing_time_ms() is None


def test_a_timer_that_is_due_among_rows_fires_between_them() -> None:
    calls: list[Any] = []

    class Calls(rh.KeyedBatchFunction):
        def process_batch(self, keys: Any, batch: pl.DataFrame, state: rh.BatchState) -> None:
            calls.append(batch["n"].to_list())
            if batch["n"][0] == 0:
                state.timers.register(keys, 15)

        def on_timers(self, keys: Any, timestamps: Any, state: rh.BatchState) -> None:
            calls.append(("timer", keys.frame()["user"].to_list(), state.watermark))

    schema = pa.schema([*events().schema, pa.field("__swm", pa.int64())])
    function: Any = Calls()
    operator = make(function, input_schema=schema)

    def batch(*numbers: int, reached: list[int]) -> pa.RecordBatch:
        shown = events(*(("a", n, 100 + n) for n in numbers))
        return pa.RecordBatch.from_arrays([*shown.columns, pa.array(reached)], schema=schema)

    list(operator.on_batch(0, batch(0, reached=[5])))
    list(operator.on_batch(0, batch(1, 2, 3, reached=[14, 15, 16])))
    assert calls == [[0], [1], ("timer", ["a"], 15), [2, 3]]


# --- texts --------------------------------------------------------------------------------------------


def test_unused_strings_are_released() -> None:
    codec = KeyCodec(pa.schema([("k", pa.int64())]), ("k",))

    class Declared(rh.KeyedBatchFunction):
        url = rh.ValueState(str, default="none")

    state = columnar_state([Declared.url], codec, MemoryBackend(codec, 8, KeyScope(StillClock())))
    column = state.columns["url"]
    for turn in range(5):
        slots = state.enter([pa.array(range(20_000))])
        texts = pa.array([f"{turn} {n}" for n in range(20_000)])
        column.put(slots, state.texts.of_column(texts), None)
        state.leave()
    assert len(state.texts) < 60_000
    slots = state.enter([pa.array([7, 19_999, 20_000])])
    assert state.texts.array(column.values[slots]).to_pylist() == ["4 7", "4 19999", "none"]


# --- errors -------------------------------------------------------------------------------------------


class Wrong(rh.KeyedBatchFunction):
    total = rh.ValueState(int, default=0)
    name = rh.ValueState(str, default="")
    ratio = rh.ValueState(float, default=0.0)

    def __init__(self, does: str) -> None:
        self.does = does

    def process_batch(self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState) -> Any:
        return eval(self.does, {"rh": rh, "np": np, "pl": pl}, locals())

    def on_timers(self, keys: rh.BatchKeys, timestamps: Any, state: rh.BatchState) -> Any:
        return None


@pytest.mark.parametrize(
    ("does", "error", "says"),
    [
        (
            "state.total.__setitem__(keys, 0.5)",
            StateAccessError,
            "is declared as int, but was assigned float64",
        ),
        ("state.total.__setitem__(keys, None)", StateAccessError, "declared as int"),
        (
            "state.name.__setitem__(keys, [None])",
            StateAccessError,
            "is declared as str, but was assigned nulls",
        ),
        (
            "state.ratio.__setitem__(keys, pl.Series([None], dtype=pl.Float64))",
            StateAccessError,
            "is declared as float, but was assigned nulls",
        ),
        ("state.name.__setitem__(keys, [1.5])", StateAccessError, "declared as str"),
        ("state.name.__setitem__(keys, ['a', 'b'])", StateAccessError, "shape \\(2,\\) for 1 keys"),
        ("state.timers.register(keys, [1, 2])", StateAccessError, "a timer received an array of"),
        ("state.total[0]", StateAccessError, "was indexed with int, not with keys"),
        ("setattr(state, 'total', 3)", StateAccessError, "replaced as a whole"),
        ("state.timers.register(keys, 0.5)", RheosError, "integer milliseconds"),
        ("[3]", RheosError, "but must yield rh.Emit"),
        ("rh.Emit({'user': ['a']})", RheosError, "returned the columns user: .*, but declares"),
        ("rh.Emit({'user': ['a', 'b'], 'total': [1, 2]})", RheosError, "returned 2 rows for 1"),
        ("rh.Emit({'user': ['a'], 'total': [1]}, np.array([4]))", RheosError, "in a batch of 1"),
        ("rh.Emit({'user': ['a'], 'total': [1]}, np.array([True]))", RheosError, "not positions"),
        ("rh.Emit({'user': ['a'], 'total': 'x'})", RheosError, "declares"),
        (
            "rh.Emit({'user': np.array(['a']), 'total': np.zeros(2)})",
            RheosError,
            "returned columns that do not form a frame",
        ),
        (
            "rh.Emit({'user': np.array(['a']), 'total': np.zeros((1, 2))})",
            RheosError,
            "returned columns that do not form a frame",
        ),
        ("rh.Emit(3)", RheosError, "returned columns that do not form a frame"),
        ("rh.Emit({}, tag='warn')", ProgramError, "not a declared side output"),
    ],
)
def test_errors_of_a_function_are_reported(does: str, error: type[RheosError], says: str) -> None:
    function: Any = Wrong(does)
    with pytest.raises(error, match=says) as caught:
        feed(make(function), ("a", 1))
    assert caught.value.operator == "the operator"
    assert caught.value.hint or says == "integer milliseconds"


@pytest.mark.parametrize(
    ("positions", "says"),
    [
        ("np.array([True])", "not positions"),
        ("np.array([0.0])", "not positions"),
        ("[0, 0]", "has 2 positions"),
        ("[1]", "in a batch of 1"),
        ("[0]", None),
    ],
)
def test_positions_are_checked_without_event_time_too(positions: str, says: str | None) -> None:
    function: Any = Wrong(f"rh.Emit({{'user': ['a'], 'total': [1]}}, {positions})")
    operator = make(function, outputs={MAIN: visible(OUTPUT)})
    if says is None:
        assert rows(feed(operator, ("a", 1))) == [("a", 1)]
        return
    with pytest.raises(RheosError, match=says):
        feed(operator, ("a", 1))


def stream() -> rh.KeyedStream:
    env = rh.Environment(1)
    return env.from_source(rh.collection(STEPS.empty_table())).key_by("user")


def declaring(declared: Any, name: str = "it") -> Any:
    return type("Declaring", (Wrong,), {name: declared})("")


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (rh.ListState(int), "is a ListState, but a function of batches supports only single values"),
        (rh.ValueState(list[int]), "supports only int, float, bool and str"),
        (rh.ValueState(int), "has no default"),
        (rh.ValueState(float, default=0), "has the default 0"),
        (rh.ValueState(int, default=1 << 64), "its default is int"),
    ],
)
def test_state_without_a_column_type_is_refused(declared: Any, says: str) -> None:
    function = declaring(declared)
    declared.name = "it"
    with pytest.raises(ProgramError, match=says) as caught:
        stream().process(function, returns=STEPS)
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


def test_incomplete_functions_are_refused() -> None:
    class Nothing(rh.KeyedBatchFunction):
        pass

    with pytest.raises(ProgramError, match="does not define process_batch"):
        stream().process(Nothing())
    with pytest.raises(SchemaError, match="does not declare the type of its output records"):
        stream().process(Wrong(""))
    named = rh.ValueState(int, default=0)
    function = declaring(named, "watermark")
    named.name = "watermark"
    with pytest.raises(ProgramError, match="cannot have a state named 'watermark'"):
        stream().process(function, returns=STEPS)


def test_an_error_of_a_function_names_its_line() -> None:
    function: Any = Wrong("1 // 0")
    with pytest.raises(RheosError, match="ZeroDivisionError") as caught:
        feed(make(function), ("a", 1), ("b", 2))
    assert caught.value.record == "one of 2, the first of which is {'user': 'a', 'n': 1}"


def test_groups_by_key_equal_rounds() -> None:
    class Running(rh.KeyedBatchFunction):
        total = rh.ValueState(int, default=0)

        def process_batch(
            self, keys: rh.BatchKeys, batch: pl.DataFrame, state: rh.BatchState
        ) -> Iterator[rh.Emit[Any]]:
            order, starts = keys.groups()
            users = keys[order[starts]]
            sums = np.add.reduceat(batch["n"].to_numpy()[order], starts)
            state.total[users] = state.total[users] + sums
            yield rh.Emit(users.frame().with_columns(total=state.total[users]), order[starts])

    draw = random.Random(3)
    script = [{"user": draw.choice("abc"), "n": draw.randrange(9), "at": 0} for _ in range(20)]
    totals: dict[str, int] = defaultdict(int)
    for row in script:
        totals[str(row["user"])] += int(row["n"])
    example = OperatorExample(
        lambda steps: steps.key_by("user").process(Running(), returns={"user": str, "total": int}),
        STEPS,
        script,
        last_by=("user",),
    )
    check_example(example)
    assert {(row["user"], row["total"]) for row in replay(example)["out"]} == set(totals.items())
