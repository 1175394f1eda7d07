"""The examples in the docstrings of operators run in every mode of the harness."""

from __future__ import annotations

import asyncio
import importlib
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.util import find_spec
from pkgutil import walk_packages
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core import operators
from rheos.core.aggregates.sum import Sum
from rheos.core.graph.changelog import Changes
from rheos.core.graph.nodes import MAIN, StreamType
from rheos.core.operators.call import CallForm, CallSpec
from rheos.core.operators.changelog.truncation import TruncationSpec
from rheos.core.operators.changelog.truncation_deletes import TruncationDeletesSpec
from rheos.core.operators.contract import Operator
from rheos.core.operators.event_time_column import EventTimeColumnSpec, timed_type
from rheos.core.operators.over.changelog_over import OverSpec
from rheos.core.operators.over.event_time_over import EventTimeOver, OverColumns
from rheos.core.operators.over.moving_frames import FrameSpec
from rheos.core.operators.view import ViewColumn, ViewSpec
from rheos.core.protocol.elements import WatermarkMark
from rheos.testing import MemoryLookup, OperatorExample, Right, check_example, check_timeline, simulate

for _found in walk_packages(operators.__path__, f"{operators.__name__}."):
    importlib.import_module(_found.name)


def kinds_of(cls: type[Any]) -> Iterator[type[Any]]:
    """Return the classes that derive from a class and have no subclasses."""
    for each in cls.__subclasses__():
        yield from kinds_of(each) if each.__subclasses__() else [each]


NO_EXAMPLE = {
    "rheos.core.operators.unkeyed_function",  # What it shares with others; forms have examples.
    "rheos.core.operators.window.triggers.operator",  # Its spec has one.
}
OPERATORS = sorted(
    {
        cls.__module__
        for cls in kinds_of(Operator)
        if cls.__module__.startswith(f"{operators.__name__}.") and cls.__module__ not in NO_EXAMPLE
    }
)
"""The files of all operators."""

KINDS = [
    "rheos.core.operators.window.sessions",
    "rheos.core.operators.window.calendar",
    "rheos.core.operators.window.cumulating",
    "rheos.core.operators.window.triggers.spec",
    "rheos.core.operators.batch_core",
    "rheos.core.operators.call",
    "rheos.core.operators.explode",
    "rheos.core.operators.ingestion_time",
    "rheos.core.operators.rows_by_time",
    "rheos.core.operators.broadcast_process",
    "rheos.core.operators.co_process",
    "rheos.core.operators.keyed_co_process",
    "rheos.core.operators.over.event_time_over",
    "rheos.core.operators.plain_process",
]
if find_spec("numba") is not None:
    KINDS.append("rheos.core.operators.compiled_core")
"""Files of what operators are made of, which have an example of their own."""


def parts_by_id(rows: rh.DataStream) -> rh.DataStream:
    schema = pa.schema([*rows.schema, pa.field("part", pa.int64())])
    spec = TruncationSpec(("id",), "part", skips=False)
    return rows.transformation.then(spec, "truncation", schema).stream


def emptied_by_id(rows: rh.DataStream) -> rh.DataStream:
    schema = pa.schema([field for field in rows.schema if field.name != "part"])
    type = replace(rows.transformation.type, schema=schema)
    keyed = rows.key_by("part").transformation
    return keyed.add(TruncationDeletesSpec(("id",)), "emptied", {MAIN: type}).stream


GIVEN = {
    "asyncio": asyncio,
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
    "EventTimeOver": EventTimeOver,
    "OverColumns": OverColumns,
    "OverSpec": OverSpec,
    "ViewColumn": ViewColumn,
    "ViewSpec": ViewSpec,
    "EventTimeColumnSpec": EventTimeColumnSpec,
    "timed_type": timed_type,
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


@pytest.mark.parametrize("operator", sorted({*OPERATORS, *KINDS}))
def test_examples_of_operators_run(operator: str) -> None:
    module = importlib.import_module(operator)
    blocks = re.findall(r"```python\n(.*?)```", module.__doc__ or "", re.DOTALL)
    assert blocks, f"{module.__file__} has no example in its docstring"
    for block in blocks:
        file = f"<the example of {operator}>"
        # A function that is compiled has its text read.
        linecache.cache[file] = (len(block), None, block.splitlines(keepends=True), file)
        exec(compile(block, file, "exec"), dict(GIVEN))
