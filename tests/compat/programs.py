"""Program whose snapshots are kept for ever, and its later version. It has an operator of every
stateful kind, each with a uid. `released` never changes, except for new operators of a release;
`evolved` changes whatever may change."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import polars as pl
import pyarrow as pa

import rheos as rh
from rheos import col

ROWS = 360
SPLITS = 2
START_MS = 1_700_000_000_000

Outputs = dict[str, rh.DataStream]


def made(block: rh.Block) -> dict[str, Any]:
    """Return row i of a split, which is 10 ms after the row before it. Every fourth row has one
    constant key; keys of the others change with time."""
    index = block.index()
    number = index * SPLITS + block.split
    return {
        "k": ["hot" if n % 4 == 0 else f"key {n // 40}" for n in number],
        "i": number,
        "small": (number % 7).astype("int32"),
        "price": number * 0.25,
        "at": START_MS + index * 10,
    }


SCHEMA = pa.schema(
    {"k": pa.string(), "i": pa.int64(), "small": pa.int32(), "price": pa.float64(), "at": pa.int64()}
)


def source(env: rh.Environment) -> rh.DataStream:
    rows = rh.generator(made, count=ROWS, rate_per_s=1000, splits=SPLITS, schema=SCHEMA, block_rows=32)
    watermark = rh.Watermark.bounded_out_of_orderness("20ms", on="at")
    return env.from_source(rows, watermark=watermark, name="rows", uid="rows")


# --- as it was released -----------------------------------------------------------------------------


@dataclass
class Row:
    k: str
    i: int
    small: int
    price: float
    at: int


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Span(NamedTuple):
    first: int
    last: int


@dataclass
class Detail:
    size: Size
    tags: set[str]
    best: Decimal | None = None


@dataclass
class Seen:
    events: int
    total: float
    detail: Detail
    span: Span
    at: datetime
    mode: Literal["slow", "fast"] = "slow"
    note: str = "a field that goes"


@dataclass
class Summary:
    k: str
    told: str


class Watch(rh.KeyedProcessFunction):
    """Keeps state of every kind, and emits it when event time ends."""

    seen = rh.ValueState(Seen)
    least = rh.ValueState(int, default=1_000_000)
    anything = rh.ValueState(object)
    smalls = rh.ListState(int)
    counts = rh.MapState(str, int)
    spans = rh.MapState(int, Span)

    def process_element(self, row: Row, ctx: rh.KeyedContext) -> Iterator[Summary]:
        old = self.seen.value or Seen(
            0, 0.0, Detail(Size.SMALL, set()), Span(row.i, row.i), datetime.fromtimestamp(0, UTC)
        )
        tags = old.detail.tags | {f"t{row.small}"}
        self.seen.value = Seen(
            old.events + 1,
            old.total + row.price,
            Detail(Size.LARGE if old.events > 30 else Size.SMALL, tags, Decimal(row.i) / 4),
            Span(min(old.span.first, row.i), max(old.span.last, row.i)),
            max(old.at, datetime.fromtimestamp(row.at / 1000, UTC)),
            "fast" if old.events > 3 else "slow",
        )
        self.least.value = min(self.least.value, row.i)
        self.anything.value = {"rows": (self.anything.value or {"rows": 0})["rows"] + 1}  # type: ignore[index]
        self.smalls.append(row.small)
        kind = f"kind {row.small % 2}"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        span = self.spans.get(row.small)
        self.spans[row.small] = (
            Span(row.i, row.i) if span is None else Span(min(span.first, row.i), max(span.last, row.i))
        )
        ctx.timers.register(START_MS + 1_000_000)
        ctx.timers.register(row.at + 300)
        ctx.timers.register_processing(ctx.processing_time + 3_600_000)
        yield from ()

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Summary]:
        if timestamp < START_MS + 1_000_000:
            self.counts["timers"] = self.counts.get("timers", 0) + 1
            return
        seen = self.seen.value
        told = [
            seen.events,
            seen.total,
            seen.detail.size.value,
            sorted(seen.detail.tags),
            tuple(seen.span),
            seen.mode,
            self.least.value,
            self.anything.value,
            sorted(self.smalls),
            sorted(self.counts.items()),
            sorted((key, tuple(span)) for key, span in self.spans.items()),
        ]
        yield Summary(ctx.key, repr(told))


class Numbered(rh.KeyedProcessFunction):
    """Numbers the rows of a key in the order of their time."""

    count = rh.ValueState(int, default=0)

    def process_element(self, row: Any, ctx: rh.KeyedContext) -> Iterator[dict[str, Any]]:
        self.count.value += 1
        yield {"k": row.k, "i": row.i, "number": self.count.value}


NUMBERED = pa.schema({"k": pa.string(), "i": pa.int64(), "number": pa.int64()})


@dataclass
class Sum:
    k: str
    n: int
    price: float


def as_sum(row: Row) -> Sum:
    return Sum(row.k, 1, row.price)


def added(a: Sum, b: Sum) -> Sum:
    return Sum(a.k, a.n + b.n, a.price + b.price)


def added_rows(a: Any, b: Any) -> Any:
    return b._replace(n=a.n + b.n, most=max(a.most, b.most))


class Contents(rh.WindowFunction):
    def process(self, records: list[Any], ctx: rh.WindowContext) -> Iterator[dict[str, Any]]:
        told = [(record.i, record.small) for record in records]
        yield {"k": ctx.key, "start": ctx.window.start_ms, "told": repr(told)}


CONTENTS = pa.schema({"k": pa.string(), "start": pa.int64(), "told": pa.string()})


def released(env: rh.Environment) -> Outputs:
    rows = source(env)
    keyed = rows.key_by("k")
    sums = rows.map(as_sum).uid("as sum")
    counted = rows.select("k", n=rh.lit(1), most="small").uid("as row")
    sliding = keyed.window(rh.Sliding("400ms", every="100ms")).allowed_lateness("50ms")
    return {
        "watch": keyed.process(Watch()).uid("watch"),
        "numbered": keyed.process(Numbered(), order="event_time", returns=NUMBERED).uid("numbered"),
        "sums": sums.key_by("k").reduce(added).uid("sums"),
        "row sums": counted.key_by("k").reduce(added_rows).uid("row sums"),
        "running": keyed.running(
            n=rh.agg.count(),
            total=rh.agg.sum("i"),
            mean=rh.agg.mean("price"),
            low=rh.agg.min("small"),
            last=rh.agg.max("at"),
            name=rh.agg.max("k"),
        ).uid("running"),
        "windows": sliding.aggregate(
            n=rh.agg.count(),
            total=rh.agg.sum("price"),
            whole=rh.agg.sum("i"),
            high=rh.agg.max("small"),
            median=rh.agg.quantile("price", 0.5),
            kinds=rh.agg.count_distinct("small"),
        ).uid("windows"),
        "contents": keyed.window(rh.Tumbling("300ms"))
        .process(Contents(), returns=CONTENTS)
        .uid("contents"),
    }


# --- as it became -----------------------------------------------------------------------------------


class Size3(enum.Enum):
    SMALL = "small"
    LARGE = "large"
    HUGE = "huge"


class Span3(NamedTuple):
    first: int
    last: int
    width: int = -1


@dataclass
class MoreDetail:
    """Renamed from `Detail`, with one more field."""

    size: Size3
    tags: list[str]
    best: Decimal | int | None = None
    since: int = 7


@dataclass
class MoreSeen:
    """Renamed from `Seen`: `events` is wider, `mode` is any string, `note` was removed."""

    level: float = field(default=0.5, kw_only=True)
    events: float
    total: float
    detail: MoreDetail
    span: Span3
    at: datetime | None
    mode: str


class MoreWatch(rh.KeyedProcessFunction):
    """Resumes from the state that `Watch` has kept."""

    seen = rh.ValueState(MoreSeen)
    least = rh.ValueState(int | None, default=1_000_000)  # type: ignore[arg-type]
    anything = rh.ValueState(object)
    smalls = rh.ListState(float)
    counts = rh.MapState(str, float)
    spans = rh.MapState(int, Span3)
    fresh = rh.ValueState(int, default=0)

    def process_element(self, row: Row, ctx: rh.KeyedContext) -> Iterator[Summary]:
        self.fresh.value += 1
        seen = self.seen.value
        if seen is None:
            detail = MoreDetail(Size3.SMALL, [])  # type: ignore[unreachable]
            seen = self.seen.value = MoreSeen(0.0, 0.0, detail, Span3(row.i, row.i), None, "slow")
        seen.events += 1
        seen.total += row.price
        seen.detail.tags = sorted({*seen.detail.tags, f"t{row.small}"})
        seen.span = Span3(min(seen.span.first, row.i), max(seen.span.last, row.i))
        self.least.value = min(self.least.value, row.i)
        self.anything.value = {"rows": (self.anything.value or {"rows": 0})["rows"] + 1}  # type: ignore[index]
        self.smalls.append(row.small)
        kind = f"kind {row.small % 2}"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        ctx.timers.register(START_MS + 1_000_000)
        ctx.timers.register(row.at + 300)
        yield from ()

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Summary]:
        if timestamp < START_MS + 1_000_000:
            self.counts["timers"] = self.counts.get("timers", 0) + 1
            return
        seen = self.seen.value
        told = [
            seen.events,
            seen.total,
            sorted(seen.detail.tags),
            tuple(seen.span)[:2],
            (seen.level, seen.detail.since),
            self.least.value,
            self.anything.value,
            sorted(self.smalls),
            sorted(self.counts.items()),
        ]
        yield Summary(ctx.key, repr(told))


@dataclass
class MoreSum:
    """Renamed from `Sum`."""

    k: str
    n: float
    price: float
    unit: str = "euro"


def as_more_sum(row: Row) -> MoreSum:
    return MoreSum(row.k, 1, row.price)


def added_more(a: MoreSum, b: MoreSum) -> MoreSum:
    return MoreSum(a.k, a.n + b.n, a.price + b.price, a.unit)


def evolved(env: rh.Environment) -> Outputs:
    """Build the changed program, without `row sums`, whose state is dropped, and with a new
    operator."""
    rows = source(env).with_columns(col("small").cast(pl.Int64), extra=rh.lit("x"))
    keyed = rows.key_by("k")
    sums = rows.map(as_more_sum).uid("as sum")
    sliding = keyed.window(rh.Sliding("400ms", every="100ms")).allowed_lateness("20ms")
    return {
        "watch": keyed.process(MoreWatch()).uid("watch"),
        "numbered": keyed.process(Numbered(), order="event_time", returns=NUMBERED).uid("numbered"),
        "sums": sums.key_by("k").reduce(added_more).uid("sums"),
        "running": keyed.running(
            n=rh.agg.count(),
            total=rh.agg.sum("i"),
            mean=rh.agg.mean("price"),
            low=rh.agg.min("small"),
            fresh=rh.agg.count("small"),
        ).uid("running"),
        "windows": sliding.aggregate(
            n=rh.agg.count(),
            total=rh.agg.sum("price"),
            high=rh.agg.max("small"),
            kinds=rh.agg.count_distinct("small"),
        ).uid("windows"),
        "contents": keyed.window(rh.Tumbling("300ms"))
        .process(Contents(), returns=CONTENTS)
        .uid("contents"),
        "new": keyed.running(n=rh.agg.count()).uid("new"),
    }
