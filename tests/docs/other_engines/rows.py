"""Input for all engines, a list per stream, and the expected result of each program. A last row named
`z` only advances the watermark past all others."""

from __future__ import annotations

AT = 1_767_225_600_000
"""When the rows begin: 2026-01-01, in milliseconds."""

Values = tuple[object, ...]


def at(seconds: int) -> int:
    return AT + seconds * 1000


LINES: list[Values] = [("to be",), ("to do",)]
CLICKS: list[Values] = [
    ("home", "ada", at(10)),
    ("home", "bo", at(20)),
    ("home", "ada", at(70)),
    ("home", "bo", at(71)),  # Late is in a micro-batch what is behind the watermark of the one before.
    ("home", "eve", at(30)),  # Late.
    ("z", "z", at(20_000)),
]
VISITS: list[Values] = [
    ("home", "ada", at(0)),
    ("cart", "ada", at(1200)),
    ("home", "ada", at(5400)),
    ("z", "z", at(20_000)),
]
ORDERS: list[Values] = [(1, at(0)), (2, at(60))]
PAYMENTS: list[Values] = [(1, 300, at(1200)), (2, 500, at(7200))]
RATES: list[Values] = [("SEK", 0.1)]
SALES: list[Values] = [(1, "SEK", 50.0), (2, "NOK", 50.0)]
BEATS: list[Values] = [("db1", at(0)), ("db2", at(0)), ("db1", at(180)), ("z", at(20_000))]
EVENTS: list[Values] = [("a", at(0)), ("b", at(60)), ("a", at(1800)), ("z", at(20_000))]
TRANSFERS: list[Values] = [(1, 300), (1, 200), (2, 500)]
IDS: list[Values] = [(1,), (2,)]

COUNTS: set[Values] = {("to", 1), ("be", 1), ("to", 2), ("do", 1)}
PER_MINUTE: set[Values] = {("home", at(0), 2), ("home", at(60), 2)}
LATE: set[Values] = {("home", "eve", at(30))}
SESSIONS: set[Values] = {("ada", at(0), 2), ("ada", at(5400), 1)}
PAID: set[Values] = {(1, 300)}
IN_EUROS: set[Values] = {(1, 5.0)}
SILENT: set[Values] = {("db2", 1), ("db1", 2)}
ONCE: set[Values] = {("a", at(0)), ("b", at(60))}
NAMED: set[Values] = {(1, "user 1"), (2, "user 2")}
TOTALS: set[Values] = {(1, 1, 300), (1, 2, 500), (2, 1, 500)}
