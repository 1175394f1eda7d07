"""Compiled functions with columns of datetimes and timedeltas: both forms have the same results."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

import rheos as rh
from rheos.core.compiler.eligibility import Refusal, compilable_methods
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import EmittedType
from rheos.core.errors import RheosError
from rheos.core.protocol.types import schema_of
from rheos.testing.harness import OperatorExample, replay
from tests.core.operators.test_compiled import compiled_of

pytest.importorskip("numba")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SHIFT = timedelta(hours=2, microseconds=-1)


@dataclass
class Trip:
    k: int
    n: int
    x: float
    began: datetime
    ended: datetime | None
    rest: timedelta
    at: int


@dataclass
class Told:
    k: int
    i: int
    x: float
    s: str
    f: bool
    when: datetime
    span: timedelta
    maybe: datetime | None


HEAD = """
class Function(rh.KeyedProcessFunction):
    def process_element(self, row, ctx):
"""


class Drawing:
    """Generator of expressions by kind."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def moment(self, depth: int = 2) -> str:
        leaves = ["row.began", "NOON", "a"]
        parts = ["hour=3", "minute=0, second=0", "microsecond=7"]
        return self._one(
            leaves,
            [
                lambda d: f"({self.moment(d)} + {self.span(d)})",
                lambda d: f"({self.span(d)} + {self.moment(d)})",
                lambda d: f"({self.moment(d)} - {self.span(d)})",
                lambda d: f"({self.moment(d)} if row.k else {self.moment(d)})",
                lambda d: f"row.began.replace({self.rng.choice(parts)})",
                lambda d: f"{self.rng.choice(['min', 'max'])}({self.moment(d)}, {self.moment(d)})",
            ],
            depth,
        )

    def span(self, depth: int = 2) -> str:
        leaves = ["row.rest", "SHIFT", "timedelta(minutes=5, seconds=-3)", "timedelta(1.5)", "b"]
        return self._one(
            leaves,
            [
                lambda d: f"({self.moment(d)} - {self.moment(d)})",
                lambda d: f"({self.span(d)} {self.rng.choice('+-')} {self.span(d)})",
                lambda d: f"({self.span(d)} * (row.n % 7))",
                lambda d: f"((row.n % 5) * {self.span(d)})",
                lambda d: f"({self.span(d)} // (row.n % 9 - 4 or 2))",
                lambda d: f"({self.span(d)} % timedelta(hours=-7))",
                lambda d: "timedelta(seconds=row.n % 1009, days=row.k)",
                lambda d: "timedelta(seconds=row.x)",
                lambda d: f"(-{self.span(d)})",
                lambda d: f"abs({self.span(d)})",
            ],
            depth,
        )

    def _one(self, leaves: list[str], made: list[Any], depth: int) -> str:
        if not depth:
            return self.rng.choice(leaves)
        return str(self.rng.choice(made)(depth - 1))

    def text(self) -> str:
        rng, m, s = self.rng, self.moment, self.span
        numbers = ["year", "month", "day", "hour", "minute", "second", "microsecond", "weekday()"]
        total = " + ".join(f"a.{rng.choice(numbers)} * {7**n}" for n in range(4))
        total += f" + b.{rng.choice(['days', 'seconds', 'microseconds'])} + row.began.hour"
        total += f" + {s()} // timedelta(seconds=1)"
        form = rng.choice(["%H:%M", "%Y-%m-%d %S.%f", ""])
        text = "f'{a:" + form + "}|{row.began}|{a.isoformat()}|{(row.began + SHIFT).hour}'"
        floats = f"b.total_seconds() + row.began.timestamp() + {s()} / timedelta(seconds=7)"
        order = rng.choice(["<", "<=", ">", "==", "!="])
        lines = [
            "a, b = NOON, SHIFT",
            f"a = {m()}",
            f"b = {s()}",
            "d = row.ended",
            f"if d is None or d > {m(1)} or not b:",
            f"    d = {rng.choice(['None', m(1)])}",
            f"yield Told(row.k, {total}, {floats}, {text}, {s()} {order} {s()}, {m()}, {s()}, d)",
        ]
        return HEAD + "".join(f"        {line}\n" for line in lines)


def rows(seed: int) -> list[dict[str, Any]]:
    rng = Random(seed)

    def moment() -> datetime:
        return NOON + timedelta(seconds=rng.uniform(-3e9, 3e9))

    return [
        {
            "k": rng.randrange(2),
            "n": rng.randrange(-(1 << 33), 1 << 33),
            "x": rng.choice([0.0, -0.5, 1.0000005, rng.uniform(-1e6, 1e6)]),
            "began": rng.choice([NOON, moment()]),
            "ended": rng.choice([None, moment()]),
            "rest": timedelta(microseconds=rng.choice([0, -1, rng.randrange(-(10**13), 10**13)])),
            "at": at,
        }
        for at in range(80)
    ]


def class_of(text: str, file: str) -> Any:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"rh": rh, "datetime": datetime, "timedelta": timedelta, "UTC": UTC}
    names |= {"Told": Told, "NOON": NOON, "SHIFT": SHIFT, "__name__": __name__}
    exec(compile(text, file, "exec"), names)
    return names["Function"]


def outcome(fn: Any, given: list[dict[str, Any]]) -> Any:
    example = OperatorExample(
        lambda stream: stream.key_by("k").process(fn, returns=Told), schema_of(Trip), given, on="at"
    )
    try:
        return [repr(row) for row in replay(example)["out"]]
    except RheosError as error:
        return error.what, error.site and error.site.line


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed != 1)) for seed in range(12)]
)
def test_random_functions_equal_the_interpreted_ones(seed: int) -> None:
    cls = class_of(Drawing(Random(seed)).text(), f"<drawn times {seed}>")
    plain = outcome(cls(), rows(seed))
    assert outcome(compiled_of(cls)(), rows(seed)) == plain
    assert len(plain) in (2, 80)


def test_sums_beyond_the_supported_years_fail_at_the_same_line() -> None:
    body = "        yield Told(1, 2, 0.0, '', True, row.began + row.rest, SHIFT, None)\n"
    cls = class_of(HEAD + body, "<beyond>")
    given = [rows(1)[0] | {"rest": timedelta(days=3_000_000)}]
    plain = outcome(cls(), given)
    assert isinstance(plain, tuple)
    assert plain[0].startswith("OverflowError")
    assert outcome(compiled_of(cls)(), given) == plain


def refusal(line: str) -> str:
    outputs = {"": EmittedType(schema_of(Told), Told)}
    typing = Typing(schema_of(Trip), ("k",), Trip, True, outputs)
    found = compilable_methods(class_of(f"{HEAD}        {line}\n", "<refused>")(), typing)
    assert isinstance(found, Refusal)
    return found.what


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a = row.began + 1", "Add of datetime and int cannot be compiled"),
        ("a = row.rest * row.x", "Mult of timedelta and float cannot be compiled"),
        ("a = row.rest / 2", "Div of timedelta and int cannot be compiled"),
        ("a = f'{row.rest}'", "timedelta as a whole cannot be compiled"),
        ("a = f'{row.ended}'", "the format of datetime or None cannot be compiled"),
        ("a = row.began.replace(hour=row.k)", "row.began.replace(hour=row.k) cannot be compiled"),
        ("a = row.rest.hour", "row.rest.hour cannot be compiled"),
        ("a = row.began.days", "row.began.days cannot be compiled"),
        ("a = timedelta(years=1)", "timedelta(years=1) cannot be compiled"),
    ],
)
def test_code_that_is_not_compiled_is_named(line: str, says: str) -> None:
    assert says in refusal(line)


@dataclass
class Priced:
    k: int
    price: list[int] | None
    at: int


@dataclass
class Known:
    known: bool


class IsKnown(rh.KeyedProcessFunction):
    def process_element(self, row: Priced, ctx: rh.KeyedContext) -> Iterator[Known]:
        yield Known(row.price is not None)


def test_a_column_that_code_only_passes_on_may_be_compared_with_none() -> None:
    given = [{"k": 1, "price": price, "at": at} for at, price in enumerate([[1], None, []])]
    for cls in (IsKnown, compiled_of(IsKnown)):
        example = OperatorExample(
            lambda stream, cls=cls: stream.key_by("k").process(cls()), schema_of(Priced), given, on="at"
        )
        assert [row["known"] for row in replay(example)["out"]] == [True, False, True]
