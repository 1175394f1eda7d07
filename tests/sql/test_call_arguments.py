"""Calls with too few, too many and odd arguments are planned or refused at their place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rheos as rh
from rheos.core.errors import InternalError
from rheos.sql.dialect import StreamSql
from rheos.sql.expressions.table import function_names
from tests.sql.edges import table

OWN = sorted({name.upper() for name in function_names()})
OTHERS = sorted({*StreamSql.Parser.FUNCTIONS} - {*OWN})
"""Functions that the parser knows and nothing computes."""
ODD = (
    "v -> v",
    "(v, w) -> 1",
    "v => 1",
    "DISTINCT s",
    "*",
    "(SELECT 1)",
    "1e-400",
    "NULL",
)
"""Arguments that few functions take, in the place of a value."""


def _calls(name: str) -> Iterator[str]:
    for count in range(6):
        yield f"{name}({', '.join(['s'] * count)})"
    for odd in ODD:
        yield f"{name}({odd})"
        yield f"{name}(a, {odd})"


@pytest.mark.thinned(6)
@pytest.mark.parametrize("names", [OWN[part::12] for part in range(12)], ids=lambda names: names[0])
def test_a_call_with_any_arguments_is_planned_or_refused_at_its_place(names: list[str]) -> None:
    env = rh.Environment(runtime="simulated")
    env.register("edges", env.from_source(rh.collection(table(0).slice(0, 4))))
    wrong = []
    for call in (call for name in names for call in _calls(name)):
        try:
            env.sql(f"SELECT {call} AS v FROM edges", state_ttl="forever")
        except InternalError as error:
            wrong.append(f"{call}\n{error}")
        except rh.RheosError as error:
            if "^" not in str(error):
                wrong.append(f"no place: {call}\n{error}")
        except Exception as error:  # The test fails on any other error.
            wrong.append(f"{call}\n{error!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_a_call_of_a_function_that_nothing_computes_is_refused_at_its_place() -> None:
    test_a_call_with_any_arguments_is_planned_or_refused_at_its_place(OTHERS)
