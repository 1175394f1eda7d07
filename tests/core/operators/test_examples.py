"""The examples in the docstrings of operators run, replayed in every way the harness knows."""

from __future__ import annotations

import importlib
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.util import find_spec
from inspect import isclass
from pkgutil import iter_modules
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.aggregates.sum import Sum
from rheos.core.errors import Site
from rheos.core.graph.changelog import Changes
from rheos.core.graph.nodes import MAIN, Input, StreamType
from rheos.core.operators import build, changelog, lookup
from rheos.core.operators.call import CallForm, CallSpec
from rheos.core.operators.changelog.emptied import EmptiedSpec
from rheos.core.operators.changelog.truncation import TruncationSpec
from rheos.core.operators.contract import Operator
from rheos.core.operators.over.by_time import OverByTime, OverColumns
from rheos.core.operators.over.frames import FrameSpec
from rheos.core.operators.over.of_changes import OverSpec
from rheos.core.protocol.elements import WatermarkMark
from rheos.testing import MemoryLookup, OperatorExample, Right, check_example, check_timeline, simulate

OPERATORS = sorted(
    {
        found.__module__
        for found in (*vars(build).values(), lookup.LookupOperator)
        if isclass(found) and issubclass(found, Operator) and found is not Operator
    }
)
"""The files of all operators that are built."""

CHANGELOG = [f"{changelog.__name__}.{file.name}" for file in iter_modules(changelog.__path__)]

KINDS = [
    "rheos.core.operators.window.sessions",
    "rheos.core.operators.window.calendar",
    "rheos.core.operators.window.cumulating",
    "rheos.core.operators.window.triggered.spec",
    "rheos.core.operators.vectorised",
    "rheos.core.operators.call",
    "rheos.core.operators.explode",
    "rheos.core.operators.ingestion_time",
    "rheos.core.operators.rows_by_time",
]
if find_spec("numba") is not None:
    KINDS.append("rheos.core.operators.compiled_core")
"""Files of what operators are made of, which have an example of their own."""

OWN = [
    "rheos.core.operators.broadcast_process",
    "rheos.core.operators.co_process",
    "rheos.core.operators.filter_function",
    "rheos.core.operators.iterate",
    "rheos.core.operators.joins.co_group",
    "rheos.core.operators.joins.interval",
    "rheos.core.operators.joins.tables",
    "rheos.core.operators.joins.temporal",
    "rheos.core.operators.joins.windowed",
    "rheos.core.operators.keyed_broadcast_process",
    "rheos.core.operators.keyed_co_process",
    "rheos.core.operators.over.by_time",
    "rheos.core.operators.over.of_changes",
    "rheos.core.operators.pattern.operator",
    "rheos.core.operators.plain_process",
    "rheos.core.operators.window.two_phases",
]
"""Files of operators that their specs make."""


def parts_by_id(rows: rh.DataStream) -> rh.DataStream:
    schema = pa.schema([*rows.schema, pa.field("part", pa.int64())])
    return rows._then(TruncationSpec(("id",), "part", skips=False), "truncation", schema, None)


def emptied_by_id(rows: rh.DataStream) -> rh.DataStream:
    schema = pa.schema([field for field in rows.schema if field.name != "part"])
    keyed = rows.key_by("part")
    node = rows._program.add(
        EmptiedSpec(("id",)),
        name="emptied",
        site=Site(__file__, 1),
        inputs=(keyed._port,),
        outputs={MAIN: replace(rows._type, schema=schema)},
    )
    return rh.DataStream(rows._program, Input(node.id))


GIVEN = {
    "parts_by_id": parts_by_id,
    "emptied_by_id": emptied_by_id,
    "UTC": ZoneInfo("UTC"),
    "datetime": datetime,
    "timedelta": timedelta,
    "Iterator": Iterator,
    "dataclass": dataclass,
    "Changes": Changes,
    "MAIN": MAIN,
    "StreamType": StreamType,
    "Sum": Sum,
    "FrameSpec": FrameSpec,
    "OverByTime": OverByTime,
    "OverColumns": OverColumns,
    "OverSpec": OverSpec,
    "CallForm": CallForm,
    "CallSpec": CallSpec,
    "rh": rh,
    "np": np,
    "pa": pa,
    "pl": pl,
    "MemoryLookup": MemoryLookup,
    "WatermarkMark": WatermarkMark,
    "OperatorExample": OperatorExample,
    "Right": Right,
    "check_example": check_example,
    "check_timeline": check_timeline,
    "simulate": simulate,
}


@pytest.mark.parametrize("operator", [*OPERATORS, *CHANGELOG, *KINDS, *OWN])
def test_the_example_of_an_operator(operator: str) -> None:
    module = importlib.import_module(operator)
    blocks = re.findall(r"```python\n(.*?)```", module.__doc__ or "", re.DOTALL)
    assert blocks, f"{module.__file__} has no example in its docstring"
    for block in blocks:
        file = f"<the example of {operator}>"
        # A function that is compiled has its text read.
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), dict(GIVEN))
