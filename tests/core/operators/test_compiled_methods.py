"""Compiled functions that call their own methods, and that emit dataclasses they have not just created:
both forms have the same results, or the compiled form is refused at its line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import rheos as rh
from rheos.core.compiler.eligibility import Refusal, compilable_methods
from rheos.core.compiler.kernel import Typing
from rheos.core.compiler.values import EmittedType
from rheos.core.graph.compilation import method_texts
from rheos.core.operators.compiled_loops import CompiledCode, code_of
from rheos.core.protocol.types import schema_of
from tests.core.operators.drawn_functions import (
    Drawn,
    Given,
    MethodDrawing,
    Side,
    class_of,
    drawn_class,
)
from tests.core.operators.test_automatic import Forms, forms, interpreted
from tests.core.operators.test_compiled import ON_DISK, RESCALED, TOGETHER, outcome

pytest.importorskip("numba")
__all__ = ["forms"]

WAYS = (TOGETHER, RESCALED, ON_DISK)
OUTPUTS = {
    "": EmittedType(schema_of(Given), Given),
    "side": EmittedType(schema_of(Side), Side),
}
TYPING = Typing(schema_of(Drawn), ("k",), Drawn, True, OUTPUTS)


START = [
    Given(0, 5, 0.5, False, "", None, "t"),
    Given(1, 7, -0.5, True, "", None, None),
    Given(2, 9, 0.25, False, "two", None, None),
]
OTHERS = {"s": Given(0, 3, 0.5, True, "", None, None), "m": Given(2, 1, 0.5, True, "m", None, "")}


class Base(rh.KeyedProcessFunction):
    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Iterator[Given]:
        if row.f or self.is_large(row):
            return
        yield self.counted(row, row.a % 3)

    def counted(self, row: Drawn, by: int) -> Given:
        self.count(by)
        if by > 1:
            return Given(row.k, by, row.x, False, row.s, None, None)
        return OTHERS.get(row.s, START[row.k])

    def count(self, by: int = 1) -> None:
        raise NotImplementedError

    def is_large(self, row: Drawn) -> bool:
        return row.a > 1 << 50


class Everything(Base):
    side_outputs = {"side": Given}
    at = rh.ValueState(Given)
    n = rh.ValueState(int, default=0)

    def count(self, by: int = 1) -> None:
        if not by:
            return
        self.n.value += by

    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Iterator[Given]:
        before = self.at.value or START[row.k]
        self.at.value = Given(row.k, before.i + 1, before.x + row.a % 3, row.f, row.s, row.b, row.t)
        yield before
        yield from super().process_element(row, ctx)
        self.count()


class Changes(Everything):
    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Given]:
        self.at.value.i += 1
        yield from ()


def test_a_function_has_the_same_results_when_it_is_compiled(forms: Forms) -> None:
    plain = interpreted(lambda: outcome(Everything(), 5))
    assert len(plain["out"]) > 80
    assert outcome(Everything(), 5) == plain
    assert forms.taken > forms.returned == 0


class ChangesLater(rh.KeyedProcessFunction):
    side_outputs = {"side": Given}
    at = rh.ValueState(Given)

    def process_element(self, row: Drawn, ctx: rh.KeyedContext) -> Iterator[Given]:
        total = self.at.value or Given(row.k, 0, row.x, row.f, row.s, None, None)
        total.i += 1
        self.at.value = total
        yield total
        total.j = row.b
        self.at.value.i += 1
        yield self.at.value


def test_an_emitted_object_may_change_later(forms: Forms) -> None:
    plain = interpreted(lambda: outcome(ChangesLater(), 5))
    assert len(plain["out"]) == 120
    assert outcome(ChangesLater(), 5) == plain
    assert forms.taken > forms.returned == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_functions_have_the_same_results(seed: int, forms: Forms) -> None:
    cls = drawn_class(seed, MethodDrawing)
    for way in WAYS:
        plain = interpreted(partial(outcome, cls(), seed, way))
        assert outcome(cls(), seed, way) == plain


def test_drawn_functions_use_all_that_is_compiled() -> None:
    for seed in range(8):
        assert refusal(drawn_class(seed, MethodDrawing)) is None


def refusal(cls: Any) -> str | None:
    found = compilable_methods(cls(), TYPING)
    return str(found) if isinstance(found, Refusal) else None


HEAD = """
class Base(rh.KeyedProcessFunction):
    def numbers(self, row):
        yield Given(row.k, 1, 0.5, True, "", None, None)

    def number(self, row):
        return row.a

    async def later(self, row):
        pass

    def again(self, row):
        return self.again(row)

    def listed(self, row):
        return [row]

class Function(Base):
    def number(self, row):
        return 3

    def process_element(self, row, ctx):
"""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("self.numbers(row)", "self.numbers() has no effect"),
        ("yield from self.number(row)", "self.number() is no generator"),
        ("yield self.numbers(row)", "self.numbers() returns an iterator, not a record"),
        ("a = len(self.numbers(row))", "numbers() returns an iterator"),
        ("self.later(row)", "only functions defined with `def` or `lambda`"),
        ("self.listed(row)", "<methods>:16: listed() returns a value, which the call ignores"),
        ("a = self.again(row)", "again calls itself"),
        ("yield self.number(row)", "<methods>:20: a record should be Given"),
        ("yield from super().missing(row)", "cannot be compiled"),
        ("self.number(1, 2)", "the arguments of number() cannot be compiled"),
    ],
)
def test_code_that_would_differ_is_named(line: str, says: str) -> None:
    cls = class_of(f"{HEAD}        {line}\n        yield from ()\n", "<methods>")
    assert says in (refusal(cls) or "")


def test_shared_objects_are_not_changed() -> None:
    assert not isinstance(compilable_methods(Everything(), TYPING), Refusal)
    found = compilable_methods(Changes(), TYPING)
    assert isinstance(found, Refusal)
    assert found.what.startswith("a change of Given cannot be compiled, because the function also")


def test_code_holds_until_a_method_or_a_constant_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(START[1], "i", 7)
    monkeypatch.setattr(Base, "counted", Base.counted)

    def code() -> CompiledCode:
        return code_of(Everything(), method_texts(Everything), TYPING)

    made = code()
    assert made.holds()
    START[1].i = 8
    assert not made.holds()
    made = code()
    monkeypatch.setattr(Base, "counted", lambda self, row, by: START[0])
    assert not made.holds()
