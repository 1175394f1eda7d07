"""Compiled functions with datetimes: both forms have the same results, and the same errors."""

from __future__ import annotations

import linecache
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timezone
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


@dataclass
class Tick:
    k: int
    n: int
    x: float
    at: int


@dataclass
class Told:
    k: int
    i: int
    s: str
    f: bool
    when: datetime
    maybe: datetime | None


HEAD = """
class Function(rh.KeyedProcessFunction):
    def process_element(self, row, ctx):
"""
MADE = (
    "datetime.fromtimestamp(row.n, UTC)",
    "datetime.fromtimestamp(row.x, tz=timezone.utc)",
    "datetime.fromtimestamp(row.n / 1000, UTC)",
)
FORMATS = ("%H:00", "%Y-%m-%d %H:%M", "%d.%m.%y %S.%f", "%a %j %U %%", "%c", "%Z%z", "no part", "")


def drawn(rng: Random) -> str:
    """Return the source of a function that uses datetimes."""
    lines = [f"a = {rng.choice(MADE)}", f"b = {rng.choice(MADE)}"]
    lines += [f"c = a if row.k else {rng.choice(MADE)}", "d = None"]
    lines += ["if a < b:", "    d = c", "elif a != c:", f"    b = {rng.choice(MADE)}"]
    numbers = ["year", "month", "day", "hour", "minute", "second", "microsecond", "weekday()"]
    numbers += ["isoweekday()", "timestamp() // 7", "year % 100"]
    total = " + ".join(f"{rng.choice('abc')}.{rng.choice(numbers)} * {7**n}" for n in range(5))
    texts = [f"strftime({form!r})" for form in FORMATS] + ["isoformat()", "isoformat(' ', 'hours')"]
    text = " + '|' + ".join(f"{rng.choice('abc')}.{rng.choice(texts)}" for _ in range(3))
    lines += [f"yield Told(row.k, int({total}), {text}, b >= c or not a, {rng.choice('abc')}, d)"]
    return HEAD + "".join(f"        {line}\n" for line in lines)


def rows(seed: int) -> list[dict[str, Any]]:
    rng = Random(seed)
    edges = [0, -1, 59, 60, 86_399, 86_400, -86_400, 951_782_400, -62_135_596_800, 253_402_300_799]
    parts = [0.0, -0.5, 1e-6, 0.0000005, 1.5e9, 1_700_000_000.123457, -1.0000015]
    return [
        {
            "k": rng.randrange(2),
            "n": rng.choice([*edges, rng.randrange(-(1 << 33), 1 << 33)]),
            "x": rng.choice([*parts, rng.uniform(-2e9, 4e9)]),
            "at": at,
        }
        for at in range(80)
    ]


def class_of(text: str, file: str) -> Any:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"rh": rh, "datetime": datetime, "UTC": UTC, "timezone": timezone}
    names |= {"Told": Told, "__name__": __name__}
    exec(compile(text, file, "exec"), names)
    return names["Function"]


def outcome(fn: Any, given: list[dict[str, Any]]) -> Any:
    example = OperatorExample(
        lambda stream: stream.key_by("k").process(fn, returns=Told), schema_of(Tick), given, on="at"
    )
    try:
        return [repr(row) for row in replay(example)["out"]]
    except RheosError as error:
        return error.what, error.site and error.site.line


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed != 1)) for seed in range(8)]
)
def test_random_functions_equal_the_interpreted_ones(seed: int) -> None:
    cls = class_of(drawn(Random(seed)), f"<drawn moments {seed}>")
    plain = outcome(cls(), rows(seed))
    assert len(plain) == 80
    assert outcome(compiled_of(cls)(), rows(seed)) == plain


def test_times_out_of_range_fail_at_the_same_line() -> None:
    cls = class_of(
        f"{HEAD}        a = {MADE[1]}\n        yield Told(1, 2, '', True, a, None)\n", "<range>"
    )
    compiled = compiled_of(cls)()
    for x in (1e12, -1e12, 1e300, math.nan, math.inf):
        given = [{"k": 1, "n": 1, "x": x, "at": 1}]
        plain = outcome(cls(), given)
        assert isinstance(plain, tuple)
        assert outcome(compiled, given) == plain


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a = datetime.fromtimestamp(row.n)", "datetime.fromtimestamp() cannot be compiled"),
        ("a = datetime.now(UTC)", "datetime.now() cannot be compiled"),
        (f"a = f'{{{MADE[0]}!r}}'", "datetime as a whole cannot be compiled"),
        (f"a = {MADE[0]}\na = a * a", "Mult of datetime and datetime cannot be compiled"),
        (f"a = {MADE[0]} == row.n", "datetime == int cannot be compiled"),
        (f"a = {MADE[0]}\na = a.replace(year=1)", "a.replace(year=1) cannot be compiled"),
        (f"a = {MADE[0]}.strftime(row.n)", "cannot be compiled"),
        (f"a = {MADE[0]}\na = 1", "a is first datetime and then int"),
        (f"a = {MADE[0]}\nctx.timers.register(a)", "a timer must be set to an int"),
        (f"yield Told(1, {MADE[0]}, '', True, {MADE[0]}, None)", "should be int64, but is datetime"),
    ],
)
def test_code_that_is_not_compiled_is_named(line: str, says: str) -> None:
    lines = "".join(f"        {each}\n" for each in line.split("\n"))
    outputs = {"": EmittedType(schema_of(Told), Told)}
    typing = Typing(schema_of(Tick), ("k",), Tick, True, outputs)
    found = compilable_methods(class_of(HEAD + lines, "<refused>")(), typing)
    assert isinstance(found, Refusal)
    assert says in found.what
