"""The check of arguments for NumPy values gives PySpark's answers, and imports nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from rheos.runtimes.spark.numpy_arguments import check_without_testing

ARGUMENTS = (np.int64(1), np.str_("a"), np.arange(3), np.zeros((2, 2)), np.array(1), 1, "a", [1], None)
CONVERTERS = (NumpyScalarConverter, NumpyArrayConverter)


def test_the_answers_are_those_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    for converter in CONVERTERS:
        monkeypatch.setattr(converter, "can_convert", converter.can_convert)  # Restored after the test.

    def answers() -> list[tuple[Any, ...]]:
        return [tuple(each().can_convert(value) for each in CONVERTERS) for value in ARGUMENTS]

    before = answers()
    check_without_testing()
    assert answers() == before


LIGHT = """
import sys
import rheos.runtimes.spark.session
from py4j.protocol import INPUT_CONVERTER
from rheos.runtimes.spark.numpy_arguments import check_without_testing

check_without_testing()
assert len(INPUT_CONVERTER) > 2
assert not any(converter.can_convert("a value") for converter in INPUT_CONVERTER)
assert not {"pandas", "pyspark.testing"} & set(sys.modules)
"""


def test_a_call_imports_neither_pandas_nor_tests_of_pyspark() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True, timeout=400)
