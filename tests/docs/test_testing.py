"""The programs of docs/testing.md, and the tests in them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.walks import program_of

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
NAMES = program_of(PAGE)
TESTS = {name: of for name, of in NAMES.items() if name.startswith("test_")}


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_each_test_of_the_page_passes(
    test: Callable[..., None], request: pytest.FixtureRequest
) -> None:
    given: dict[str, Any] = {
        name: request.getfixturevalue(name) for name in inspect.signature(test).parameters
    }
    if "rheos_seeds" in given:
        given["rheos_seeds"] = [0, 1]  # Further ones prove the same again.
    test(**given)
