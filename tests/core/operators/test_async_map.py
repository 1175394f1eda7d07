"""`map_async`: results and their order, timeouts, retries, and functions that block or never return."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.errors import ProgramError, RheosError, UnavailableError, UserFunctionError
from rheos.core.operators.async_map import AsyncMapOperator, AsyncMapSpec
from rheos.core.task.config import TaskConfig
from rheos.runtimes.host.event_loop import ThreadedLoop
from rheos.testing import Faults, simulate
from tests.connectors.ports import ManualClock
from tests.core.operators.contexts import context

SCHEMA = pa.schema([("i", pa.int64())])
RESULT = {"i": int, "w": int}
COUNT = 200

Build = Callable[[rh.Environment], Mapping[str, rh.DataStream]]


def numbered(block: rh.Block) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"i": range(block.start, block.start + block.rows)}, SCHEMA)


def through(fn: Any, **options: Any) -> Build:
    """Run a program of 200 rows, a tenth of a second apart, in batches of up to 16."""

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        rate: dict[str, Any] = {"rate_per_s": 2000, "splits": 1, "block_rows": 16}
        rows = env.from_source(rh.generator(numbered, count=COUNT, schema=SCHEMA, **rate))
        return {"out": rows.map_async(fn, returns=RESULT, **options).name("ask")}

    return build


def doubled(numbers: Iterable[int]) -> list[dict[str, int]]:
    return [{"i": i, "w": 2 * i} for i in numbers]


async def double(row: Any) -> Any:
    await asyncio.sleep(0.003 * (row.i % 7))
    return {"i": row.i, "w": 2 * row.i}


def run(build: Build) -> rh.JobResult:
    """Run without restarts."""
    env = rh.Environment(1, runtime="simulated", restart=rh.restart.none())
    for name, stream in build(env).items():
        stream.collect(name)
    return env.execute("job")


def failure(build: Build) -> RheosError:
    with pytest.raises(RheosError) as raised:
        run(build)
    return raised.value


# --- results ------------------------------------------------------------------------------------------


def test_ordered_results_come_in_the_order_of_the_rows() -> None:
    assert run(through(double, capacity=3)).collected["out"].to_pylist() == doubled(range(COUNT))


def test_unordered_results_follow_the_answers_but_never_pass_a_watermark() -> None:
    async def slow_first(row: Any) -> Any:
        await asyncio.sleep(1 if row.i == 0 else 0.01)
        return {"i": row.i, "w": 2 * row.i}

    found = run(through(slow_first, order="unordered")).collected["out"].to_pylist()
    assert sorted(found, key=lambda row: int(row["i"])) == doubled(range(COUNT))
    # The channel holds a few batches: of these the others leave before the first row.
    place = [row["i"] for row in found].index(0)
    assert place > 16

    def timed(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        rate: dict[str, Any] = {"rate_per_s": 2000, "splits": 1, "block_rows": 16}
        source = rh.generator(numbered, count=COUNT, schema=SCHEMA, **rate)
        rows = env.from_source(source, rh.Watermark.monotonic(on="i", unit="ms"))
        return {"out": rows.map_async(slow_first, returns=RESULT, order="unordered")}

    assert run(timed).collected["out"].to_pylist()[:1] != []


def test_a_slow_call_does_not_use_up_credits_of_later_rows() -> None:
    async def slow_first(row: Any) -> Any:
        await asyncio.sleep(1 if row.i % 50 == 0 else 0.001)
        return {"i": row.i, "w": 2 * row.i}

    task = TaskConfig(batch_rows=16, credits=2, unaligned_after_us=0)
    build, nothing_fails = through(slow_first, order="unordered"), Faults(until_us=0)
    # No row leaves before a barrier that it came behind.
    none = CheckpointConfig(interval_ms=60_000)
    done = simulate(build, seed=1, task=task, checkpoint=none, parallelism=1, faults=nothing_fails)
    numbers = done.out["i"].to_pylist()
    assert sorted(numbers) == list(range(COUNT))
    assert sorted(numbers[-4:]) == [0, 50, 100, 150]


@pytest.mark.parametrize("order", ["ordered", "unordered"])
def test_rows_without_emitted_result_are_called_again_after_a_restart(order: str) -> None:
    build = through(double, capacity=4, order=order)
    for seed, unaligned_after_us in enumerate((None, 0, None, 0)):
        faults, task = Faults(crash_slot=20.0), TaskConfig(unaligned_after_us=unaligned_after_us)
        done = simulate(build, seed=seed, faults=faults, task=task, parallelisms=(2, 1, 3))
        assert done.crashes > 0
        assert sorted(done.out["w"].to_pylist()) == [2 * i for i in range(COUNT)]


def test_capacity_bounds_the_running_calls() -> None:
    under_way = [0, 0]

    async def call(row: Any) -> Any:
        under_way[0] += 1
        under_way[1] = max(under_way)
        await asyncio.sleep(0.01)
        under_way[0] -= 1
        return {"i": row.i, "w": 0}

    run(through(call, capacity=5))
    assert under_way == [0, 5]


# --- clients ------------------------------------------------------------------------------------------


class Client(rh.AsyncFunction):
    """Counts where it is opened and closed; its client is usable only inside the event loop."""

    log: list[str]

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __deepcopy__(self, memo: object) -> Client:
        return Client(self.log)

    async def open(self, ctx: rh.RuntimeContext) -> None:
        await asyncio.sleep(0.5)
        self.loop = asyncio.get_running_loop()
        self.asked = ctx.counter("asked")
        self.log.append(f"opened in {ctx.operator} {ctx.subtask}/{ctx.parallelism}")

    async def invoke(self, row: Any) -> Any:
        assert asyncio.get_running_loop() is self.loop
        self.asked.add()
        return {"i": row.i, "w": 2 * row.i}

    async def close(self) -> None:
        self.log.append("closed")


def test_a_client_is_opened_once_before_any_call_and_closed_at_the_end() -> None:
    log: list[str] = []
    done = run(through(Client(log)))
    assert done.collected["out"].to_pylist() == doubled(range(COUNT))
    assert log == ["opened in ask 0/1", "closed"]
    assert done.counter("ask", "asked") == COUNT


def test_an_error_in_open_ends_the_job_at_its_line() -> None:
    class Closed(rh.AsyncFunction):
        async def open(self) -> None:
            raise OSError("no route to host")

        async def invoke(self, row: Any) -> Any:
            raise AssertionError("it is not open")

    error = failure(through(Closed()))
    assert error.what == "OSError: no route to host"
    assert error.site is not None
    assert error.site.line == inspect.getsourcelines(Closed.open)[1] + 1


# --- what goes wrong ----------------------------------------------------------------------------------


async def never_answers(row: Any) -> Any:
    if row.i == 70:
        await asyncio.Event().wait()
    return {"i": row.i, "w": 2 * row.i}


def test_an_unanswered_call_is_an_error_at_its_waiting_line() -> None:
    error = failure(through(never_answers, timeout="2s"))
    assert isinstance(error, UnavailableError)
    assert error.what == "a call was not answered within 2 s"
    assert error.record == "Row(i=70)"
    assert error.operator == "ask"
    assert error.site is not None
    assert error.site.file == __file__
    assert error.site.line == inspect.getsourcelines(never_answers)[1] + 2


@pytest.mark.parametrize("order", ["ordered", "unordered"])
def test_a_fallback_replaces_a_missing_answer(order: str) -> None:
    fallback = {"i": 70, "w": -1}
    done = run(through(never_answers, timeout="1s", order=order, on_timeout=lambda row: fallback))
    found = sorted(done.collected["out"].to_pylist(), key=lambda row: int(row["i"]))
    assert found == [*doubled(range(70)), fallback, *doubled(range(71, COUNT))]
    assert done.counter("ask", "timeouts") == 1


def test_calls_that_ignore_cancellation_are_bounded() -> None:
    async def deaf(row: Any) -> Any:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    error = failure(through(deaf, capacity=3, timeout="1s", on_timeout=lambda row: {"i": 0, "w": 0}))
    assert error.what == "4 calls that exceeded their timeout are still running, although cancelled"


def test_an_error_of_the_function_has_line_and_record() -> None:
    async def broken(row: Any) -> Any:
        await asyncio.sleep(0.001)
        return {"i": row.i, "w": 100 // (row.i - 33)}

    error = failure(through(broken))
    assert isinstance(error, UserFunctionError)
    assert error.what == "ZeroDivisionError: integer division or modulo by zero"
    assert error.record == "Row(i=33)"
    assert error.site is not None
    assert error.site.line == inspect.getsourcelines(broken)[1] + 2


class Panic(BaseException):
    """Panic of a Rust library, which is not an Exception."""


def test_a_panic_is_an_error_at_its_line_and_no_timeout() -> None:
    async def panics(row: Any) -> Any:
        if row.i == 33:
            raise Panic("index out of bounds")
        return {"i": row.i, "w": 2 * row.i}

    error = failure(through(panics, timeout="1s", on_timeout=lambda row: {"i": row.i, "w": -1}))
    assert isinstance(error, UserFunctionError)
    assert "Panic: index out of bounds" in error.what
    assert error.record == "Row(i=33)"
    assert error.site is not None
    assert error.site.line == inspect.getsourcelines(panics)[1] + 2

    def falls_back(row: Any) -> Any:
        raise Panic("nothing to fall back on")

    error = failure(through(never_answers, timeout="1s", on_timeout=falls_back))
    assert "Panic: nothing to fall back on" in error.what
    assert error.record == "Row(i=70)"


def test_a_wrong_result_is_an_error_with_its_record() -> None:
    async def wrong(row: Any) -> Any:
        return {"i": row.i, "w": "much" if row.i == 9 else 0}

    error = failure(through(wrong))
    assert "the function returned an invalid output" in error.what
    assert error.record == "Row(i=9)"


def test_a_failed_call_is_retried_and_counted() -> None:
    failed: dict[int, list[float]] = {}

    async def away(row: Any) -> Any:
        times = failed.setdefault(row.i, [])
        if row.i % 50 == 0 and len(times) < 3:
            times.append(asyncio.get_running_loop().time())
            raise ConnectionError("refused")
        return {"i": row.i, "w": 2 * row.i}

    done = run(through(away, retries=rh.retry(3, on=ConnectionError, first_wait="100ms")))
    assert done.collected["out"].to_pylist() == doubled(range(COUNT))
    assert done.counter("ask", "retries") == 12
    # The loop has turns of its own, between which the clock goes on.
    waits = [b - a for a, b in zip(failed[50], failed[50][1:], strict=False)]
    assert waits == pytest.approx([0.1, 0.2], abs=0.005)


def test_when_the_retries_are_used_up_the_last_error_is_raised() -> None:
    async def away(row: Any) -> Any:
        raise ConnectionError("refused")

    error = failure(through(away, retries=rh.retry(2, on=(ConnectionError, TimeoutError))))
    assert isinstance(error, UnavailableError)
    assert error.what == "the call has failed 3 times: ConnectionError: refused"
    assert error.record == "Row(i=0)"

    async def broken(row: Any) -> Any:
        raise KeyError("user")

    error = failure(through(broken, retries=rh.retry(2, on=ConnectionError)))
    assert isinstance(error, UserFunctionError)


# --- in a thread --------------------------------------------------------------------------------------


class Threads:
    """I/O whose event loops are threads, as in a worker."""

    def submit(self, work: Any) -> Any:
        raise AssertionError("an asynchronous function needs its event loop alone")

    aside = submit

    def wake(self) -> None:
        pass

    def event_loop(self) -> ThreadedLoop:
        return ThreadedLoop(self.wake)


def test_blocking_the_event_loop_is_an_error_at_its_line() -> None:
    entered, let_go = threading.Event(), threading.Event()

    async def blocks(row: Any) -> Any:
        entered.set()
        let_go.wait()

    out = pa.schema([("i", pa.int64()), ("w", pa.int64())])
    ctx = context(SCHEMA, out)
    ctx.io, clock = Threads(), ManualClock()
    ctx.clock = clock
    spec = AsyncMapSpec(blocks, None, 10, 5_000, "ordered", None, None)
    operator = AsyncMapOperator(ctx, spec)
    operator.open({})
    try:
        begun = operator.begin(0, pa.RecordBatch.from_pydict({"i": [1, 2]}, SCHEMA))
        entered.wait()

        def wait() -> None:
            for _ in range(100):
                assert not begun.ready()
                clock.us += 100_000

        with pytest.raises(UnavailableError) as raised:
            wait()
    finally:
        let_go.set()
        operator.close()
    assert "the function has blocked the event loop for 5" in raised.value.what
    assert raised.value.site is not None
    assert raised.value.site.line == inspect.getsourcelines(blocks)[1] + 2


# --- what is refused ----------------------------------------------------------------------------------


@dataclass
class Doubled:
    i: int
    w: int


def test_other_functions_than_async_ones_are_refused_at_their_line() -> None:
    env = rh.Environment()
    rows = env.from_source(rh.collection([{"i": 1}]))

    async def typed(row: Any) -> Doubled: ...

    assert rows.map_async(typed).schema.names == ["i", "w"]
    with pytest.raises(ProgramError, match=r"takes an `async def` function"):
        rows.map_async(lambda row: row, returns=RESULT)
    for options, said in [
        ({"capacity": 0}, "capacity must be a positive number of calls, not 0"),
        ({"timeout": "0s"}, "timeout must be greater than 0, not"),
        ({"order": "sorted"}, "order='sorted' is not known"),
        ({"retries": 3}, "retries must be a retry strategy, not 3"),
        ({"on_timeout": typed}, "is asynchronous, but on_timeout\\(\\) takes a plain function"),
    ]:
        with pytest.raises(ProgramError, match=said):
            rows.map_async(typed, **options)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="on=5 is not an exception class"):
        rh.retry(on=5)  # type: ignore[arg-type]
