"""Functions as tutorials write them have the same results in both forms."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import rheos as rh
from benchmarks.tutorial_functions import FUNCTIONS, Event
from rheos.core.errors import ProgramError, RheosError
from rheos.core.graph.compilation import compiled_class
from rheos.core.protocol.elements import WatermarkMark
from rheos.core.protocol.types import schema_of
from rheos.testing.harness import OperatorExample, replay

pytest.importorskip("numba")

NOT_COMPILED = {"LastFive", "Baskets"}
"""Functions with lists of their own."""
KINDS = ["pay", "ship", "cancel", "EUR", "GBP", "other"]
TEXTS = ["/Shop/?q=1", "/checkout", "error: disk full: sda", "FATAL:no memory", "Two words, or 3", "a:"]


def rows(seed: int, *, invalid: bool) -> list[Any]:
    """Return rows and watermarks. If `invalid`, some rows have texts or kinds that functions refuse."""
    rng, script = Random(seed), list[Any]()
    for at in range(0, 90_000, 500):
        if rng.random() < 0.1:
            script.append(WatermarkMark(at - 1000))
        row = {
            "key": rng.choice("abc"),
            "kind": rng.choice(KINDS if invalid else KINDS[3:5]),
            "text": rng.choice(TEXTS[:] if invalid else [text for text in TEXTS if ":" in text]),
            "amount": rng.choice([0.5, 0.25, 30.0, 700.0, float("nan"), rng.uniform(0, 3000)]),
            "count": rng.randrange(9),
            "note": rng.choice([None, "", "note"]),
            "at": at,
        }
        script.append(row)
    return script


def outcome(function: Any, script: list[Any]) -> Any:
    example = OperatorExample(
        lambda stream: stream.key_by("key").process(function), schema_of(Event), script, on="at"
    )
    try:
        return {name: [repr(row) for row in of] for name, of in replay(example).items()}
    except RheosError as error:
        return error.what, error.site and error.site.line


@pytest.mark.slow
@pytest.mark.parametrize("cls", FUNCTIONS)
def test_both_forms_have_the_same_results(cls: type[rh.KeyedProcessFunction]) -> None:
    compiled = compiled_class(type(cls.__name__, (cls,), {}), "refuse")
    if cls.__name__ in NOT_COMPILED:
        with pytest.raises(ProgramError):
            replay(
                OperatorExample(
                    lambda stream: stream.key_by("key").process(compiled()),
                    schema_of(Event),
                    [],
                    on="at",
                )
            )
        return
    for invalid in (False, True):
        script = rows(7, invalid=invalid)
        plain = outcome(cls(), script)
        assert outcome(compiled(), script) == plain
