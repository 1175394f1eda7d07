"""Functions of conditions that are compiled while they run: both forms find the same matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rheos as rh
from rheos.core.operators.pattern import compiled_conditions
from tests.core.operators.drawn_functions import Drawn, drawn_rows
from tests.core.operators.test_automatic_rows import Forms, both, forms

pytest.importorskip("numba")

__all__ = ["forms"]


def begins(row: Drawn) -> bool:
    return row.f and len(row.s) < 5


def later(row: Drawn) -> bool:
    return row.a % 2 == 0 or row.t is None


def large(row: Any) -> bool:
    return bool(row.at < 150 or row.y > 0.5)


def detected(end: Callable[..., bool]) -> Callable[[Any], Any]:
    pattern = rh.pattern.begin("first").where(begins).followed_by("last").where(end).within("40ms")
    return lambda rows: rows.key_by("k").detect(pattern)


@pytest.mark.parametrize(
    ("end", "seldom", "left"), [(later, 1 << 20, 0), (large, 1 << 20, 1), (later, 0, 0)]
)
def test_both_forms_find_the_same_matches(
    end: Callable[..., bool],
    seldom: int,
    left: int,
    forms: Forms,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled_conditions, "_SELDOM", seldom)
    found = both(detected(end), forms, count=90)
    assert len(found) > 1
    assert (forms.taken > 0, forms.left) == (seldom > 0, left)


def test_explain_names_the_form_of_each_condition() -> None:
    env = rh.Environment(1)
    rows = env.from_source(
        rh.collection(drawn_rows(1, 3), schema=Drawn), watermark=rh.Watermark.monotonic(on="at")
    )
    detected(lambda row: row.s.encode() == b"s")(rows).collect("found")
    shown = env.explain()
    assert "; begins is compiled" in shown
    assert "; <lambda> is interpreted: " in shown
