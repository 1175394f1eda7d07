"""What `rheos` exports is the API: nothing else shows, and all of it says what it is."""

from __future__ import annotations

import inspect
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import rheos as rh


def test_what_is_exported_is_there_and_sorted() -> None:
    assert list(rh.__all__) == sorted(rh.__all__)
    assert all(hasattr(rh, name) for name in rh.__all__)


def test_nothing_else_shows_but_the_packages_inside() -> None:
    shown = {name for name, value in vars(rh).items() if not name.startswith("_")}
    modules = {name for name in shown if isinstance(getattr(rh, name), ModuleType)}
    assert shown - modules - set(rh.__all__) <= {"VERSION"}


@pytest.mark.parametrize("name", rh.__all__)
def test_every_name_says_what_it_is(name: str) -> None:
    value = getattr(rh, name)
    said = (value.__doc__ or "").strip()
    assert said
    # Where a dataclass says nothing, Python writes its signature.
    assert not said.startswith(f"{name}(")
    if inspect.isclass(value):
        assert "__doc__" in vars(value), "it is said of the class itself"


def test_the_page_of_the_api_has_every_name_once() -> None:
    page = (Path(__file__).parents[2] / "docs/api.md").read_text()
    rows = re.findall(r"^\| (`.+?) \|", page, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == list(rh.__all__)


def test_the_page_of_the_api_has_every_name_of_the_test_kit_once() -> None:
    page = (Path(__file__).parents[2] / "docs/api.md").read_text()
    rows = re.findall(r"^\| (`testing\..+?) \|", page, re.MULTILINE)
    assert sorted(re.findall(r"`testing\.(\w+)`", " ".join(rows))) == sorted(rh.testing.__all__)


def test_the_api_is_imported_when_it_is_asked_for() -> None:
    """And by no command or worker before."""
    program = """
import sys
import rheos.cli.main, rheos.runtimes.spark.early_start, rheos.runtimes.spark.daemon
assert not {"polars", "pyarrow", "numpy"} & {*sys.modules}, sorted(sys.modules)
api = {name for name in sys.modules if name.startswith("rheos.api")}
assert api == {"rheos.api", "rheos.api.settings"}, api
from rheos import *
assert agg.count and Environment
import rheos
assert rheos.testing.simulate and "Environment" in dir(rheos)
try:
    rheos.nothing
except AttributeError as error:
    assert str(error) == "module 'rheos' has no attribute 'nothing'"
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=400)


def test_no_name_of_the_api_is_that_of_another_thing_inside() -> None:
    inside = {module.name for module in pkgutil.iter_modules(rh.__path__)} & {*rh.__all__}
    assert {name for name in inside if getattr(rh, name) is not import_module(f"rheos.{name}")} == set()
