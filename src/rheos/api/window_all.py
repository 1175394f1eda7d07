"""Windows over a whole stream: those of a keyed stream with a single key, in one subtask. What it gets,
every row or partials of them, is decided by the plan (`plan.two_phases`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.api.program import Program
from rheos.api.streams import LATE, DataStream
from rheos.api.windowed import WindowedStream, WindowsOfKeys
from rheos.core.graph.nodes import MAIN, Input
from rheos.core.graph.validate import check_columns
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.site import call_site

ALL = "window_all"
"""The column that holds the one key, between here and the windows."""


class WindowsOfAll(WindowedStream):
    """The windows of a whole stream; made by `window_all`. The key of its contexts is 0."""

    def __repr__(self) -> str:
        return f"<windows {self._windows.window!r} of a whole stream>"

    @property
    def _shown(self) -> pa.Schema:
        schema = super()._shown
        return schema.remove(schema.get_field_index(ALL))

    def _then(self, *args: Any) -> DataStream:
        windows = super()._then(*args).set_parallelism(1)
        return ResultsOfAll(self._program, without_key(windows)._port, windows)


class ResultsOfAll(DataStream):
    """The results, without the key. Names and side outputs are those of the windows."""

    def __init__(self, program: Program, port: Input, windows: DataStream) -> None:
        super().__init__(program, port)
        self._windows = windows

    def side_output(self, tag: str) -> DataStream:
        rows = self._windows.side_output(tag)
        return without_key(rows) if tag == LATE else rows

    def uid(self, uid: str) -> DataStream:
        self._windows.uid(uid)
        return self

    def name(self, name: str) -> DataStream:
        self._windows.name(name)
        return self


def windows_of_all(stream: DataStream, windows: WindowsOfKeys) -> WindowsOfAll:
    """The rows with one key for all."""
    schema = stream.schema.append(pa.field(ALL, pa.int64(), nullable=False))
    check_columns(schema)
    keyed = stream._program.add(
        ExpressionSpec("with_columns", (pl.lit(0, pl.Int64).alias(ALL),)),
        name="window_all",
        site=call_site(),
        inputs=(stream._port,),
        outputs={MAIN: replace(stream._type, schema=schema)},
    )
    port = Input(keyed.id, keys=(ALL,), keyed_at=call_site(), one_key=True)
    return WindowsOfAll(stream._program, port, windows)


def without_key(rows: DataStream) -> DataStream:
    """The rows without the column of the key, where they have it."""
    type = rows._type
    if ALL not in type.schema.names:
        return rows
    schema = type.schema.remove(type.schema.get_field_index(ALL))
    node = rows._program.add(
        ExpressionSpec("select", tuple(pl.col(name) for name in schema.names)),
        name="window_all",
        site=call_site(),
        inputs=(rows._port,),
        outputs={MAIN: replace(type, schema=schema)},
    )
    return DataStream(rows._program, Input(node.id))
