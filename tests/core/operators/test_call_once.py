"""`call_once`: calls after checkpoints, remembered answers, calls in doubt, the end of the input."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.checkpoint.compatibility import Verdict
from rheos.core.errors import ConfigurationError, ProgramError, RheosError, UserFunctionError
from rheos.core.operators.contract import Operator
from rheos.core.protocol.ids import CheckpointId
from rheos.core.task.config import TaskConfig
from rheos.testing import Faults, simulate
from tests.connectors.ports import ManualClock
from tests.core.operators.test_changed_programs import Run, Version, differences, refused

COUNT = 120
SCHEMA = pa.schema([("payment", pa.string()), ("cents", pa.int64())])
RECEIPT = {"payment": str, "receipt": str}

Build = Callable[[rh.Environment], Mapping[str, rh.DataStream]]


class Receiver:
    """A payment system. It charges when a request arrives, and answers later."""

    def __init__(self, *, deduplicates: bool = True) -> None:
        self.deduplicates = deduplicates
        self.requests: Counter[str] = Counter()
        self.charges: Counter[str] = Counter()

    async def charge(self, payment: Any) -> Any:
        await asyncio.sleep(0.002)
        key = payment.payment
        self.requests[key] += 1
        if not self.deduplicates or not self.charges[key]:
            self.charges[key] += 1
        await asyncio.sleep(0.003 * (payment.cents % 5))
        return {"payment": key, "receipt": f"r-{key}"}

    async def ask(self, payment: Any) -> Any:
        await asyncio.sleep(0.001)
        key = payment.payment
        return {"payment": key, "receipt": f"r-{key}"} if self.charges[key] else None


def payment_of(number: int) -> str:
    """Return the payment of a row. Every tenth payment arrives twice, from different splits."""
    return f"p{number - 1 if number % 10 == 1 else number}"


def payments(block: rh.Block) -> pa.RecordBatch:
    numbers = [2 * n + block.split for n in range(block.start, block.start + block.rows)]
    columns = {"payment": [payment_of(n) for n in numbers], "cents": numbers}
    return pa.RecordBatch.from_pydict(columns, SCHEMA)


EXPECTED = sorted(payment_of(n) for n in range(COUNT))


def payments_in(table: pa.Table) -> list[str]:
    assert all(row["receipt"] == f"r-{row['payment']}" for row in table.to_pylist())
    return sorted(table.column("payment").to_pylist())


def charged(receiver: Receiver, *, asks: bool = False, **options: Any) -> Build:
    async def charge(payment: Any) -> Any:
        return await receiver.charge(payment)

    async def ask(payment: Any) -> Any:
        return await receiver.ask(payment)

    def build(env: rh.Environment) -> Mapping[str, rh.DataStream]:
        rate: dict[str, Any] = {"rate_per_s": 100, "splits": 2, "block_rows": 4}
        rows = env.from_source(rh.generator(payments, count=COUNT, schema=SCHEMA, **rate))
        given = {"confirm": ask, **options} if asks else options
        receipts = rows.key_by("payment").call_once(charge, returns=RECEIPT, **given)
        streams = {"receipts": receipts.name("charge")}
        if options.get("in_doubt") == "divert":
            streams["doubt"] = receipts.side_output("in_doubt")
        return streams

    return build


# --- without failures ---------------------------------------------------------------------------------

CALM = Faults(until_us=0)


def test_each_row_gets_an_answer_and_each_key_one_call() -> None:
    receiver = Receiver(deduplicates=False)
    done = simulate(charged(receiver), seed=1, faults=CALM)
    assert payments_in(done.rows["receipts"]) == EXPECTED
    assert set(receiver.requests.values()) == {1}


# --- failures -----------------------------------------------------------------------------------------

KILLS = Faults(
    crash_slot=3.0, crash_after_checkpoint=0.4, crash_driver=0.5, zombie=0.5, store_error=0.05
)


def shaken(build: Build, seed: int, faults: Faults = KILLS, **options: Any) -> Any:
    task = TaskConfig(unaligned_after_us=(None, 0, 20_000)[seed % 3], batch_rows=8)
    state: Literal["memory", "rocksdb"] = "rocksdb" if seed % 2 else "memory"
    return simulate(
        build, seed=seed, faults=faults, task=task, state=state, parallelisms=(2, 1, 3), **options
    )


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(8))
def test_a_receiver_that_knows_the_key_acts_once(seed: int) -> None:
    receiver = Receiver()
    done = shaken(charged(receiver), seed)
    assert payments_in(done.rows["receipts"]) == EXPECTED
    assert set(receiver.charges.values()) == {1}
    assert set(receiver.charges) == set(EXPECTED)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(8))
def test_diverted_rows_are_never_called_twice(seed: int) -> None:
    receiver = Receiver(deduplicates=False)
    done = shaken(charged(receiver, in_doubt="divert"), seed)
    receipts = payments_in(done.rows["receipts"])
    doubtful = done.rows["doubt"].column("payment").to_pylist()
    assert sorted([*receipts, *doubtful]) == EXPECTED
    assert set(receiver.requests.values()) <= {1}
    assert not set(receipts) & set(doubtful)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", range(8))
def test_confirmed_calls_are_made_once(seed: int) -> None:
    receiver = Receiver(deduplicates=False)
    # Without zombies, no earlier attempt calls while the receiver is asked.
    faults = Faults(crash_slot=3.0, crash_after_checkpoint=0.4, store_error=0.05)
    done = shaken(charged(receiver, asks=True), seed, faults)
    assert payments_in(done.rows["receipts"]) == EXPECTED
    assert set(receiver.requests.values()) == {1}


def test_calls_in_doubt_are_repeated() -> None:
    repeated = 0
    for seed in range(4):
        receiver = Receiver()
        done = shaken(charged(receiver), seed, Faults(crash_slot=8.0))
        assert done.crashes
        repeated += sum(receiver.requests.values()) - len(receiver.requests)
    assert repeated


def test_a_full_operator_still_takes_the_rows_before_a_barrier() -> None:
    for seed in range(4):
        receiver = Receiver()
        done = shaken(charged(receiver, max_waiting=3, capacity=2), seed, CALM)
        assert payments_in(done.rows["receipts"]) == EXPECTED
        assert set(receiver.requests.values()) == {1}


# --- one operator -------------------------------------------------------------------------------------


class Numbered:
    """A function that answers with the number of its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def method(self, returns: Any, **options: Any) -> Callable[[rh.KeyedStream], rh.DataStream]:
        async def act(row: Any) -> Any:
            self.calls.append(row)
            return {"k": row.k, "n": len(self.calls)}

        return lambda keyed: keyed.call_once(act, returns=returns, **options)


ANSWER = {"k": str, "n": int}


class Later(Run):
    """A run whose state is that of its second checkpoint."""

    def __init__(self, version: Version, running: Operator) -> None:
        super().__init__(version)
        self.running = running

    def stored(self) -> dict[str, list[pa.Table]]:
        parts = self.running.savepoint(self.running.snapshot(CheckpointId(2)))
        tables = {part.state: part.write() for part in parts}
        return {name: [table] for name, table in tables.items() if isinstance(table, pa.Table)}


def checkpointed(run: Run, number: int) -> list[dict[str, Any]]:
    """Complete a checkpoint, and return the answers of the calls that it releases."""
    operator = run.running
    assert operator.next_processing_time_ms() is None
    operator.snapshot(CheckpointId(number))
    assert operator.next_processing_time_ms() is None
    operator.completed(CheckpointId(number))
    given: list[dict[str, Any]] = []
    while operator.next_processing_time_ms() is not None:
        given += [row for out in operator.on_processing_time(0) for row in out.batch.to_pylist()]
    return given


def test_a_later_row_gets_the_remembered_answer_until_it_expires() -> None:
    asked = Numbered()
    run = Run(Version(asked.method(ANSWER, remember="10s")))
    clock = ManualClock()
    run.running.ctx.clock = run.running.backend.scope.clock = clock  # type: ignore[attr-defined]
    assert run.feed(("a", 1, 1)) == []
    assert checkpointed(run, 1) == [{"k": "a", "n": 1}]
    clock.us += 9_999_000
    assert run.feed(("a", 2, 2), ("b", 3, 3)) == [{"k": "a", "n": 1}]
    assert checkpointed(run, 2) == [{"k": "b", "n": 2}]
    clock.us += 1_000
    assert run.feed(("a", 4, 4)) == []
    assert checkpointed(run, 3) == [{"k": "a", "n": 3}]
    assert [call.v for call in asked.calls] == [1, 3, 4]


def test_a_changed_program_continues_with_stored_rows_and_answers() -> None:
    asked = Numbered()
    before = Version(asked.method(ANSWER), more={"old": pa.int64()})
    wider = {"k": str, "n": float}
    after = Version(asked.method(wider), more={"new": pa.string()})
    assert refused(before, after) is None
    assert differences(before, after) == {
        "calls old": Verdict.DROPPED,
        "calls new": Verdict.MIGRATES,
    }
    first = Run(before)
    first.feed(("a", 1, 1, 0))
    assert checkpointed(first, 1) == [{"k": "a", "n": 1}]
    first.feed(("b", 2, 2, 0))
    second = Run(after, Later(before, first.running))
    assert second.feed(("a", 3, 3, "x")) == [{"k": "a", "n": 1.0}]
    assert checkpointed(second, 2) == [{"k": "b", "n": 2.0}]
    assert asked.calls[-1].new is None


# --- errors -------------------------------------------------------------------------------------------


def program(**settings: Any) -> tuple[rh.Environment, rh.DataStream]:
    env = rh.Environment(1, restart=rh.restart.none(), **{"runtime": "simulated", **settings})
    return env, env.from_source(rh.collection([{"k": "a", "v": 1}]))


async def fail(row: Any) -> Any:
    raise ValueError("no such account")


async def hang(row: Any) -> Any:
    await asyncio.sleep(3600)


@pytest.mark.parametrize(
    ("fn", "message"), [(fail, "no such account"), (hang, "not answered within 0.1 s")]
)
def test_a_failed_call_fails_the_attempt_at_its_line(fn: Any, message: str) -> None:
    env, rows = program()
    rows.key_by("k").call_once(fn, returns=ANSWER, timeout="100ms").collect("answers")
    with pytest.raises(RheosError, match=message) as raised:
        env.execute("job")
    assert raised.value.site is not None
    assert raised.value.site.line == inspect.getsourcelines(fn)[1] + 1
    assert raised.value.record == "Row(k='a', v=1)"


def test_answers_of_another_type_are_refused() -> None:
    async def wrong(row: Any) -> Any:
        return {"k": row.k, "n": "one"}

    env, rows = program()
    rows.key_by("k").call_once(wrong, returns=ANSWER).collect("answers")
    with pytest.raises(UserFunctionError, match="invalid output") as raised:
        env.execute("job")
    assert raised.value.record == "Row(k='a', v=1)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_doubt": "drop"}, "in_doubt='drop' is not known"),
        ({"in_doubt": "divert", "retries": rh.retry(3, on=OSError)}, "retries= has no use"),
        ({"in_doubt": "divert", "confirm": fail}, "confirm= has no use"),
        ({"confirm": print}, "confirm= takes an `async def` function"),
        ({"remember": "0s"}, "remember must be greater than 0"),
        ({"max_waiting": 0}, "max_waiting must be a positive number"),
        ({"capacity": 0}, "capacity must be a positive number"),
    ],
)
def test_invalid_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    _, rows = program()
    with pytest.raises(ProgramError, match=message):
        rows.key_by("k").call_once(fail, returns=ANSWER, **options)


def test_a_plain_function_is_refused() -> None:
    _, rows = program()
    with pytest.raises(ProgramError, match=r"call_once\(\) takes an `async def` function"):
        rows.key_by("k").call_once(lambda row: row, returns=ANSWER)


def test_rows_in_doubt_must_be_read() -> None:
    env, rows = program()
    rows.key_by("k").call_once(fail, returns=ANSWER, in_doubt="divert").collect("answers")
    with pytest.raises(ProgramError, match="no operator reads the rows in doubt"):
        env.execute("job")


def test_a_loop_is_refused() -> None:
    _, rows = program()

    def body(part: rh.DataStream) -> tuple[rh.DataStream, rh.DataStream]:
        answers = part.key_by("k").call_once(fail, returns={"k": str, "v": int})
        return answers, answers

    with pytest.raises(ProgramError, match="cannot be in a loop"):
        rows.iterate(body)


def test_a_job_without_checkpoints_is_refused() -> None:
    env, rows = program(checkpoint_interval=None)
    rows.key_by("k").call_once(fail, returns=ANSWER).collect("answers")
    with pytest.raises(ConfigurationError, match="the job takes none"):
        env.execute("job")
