"""Windows over a whole stream: windows of a keyed stream with a single key, in one subtask.

The plan (`plan.two_phases`) decides whether that subtask receives every row, or partial aggregates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from rheos.api.function_typing import DeclaredOutput
from rheos.api.transformations import Transformation
from rheos.api.window_configuration import WindowsOfKeys
from rheos.api.windowed_stream import WindowedStream
from rheos.core.graph.nodes import MAIN, Spec
from rheos.core.graph.validate import check_columns
from rheos.core.operators.expressions import ExpressionSpec

if TYPE_CHECKING:
    from rheos.api.streams import DataStream

ALL = "window_all"
"""Column with the one key, which only the windows read."""


class WholeStreamWindows(WindowedStream):
    """The windows of a whole stream; created by `window_all`. The key of its contexts is 0."""

    def __repr__(self) -> str:
        return f"<windows {self._windows.window!r} of a non-keyed stream>"

    @property
    def _visible_schema(self) -> pa.Schema:
        schema = super()._visible_schema
        return schema.remove(schema.get_field_index(ALL))

    def _add_operator(self, spec: Spec, name: str, declared: DeclaredOutput) -> DataStream:
        windows = super()._add_operator(spec, name, declared).set_parallelism(1).transformation
        return replace(without_key(windows), results_of=windows, named=windows).stream


def windows_of_all(rows: Transformation, windows: WindowsOfKeys) -> WholeStreamWindows:
    """Return the windows over all rows, after adding the column of the one key."""
    schema = rows.type.schema.append(pa.field(ALL, pa.int64(), nullable=False))
    check_columns(schema)
    spec = ExpressionSpec("with_columns", (pl.lit(0, pl.Int64).alias(ALL),))
    keyed = rows.add(spec, ALL, {MAIN: replace(rows.type, schema=schema)})
    return WholeStreamWindows(keyed.keyed_by((ALL,), one_key=True), windows)


def without_key(rows: Transformation) -> Transformation:
    """Return the rows without the column of the one key, if they have it."""
    schema = rows.type.schema
    if ALL not in schema.names:
        return rows
    schema = schema.remove(schema.get_field_index(ALL))
    spec = ExpressionSpec("select", tuple(pl.col(name) for name in schema.names))
    return rows.add(spec, ALL, {MAIN: replace(rows.type, schema=schema)})
