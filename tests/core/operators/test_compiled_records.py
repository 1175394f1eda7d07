"""Compiled functions with dataclasses, as values and as state: both forms have the same results and the
same state, or the compiled form is refused at its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest

import rheos as rh
from rheos.core.compiler.eligibility import Refusal, compilable_methods
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import EmittedType
from rheos.core.protocol.types import schema_of
from tests.core.operators.drawn_functions import Drawn, Given
from tests.core.operators.drawn_records import (
    HEAD,
    Mark,
    Pair,
    RecordDrawing,
    drawn_record_class,
    record_class_of,
)
from tests.core.operators.test_automatic import Forms, forms, interpreted
from tests.core.operators.test_compiled import ON_DISK, RESCALED, TOGETHER, compiled_of, outcome

pytest.importorskip("numba")
__all__ = ["forms"]

WAYS = (TOGETHER, RESCALED, ON_DISK)


class Everything(rh.KeyedProcessFunction):
    """Function whose variables refer to the objects of its states."""

    p = rh.ValueState(Pair)
    q = rh.ValueState(Pair, default=Pair(3, -1.5, "start"))
    m = rh.ValueState(Mark, default=Mark(-1))

    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Iterator[Given]:
        pair = self.p.value or Pair(0, note=row.s)
        pair.n += 1
        other = self.q.value
        other.x += row.a % 7
        self.q.value.n += 2
        other.note = row.t
        if row.f:
            self.p.value = pair
        pair.known = row.f
        if row.a % 3 == 0:
            self.p.clear()
        pair.n += 10
        if other.n > 20:
            self.q.value = Pair(row.k, note=None, x=row.x)
            other.n = 99
        self.m.value = Mark(at=other.n, word=row.s)
        first = self.q.value
        yield Given(row.k, pair.n, other.x, pair.known, self.m.value.word, first.n, first.note)
        if self.p.value is not None:
            yield Given(row.k, self.p.value.n, first.x, True, "", None, self.p.value.note)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_function_has_the_same_results_when_it_is_compiled(way: Any, forms: Forms) -> None:
    plain = interpreted(lambda: outcome_of(Everything(), 5, way))
    assert len(plain["out"]) > 60
    assert outcome_of(Everything(), 5, way) == plain
    assert forms.taken > forms.returned == 0


def outcome_of(fn: Any, seed: int, way: Any) -> Any:
    fn.side_outputs = {"side": Given}
    return outcome(fn, seed, way)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_functions_have_the_same_results(seed: int, forms: Forms) -> None:
    cls = drawn_record_class(seed)
    for way in WAYS:
        plain = interpreted(partial(outcome, cls(), seed, way))
        assert outcome(cls(), seed, way) == plain
    assert forms.taken > forms.returned == 0


def test_drawn_functions_use_all_that_is_compiled() -> None:
    for seed in range(60):
        cls = record_class_of(RecordDrawing(Random(seed)).text(), f"<drawn records {seed}>")
        assert refusal(cls) is None


# --- what is not compiled -----------------------------------------------------------------------------


@dataclass
class Basket:
    names: list[str] = field(default_factory=list)


@dataclass
class Checked:
    n: int

    def __post_init__(self) -> None:
        self.n = max(self.n, 0)


@dataclass
class Sized:
    n: int

    def __len__(self) -> int:
        return self.n


def refusal(cls: Any) -> str | None:
    outputs = {"": EmittedType(schema_of(Given), Given)}
    typing = Typing(schema_of(Drawn), ("k",), Drawn, True, outputs)
    found = compilable_methods(cls(), typing)
    return found.what if isinstance(found, Refusal) else None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("self.q.value.n = row.x", "field 'n' of Pair is int, but is assigned float"),
        ("self.q.value.x = row.a", "field 'x' of Pair is float, but is assigned int"),
        ("self.q.value.n = row.b", "field 'n' of Pair is int, but is assigned int or None"),
        ("self.q.value = Pair(row.f)", "field 'n' of Pair is int, but is assigned bool"),
        ("self.q.value = Mark(1)", "state 'q' is declared as Pair, but is assigned Mark"),
        ("self.q.value.other = 1", "an assignment to self.q.value.other cannot be compiled"),
        ("n = self.q.value.other", "Pair has no field 'other'"),
        ("a = self.m.value\na.at = 3", "an assignment to a.at cannot be compiled"),
        ("a = self.q.value\nb = a", "a second name for an object of Pair"),
        ("a = self.q.value\nself.p.value = a", "an object of two states"),
        ("a = Pair(1)\nself.q.value = a\nself.p.value = a", "an object of two states"),
        ("a = self.q.value if row.f else self.p.value", "one of several dataclasses or states"),
        ("a, b = self.q.value, 1", "in an assignment of several values"),
        ("a = f'{self.q.value}'", "a dataclass as a whole cannot be compiled"),
        ("a = self.q.value == Pair(1)", "a comparison of dataclasses cannot be compiled"),
        ("a = Pair(1)\na = 1", "a is first a dataclass and then int"),
        ("yield self.q.value", "a record should be Given"),
    ],
)
def test_code_that_would_differ_is_named(line: str, says: str) -> None:
    lines = "\n".join(f"        {each}" for each in line.split("\n"))
    cls = record_class_of(f"{HEAD}\n    def process_element(self, row, ctx):\n{lines}\n", "<records>")
    assert says in (refusal(cls) or "")


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (rh.ValueState(Basket), "plain dataclasses of int, float, bool and str"),
        (rh.ValueState(Checked), "plain dataclasses of int, float, bool and str"),
        (rh.ValueState(Sized), "plain dataclasses of int, float, bool and str"),
        (rh.ValueState(Pair, ttl="1h"), "a dataclass with a time to live"),
        (rh.ValueState(Pair, default=Pair(1, 2)), "fields of other types, than Pair declares"),
    ],
)
def test_state_that_would_differ_is_named(declared: Any, says: str) -> None:
    cls = type("Function", (Everything,), {"q": declared})
    declared.name = "q"
    assert says in (refusal(cls) or "")


IMPRECISE = """
class Function(rh.KeyedProcessFunction):
    side_outputs = {"side": Side}
    p = rh.ValueState(Pair)

    def open(self, ctx):
        self.seen = 0

    def process_element(self, row, ctx):
        pair = self.p.value or Pair(1)
        pair.n = pair.n * 4096
        self.p.value = pair
        yield Given(row.k, pair.n % 1009, pair.x, False, "", None, None)
"""


@pytest.mark.slow
def test_values_that_do_not_fit_columns_are_interpreted(forms: Forms) -> None:
    cls = record_class_of(IMPRECISE, "<imprecise>")
    plain = interpreted(partial(outcome, cls(), 3, TOGETHER))
    assert len(plain["out"]) == 60
    assert outcome(cls(), 3, TOGETHER) == plain
    assert forms.returned == 1


def test_a_field_that_is_none_fails_at_its_line() -> None:
    cls = record_class_of(
        HEAD + "\n    def process_element(self, row, ctx):\n        self.p.value.n += 1\n", "<none>"
    )
    assert outcome(cls(), 1)[1] == outcome(compiled_of(cls)(), 1)[1] == 10
