"""Functions without state that are compiled while they run: both forms have the same results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.compiler.eligibility import Refusal, compilable_methods
from rheos.core.errors import RheosError
from rheos.core.operators import form_choice
from rheos.core.operators.automatic_rows import AutomaticRows, column_typing
from rheos.core.operators.call import CallForm, CallSpec
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.protocol.types import schema_of
from rheos.testing.harness import OperatorExample, replay
from tests.core.operators.drawn_functions import Drawn, Given, drawn_plain, drawn_rows
from tests.core.operators.test_automatic import interpreted

pytest.importorskip("numba")

Made = Callable[[Any], Any]
"""Adds a function to a stream."""


@dataclass
class Forms:
    """The number of changes of the form."""

    taken: int = 0
    left: int = 0


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> Forms:
    """Compile functions after their first rows, and count the changes of the form."""
    found = Forms()
    monkeypatch.setattr(form_choice, "ENOUGH_ROWS", 1)
    monkeypatch.setattr(form_choice, "LARGE_BATCH", 1)
    take_over, leave = AutomaticRows._take_over, AutomaticRows.leave

    def taking(rows: AutomaticRows, code: Any) -> None:
        found.taken += 1
        take_over(rows, code)

    def leaving(rows: AutomaticRows, error: RheosError | None = None) -> None:
        found.left += 1
        leave(rows, error)

    monkeypatch.setattr(AutomaticRows, "_take_over", taking)
    monkeypatch.setattr(AutomaticRows, "leave", leaving)
    return found


def outcome(made: Made, seed: int = 5, count: int = 60) -> Any:
    """Return the rows in order, floats to the last bit; or the error, and its line."""
    given: list[Any] = []
    for at, row in enumerate(drawn_rows(seed, count)):
        given += [WatermarkMark(row["at"] - 1), row] if at % 10 == 0 else [row]
    try:
        found = replay(OperatorExample(made, schema_of(Drawn), given, on="at"))
    except RheosError as error:
        return error.what, error.site and error.site.line
    return [repr(list(row.values())) for row in found["out"]]


def both(made: Made, forms: Forms, **given: Any) -> Any:
    """Return the outcome of the interpreted form, after checking that the compiled one has the same."""
    plain = interpreted(partial(outcome, made, **given))
    assert forms.taken == 0
    assert outcome(made, **given) == plain
    return plain


def checked(row: Drawn) -> Given:
    """Return the record with what is certain about it."""
    if row.t is None:
        return Given(row.k, row.a % 7 - 3, row.x, row.f, row.s, None, row.t)
    size = len(row.s) + row.a
    return Given(row.k, size, row.x / 2, not row.f, f"{row.s}!", row.b, row.t)


def unchanged(row: Drawn) -> Drawn:
    return row


def parts(row: Drawn) -> Iterator[Given]:
    for at, part in enumerate(row.s.split(" ")):
        if part == "text":
            return
        yield Given(row.k, at, row.x, row.f, part, row.b, row.t)
    yield Given(row.k, -1, row.x, row.f, row.s, row.b, row.t)


class Scaled(rh.RichFunction):
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def open(self) -> None:
        self.factor += 1

    def __call__(self, row: Drawn) -> Given:
        return Given(row.k, row.b * self.factor if row.b else 0, row.x, row.f, row.s, row.b, row.t)


LIMIT = 3


def kept(rows: Any) -> Any:
    return rows.filter(lambda row: (row.b is not None and row.b > LIMIT) or row.f)


def in_parts(rows: Any) -> Any:
    return rows.flat_map(
        lambda row: [
            {"k": row.k, "part": part, "x": row.x} for part in row.s.split() if part != "long"
        ],
        returns={"k": int, "part": str, "x": float},
    )


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: rows.map(checked),
        lambda rows: rows.flat_map(parts),
        lambda rows: rows.map(Scaled(4)),
        lambda rows: rows.map(unchanged),
        lambda rows: rows.filter(lambda row: row.a % 3 == 1),
        kept,
        in_parts,
    ],
)
def test_a_function_has_the_same_results_when_it_is_compiled(made: Made, forms: Forms) -> None:
    assert len(both(made, forms)) > 5
    assert forms.taken > forms.left == 0


@pytest.mark.parametrize(
    ("made", "left"),
    [
        (lambda rows: rows.filter(lambda row: row.a * row.a * row.a * row.a > 5), 1),
        (lambda rows: rows.filter(lambda row: row.at < 90 or row.y > 0.5), 1),
        (lambda rows: rows.map(lambda row: {"n": row.at}, returns=pa.schema([("n", pa.int8())])), 1),
        (lambda rows: rows.map(lambda row: {"n": row.a + 0.5}, returns={"n": float}), 0),
    ],
)
def test_python_decides_what_is_an_error(made: Made, left: int, forms: Forms) -> None:
    both(made, forms)
    assert (forms.taken > 0, forms.left) == (True, left)


def test_a_row_without_a_result_is_an_error_of_python(forms: Forms) -> None:
    def some(row: Drawn) -> Any:
        if row.at < 150:
            return Given(row.k, 1, row.x, row.f, row.s, row.b, row.t)
        return

    found = both(lambda rows: rows.map(some, returns=Given), forms)
    assert "None" in found[0]
    assert (forms.taken, forms.left) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("returns", ["record", "records", "bool"])
@pytest.mark.parametrize("seed", range(20))
def test_drawn_functions_have_the_same_results(seed: int, returns: Any, forms: Forms) -> None:
    fn = drawn_plain(seed, returns)
    made: dict[str, Made] = {
        "record": lambda rows: rows.map(fn, returns=Given),
        "records": lambda rows: rows.flat_map(fn, returns=Given),
        "bool": lambda rows: rows.filter(fn),
    }
    both(made[returns], forms, seed=seed)


def grade(a: int, b: int | None, x: float) -> str | None:
    if b is None:
        return None if x > 1 else "none"
    return f"{a % 5}-{b}" if x == x else "unknown"


@pytest.mark.parametrize(
    ("fn", "arguments", "result"),
    [
        (grade, ("a", "b", "x"), pa.string()),
        (lambda y: y * 2 if y < 0.5 else 1.0, ("y",), pa.float64()),
        (lambda x: math.floor(x) if x > -50 else 0, ("x",), pa.int64()),
        (lambda first, second: first + second + 1, ("k", "k"), pa.int64()),
    ],
)
def test_functions_of_columns_have_the_same_results(
    fn: Any, arguments: tuple[str, ...], result: pa.DataType, forms: Forms
) -> None:
    def called(rows: Any) -> Any:
        field = pa.field("made", result)
        typing = column_typing(rows.schema, arguments, ("b",), field)
        automatic = compilable_methods(fn, typing)
        assert not isinstance(automatic, Refusal)
        spec = CallSpec("made", fn, arguments, CallForm.VALUES, ("b",), automatic)
        return rows.transformation.then(spec, "call", rows.schema.append(field)).stream

    both(called, forms)


WORD = pa.struct([("word", pa.string()), ("length", pa.int64())])


@dataclass
class Word:
    word: str
    length: int


def words(text: str, b: int | None) -> Iterator[Word]:
    for word in text.split():
        if b is None and word == "long":
            return
        yield Word(word, len(word) - (b or 0))


def letters(text: str, b: int | None) -> list[Any]:
    return [letter for letter in text if letter != "x"]


def numbers(a: int, b: int | None) -> Iterator[float]:
    yield a / 2
    if b is not None and a % 2:
        yield float((a * b << 62) % 1009)


def dicts(a: int, b: int | None) -> Iterator[dict[str, Any]]:
    for at in range(a % 4):
        yield {"length": at, "word": f"{b} {at}"}


@pytest.mark.parametrize(
    ("fn", "first", "element", "left"),
    [
        (words, "s", WORD, 0),
        (words, "t", WORD, 0),
        (letters, "s", pa.string(), 0),
        (numbers, "a", pa.float64(), 1),
        (dicts, "a", WORD, 0),
    ],
)
def test_functions_that_return_several_values_have_the_same_results(
    fn: Any, first: str, element: pa.DataType, left: int, forms: Forms
) -> None:
    def called(rows: Any) -> Any:
        field, arguments = pa.field("made", pa.list_(element)), (first, "b")
        typing = column_typing(rows.schema, arguments, ("b",), field, many=True)
        automatic = compilable_methods(fn, typing)
        assert not isinstance(automatic, Refusal)
        spec = CallSpec("made", fn, arguments, CallForm.MANY, ("b",), automatic)
        return rows.transformation.then(spec, "call", rows.schema.append(field)).stream

    both(called, forms)
    assert forms.taken > 0
    assert forms.left == left


def test_a_tuple_is_no_record_of_a_list() -> None:
    def pairs(text: str) -> Iterator[Any]:
        yield (text, 1)

    typing = column_typing(schema_of(Drawn), ("s",), (), pa.field("made", pa.list_(WORD)), many=True)
    assert isinstance(compilable_methods(pairs, typing), Refusal)


def test_functions_of_sql_are_compiled() -> None:
    env = rh.Environment(1)
    env.register("rows", env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn)))
    env.register_function("grade", grade)
    env.register_function("words", words)
    env.sql("SELECT grade(a, b, x) AS found FROM rows").collect("found")
    env.sql("SELECT w.word FROM rows, LATERAL TABLE(words(s, b)) AS w").collect("words")
    assert "of a, b, x; compiled" in env.explain()
    assert "of s, b; compiled" in env.explain()


def test_explain_names_the_form_of_each_function() -> None:
    def shown(add: Made, **options: Any) -> str:
        env = rh.Environment(1, **options)
        add(env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn))).collect("found")
        return next(line.strip() for line in env.explain().splitlines() if "takes" in line)

    assert shown(kept).endswith("takes named rows; compiled")
    assert shown(kept, compiled=False).endswith("takes named rows")
    assert shown(lambda rows: rows.map(checked)).endswith("takes Drawn; compiled")
    encoded = shown(lambda rows: rows.filter(lambda row: row.s.encode() == b"s"))
    assert "test_automatic_rows.py" in encoded
    assert encoded.endswith("row.s.encode() cannot be compiled")
