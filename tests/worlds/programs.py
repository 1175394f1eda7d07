"""The small programs that worlds are drawn from, each with its straight-line oracle.

A program reads rows (k, i, v, at): a key, the row's own number, an integer, and event time. Its
oracle is plain Python over the same rows, record by record; it knows nothing of batches, channels or
checkpoints. It receives every row with the watermark that its own split had reached before it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import polars as pl

from rheos.api.streams import DataStream
from rheos.core import aggregates as agg
from rheos.core.graph.batch_functions import BatchKeys, BatchState, Emit, KeyedBatchFunction
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import ListState, MapState, ValueState
from rheos.core.graph.windows import Sliding, Tumbling

Rows = list[dict[str, Any]]
Outputs = Mapping[str, Rows]

TIMER_MS = 40
GROUPS = 5


class Arrived(NamedTuple):
    """A row as the oracle sees it; `wm` is the running watermark of its split before it."""

    k: int
    i: int
    v: float
    at: int
    wm: int


@dataclass(frozen=True)
class CheckedProgram:
    """Program: `build` makes the outputs of a stream; `check` raises AssertionError if they are
    wrong."""

    name: str
    build: Callable[[DataStream], Mapping[str, DataStream]]
    check: Callable[[list[Arrived], Outputs], None]
    check_idle: Callable[[list[Arrived], Outputs], None] | None = None
    """The check where splits may fall idle: then rows may be late that are not so by themselves. None:
    nothing is said of such worlds."""
    has_least: bool = False
    """Whether each row leads to rows of its own number: then at-least-once can be held to it."""

    def check_at_least(
        self, rows: list[Arrived], possible: Iterable[Arrived], outputs: Outputs
    ) -> None:
        """Check that every row was emitted at least once, and only rows of `possible`."""
        assert self.has_least
        got, wanted = {out["i"] for out in outputs["out"]}, {row.i for row in rows}
        assert wanted <= got, f"missing: {sorted(wanted - got)}"
        strange = got - {row.i for row in possible}
        assert not strange, f"never came: {sorted(strange)}"


def same(got: Iterable[Any], wanted: Iterable[Any], what: str) -> None:
    """Check that both are equal as multisets."""
    counted, expected = Counter(got), Counter(wanted)
    if counted != expected:
        missing, surplus = expected - counted, counted - expected
        raise AssertionError(
            f"{what}: {missing.total()} missing, such as {list(missing)[:3]}; "
            f"{surplus.total()} too many, such as {list(surplus)[:3]}"
        )


def _by_key(rows: Iterable[Arrived]) -> dict[int, list[Arrived]]:
    keyed: dict[int, list[Arrived]] = defaultdict(list)
    for row in rows:
        keyed[row.k].append(row)
    return keyed


# --- stateless ------------------------------------------------------------------------------------


@dataclass
class InputRow:
    k: int
    i: int
    v: float
    at: datetime


@dataclass
class Doubled:
    k: int
    i: int
    w: float


def twice(row: InputRow) -> Iterator[Doubled]:
    """Yield no, one or two records for each row."""
    for copy in range(row.i % 3):
        yield Doubled(row.k, row.i, row.v + copy)


def _stateless(rows: DataStream) -> Mapping[str, DataStream]:
    return {"out": rows.filter(pl.col("v") > 2).flat_map(twice).with_columns(z=pl.col("w") * 2)}


def _check_stateless(rows: list[Arrived], outputs: Outputs) -> None:
    wanted = [(r.k, r.i, (r.v + c) * 2) for r in rows if r.v > 2 for c in range(r.i % 3)]
    same(((o["k"], o["i"], o["z"]) for o in outputs["out"]), wanted, "rows")


# --- in the order of arrival ----------------------------------------------------------------------


def _running(rows: DataStream) -> Mapping[str, DataStream]:
    return {"out": rows.key_by("k").running(n=agg.count(), s=agg.sum("v"), m=agg.max("i"))}


def _check_running(rows: list[Arrived], outputs: Outputs) -> None:
    values = {row.i: row.v for row in rows}
    keyed: dict[int, Rows] = defaultdict(list)
    for out in outputs["out"]:
        keyed[out["k"]].append(out)
    for key, wanted in _by_key(rows).items():
        outs = sorted(keyed[key], key=lambda out: int(out["n"]))
        same((out["n"] for out in outs), range(1, len(wanted) + 1), f"counts of key {key}")
        same((out["i"] for out in outs), (row.i for row in wanted), f"rows of key {key}")
        total, most = 0.0, -1
        for out in outs:
            total, most = total + values[out["i"]], max(most, out["i"])
            assert (out["s"], out["m"]) == (total, most), f"{out}: the sum so far is {total}"
    assert not keyed.keys() - _by_key(rows).keys(), "keys that never came"


def add(a: InputRow, b: InputRow) -> InputRow:
    """Return the sum, which is commutative, so that the last result does not depend on arrival."""
    return InputRow(a.k, max(a.i, b.i), a.v + b.v, max(a.at, b.at))


def _reduced(rows: DataStream) -> Mapping[str, DataStream]:
    return {"out": rows.key_by("k").reduce(add)}


def _check_reduced(rows: list[Arrived], outputs: Outputs) -> None:
    sums: dict[int, list[float]] = defaultdict(list)
    for out in outputs["out"]:
        sums[out["k"]].append(out["v"])
    assert sums.keys() == _by_key(rows).keys()
    for key, wanted in _by_key(rows).items():
        assert len(sums[key]) == len(wanted), f"key {key}: {len(sums[key])} results, not {len(wanted)}"
        # Every value is above 0, so the sums of a key increase, with its values in some order.
        steps = sorted(sums[key])
        same(
            (b - a for a, b in zip([0.0, *steps], steps, strict=False)),
            (row.v for row in wanted),
            f"steps of key {key}",
        )


@dataclass
class Counts:
    k: int
    i: int
    n: int
    distinct: int


class Counting(KeyedProcessFunction):
    """Function that counts rows, and their values in a map."""

    n = ValueState(int, default=0)
    values = MapState(int, int)

    def process_element(self, row: InputRow, ctx: KeyedContext) -> Iterator[Counts]:
        self.n.value += 1
        value = int(row.v)
        self.values[value] = self.values.get(value, 0) + 1
        yield Counts(row.k, row.i, self.n.value, len(self.values))


def _counted(rows: DataStream) -> Mapping[str, DataStream]:
    return {"out": rows.key_by("k").process(Counting())}


def _check_counted(rows: list[Arrived], outputs: Outputs) -> None:
    same((out["i"] for out in outputs["out"]), (row.i for row in rows), "rows")
    values = {row.i: row.v for row in rows}
    for key, wanted in _by_key(rows).items():
        outs = sorted((o for o in outputs["out"] if o["k"] == key), key=lambda o: int(o["n"]))
        same((out["n"] for out in outs), range(1, len(wanted) + 1), f"counts of key {key}")
        seen = set()
        for out in outs:
            seen.add(values[out["i"]])
            assert out["distinct"] == len(seen), f"{out}: {len(seen)} values were seen"


def _narrow(rows: DataStream) -> Mapping[str, DataStream]:
    """Build operators whose parallelism differs from the job's, with state and without."""
    one = rows.filter(pl.col("i") >= 0).set_parallelism(1)
    two = one.key_by("k").process(Counting()).set_parallelism(2)
    return {"out": two.filter(pl.col("n") > 0)}


@dataclass
class Again:
    k: int
    i: int
    n: int
    distinct: int
    g: int
    m: int
    total: int


class Totalling(KeyedProcessFunction):
    """Function that counts the rows of the previous stage, and adds its counts up."""

    m = ValueState(int, default=0)
    counts = ListState(int)

    def process_element(self, row: Any, ctx: KeyedContext) -> Iterator[Again]:
        self.m.value += 1
        self.counts.append(row.n)
        total = sum(self.counts)
        yield Again(row.k, row.i, row.n, row.distinct, row.g, self.m.value, total)


def _twice_keyed(rows: DataStream) -> Mapping[str, DataStream]:
    counted = rows.key_by("k").process(Counting())
    grouped = counted.with_columns(g=pl.col("i") % GROUPS)
    return {"out": grouped.key_by("g").process(Totalling())}


def _check_twice_keyed(rows: list[Arrived], outputs: Outputs) -> None:
    _check_counted(rows, outputs)
    for group in range(GROUPS):
        outs = sorted((o for o in outputs["out"] if o["g"] == group), key=lambda o: int(o["m"]))
        wanted = [row.i for row in rows if row.i % GROUPS == group]
        same((out["i"] for out in outs), wanted, f"rows of group {group}")
        same((out["m"] for out in outs), range(1, len(wanted) + 1), f"counts of group {group}")
        total = 0
        for out in outs:
            total += out["n"]
            assert out["total"] == total, f"{out}: the sum so far is {total}"


# --- in event time --------------------------------------------------------------------------------


@dataclass
class SessionEvent:
    k: int
    i: int
    n: int
    timer: int


class Sessions(KeyedProcessFunction):
    """Function that numbers the rows of a key; a timer some time after a row emits the count and
    resets it."""

    n = ValueState(int, default=0)

    def process_element(self, row: InputRow, ctx: KeyedContext) -> Iterator[SessionEvent]:
        self.n.value += 1
        if self.n.value == 1:
            ctx.timers.register(ctx.timestamp + TIMER_MS)
        yield SessionEvent(row.k, row.i, self.n.value, 0)

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[SessionEvent]:
        yield SessionEvent(ctx.key, -1, self.n.value, timestamp)
        self.n.clear()


def _ordered(rows: DataStream) -> Mapping[str, DataStream]:
    events = rows.key_by("k").process(Sessions(), order="event_time")
    return {"out": events, "late": events.side_output("late")}


def _check_ordered(rows: list[Arrived], outputs: Outputs) -> None:
    wanted: list[tuple[int, int, int, int]] = []
    for key, of_key in _by_key(row for row in rows if row.at > row.wm).items():
        count = 0
        timer: int | None = None
        for row in sorted(of_key, key=lambda row: (row.at, row.i)):
            if timer is not None and timer < row.at:
                wanted.append((key, -1, count, timer))
                count, timer = 0, None
            count += 1
            timer = row.at + TIMER_MS if count == 1 else timer
            wanted.append((key, row.i, count, 0))
        if timer is not None:
            wanted.append((key, -1, count, timer))
    same(((o["k"], o["i"], o["n"], o["timer"]) for o in outputs["out"]), wanted, "events")
    late = (row.i for row in rows if row.at <= row.wm)
    same((out["i"] for out in outputs["late"]), late, "late rows")


def windows(size_ms: int, every_ms: int, lateness_ms: int, *, whole: bool = False) -> CheckedProgram:
    """Return a program that counts and sums over tumbling or sliding windows, with a late output; or
    over the `whole` stream without one, as a two-phase plan needs."""

    def build(rows: DataStream) -> Mapping[str, DataStream]:
        window = (
            Tumbling(f"{size_ms}ms")
            if every_ms == size_ms
            else Sliding(f"{size_ms}ms", every=f"{every_ms}ms")
        )
        windowed = rows.window_all(window) if whole else rows.key_by("k").window(window)
        counts = windowed.allowed_lateness(f"{lateness_ms}ms").aggregate(
            n=agg.count(), s=agg.sum("v"), most=agg.max("i")
        )
        return {"out": counts} if whole else {"out": counts, "late": counts.side_output("late")}

    def check_idle(rows: list[Arrived], outputs: Outputs) -> None:
        # A row whose windows were purged because its split was idle counts as late; each tumbling
        # window holds only the others.
        late = {out["i"] for out in outputs["late"]}
        check(rows, outputs, late)

    def check(rows: list[Arrived], outputs: Outputs, purged: Set[int] = frozenset()) -> None:
        late = []
        filled: dict[tuple[int, int], list[Arrived]] = defaultdict(list)
        for row in rows:
            if row.i in purged:
                continue
            first = row.at - row.at % every_ms + every_ms
            ends = range(first, row.at + size_ms + 1, every_ms)
            open_ends = [end for end in ends if end - 1 + lateness_ms > row.wm]
            for end in open_ends:
                filled[0 if whole else row.k, end].append(row)
            if ends and not open_ends:
                late.append(row.i)
        if not whole:
            same((out["i"] for out in outputs["late"]), [*late, *purged], "late rows")
        wanted = [
            (key, end, len(held), sum(row.v for row in held), max(row.i for row in held))
            for (key, end), held in filled.items()
        ]
        got = [
            (o.get("k", 0), millis(o["window_end"]), o["n"], o["s"], o["most"]) for o in outputs["out"]
        ]
        if lateness_ms == 0:
            same(got, wanted, "windows")
            return
        # A window emits its result again when late rows arrive, so each result counts more than before.
        same((result[:3] for result in got), {result[:3] for result in got}, "results of windows")
        last = {result[:2]: result for result in sorted(got)}
        same(last.values(), wanted, "last results of windows")

    kind = "tumbling" if every_ms == size_ms else "sliding"
    name = f"{kind}({size_ms}/{every_ms}, late {lateness_ms}){' of all' if whole else ''}"
    says_idle = every_ms == size_ms and not whole
    return CheckedProgram(name, build, check, check_idle if says_idle else None)


def millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)


@dataclass
class BatchTotals:
    k: int
    i: int
    n: int
    total: int


class CountingBatches(KeyedBatchFunction):
    """Function that numbers the rows of a key, and adds their numbers up, a batch at a time."""

    n = ValueState(int, default=0)
    total = ValueState(int, default=0)

    def process_batch(
        self, keys: BatchKeys, batch: pl.DataFrame, state: BatchState
    ) -> Iterator[Emit[BatchTotals]]:
        numbers = batch["i"].to_numpy()
        for rows in keys.rounds():
            at = keys[rows]
            state.n[at] = state.n[at] + 1
            state.total[at] = state.total[at] + numbers[rows]
            counts = {"i": numbers[rows], "n": state.n[at], "total": state.total[at]}
            yield Emit(at.frame().with_columns(**counts), rows)


def _vectorised(rows: DataStream) -> Mapping[str, DataStream]:
    return {"out": rows.key_by("k").process(CountingBatches())}


def _check_totals(rows: list[Arrived], outputs: Outputs) -> None:
    same((out["i"] for out in outputs["out"]), (row.i for row in rows), "rows")
    for key, wanted in _by_key(rows).items():
        outs = sorted((o for o in outputs["out"] if o["k"] == key), key=lambda o: int(o["n"]))
        same((out["n"] for out in outs), range(1, len(wanted) + 1), f"counts of key {key}")
        total = 0
        for out in outs:
            total += out["i"]
            assert out["total"] == total, f"{out}: the sum so far is {total}"


STATELESS = CheckedProgram("stateless", _stateless, _check_stateless, _check_stateless)
RUNNING = CheckedProgram("running", _running, _check_running, _check_running, has_least=True)
REDUCED = CheckedProgram("reduce", _reduced, _check_reduced, _check_reduced)
COUNTED = CheckedProgram("process", _counted, _check_counted, _check_counted, has_least=True)
VECTORISED = CheckedProgram(
    "process in batches", _vectorised, _check_totals, _check_totals, has_least=True
)
NARROW = CheckedProgram("narrow process", _narrow, _check_counted, _check_counted, has_least=True)
TWICE_KEYED = CheckedProgram(
    "process twice", _twice_keyed, _check_twice_keyed, _check_twice_keyed, has_least=True
)
ORDERED = CheckedProgram("process in event time", _ordered, _check_ordered)
