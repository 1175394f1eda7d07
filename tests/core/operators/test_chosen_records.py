"""Functions of `reduce` that return one of two records: both forms have the same results and state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

import rheos as rh
from rheos.core.compiler.eligibility import Refusal, compilable_methods
from rheos.core.operators.chosen_records import ChosenRecords, choice_typing
from rheos.core.protocol.types import schema_of
from rheos.testing.harness import OperatorExample, ReplayMode, replay
from tests.core.operators.drawn_functions import Drawn, drawn_plain, drawn_rows
from tests.core.operators.test_automatic import in_batches, interpreted
from tests.core.operators.test_automatic_rows import Forms, forms
from tests.core.operators.test_compiled import ON_DISK, RESCALED, TOGETHER

pytest.importorskip("numba")
__all__ = ["forms"]

WAYS = pytest.mark.parametrize("way", [TOGETHER, RESCALED, ON_DISK], ids=lambda way: way.name)


def outcome(fn: Callable[[Any, Any], Any], seed: int, way: ReplayMode) -> list[str]:
    example = OperatorExample(
        lambda stream: stream.key_by("k").reduce(fn),
        schema_of(Drawn),
        in_batches(drawn_rows(seed, 60)),
        on="at",
    )
    found = [repr(list(row.values())) for row in replay(example, way)["out"]]
    return found if way is TOGETHER else sorted(found)


def later(kept: Drawn, row: Drawn) -> Drawn:
    if row.t is None or kept.y is None:
        return row
    return kept if kept.y >= row.x or row.s in ("m", "l") else row


@WAYS
def test_a_function_has_the_same_results_when_it_is_compiled(way: ReplayMode, forms: Forms) -> None:
    plain = interpreted(partial(outcome, later, 5, way))
    assert len(plain) == 60
    assert forms.taken == 0
    assert outcome(later, 5, way) == plain
    assert forms.taken > forms.left == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_functions_have_the_same_results(seed: int, forms: Forms) -> None:
    fn = drawn_plain(seed, "choice")
    for way in (TOGETHER, RESCALED, ON_DISK):
        assert outcome(fn, seed, way) == interpreted(partial(outcome, fn, seed, way))
    assert forms.taken


def failing(kept: Drawn, row: Drawn) -> Drawn:
    return kept if kept.a * row.a > 7 or row.k == 1 else row


def test_python_repeats_a_batch_whose_call_fails(forms: Forms) -> None:
    plain = interpreted(partial(outcome, failing, 5, TOGETHER))
    assert outcome(failing, 5, TOGETHER) == plain
    assert (forms.taken, forms.left) == (1, 1)


@dataclass
class Bid:
    item: str
    price: Decimal
    parts: list[int]
    at: datetime


def test_records_of_any_type_are_passed_on(forms: Forms) -> None:
    bids = [
        {
            "item": f"{at % 3}",
            "price": Decimal(f"{at}.50"),
            "parts": [at],
            "at": datetime(2026, 1, at % 9 + 1),
        }
        for at in range(40)
    ]
    example = OperatorExample(
        lambda stream: stream.key_by("item").reduce(lambda a, b: a if a.item < b.item else b),
        schema_of(Bid),
        bids,
    )
    plain = interpreted(lambda: replay(example, RESCALED))
    assert replay(example, RESCALED) == plain
    assert forms.taken > forms.left == 0


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda a, b: Drawn(**vars(a)), "return Drawn(**vars(a)) cannot be compiled"),
        (lambda a, b: None, "return None cannot be compiled"),
        (lambda a, b: a if a == b else b, "a as a whole cannot be compiled"),
    ],
)
def test_other_results_are_not_compiled(fn: Any, says: str) -> None:
    found = compilable_methods(fn, choice_typing(schema_of(Drawn), Drawn))
    assert isinstance(found, Refusal)
    assert says in found.what


def test_explain_names_the_form() -> None:
    env = rh.Environment(1)
    rows = env.from_source(rh.collection(drawn_rows(1, 3), schema=Drawn))
    rows.key_by("k").reduce(later).collect("found")
    assert "takes Drawn; compiled" in env.explain()


def test_a_stored_record_with_other_fields_is_left_to_python(
    forms: Forms, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = interpreted(partial(outcome, later, 5, TOGETHER))

    def unlike(records: ChosenRecords, *_: Any) -> Any:
        raise TypeError("the record has no such field")

    monkeypatch.setattr(ChosenRecords, "_with_stored", unlike)
    assert outcome(later, 5, TOGETHER) == plain
    assert forms.left == 1
