"""The tables that queries read: small, with nulls, and rows out of order."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

import rheos as rh

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = pa.timestamp("us", tz="UTC")


def _at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


BIDS = pa.table(
    {
        "auction": pa.array([i * 7 % 5 for i in range(80)], pa.int64()),
        "bidder": pa.array([None if i % 13 == 4 else i * 11 % 6 for i in range(80)], pa.int64()),
        "price": pa.array([i * 37 % 101 * 10 for i in range(80)], pa.int64()),
        "channel": pa.array(
            [(None, "web", "app", "Shop_1")[i * 3 % 4] for i in range(80)], pa.string()
        ),
        # In four splits of time, each third row is a little late.
        "ts": pa.array([_at(i * 20 - (15 if i % 3 == 1 else 0)) for i in range(80)], MOMENT),
    }
)

NUMBERS = pa.table(
    {
        "n": pa.array(range(12), pa.int32()),
        "a": pa.array([7, -7, 7, -7, 0, 5, None, 1, 2, 2**40, -(2**40), 3], pa.int64()),
        "b": pa.array([3, 3, -3, -3, 4, 0, 2, None, 2, 7, 7, 1], pa.int64()),
        "x": pa.array(
            [1.5, -1.5, 2.5, -2.5, 0.0, 1e6, None, 0.25, 3.0, -0.125, 12.75, 9.0], pa.float64()
        ),
        "d": pa.array(
            [None if i == 3 else Decimal(i * 12345 - 40000) / 100 for i in range(12)],
            pa.decimal128(10, 2),
        ),
        "t": pa.array([i % 3 == 0 if i % 4 else None for i in range(12)], pa.bool_()),
    }
)

WORDS = pa.table(
    {
        "id": pa.array(range(8), pa.int32()),
        "word": pa.array(
            ["tea", "Jam 100%", "", None, "under_score", "  padded  ", "öl/über/äpfel", "tea time"]
        ),
        "part": pa.array(["e", "m", "", "x", "_", None, "/", "tea"]),
        "number": pa.array(["12", " -7 ", "1.9", "x", None, "+3", "99999999999", "true"]),
        "day": pa.array(
            [date(2026, 1, 31), date(2024, 2, 29), None, date(1999, 12, 31), *[date(2026, 5, 4)] * 4],
            pa.date32(),
        ),
        "moment": pa.array([_at(i * 86_399.5) if i != 5 else None for i in range(8)], MOMENT),
    }
)

SALES = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "auction": pa.array([None if i == 9 else i * 3 % 7 for i in range(40)], pa.int64()),
        "amount": pa.array([i * 53 % 97 for i in range(40)], pa.int64()),
        "sold": pa.array([_at(i * 35 + 10) for i in range(40)], MOMENT),
    }
)

RATES = pa.table(
    {
        "auction": pa.array([i % 5 for i in range(25)], pa.int64()),
        "rate": pa.array([i * 7 % 11 for i in range(25)], pa.int64()),
        "valid": pa.array([_at(i * 60 + 5) for i in range(25)], MOMENT),
    }
)

TABLES = {"bids": BIDS, "numbers": NUMBERS, "words": WORDS, "sales": SALES, "rates": RATES}
_TIMES = {"bids": "ts", "sales": "sold", "rates": "valid"}


def registered(env: rh.Environment) -> None:
    """Register the tables as streams; some have event time."""
    for name, table in TABLES.items():
        time = _TIMES.get(name)
        late = None if time is None else rh.Watermark.bounded_out_of_orderness("30s", on=time)
        env.register(name, env.from_source(rh.collection(table), watermark=late, name=name))
