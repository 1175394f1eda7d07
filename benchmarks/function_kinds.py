"""Operators that call a Python function for each record, and the same calls in a bare loop of Python.

The bare loop converts Arrow columns to records, calls the function, and converts the results to
columns. It keeps state, groups rows by window and matches patterns as one writes it by hand, for this
function alone. It handles no late rows, checkpoints or errors. Each operator runs interpreted and, if
its functions can be compiled, compiled. Each kind has a process of its own. In each round, the forms
process the same batches one after the other. The table has the processor time per record in ns, and the
ratio of each form to the bare loop in the same round.

usage: python -m benchmarks.function_kinds [--rounds N] [--batches N] [KIND ...]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from typing import Any, cast

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # As in a worker.

import numpy as np
import pyarrow as pa

import rheos as rh
from benchmarks.one_operator import opened
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell, ratio_cell
from rheos.core.operators.async_map import AsyncMapSpec
from rheos.core.operators.call import CallSpec
from rheos.core.operators.contract import AsyncOperator, Operator, OperatorSpec, StartedWork
from rheos.core.operators.filter_function import FilterFunctionSpec
from rheos.core.operators.form_choice import ENOUGH_ROWS
from rheos.core.operators.map import MapSpec
from rheos.core.operators.pattern.operator import PatternSpec
from rheos.core.operators.process import ProcessSpec
from rheos.core.operators.reduce import ReduceSpec
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.protocol.elements import TS, WM, Batch
from rheos.core.protocol.ports import Immediate
from rheos.core.protocol.types import schema_of
from rheos.runtimes.host.io import ThreadedIo

ROWS = 16_384
KEYS = 1_000


@dataclass
class Sale:
    user: int
    cents: int
    share: float
    city: str


@dataclass
class Priced:
    user: int
    dollars: float
    city: str


def priced(sale: Sale) -> Priced:
    rate = 1.1 if sale.city == "Lyon" else 0.9
    return Priced(sale.user, sale.cents * rate / 100, sale.city)


def installments(sale: Sale) -> Iterator[Priced]:
    for number in range(sale.cents % 3):
        yield Priced(sale.user, sale.cents / (number + 1), sale.city)


def is_large(sale: Sale) -> bool:
    return sale.cents > 500 and sale.share < 0.5


def larger(before: Sale, sale: Sale) -> Sale:
    return sale if sale.cents > before.cents else before


def dollars(cents: int, share: float) -> float:
    return cents * share / 100 if cents > 50 else 0.0


class Total(rh.KeyedProcessFunction):
    """Emits the sum of a user's sales so far."""

    cents: Any = rh.ValueState(int, default=0)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Priced]:
        self.cents.value += sale.cents
        yield Priced(sale.user, self.cents.value / 100, sale.city)


class TotalOfCity(rh.KeyedProcessFunction):
    """Emits the sum of a user's sales in a city so far."""

    cents: Any = rh.MapState(str, int)

    def process_element(self, sale: Sale, ctx: rh.KeyedContext) -> Iterator[Priced]:
        self.cents[sale.city] = self.cents.get(sale.city, 0) + sale.cents
        yield Priced(sale.user, self.cents[sale.city] / 100, sale.city)


class Basket(rh.WindowFunction):
    """Emits the sum of a user's sales in a window."""

    def process(self, sales: list[Sale], ctx: rh.WindowContext) -> Iterator[Priced]:
        yield Priced(ctx.key, sum(sale.cents for sale in sales) / 100, sales[0].city)


async def converted(sale: Sale) -> Priced:
    return priced(sale)


def is_larger(sale: Sale, earlier: Mapping[str, list[Sale]]) -> bool:
    return sale.cents > earlier["first"][-1].cents


Bare = Callable[[Batch], object]

FIELDS = schema_of(Sale).names


def records(batch: Batch) -> Iterator[Sale]:
    return map(Sale, *(batch.column(name).to_pylist() for name in FIELDS))


def columns(made: list[Priced]) -> Batch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([each.user for each in made], pa.int64()),
            pa.array([each.dollars for each in made], pa.float64()),
            pa.array([each.city for each in made], pa.string()),
        ],
        names=["user", "dollars", "city"],
    )


def bare_reduce() -> Bare:
    state: dict[int, Sale] = {}

    def reduced(batch: Batch) -> object:
        made = []
        for sale in records(batch):
            before = state.get(sale.user)
            state[sale.user] = sale if before is None else larger(before, sale)
            made.append(state[sale.user])
        names = batch.schema.names
        return [pa.array([getattr(each, name) for each in made]) for name in names]

    return reduced


@dataclass
class BareValue:
    """The value of one key."""

    value: int = 0


def bare_keyed(function: Any, empty: Callable[[], object]) -> Bare:
    """Return a loop that calls a keyed function, whose state is an object for each key."""
    states: defaultdict[int, object] = defaultdict(empty)
    ctx, attributes = cast(Any, BareContext()), vars(function)

    def totals(batch: Batch) -> object:
        made: list[Priced] = []
        for sale in records(batch):
            ctx.key = sale.user
            attributes["cents"] = states[sale.user]
            made += function.process_element(sale, ctx)
        return columns(made)

    return totals


def bare_total() -> Bare:
    """Return a loop that contains the body of the keyed function, and calls nothing."""
    state: dict[int, int] = {}

    def totals(batch: Batch) -> object:
        made = []
        for sale in records(batch):
            state[sale.user] = state.get(sale.user, 0) + sale.cents
            made.append(Priced(sale.user, state[sale.user] / 100, sale.city))
        return columns(made)

    return totals


@dataclass
class BareContext:
    """The context that a bare loop passes to a function."""

    key: Any = None


def bare_window() -> Bare:
    """Return a loop that groups sales by window and user, and calls the function of each window that
    has ended."""
    function, ctx = Basket(), BareContext()
    windows: defaultdict[int, defaultdict[int, list[Sale]]] = defaultdict(lambda: defaultdict(list))

    def baskets(batch: Batch) -> object:
        times = batch.column(TS).to_pylist()
        for sale, at_ms in zip(records(batch), times, strict=True):
            windows[at_ms // 1000][sale.user].append(sale)
        made: list[Priced] = []
        for second in [second for second in windows if second * 1000 + 999 <= times[-1]]:
            for ctx.key, sales in windows.pop(second).items():
                made += function.process(sales, cast(Any, ctx))
        return columns(made)

    return baskets


def bare_async() -> Bare:
    loop = asyncio.new_event_loop()

    async def answers(batch: Batch) -> list[Priced]:
        return await asyncio.gather(*map(converted, records(batch)))

    return lambda batch: columns(loop.run_until_complete(answers(batch)))


def bare_pattern() -> Bare:
    """Return a loop that matches the pattern of `add_pattern`: two successive sales of a user within
    ten minutes."""
    firsts: dict[int, tuple[int, Sale]] = {}

    def matched(batch: Batch) -> object:
        made = []
        for sale, at_ms in zip(records(batch), batch.column(TS).to_pylist(), strict=True):
            began_ms, first = firsts.pop(sale.user, (0, None))
            if first is not None and at_ms < began_ms + 600_000 and is_larger(sale, {"first": [first]}):
                made.append(Priced(sale.user, sale.cents / 100, sale.city))
            if is_large(sale):
                firsts[sale.user] = at_ms, sale
        return columns(made)

    return matched


def bare_flat_map(batch: Batch) -> object:
    return columns([each for sale in records(batch) for each in installments(sale)])


def bare_call(batch: Batch) -> object:
    given = zip(batch.column("cents").to_pylist(), batch.column("share").to_pylist(), strict=True)
    return pa.array([dollars(cents, share) for cents, share in given], pa.float64())


@dataclass(frozen=True)
class Kind:
    """A kind of function: the method that adds it, its operator, and the bare loop."""

    add: Callable[[rh.Environment, Any], object]
    spec: type[OperatorSpec]
    bare: Callable[[], Bare]
    has_time: bool = False
    """Whether rows have event time. Each batch is a second of it."""


def add_call(env: rh.Environment, sales: Any) -> None:
    env.register("sales", sales)
    env.register_function("dollars", dollars)
    env.sql("SELECT dollars(cents, share) AS made FROM sales").collect("found")


def add_pattern(env: rh.Environment, sales: Any) -> None:
    pattern = rh.pattern.begin("first").where(is_large).next("second").where(is_larger)
    found = sales.key_by("user").detect(pattern.within("10m"))
    found.select(cents=rh.col("second").struct.field("cents")).collect("found")


KINDS = {
    "map": Kind(
        lambda env, sales: sales.map(priced).collect("found"),
        MapSpec,
        lambda: lambda batch: columns([priced(sale) for sale in records(batch)]),
    ),
    "flat_map": Kind(
        lambda env, sales: sales.flat_map(installments).collect("found"),
        MapSpec,
        lambda: bare_flat_map,
    ),
    "filter": Kind(
        lambda env, sales: sales.filter(is_large).collect("found"),
        FilterFunctionSpec,
        lambda: lambda batch: batch.filter(pa.array([is_large(sale) for sale in records(batch)])),
    ),
    "reduce": Kind(
        lambda env, sales: sales.key_by("user").reduce(larger).collect("found"),
        ReduceSpec,
        bare_reduce,
    ),
    "keyed process": Kind(
        lambda env, sales: sales.key_by("user").process(Total()).collect("found"),
        ProcessSpec,
        lambda: bare_keyed(Total(), BareValue),
    ),
    "keyed process without calls": Kind(
        lambda env, sales: sales.key_by("user").process(Total()).collect("found"),
        ProcessSpec,
        bare_total,
    ),
    "keyed process with a map": Kind(
        lambda env, sales: sales.key_by("user").process(TotalOfCity()).collect("found"),
        ProcessSpec,
        lambda: bare_keyed(TotalOfCity(), dict),
    ),
    "window function": Kind(
        lambda env, sales: (
            sales.key_by("user").window(rh.Tumbling("1s")).process(Basket()).collect("found")
        ),
        WindowSpec,
        bare_window,
        has_time=True,
    ),
    "async map": Kind(
        lambda env, sales: sales.map_async(converted, capacity=ROWS).collect("found"),
        AsyncMapSpec,
        bare_async,
    ),
    "pattern condition": Kind(add_pattern, PatternSpec, bare_pattern, has_time=True),
    "SQL function": Kind(add_call, CallSpec, lambda: bare_call),
}


def operator(kind: Kind, *, compiled: bool) -> Operator:
    env = rh.Environment(1, compiled=compiled)
    watermark = rh.Watermark.monotonic(on="cents") if kind.has_time else None
    kind.add(env, env.from_source(rh.collection([], schema=Sale), watermark, name="sales"))
    return opened(env, kind.spec, ROWS, AtOnce(1, lambda: None))


class AtOnce(ThreadedIo):
    """Executes work when it is requested. Event loops have their thread."""

    def aside(self, work: Callable[[], Any]) -> Any:
        return Immediate(work())


def inputs() -> list[Batch]:
    rng = np.random.default_rng(1)
    cities = np.array(["Lyon", "Bonn", "Oslo", "Turin"])
    return [
        pa.record_batch(
            {
                "user": rng.integers(0, KEYS, ROWS),
                "cents": rng.integers(0, 1000, ROWS),
                "share": rng.random(ROWS),
                "city": cities[rng.integers(0, 4, ROWS)],
            },
            schema=schema_of(Sale),
        )
        for _ in range(8)
    ]


def spent_ns(process: Callable[[Batch], object], given: list[Batch], batches: int) -> float:
    """Return the processor time per record."""
    began = time.process_time_ns()
    for at in range(batches):
        process(given[at % len(given)])
    return (time.process_time_ns() - began) / (batches * ROWS)


def consumed(of: Operator) -> Callable[[Batch], object]:
    """Return a function that passes a batch to the operator, and takes all of its output."""
    if isinstance(of, AsyncOperator):
        return lambda batch: list(answered(of, batch).finish(batch))
    return lambda batch: list(of.on_batch(0, batch))


def consumed_in_time(of: Operator) -> Callable[[Batch], object]:
    """Return a function that also passes the watermark after each batch to the operator."""
    return lambda batch: [*of.on_batch(0, batch), *of.on_watermark(batch.column(TS)[-1].as_py())]


def answered(of: AsyncOperator, batch: Batch) -> StartedWork:
    work = of.begin(0, batch)
    while not work.ready():
        time.sleep(0.0002)
    return work


def timed(process: Callable[[Batch], object]) -> Callable[[Batch], object]:
    """Return a function that adds event time to each batch."""
    seconds = count()
    within = np.arange(ROWS) * 1000 // ROWS

    def passed(batch: Batch) -> object:
        times = 1000 * next(seconds) + within
        hidden = [pa.array(times), pa.array(times - 1)]
        names = [*batch.schema.names, TS, WM]
        return process(pa.RecordBatch.from_arrays([*batch.columns, *hidden], names=names))

    return passed


def measured(name: str, rounds: int, batches: int) -> str:
    """Return the row of the table for a kind. Called in a process of its own."""
    given = inputs()
    gc.freeze()
    gc.set_threshold(500_000, 10, 10)  # As the worker does.
    kind = KINDS[name]
    compiles = operator(kind, compiled=True)
    passed = consumed_in_time if kind.has_time else consumed
    forms: dict[str, Callable[[Batch], object]] = {
        "bare": kind.bare(),
        "interpreted": passed(operator(kind, compiled=False)),
        "compiled": passed(compiles),
    }
    if kind.has_time:
        forms = {form: timed(process) for form, process in forms.items()}
    # The compiled form takes over after these rows.
    spent_ns(forms["compiled"], given, ENOUGH_ROWS // ROWS + 3)
    if not compiles.ctx.counters.get("compiled_rows"):
        del forms["compiled"]
    times: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for form, process in forms.items():
            times[form].append(spent_ns(process, given, batches))
    shown = [cell(times["bare"], "{:.0f}".format)]
    for form in ("interpreted", "compiled"):
        pairs = list(zip(times[form], times["bare"], strict=False))
        shown += [cell(times[form], "{:.0f}".format), ratio_cell(pairs)]
    return f"| {name} | {' | '.join(shown)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"one of {', '.join(KINDS)}; default: all"
    )
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--batches", type=int, default=8)
    asked = parser.parse_args()
    print("| function | bare loop, ns | interpreted, ns | ratio | compiled, ns | ratio |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in asked.kinds or KINDS:
        # Memory that another kind has used would make the bare loop slower.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            print(process.submit(measured, name, asked.rounds, asked.batches).result(), flush=True)


if __name__ == "__main__":
    main()
