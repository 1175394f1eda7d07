"""`any`, `all` and `sum` of comprehensions: both forms have the same results."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.core.compiler.eligibility import Refusal, compilable_methods
from rheos.core.operators.automatic_rows import predicate_typing
from rheos.core.protocol.types import schema_of
from tests.core.operators.drawn_functions import Drawn, Given
from tests.core.operators.test_automatic_rows import Forms, both, forms

pytest.importorskip("numba")
__all__ = ["forms"]

WORDS = ("so", "long", "s")
STEPS = [3, -1, 7]
WORD = "outer"


def counted(row: Drawn) -> Given:
    word = "own"
    known = any(row.s.startswith(word) for word in WORDS if word != row.t)
    near = all(row.a > step for step in STEPS)
    total = sum(step * row.k for step in STEPS if step > row.k)
    parts = sum(1 for part in row.s.split() if all(letter != "x" for letter in part))
    listed = any([step == row.a for step in STEPS])  # noqa: C419 - a list is compiled, too
    text = f"{word}{known}{near}{listed}"
    return Given(row.k, total + parts, row.x, near, text, row.b, row.t)


def words(row: Drawn) -> list[Given]:
    word = "own"
    return [
        Given(row.k, len(word), row.x, row.f, word, row.b, row.t)
        for word in f"{row.s} {word} {row.k}".split()
        if word != row.t
    ]


def dividing(row: Drawn) -> Given:
    """Fail for the row at 150, but not for that at 120, which the first element decides."""
    decides = any(row.at == 120 or 6 // (row.at - step) > 2 for step in (7, 120, 150))
    return Given(row.k, 1, row.x, decides, row.s, row.b, row.t)


def summed(row: Drawn) -> Given:
    large = sum(row.a * 4_000_000 for step in STEPS)
    return Given(row.k, large % 1009, row.x, row.f, row.s, row.b, row.t)


def test_results_are_those_of_python(forms: Forms) -> None:
    assert len(both(lambda rows: rows.map(counted), forms)) == 60
    assert forms.taken > forms.left == 0


def test_a_list_of_parts_of_a_string_is_that_of_python(forms: Forms) -> None:
    assert len(both(lambda rows: rows.flat_map(words), forms)) > 60
    assert forms.taken > forms.left == 0


@pytest.mark.parametrize("function", [dividing, summed])
def test_errors_and_large_integers_are_those_of_python(function: Any, forms: Forms) -> None:
    both(lambda rows: rows.map(function), forms)
    assert forms.left == 1


def of_two(row: Drawn) -> bool:
    return any(one == other for one in STEPS for other in STEPS)


def of_floats(row: Drawn) -> bool:
    return sum(row.x for _ in STEPS) > 1


def assigning(row: Drawn) -> bool:
    return any((last := step) == row.a and last > 1 for step in STEPS)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (of_two, "cannot be compiled"),
        (of_floats, "sum() of float cannot be compiled"),
        (assigning, "an assignment in a comprehension cannot be compiled"),
    ],
)
def test_code_that_is_not_compiled_is_named(function: Any, says: str) -> None:
    found = compilable_methods(function, predicate_typing(schema_of(Drawn), Drawn))
    assert isinstance(found, Refusal)
    assert says in found.what
