"""The example in the docstring of each format's module runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from rheos import formats

FILES = [each.name for each in pkgutil.iter_modules(formats.__path__) if each.name.endswith("_format")]


@pytest.mark.parametrize("file", FILES)
def test_the_example_runs(file: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"rheos.formats.{file}"))
    assert tried
    assert not failed
