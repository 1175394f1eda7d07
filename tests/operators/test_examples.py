"""The examples in the docstrings of operators run, replayed in every way the harness knows."""

from __future__ import annotations

import importlib
import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import rheos as rh
from rheos.protocol.elements import WatermarkMark
from rheos.testing import OperatorExample, check_example

OPERATORS = ["running", "reduce", "window.operator", "window.process"]
"""Those whose files have an example."""

GIVEN = {
    "UTC": ZoneInfo("UTC"),
    "datetime": datetime,
    "timedelta": timedelta,
    "rh": rh,
    "pa": pa,
    "WatermarkMark": WatermarkMark,
    "OperatorExample": OperatorExample,
    "check_example": check_example,
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_example_of_an_operator(operator: str) -> None:
    module = importlib.import_module(f"rheos.operators.{operator}")
    blocks = re.findall(r"```python\n(.*?)```", module.__doc__ or "", re.DOTALL)
    assert blocks, "an operator's file has an example"
    for block in blocks:
        exec(compile(block, f"<the example of {operator}>", "exec"), dict(GIVEN))
