"""Base of `DataStream` and `KeyedStream`: a place in the program.

Imports in this package go from `streams` down to here, and never back. Methods of the base classes get
the `DataStream` that they return from `Transformation.stream`. They import its class only for type
checkers.
"""

from __future__ import annotations

import pyarrow as pa

from rheos.api.column_hints import WithColumns
from rheos.api.program import Program
from rheos.api.transformations import Transformation
from rheos.core.graph.nodes import Input, Node, StreamType


class Stream(WithColumns):
    """Rows at an output of an operator in the program."""

    _title: str | None = None
    """Name for the rows in the result of a query: that of a table or view, or "result-N"."""

    def __init__(self, program: Program, port: Input) -> None:
        self._at = Transformation(program, port)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the stream's rows."""
        return self._at.type.schema

    def _column_names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def transformation(self) -> Transformation:
        """The stream's place in the program, to which libraries such as SQL add operators."""
        return self._at

    @property
    def _program(self) -> Program:
        return self._at.program

    @property
    def _port(self) -> Input:
        return self._at.port

    @property
    def _type(self) -> StreamType:
        return self._at.type

    @property
    def _node(self) -> Node:
        return self._at.node
