"""The context that functions receive when they are opened, and the metrics that they count."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.api import overrides
from rheos.api.overrides import Overrides
from rheos.core.errors import ConfigurationError, ProgramError, RheosError, UnknownKeyError
from rheos.core.graph.parameters import Parameters
from rheos.core.operators.runtime_context import Accumulator, Counter, Distribution
from rheos.core.protocol.accumulators import Accumulated, bucket_of
from rheos.runtimes.host import worker_objects as loading
from rheos.testing import Faults, simulate

SCHEMA = pa.schema([("i", pa.int64())])
COUNT = 300


def numbered(block: rh.Block) -> pa.RecordBatch:
    """Return the numbers from 0 to 299, in three splits."""
    numbers = range(block.start, block.start + block.rows)
    return pa.RecordBatch.from_pydict({"i": [3 * n + block.split for n in numbers]}, SCHEMA)


def rows(env: rh.Environment) -> rh.DataStream:
    source = rh.generator(numbered, count=COUNT, rate_per_s=3000, splits=3, schema=SCHEMA, block_rows=8)
    return env.from_source(source)


class Counting(rh.RichFunction):
    """Counts in all ways."""

    def open(self, ctx: rh.RuntimeContext) -> None:
        self.ctx = ctx
        self.step = ctx.parameters.int("step", default=1)
        self.even = ctx.counter("even")
        self.values = ctx.accumulator("values")
        self.spread = ctx.histogram("spread")
        ctx.gauge("last", lambda: self.last)
        self.last = -1

    def __call__(self, row: Any) -> Any:
        self.last = max(self.last, row.i)
        if row.i % 2 == 0:
            self.even.add()
        self.values.add(row.i)
        self.spread.add(row.i)
        return {"i": row.i, "w": row.i + self.step}


def counting(env: rh.Environment) -> Mapping[str, rh.DataStream]:
    return {"out": rows(env).map(Counting(), returns={"i": int, "w": int}).name("count")}


def run(build: Callable[..., Any], env: rh.Environment) -> rh.JobResult:
    for name, stream in build(env).items():
        stream.collect(name)
    return env.execute("the job")


def simulated(**arguments: Any) -> rh.Environment:
    return rh.Environment(2, runtime="simulated", restart=rh.restart.none(), **arguments)


def test_metrics_of_functions_are_in_the_result() -> None:
    done = run(counting, simulated(parameters={"step": 5}))
    assert done.collected["out"]["w"].to_pylist()[:1] != []
    assert sum(done.collected["out"]["w"].to_pylist()) == sum(range(COUNT)) + 5 * COUNT
    assert done.counter("count", "even") == COUNT // 2
    values = done.accumulator("count", "values")
    assert (values.n, values.total, values.least, values.most) == (
        COUNT,
        sum(range(COUNT)),
        0,
        COUNT - 1,
    )
    spread = done.accumulator("count", "spread")
    median = spread.quantile(0.5)
    assert median is not None
    assert abs(median - COUNT / 2) < 0.04 * COUNT
    (status,) = (each for each in done.status.operators if each.name == "count")
    assert status.gauges == {"last": COUNT - 1}
    with pytest.raises(UnknownKeyError, match="the accumulators are spread, values"):
        done.accumulator("count", "nothing")


def test_rows_that_are_processed_again_count_once() -> None:
    for seed in range(2):
        done = simulate(counting, seed=seed, faults=Faults(crash_slot=40.0))
        assert done.crashes > 0
        (status,) = (each for each in done.status.operators if each.name == "count")
        assert status.counters == {"even": COUNT // 2}
        assert status.accumulated["values"] == Accumulated(COUNT, sum(range(COUNT)), 0, COUNT - 1)


def test_a_function_knows_its_subtask_and_attempt() -> None:
    class Where(rh.RichFunction):
        def open(self, ctx: rh.RuntimeContext) -> None:
            self.ctx = ctx

        def __call__(self, row: Any) -> Any:
            ctx = self.ctx
            yield {
                "subtask": ctx.subtask,
                "of": ctx.parallelism,
                "attempt": ctx.attempt,
                "job": ctx.job_name,
                "id": ctx.job_id.partition("-")[0],
                "operator": ctx.operator,
            }

    where: dict[str, type] = dict.fromkeys(("subtask", "of", "attempt"), int)
    where |= dict.fromkeys(("job", "id", "operator"), str)

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        return {"out": rows(env).rebalance().flat_map(Where(), returns=where).name("where")}

    found = {tuple(row.values()) for row in run(build, simulated()).collected["out"].to_pylist()}
    assert found == {(at, 2, 1, "the job", "the", "where") for at in range(2)}


class Opened(rh.KeyedProcessFunction):
    """Opened with the context."""

    def open(self, ctx: rh.RuntimeContext) -> None:
        self.rows = ctx.counter("rows")

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[Any]:
        self.rows.add()
        yield {"i": row.i}


class OpenedBefore(Opened):
    """Opened without a context, as functions were written in earlier releases."""

    def open(self) -> None:
        self.rows = NoCounter()


class NoCounter(rh.RichFunction):
    def add(self) -> None:
        pass


def test_keyed_functions_and_batch_functions_are_opened() -> None:
    class Batches(rh.RichFunction):
        closed: list[int]

        def __init__(self, closed: list[int]) -> None:
            self.closed = closed

        def __deepcopy__(self, memo: object) -> Batches:
            return Batches(self.closed)

        def open(self, ctx: rh.RuntimeContext) -> None:
            self.rows = ctx.counter("rows")

        def __call__(self, batch: pl.DataFrame) -> pl.DataFrame:
            self.rows.add(len(batch))
            return batch

        def close(self) -> None:
            self.closed.append(self.rows.value)

    closed: list[int] = []

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        mapped = rows(env).map_batches(Batches(closed), returns=SCHEMA).name("batches")
        keyed = mapped.key_by("i").process(Opened(), returns=SCHEMA).name("keyed")
        return {"out": keyed, "old": mapped.key_by("i").process(OpenedBefore(), returns=SCHEMA)}

    done = run(build, simulated())
    assert done.counter("batches", "rows") == done.counter("keyed", "rows") == COUNT
    assert len(closed) == 2
    assert sum(closed) == COUNT
    assert done.collected["old"].num_rows == COUNT


def test_an_error_in_open_has_its_line() -> None:
    class Needy(rh.RichFunction):
        def open(self, ctx: rh.RuntimeContext) -> None:
            ctx.parameters.duration_ms("wait")

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        return {"out": rows(env).map(Needy(), returns=SCHEMA)}

    with pytest.raises(RheosError) as raised:
        run(build, simulated(parameters={"wit": "5s"}))
    error = raised.value
    assert error.what == "the job has no parameter 'wait'"
    assert error.hint is not None
    assert error.hint.startswith("did you mean 'wit'?")
    assert error.site is not None
    assert error.site.line == inspect.getsourcelines(Needy.open)[1] + 1


class FailsToClose(rh.RichFunction):
    def __call__(self, row: Any) -> Any:
        return {"i": row.i}

    def close(self) -> None:
        raise OSError("the disk is full")


class KeyedFailsToClose(rh.KeyedProcessFunction):
    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Any:
        yield {"i": row.i}

    def close(self) -> None:
        raise OSError("the disk is full")


class UnkeyedFailsToClose(rh.ProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield {"i": row.i}

    def close(self) -> None:
        raise OSError("the disk is full")


class AsyncFailsToClose(rh.AsyncFunction):
    async def invoke(self, row: Any) -> Any:
        return {"i": row.i}

    async def close(self) -> None:
        raise OSError("the disk is full")


@pytest.mark.parametrize(
    ("fn", "write"),
    [
        (FailsToClose, lambda env, fn: rows(env).map(fn, returns=SCHEMA)),
        (KeyedFailsToClose, lambda env, fn: rows(env).key_by("i").process(fn, returns=SCHEMA)),
        (UnkeyedFailsToClose, lambda env, fn: rows(env).process(fn, returns=SCHEMA)),
        (AsyncFailsToClose, lambda env, fn: rows(env).map_async(fn, returns=SCHEMA)),
    ],
)
def test_a_function_that_fails_to_close_fails_the_job(
    fn: type, write: Callable[[rh.Environment, Any], rh.DataStream]
) -> None:
    with pytest.raises(RheosError, match="the disk is full") as raised:
        run(lambda env: {"out": write(env, fn())}, simulated())
    assert raised.value.site is not None
    assert raised.value.site.line == inspect.getsourcelines(fn.close)[1] + 1


def test_a_failed_close_in_a_cancelled_attempt_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        def wrong(row: Any) -> Any:
            if row.i == 7:
                raise ValueError("row 7")
            return {"i": row.i}

        # Whose subtask has the row fails, and the other one is cancelled.
        closing = rows(env).map(FailsToClose(), returns=SCHEMA)
        return {"out": closing.map(wrong, returns=SCHEMA)}

    with pytest.raises(RheosError, match="row 7"):
        run(build, simulated())
    assert "the disk is full" in caplog.text


# --- parameters -------------------------------------------------------------------------------------


def test_parameters_are_parsed_to_the_requested_type() -> None:
    given = Parameters(
        {"n": "12", "x": "0.5", "on": "yes", "wait": "5s", "most": "64MB", "name": "ada", "true": True}
    )
    assert (given.int("n"), given.float("x"), given.float("n")) == (12, 0.5, 12.0)
    assert (given.bool("on"), given.bool("true")) == (True, True)
    assert (given.duration_ms("wait"), given.size_bytes("most")) == (5000, 64 * 2**20)
    assert (given.text("name"), given["name"], given.int("none", default=3)) == ("ada", "ada", 3)
    assert repr(Parameters({"password": "secret"})) == "Parameters(password)"
    for read, name in [
        (given.int, "x"),
        (given.int, "true"),
        (given.float, "name"),
        (given.bool, "n"),
        (given.duration_ms, "name"),
        (given.size_bytes, "name"),
    ]:
        with pytest.raises(ConfigurationError, match=f"the parameter '{name}' must be"):
            read(name)
    with pytest.raises(ProgramError, match="the name of a parameter"):
        Parameters({"": 1})


def test_parameters_of_the_command_have_precedence_over_the_programs() -> None:
    with overrides.applied(Overrides(parameters={"step": "7"})):
        env = simulated(parameters={"step": 5, "other": 1})
    assert dict(env.parameters) == {"step": "7", "other": 1}
    assert sum(run(counting, env).collected["out"]["w"].to_pylist()) == sum(range(COUNT)) + 7 * COUNT


# --- files ------------------------------------------------------------------------------------------


def test_files_of_the_job_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "step.txt").write_text("9")

    class FromFile(rh.RichFunction):
        def open(self, ctx: rh.RuntimeContext) -> None:
            self.step = int(ctx.file("step").read_text())
            with pytest.raises(ConfigurationError, match="no file 'model'"):
                ctx.file("model")

        def __call__(self, row: Any) -> Any:
            return {"i": row.i + self.step}

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        return {"out": rows(env).map(FromFile(), returns=SCHEMA)}

    done = run(build, simulated(files={"step": tmp_path / "step.txt"}))
    assert sum(done.collected["out"]["i"].to_pylist()) == sum(range(COUNT)) + 9 * COUNT
    with pytest.raises(ProgramError, match="the file 'step' of the job does not exist"):
        simulated(files={"step": tmp_path / "nowhere.txt"})


# --- metrics ----------------------------------------------------------------------------------------


def test_metrics_have_plain_names_and_one_kind() -> None:
    class Wrong(rh.RichFunction):
        def __init__(self, name: str) -> None:
            self.name = name

        def open(self, ctx: rh.RuntimeContext) -> None:
            ctx.accumulator("values")
            ctx.histogram(self.name)

    for name, said in [
        ("values", "'values' is already an accumulator of another kind"),
        ("a/b", "without spaces and slashes"),
    ]:
        wrong = Wrong(name)
        with pytest.raises(RheosError, match=said):
            run(lambda env, fn=wrong: {"out": rows(env).map(fn, returns=SCHEMA)}, simulated())


def test_accumulators_are_merged_in_any_order() -> None:
    parts = [
        Accumulated(),
        *(Accumulated(1, v, v, v, {bucket_of(v): 1}) for v in (5, 0.25, -3, 1e9)),
    ]
    together = Accumulated()
    for part in parts:
        together = together.plus(part)
    backwards = Accumulated()
    for part in reversed(parts):
        backwards = backwards.plus(part)
    assert together == backwards
    assert (together.n, together.least, together.most) == (4, -3, 1e9)
    assert [together.quantile(share) for share in (0.0, 0.5)] == [0.0, bucket_middle(0.25)]
    for value in (1e-12, 0.3, 1, 7, 1234.5, 9e15):
        alone = Accumulated(2, 0, 0, 1e20, {bucket_of(value): 2}).quantile(0.5)
        assert alone is not None
        assert abs(alone - value) <= 0.032 * value


def test_a_counter_counts_whole_numbers() -> None:
    counts = {"seen": 1}
    counter = Counter(counts, "seen")
    counter.add()
    by: Any = np.int64(3)
    counter.add(by)
    wrong: list[Any] = [1.5, "2", None, 2**63]
    for value in wrong:
        with pytest.raises(ProgramError, match="but counts 64-bit integers"):
            counter.add(value)
    assert counts == {"seen": 5}
    assert type(counter.value) is int


@pytest.mark.parametrize("kind", [Accumulator, Distribution])
def test_only_finite_numbers_are_added_up(kind: type[Accumulator]) -> None:
    added = kind()
    wrong: list[Any] = [math.nan, math.inf, -math.inf, np.float64("nan"), 10**400, "7", None]
    for value in wrong:
        with pytest.raises(ProgramError, match="was added to an accumulator, but is not a") as raised:
            added.add(value)
        assert raised.value.hint
    assert added.value == Accumulated()
    good: list[Any] = [np.int64(3), np.float32(0.5), True, Decimal("2.5"), 2**70]
    for value in good:
        added.add(value)
    assert (added.value.n, added.value.total) == (5, 7.0 + 2**70)
    assert stored(added.value) == added.value


@pytest.mark.parametrize("most", [1.7e308, -1.7e308, 2**63 - 1])
def test_a_sum_that_overflows_can_be_stored(most: float) -> None:
    added = Accumulator()
    for _ in range(3):
        added.add(most)
    together = added.value.plus(added.value)
    assert together.n == 6
    assert math.isfinite(together.total)
    assert abs(together.total) > abs(most)
    for each in (added.value, together):
        assert stored(each) == each


def test_other_values_than_numbers_are_refused_at_the_users_line() -> None:
    class Adds(rh.RichFunction):
        def open(self, ctx: rh.RuntimeContext) -> None:
            self.values = ctx.histogram("values")

        def __call__(self, row: Any) -> Any:
            self.values.add(math.inf if row.i == 7 else row.i)
            return {"i": row.i}

    with pytest.raises(ProgramError, match="inf was added to an accumulator, but is not a") as raised:
        run(lambda env: {"out": rows(env).map(Adds(), returns=SCHEMA)}, simulated())
    assert raised.value.site is not None
    assert raised.value.site.file == __file__
    assert raised.value.site.line == inspect.getsourcelines(Adds.__call__)[1] + 1


def stored(accumulated: Accumulated) -> Accumulated:
    return msgspec.json.decode(msgspec.json.encode(accumulated), type=Accumulated)


def bucket_middle(value: float) -> float | None:
    return Accumulated(1, value, 0, 2 * value, {bucket_of(value): 1}).quantile(0.5)


# --- loaded once ------------------------------------------------------------------------------------


def test_shared_resources_are_loaded_once_per_process() -> None:
    loaded: list[int] = []
    tries = iter([True, False])

    def load() -> list[int]:
        if next(tries, False):
            raise OSError("not there yet")
        loaded.append(len(loaded))
        return loaded

    model = rh.load_once(load)
    with pytest.raises(OSError, match="not there yet"):
        model()

    def score(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.with_columns(i=pl.lit(len(model()), pl.Int64))

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        scored = rows(env).map_batches(score, returns=SCHEMA)
        return {"out": scored.rebalance().map(lambda row: {"i": len(model())}, returns=SCHEMA)}

    done = run(build, simulated())
    assert done.collected["out"]["i"].to_pylist() == [1] * COUNT
    assert loaded == [0]
    loading._loaded.pop(model._id)
    with pytest.raises(ProgramError, match="takes a function"):
        rh.load_once(5)  # type: ignore[arg-type]
