"""Exceptions and values of the user's program whose repr fails, wherever user code runs. The error
names the class, belongs to the user's code, and has a bounded size."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import RheosError
from rheos.core.protocol import error_data
from rheos.core.protocol.error_data import ErrorData

AT = datetime(2026, 1, 1, tzinfo=UTC)
OUT = {"n": int}


# --- what is raised -------------------------------------------------------------------------------


class StrRaisesError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot be shown")

    def __repr__(self) -> str:
        raise RuntimeError("cannot be shown")


class StrExitsError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class StrIsNoStrError(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


class Text(str):
    def __len__(self) -> int:
        raise RuntimeError("has no length")

    def __format__(self, spec: str) -> str:
        raise RuntimeError("has no format")


class StrIsStrangeError(Exception):
    def __str__(self) -> str:
        return Text("strange")


class AttributesRaiseError(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"has no {name}")


class ReduceRaisesError(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("cannot be pickled")


class HoldsALockError(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


class HugeError(Exception):
    def __str__(self) -> str:
        return "x" * 2_000_000


class SurrogateError(Exception):
    def __str__(self) -> str:
        return "a lone \ud800 surrogate"


class OwnRheosError(rh.UserFunctionError):
    def __init__(self) -> None:
        super().__init__("of the user's own class")

    def __str__(self) -> str:
        raise RuntimeError("cannot be shown")


RAISED: list[type[Exception]] = [
    StrRaisesError,
    StrExitsError,
    StrIsNoStrError,
    StrIsStrangeError,
    AttributesRaiseError,
    ReduceRaisesError,
    HoldsALockError,
    HugeError,
    SurrogateError,
    OwnRheosError,
]


# --- where it is raised ---------------------------------------------------------------------------

Call = Callable[[], NoReturn]


def rows(env: rh.Environment) -> rh.DataStream:
    given = [{"k": 1, "n": i, "at": AT + timedelta(seconds=i)} for i in range(3)]
    return env.from_source(rh.collection(given), watermark=rh.Watermark.monotonic(on="at"))


def of(base: type, *methods: str, **attributes: Any) -> Callable[[Call], Any]:
    """An instance of a class of the user's with these methods, which all raise."""

    def make(call: Call) -> Any:
        return type("Mine", (base,), {m: lambda *a: call() for m in methods} | attributes)()

    return make


def windows(env: rh.Environment) -> rh.WindowedStream:
    return rows(env).key_by("k").window(rh.Tumbling("1m"))


class Ids(rh.WindowFunction):
    def process(self, records: Any, ctx: rh.WindowContext) -> Iterator[Any]:
        yield {"n": len(list(records))}


def asking(call: Call) -> Callable[[Any], Any]:
    async def ask(row: Any) -> Any:
        call()

    return ask


PLACES: dict[str, Callable[[rh.Environment, Call], rh.DataStream]] = {
    "map": lambda env, call: rows(env).map(lambda row: call(), returns=OUT),
    "flat_map": lambda env, call: rows(env).flat_map(lambda row: call(), returns=OUT),
    "flat_map, a generator": lambda env, call: rows(env).flat_map(
        lambda row: (call() for _ in range(1)), returns=OUT
    ),
    "filter": lambda env, call: rows(env).filter(lambda row: call()),
    "map_batches": lambda env, call: rows(env).map_batches(lambda batch: call(), returns=OUT),
    "map_async": lambda env, call: rows(env).map_async(asking(call), returns=OUT, timeout="1m"),
    "partition_by": lambda env, call: (
        rows(env).partition_by(lambda n, width: call(), on="n").map(lambda row: row, returns=OUT)
    ),
    "open": lambda env, call: (
        rows(env)
        .key_by("k")
        .process(of(rh.KeyedProcessFunction, "open", "process_element")(call), returns=OUT)
    ),
    "close": lambda env, call: (
        rows(env)
        .key_by("k")
        .process(
            of(rh.KeyedProcessFunction, "close", process_element=lambda self, row, ctx: None)(call),
            returns=OUT,
        )
    ),
    "process": lambda env, call: (
        rows(env).key_by("k").process(of(rh.KeyedProcessFunction, "process_element")(call), returns=OUT)
    ),
    "process without a key": lambda env, call: rows(env).process(
        of(rh.ProcessFunction, "process_element")(call), returns=OUT
    ),
    "process_batch": lambda env, call: (
        rows(env).key_by("k").process(of(rh.KeyedBatchFunction, "process_batch")(call), returns=OUT)
    ),
    "on_timer": lambda env, call: (
        rows(env)
        .key_by("k")
        .process(
            of(
                rh.KeyedProcessFunction,
                "on_timer",
                process_element=lambda self, row, ctx: ctx.timers.register(ctx.timestamp),
            )(call),
            returns=OUT,
        )
    ),
    "reduce": lambda env, call: rows(env).key_by("k").reduce(lambda a, b: call()),
    "reduce of windows": lambda env, call: windows(env).reduce(lambda a, b: call()),
    "window function": lambda env, call: windows(env).process(
        of(rh.WindowFunction, "process")(call), returns=OUT
    ),
    "trigger": lambda env, call: (
        windows(env).trigger(of(rh.Trigger, "on_element")(call)).aggregate(n=rh.agg.count())
    ),
    "evictor": lambda env, call: (
        windows(env).evictor(of(rh.Evictor, "evict_before")(call)).process(Ids(), returns=OUT)
    ),
    "evictors.delta": lambda env, call: (
        windows(env).evictor(rh.evictors.delta(lambda row: call(), 1)).process(Ids(), returns=OUT)
    ),
    "assigner": lambda env, call: (
        rows(env).key_by("k").window(of(rh.WindowAssigner, "assign")(call)).aggregate(n=rh.agg.count())
    ),
    "gap of a session": lambda env, call: (
        rows(env).key_by("k").window(rh.Session(gap=lambda row: call())).aggregate(n=rh.agg.count())
    ),
    "connect.map": lambda env, call: (
        rows(env).connect(rows(env)).map(lambda row: call(), lambda row: call(), returns=OUT)
    ),
    "connect.process": lambda env, call: (
        rows(env)
        .connect(rows(env))
        .process(of(rh.CoProcessFunction, "process_element1", "process_element2")(call), returns=OUT)
    ),
    "co_group": lambda env, call: (
        rows(env)
        .key_by("k")
        .co_group(
            rows(env).key_by("k"),
            rh.Tumbling("1m"),
            of(rh.CoGroupFunction, "co_group")(call),
            returns=OUT,
        )
    ),
    "condition of a pattern": lambda env, call: (
        rows(env).key_by("k").detect(rh.pattern.begin("a").where(lambda row: call()))
    ),
    "watermark generator": lambda env, call: env.from_source(
        rh.collection([{"n": 1, "at": AT}]),
        watermark=rh.Watermark.generator(of(rh.WatermarkGenerator, "on_event")(call), on="at"),
    ).map(lambda row: row, returns=OUT),
    "generator": lambda env, call: env.from_source(
        rh.generator(lambda block: call(), count=3, schema=pa.schema([("n", pa.int64())]))
    ),
}


def failure(build: Callable[[rh.Environment], rh.DataStream]) -> RheosError:
    env = rh.Environment(1, runtime="simulated")
    build(env).collect("out")
    with pytest.raises(RheosError) as raised:
        env.execute("job")
    return raised.value


def check(error: RheosError, name: str) -> None:
    assert not isinstance(error, rh.InternalError), str(error)[:2000]
    assert name in error.what, str(error)[:2000]
    assert len(str(error)) < 50_000
    # It crosses to the driver, to REST and to the log as data.
    told = error_data.decoder.decode(error_data.encode(ErrorData.of(error))).error()
    assert name in told.what
    str(told).encode()


@pytest.mark.parametrize("place", PLACES)
def test_an_exception_is_attributed_to_the_user_wherever_it_is_raised(place: str) -> None:
    def call() -> NoReturn:
        raise StrRaisesError

    check(failure(lambda env: PLACES[place](env, call)), "StrRaisesError")


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("place", ["map", "process", "map_async", "window function"])
def test_an_exception_of_any_kind_is_named(kind: type[Exception], place: str) -> None:
    def call() -> NoReturn:
        raise kind

    check(failure(lambda env: PLACES[place](env, call)), kind.__name__)


# --- values that cannot be shown ------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    k: int
    n: int
    at: datetime

    def __repr__(self) -> str:
        raise RuntimeError("cannot be shown")


def fails(row: Row) -> Any:
    raise ValueError("on purpose")


class Fails(rh.KeyedProcessFunction):
    def process_element(self, row: Row, ctx: rh.KeyedContext) -> Iterator[Any]:
        raise ValueError("on purpose")


class Returned:
    def __repr__(self) -> str:
        raise RuntimeError("cannot be shown")


def returned(row: Any) -> Any:
    return Returned()


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda env: rows(env).map(fails, returns=OUT), "ValueError: on purpose"),
        (lambda env: rows(env).flat_map(fails, returns=OUT), "ValueError: on purpose"),
        (lambda env: rows(env).filter(fails), "ValueError: on purpose"),
        (lambda env: rows(env).key_by("k").process(Fails(), returns=OUT), "ValueError: on purpose"),
        (lambda env: rows(env).map(lambda row: Returned(), returns=OUT), "Returned"),
        (lambda env: rows(env).map(lambda row: {"n": Returned()}, returns=OUT), "Returned"),
        (lambda env: rows(env).flat_map(lambda row: Returned(), returns=OUT), "Returned"),
        (lambda env: rows(env).flat_map(lambda row: [Returned()], returns=OUT), "Returned"),
        (lambda env: rows(env).filter(returned), "Returned"),
        (
            lambda env: rows(env).map_batches(lambda batch: Returned(), returns=OUT),
            "Returned",
        ),
    ],
)
def test_values_whose_repr_raises_are_shown(
    build: Callable[[rh.Environment], rh.DataStream], says: str
) -> None:
    check(failure(build), says)
