"""Compiled functions: their results equal those of the interpreted functions, or they are refused at
their line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ProgramError, RheosError
from rheos.core.operators.compiled_core import CompiledCore
from rheos.core.operators.process import ProcessSpec, core_of
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.protocol.types import schema_of
from rheos.testing.harness import OperatorExample, ReplayMode, replay
from tests.core.operators.contexts import context
from tests.core.operators.drawn_functions import (
    KNOWN,
    NAMES,
    SIZES,
    Drawn,
    Given,
    Side,
    class_of,
    drawn_class,
    drawn_rows,
)
from tests.core.operators.test_process import Count, feed, make, rows, save

pytest.importorskip("numba")

STEPS = [1, 0, 2]
TOGETHER = ReplayMode("together", together=True)
RESCALED = ReplayMode(
    "rescaled at every other pause", parallelisms=(1, 3, 2), checkpoint_every=1, restore_every=2
)
ON_DISK = ReplayMode("on disk", together=True, on_disk=True, checkpoint_every=1, restore_every=3)


def example(fn: Any, seed: int, count: int = 60) -> OperatorExample:
    def build(stream: rh.DataStream) -> dict[str, rh.DataStream]:
        out = stream.key_by("k").process(fn, returns=Given)
        return {"out": out, "side": out.side_output("side")}

    script: list[Any] = []
    for number, row in enumerate(drawn_rows(seed, count)):
        if number % 7 == 6:
            script.append(WatermarkMark(row["at"] - 5))
        script.append(row)
    return OperatorExample(build, schema_of(Drawn), script, on="at")


def outcome(fn: Any, seed: int, way: ReplayMode = TOGETHER) -> Any:
    """Return the rows in order, floats to the last bit; or the error, and its line."""
    try:
        found = replay(example(fn, seed), way)
    except RheosError as error:
        return error.what.partition(":")[0], error.site and error.site.line
    shown = {name: [repr(list(row.values())) for row in of] for name, of in found.items()}
    # Of several subtasks nobody says who is first.
    return shown if way is TOGETHER else {name: sorted(of) for name, of in shown.items()}


def compiled_of(cls: Any, **options: Any) -> Any:
    return rh.compiled(**options)(type("Compiled", (cls,), {}))


class Everything(rh.KeyedProcessFunction):
    """Function with a sample of everything that can be compiled."""

    side_outputs = {"side": Side}
    count = rh.ValueState(int, default=0)
    last = rh.ValueState(int)
    mean = rh.ValueState(float, default=0.0)
    note = rh.ValueState(str)
    word = rh.ValueState(str, default="long text")
    flag = rh.ValueState(bool, default=False)

    def __init__(self) -> None:
        self.least = 2

    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Any:
        """Process an element, with a docstring."""
        self.count.value += 1
        gap = None
        if self.last.value is not None:
            gap = row.at - self.last.value
        self.last.value = ctx.timestamp
        size = SIZES.get((row.s, row.f), self.least)
        size += STEPS[size % 3] + (0, 1)[-1 if row.f else 0]
        if row.s in KNOWN and not (row.t is None or row.t != row.s):
            self.note.value = row.t
        elif row.b is not None and row.b > self.least:
            self.note.clear()
            ctx.output("side", Side(n=row.b // 2, x=row.x / (row.b + 0.5)))
        if math.isnan(row.x):
            self.word.value = "not a number"
            return
        self.mean.value += (row.x - self.mean.value) / self.count.value
        total = 0
        for turn in range(size):
            if turn == 5:
                break
            total += turn * row.a % 1000
            if total > 900:
                yield Given(ctx.key, total, row.x, turn > 2, self.word.value, None, t=row.t)
                return
        while total > 10:
            total = total // 3
        self.flag.value, total = total % 2 == 0, total + 1
        ctx.timers.register(ctx.timestamp + size)
        ctx.timers.delete(ctx.timestamp - 1)
        smallest = min(row.x, self.mean.value, -0.0)
        word = self.word.value if row.f else self.note.value or "nothing"
        named = NAMES.get(row.b if row.b is not None else 0)
        yield Given(row.k, total, smallest, self.flag.value, word, gap, named)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Any:
        late = timestamp - ctx.watermark
        yield Given(
            ctx.key, late, self.mean.value, late > 0, self.word.value, self.last.value, self.note.value
        )
        if self.count.value % 3 == 0:
            ctx.timers.register(timestamp + 2)
            self.count.value += 1


@pytest.mark.parametrize(
    "way",
    # test_automatic.py rescales the same function.
    [TOGETHER, pytest.param(RESCALED, marks=pytest.mark.slow), ON_DISK],
    ids=lambda way: way.name,
)
def test_a_compiled_function_equals_the_interpreted_one(way: ReplayMode) -> None:
    plain = outcome(Everything(), 5, way)
    assert len(plain["out"]) > 60
    assert len(plain["side"]) > 5
    assert outcome(compiled_of(Everything)(), 5, way) == plain


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed != 4)) for seed in range(20)]
)
def test_random_compiled_functions_equal_the_interpreted_ones(seed: int) -> None:
    cls = drawn_class(seed)
    plain = outcome(cls(), seed)
    assert outcome(compiled_of(cls)(), seed) == plain


def test_a_compiled_function_has_the_same_state() -> None:
    function = compiled_of(Count)()
    plain = make(Count())
    feed(plain, ("a", 1), ("b", 2), ("a", 3))
    operator = make(function, restored=save(plain))
    assert [row[:2] for row in rows(feed(operator, ("a", 1), ("c", 5), ("a", 1)))] == [
        ("a", 5),
        ("c", 5),
        ("a", 6),
    ]
    again = make(Count(), restored=save(operator))
    assert [row[:2] for row in rows(feed(again, ("b", 0), ("c", 0)))] == [("b", 2), ("c", 5)]
    ctx = context(
        pa.schema([("user", pa.string()), ("n", pa.int64())]), schema_of(Given), keys=("user",)
    )
    ctx.outputs = {}
    assert isinstance(core_of(ctx, ProcessSpec(function, "arrival", None)), CompiledCore)


# --- what a row may fail of ---------------------------------------------------------------------------

FAILING = """
import math
def quotient(number):
    least = number - 1
    return number / least
class Function(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=1 << 62)
    w = rh.ValueState(str, default="")

    def process_element(self, row: Drawn, ctx):
        made = 0
        part = 0.0
        if row.a == 0:
            made = row.k // (row.k - row.k)
        elif row.a == 1:
            part = row.x / 0.0
        elif row.a == 2:
            made = row.b + 1
        elif row.a == 3:
            made = int(row.x)
        elif row.a == 4:
            made = SIZES[row.s, row.f]
        elif row.a == 5:
            self.w.value = row.t
        elif row.a == 6:
            made = self.n.value * 4
        elif row.a == 7:
            made = row.k % 0
        elif row.a == 8:
            made = int(row.s)
        elif row.a == 9:
            self.w.value = row.t.upper()
        elif row.a == 10:
            self.w.value = row.s[2]
        elif row.a == 11:
            first, second = row.s.split("-")
            self.w.value = first + second
        elif row.a == 12:
            raise ValueError(f"{row.s} is wrong", row.k)
        elif row.a == 13:
            raise KeyError
        elif row.a == 14:
            assert row.k > 1, row.s * 2
        elif row.a == 15:
            part = math.log(row.k - 1)
        elif row.a == 17:
            part = quotient(row.k)
        elif row.a == 16:
            self.w.value = "%d %s" % row.s
        yield Given(row.k, made, part, row.f, row.s, None, None)
"""


@pytest.mark.parametrize("case", range(19))
def test_a_row_fails_at_the_same_line_as_interpreted(case: int) -> None:
    cls = class_of(FAILING, "<failing>")
    row = {
        "k": 1,
        "a": case,
        "b": None,
        "x": math.nan,
        "y": None,
        "f": False,
        "s": "no",
        "t": None,
        "at": 1,
    }

    def failed(fn: Any) -> Any:
        def build(stream: rh.DataStream) -> rh.DataStream:
            return stream.key_by("k").process(fn, returns=Given)

        try:
            return replay(OperatorExample(build, schema_of(Drawn), [{**row, "a": 99}, row], on="at"))
        except RheosError as error:
            what = error.what
            if case < 8:
                what = what.partition(":")[0].partition(",")[0]
            return what, error.site and error.site.line, error.key, error.record

    plain, got = failed(cls()), failed(compiled_of(cls)())
    if case == 6:
        # As it is, the number grows beyond 64 bits, and only the output refuses it.
        assert got[0].startswith("OverflowError")
        assert got[1] == 26
    else:
        assert got == plain
        assert (case < 18) == isinstance(got, tuple)


# --- what cannot be compiled --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("print(row.a)", "print() cannot be compiled"),
        ("n = len(row.a)", "len() cannot be compiled"),
        ("n = row.s + row.a", "str + int cannot be compiled"),
        ("n = row.s.encode()", "row.s.encode() cannot be compiled"),
        ("n = row.s.upper(1)", "row.s.upper() cannot be compiled"),
        ("n = row.s.split()", "row.s.split() cannot be compiled"),
        ("n = row.s.split()[1:]", "as a list cannot be compiled"),
        ("n = 1 if row.f else 2.5", "one type"),
        ("n = [row.a]", "cannot be compiled"),
        ("n = f'{row.a:{row.k}}'", "a format that is computed cannot be compiled"),
        ("n = f'{row.x:d}'", "the format 'd' raises a ValueError"),
        ("n = f'{row.b:03}'", "the format '03' of int or None cannot be compiled"),
        ("n = row.a ** row.a", "int ** int cannot be compiled"),
        ("n = row.s < row.a", "str < int cannot be compiled"),
        ("n = row.nothing", "no field 'nothing'"),
        ("n = missing", "the name 'missing' is not defined"),
        ("n = row.x << 7", "float << int cannot be compiled"),
        ("n = 99999999999999999999", "exceeds the 64 bits"),
        ("self.n.value = row.x", "state 'n' is declared as int, but is assigned float"),
        ("self.other = 3", "an assignment to self.other cannot be compiled"),
        ("import math", "'import math' cannot be compiled"),
        ("raise", "'raise' cannot be compiled"),
        ("raise Side(1, 2.0)", "raising Side(1, 2.0) cannot be compiled"),
        ("ctx.output('nowhere', Side(1, 2.0))", "not a declared side output"),
        ("yield {'k': 1}", "a record should be Given"),
        ("ctx.output('side', Side(1.5, 2.0))", "field 'n' should be int64, but is float"),
        ("ctx.timers.register(row.x)", "in milliseconds"),
        ("n = NAMES[row.s]", "is looked up by str, but its keys are int"),
        ("n = later(row.a)", "later() has a signature that cannot be compiled"),
        ("n = doubled(row.a, 1)", "the arguments of doubled() cannot be compiled"),
        ("n = doubled(row.s, b=1)", "the arguments of doubled() cannot be compiled"),
        ("for n in {1, 2}: pass", "a loop over {1, 2} cannot be compiled"),
        ("for n in NAMES: pass", "a loop over NAMES cannot be compiled"),
        ("for n in row.a: pass", "a loop over row.a cannot be compiled"),
        ("for n, m in row.s: pass", "must have one variable"),
        ("match row.s:\n            case 1: pass", "str == int cannot be compiled"),
        ("match row.s, 1:\n            case _, 1, 2: pass", "another number of parts"),
        ("match row.s:\n            case str(): pass", "the pattern str() cannot be compiled"),
        ("with row: pass", "cannot be compiled"),
        ("n = row", "row as a whole cannot be compiled"),
    ],
)
def test_unsupported_code_is_named_with_its_line(line: str, says: str) -> None:
    text = f"""
class Function(rh.KeyedProcessFunction):
    side_outputs = {{"side": Side}}
    n = rh.ValueState(int, default=0)

    def process_element(self, row: Drawn, ctx):
        first = row.a
        {line}
        yield Given(1, first, 0.0, True, "", None, None)

def later(*given):
    return 1

def doubled(number):
    return 2 * number
"""
    cls = class_of(text, "<refused>")
    with pytest.raises(ProgramError, match=r"cannot be compiled") as caught:
        replay(example(compiled_of(cls)(), 1, 1))
    assert says in caught.value.what
    assert str(caught.value.site) == f"<refused>:{8 + line.count(chr(10))}"
    assert "fallback" in (caught.value.hint or "")


def test_a_function_that_calls_itself_is_named_with_its_line() -> None:
    text = """
def endless(number):
    return endless(number - 1)

class Function(rh.KeyedProcessFunction):
    def process_element(self, row: Drawn, ctx):
        yield Given(1, endless(row.a), 0.0, True, "", None, None)
"""
    with pytest.raises(ProgramError, match="endless calls itself") as caught:
        replay(example_without_side(compiled_of(class_of(text, "<endless>"))()))
    assert str(caught.value.site) == "<endless>:3"


def test_a_variable_that_may_not_be_set_is_refused() -> None:
    text = """
class Function(rh.KeyedProcessFunction):
    def process_element(self, row: Drawn, ctx):
        if row.f:
            n = 1
        yield Given(1, n, 0.0, True, "", None, None)
"""
    with pytest.raises(ProgramError, match="n may be unassigned here"):
        replay(example_without_side(compiled_of(class_of(text, "<unset>"))()))


def example_without_side(fn: Any) -> OperatorExample:
    return OperatorExample(
        lambda stream: stream.key_by("k").process(fn, returns=Given),
        schema_of(Drawn),
        drawn_rows(1, 4),
        on="at",
    )


def test_unsupported_code_is_interpreted_on_request() -> None:
    text = """
class Function(rh.KeyedProcessFunction):
    def process_element(self, row: Drawn, ctx):
        yield Given(len(row.s), 0, 0.0, True, row.s.encode().decode().upper(), None, None)
"""
    cls = class_of(text, "<interpreted>")
    found = replay(example_without_side(compiled_of(cls, fallback="interpret")()))["out"]
    assert [row["s"] for row in found] == [row["s"].upper() for row in drawn_rows(1, 4)]


def test_marked_functions_are_compiled() -> None:
    with pytest.raises(ProgramError, match="takes a class derived from"):
        rh.compiled(Count())  # type: ignore[call-overload]
    with pytest.raises(ProgramError, match="fallback='guess' is not known"):
        rh.compiled(fallback="guess")  # type: ignore[call-overload]
    mapped = type("Mapped", (Everything,), {"count": rh.MapState(float, int)})
    with pytest.raises(ProgramError, match="but a compiled function supports only"):
        replay(example(compiled_of(mapped)(), 1))


def test_integers_have_64_bits_and_no_more() -> None:
    from rheos.core.compiler import arithmetic

    edges = [0, 1, 2, 3, 7, (1 << 31) - 1, 1 << 31, (1 << 32) + 1, 3037000499, 3037000500]
    edges += [(1 << 61) - 1, 1 << 61, 1 << 62, (1 << 62) + 1, (1 << 63) - 1]
    numbers = [*edges, *(-edge for edge in edges), -(1 << 63)]
    for name, exact in (("add", int.__add__), ("sub", int.__sub__), ("mul", int.__mul__)):
        work = arithmetic.NAMES[name]
        for a in numbers:
            for b in numbers:
                failed = np.zeros(1, np.int64)
                made = work(a, b, failed, 1)
                wanted = exact(a, b)
                if -(1 << 63) <= wanted < 1 << 63:
                    assert (made, failed[0]) == (wanted, 0), (name, a, b)
                else:
                    assert failed[0] == 1, (name, a, b)
