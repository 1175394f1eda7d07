"""Each recipe of docs/cookbook.md matches its timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.walks import program_of

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
SECTIONS = PAGE.read_text().split("\n## ")
RECIPES = [section.partition("\n")[0] for section in SECTIONS[1:]]


@pytest.fixture(scope="module")
def common() -> dict[str, Any]:
    return program_of(PAGE, section="")


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_recipe_matches_its_timeline(
    recipe: str, common: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert program_of(PAGE, section=recipe, names=dict(common)) != common, "it has no program"
