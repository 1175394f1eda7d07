"""`rheos` exports exactly the API, and every exported name is documented."""

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


def test_exported_names_exist_and_are_sorted() -> None:
    assert list(rh.__all__) == sorted(rh.__all__)
    assert all(hasattr(rh, name) for name in rh.__all__)


def test_only_exported_names_and_packages_are_visible() -> None:
    shown = {name for name, value in vars(rh).items() if not name.startswith("_")}
    modules = {name for name in shown if isinstance(getattr(rh, name), ModuleType)}
    assert shown - modules - set(rh.__all__) <= {"VERSION"}


@pytest.mark.parametrize("name", rh.__all__)
def test_every_name_has_a_docstring(name: str) -> None:
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


def test_the_api_is_imported_on_demand() -> None:
    """Check that neither commands nor workers import the API before."""
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
    assert "rheos has no nothing" in str(error)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=400)


def test_no_name_of_the_api_is_reused_internally() -> None:
    inside = {module.name for module in pkgutil.iter_modules(rh.__path__)} & {*rh.__all__}
    assert {name for name in inside if getattr(rh, name) is not import_module(f"rheos.{name}")} == set()
