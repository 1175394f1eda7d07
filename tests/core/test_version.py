"""The version that the code knows is that of the package."""

from __future__ import annotations

import tomllib
from pathlib import Path

import rheos


def test_the_version_matches_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert rheos.__version__ == project["version"]
