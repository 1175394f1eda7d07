"""The examples in the docstrings of operators run, replayed in every way the harness knows."""

from __future__ import annotations

import importlib
import re
from datetime import datetime, timedelta
from inspect import isclass
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.operators import build, lookup
from rheos.operators.contract import Operator
from rheos.protocol.elements import WatermarkMark
from rheos.testing import MemoryLookup, OperatorExample, check_example, simulate

OPERATORS = sorted(
    {
        found.__module__
        for found in (*vars(build).values(), lookup.LookupOperator)
        if isclass(found) and issubclass(found, Operator) and found is not Operator
    }
)
"""The files of all operators that are built."""

KINDS = ["rheos.operators.window.sessions"]
"""Files of what operators are made of, which have an example of their own."""

GIVEN = {
    "UTC": ZoneInfo("UTC"),
    "datetime": datetime,
    "timedelta": timedelta,
    "rh": rh,
    "pa": pa,
    "pl": pl,
    "MemoryLookup": MemoryLookup,
    "WatermarkMark": WatermarkMark,
    "OperatorExample": OperatorExample,
    "check_example": check_example,
    "simulate": simulate,
}


@pytest.mark.parametrize("operator", [*OPERATORS, *KINDS])
def test_the_example_of_an_operator(operator: str) -> None:
    module = importlib.import_module(operator)
    blocks = re.findall(r"```python\n(.*?)```", module.__doc__ or "", re.DOTALL)
    assert blocks, f"{module.__file__} has no example in its docstring"
    for block in blocks:
        exec(compile(block, f"<the example of {operator}>", "exec"), dict(GIVEN))
