"""Input of the corpus: rows out of order, late, tied, skewed, and with nulls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.equivalence.corpus.program import Rows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Sale:
    n: int
    shop: str
    user: int
    price: float | None
    quantity: int | None
    note: str | None
    at: datetime


SALE = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("shop", pa.string(), nullable=False),
        pa.field("user", pa.int64(), nullable=False),
        pa.field("price", pa.float64()),
        pa.field("quantity", pa.int64()),
        pa.field("note", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)

_SHOPS = ["ulm"] * 12 + ["rom"] * 4 + ["bonn", "köln", "", "a b"]
_NOTES = [None, "", "two words", "x", "Grüße an alle", "a,b", 'quote"d']


def _sales(count: int, seed: int, start: datetime = NOON) -> Rows:
    draw = Random(seed)
    made: list[dict[str, Any]] = []
    for n in range(count):
        if n % 29 == 28:
            # The same row once more, but for its number: ties in time and in all else.
            made.append({**made[-1], "n": n})
            continue
        ms = n * 500 + draw.randrange(-4_000, 4_000) // 250 * 250
        if n % 23 == 22:
            ms -= draw.choice([11_000, 14_000, 30_000, 90_000])
        made.append(
            {
                "n": n,
                "shop": draw.choice(_SHOPS),
                "user": min(draw.randrange(40), draw.randrange(40), draw.randrange(40)),
                "price": None if draw.random() < 0.1 else _price(draw),
                "quantity": None if draw.random() < 0.15 else draw.randrange(-3, 60),
                "note": draw.choice(_NOTES),
                "at": start + timedelta(milliseconds=ms),
            }
        )
    return Rows(pa.Table.from_pylist(made, SALE))


def _price(draw: Random) -> float:
    """Return a price. Magnitudes differ so much that a plain sum depends on its order."""
    return draw.choice([1.0, 1e-9, 1e8, 1e16, -1e16]) * draw.randrange(1, 1000) / 7


SALES = _sales(400, seed=1)
MORE_SALES = _sales(200, seed=2, start=NOON + timedelta(seconds=30))
BEFORE_1970 = _sales(120, seed=3, start=datetime(1969, 12, 31, 23, 59, 30, tzinfo=UTC))
SPRING = datetime(2026, 3, 27, 12, tzinfo=UTC)


def _slower(rows: Rows, start: datetime, times: int) -> Rows:
    """Return the same rows with longer times in between."""
    at = [start + (each - NOON) * times for each in rows.table.column("at").to_pylist()]
    column = pa.array(at, SALE.field("at").type)
    return Rows(
        rows.table.set_column(SALE.get_field_index("at"), SALE.field("at"), column), bound="10800s"
    )


FOUR_DAYS = _slower(SALES, SPRING, 1800)
"""Days in which Europe sets its clocks."""
NO_SALES = Rows(SALE.empty_table())
ONE_SHOP = Rows(SALES.table.set_column(1, SALE.field("shop"), pa.array(["ulm"] * SALES.table.num_rows)))


@dataclass
class Address:
    street: str
    number: int | None


@dataclass
class Parcel:
    n: int
    to: Address | None
    tags: list[str] | None
    weights: list[float]
    at: datetime


PLACE = pa.struct([pa.field("street", pa.string()), pa.field("number", pa.int32())])

ALL_TYPES = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        ("flag", pa.bool_()),
        ("small", pa.int8()),
        ("medium", pa.int32()),
        ("natural", pa.uint32()),
        ("large", pa.uint64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("price", pa.decimal128(20, 4)),
        ("day", pa.date32()),
        ("zoned_us", pa.timestamp("us", tz="UTC")),
        ("zoned_ms", pa.timestamp("ms", tz="Europe/Berlin")),
        ("plain_us", pa.timestamp("us")),
        ("plain_ns", pa.timestamp("ns")),
        ("lasts", pa.duration("us")),
        ("list", pa.list_(pa.int64())),
        ("place", PLACE),
        ("places", pa.list_(PLACE)),
        ("counts", pa.map_(pa.string(), pa.int64())),
        pa.field("at", pa.timestamp("ms", tz="UTC"), nullable=False),
    ]
)


def _all_types(count: int) -> Rows:
    draw = Random(5)

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.25 else value

    def place() -> Any:
        return {"street": maybe(f"street {draw.randrange(5)}"), "number": maybe(draw.randrange(99))}

    def instant() -> datetime:
        return NOON + timedelta(microseconds=draw.randrange(10**13))

    made = [
        {
            "n": n,
            "flag": maybe(draw.random() < 0.5),
            "small": maybe(draw.randrange(-3, 3)),
            "medium": maybe(draw.choice([-(2**31), 2**31 - 1, 0, 7])),
            "natural": maybe(draw.choice([0, 2**32 - 1])),
            "large": maybe(draw.choice([0, 2**63, 2**64 - 1])),
            "single": maybe(draw.choice([0.5, -1.25, float("inf")])),
            "double": maybe(draw.choice([0.1, float("nan"), float("-inf"), 5e-324])),
            "text": maybe(draw.choice(["", "ü", "line\nbreak", "\x00"])),
            "bytes": maybe(draw.choice([b"", b"\x00\xff", b"abc"])),
            "price": maybe(Decimal(draw.randrange(-(10**15), 10**15)).scaleb(-4)),
            "day": maybe(date(1960, 1, 1) + timedelta(days=draw.randrange(40_000))),
            "zoned_us": maybe(instant()),
            "zoned_ms": maybe(instant().replace(microsecond=0)),
            "plain_us": maybe(instant().replace(tzinfo=None)),
            "plain_ns": maybe(instant().replace(tzinfo=None)),
            "lasts": maybe(timedelta(microseconds=draw.randrange(-(10**9), 10**9))),
            "list": maybe([maybe(draw.randrange(9)) for _ in range(draw.randrange(3))]),
            "place": maybe(place()),
            "places": maybe([maybe(place()) for _ in range(draw.randrange(3))]),
            "counts": maybe({"a": maybe(1), "b": 2} if draw.random() < 0.7 else {}),
            "at": NOON + timedelta(milliseconds=n * 300 + draw.randrange(-2000, 2000)),
        }
        for n in range(count)
    ]
    return Rows(pa.Table.from_pylist(made, ALL_TYPES), splits=2)


EVERY_TYPE = _all_types(120)


KEYS = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("of_bool", pa.bool_(), nullable=False),
        pa.field("of_int8", pa.int8(), nullable=False),
        pa.field("of_uint64", pa.uint64(), nullable=False),
        pa.field("of_double", pa.float64(), nullable=False),
        pa.field("of_text", pa.string(), nullable=False),
        pa.field("of_bytes", pa.binary(), nullable=False),
        pa.field("of_decimal", pa.decimal128(12, 3), nullable=False),
        pa.field("of_date", pa.date32(), nullable=False),
        pa.field("of_instant", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("of_plain", pa.timestamp("ms"), nullable=False),
        pa.field("of_duration", pa.duration("us"), nullable=False),
        pa.field("at", pa.int64(), nullable=False),
    ]
)


def _keys(count: int) -> Rows:
    draw = Random(6)
    made = [
        {
            "n": n,
            "of_bool": draw.random() < 0.3,
            "of_int8": draw.choice([-128, 0, 127]),
            "of_uint64": draw.choice([0, 2**63, 2**64 - 1]),
            "of_double": draw.choice([0.0, -0.0, float("nan"), -float("nan"), 0.1, float("inf")]),
            "of_text": draw.choice(["", "ü", "u\u0308", "\x00", "a"]),
            "of_bytes": draw.choice([b"", b"\x00", b"\xff\xfe"]),
            "of_decimal": Decimal(draw.choice(["0", "-1.5", "123456789.125"])),
            "of_date": draw.choice([date(1969, 12, 31), date(2026, 3, 1)]),
            "of_instant": draw.choice([NOON, NOON - timedelta(days=30_000, microseconds=1)]),
            "of_plain": draw.choice([datetime(2026, 3, 29, 2, 30), datetime(1900, 1, 1)]),
            "of_duration": timedelta(microseconds=draw.choice([-1, 0, 10**12])),
            "at": n * 250 + draw.randrange(-2_000, 2_000),
        }
        for n in range(count)
    ]
    return Rows(pa.Table.from_pylist(made, KEYS))


KEYED = _keys(180)
