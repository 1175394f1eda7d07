"""Source code of a compiled function while it is written: lines, names, parameters, failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from rheos.core.compiler.constants import Table
from rheos.core.compiler.operations import ScalarOperation
from rheos.core.compiler.values import Kind, Value
from rheos.core.state.columnar.string_codes import StringCodes


@dataclass(frozen=True)
class Parameter:
    """An argument of the loop: where it comes from, and the kind of its elements."""

    source: Literal[
        "column", "nulls", "key", "state", "present", "changed", "stamps", "times", "table",
        "broadcast", "list", "map", "numbers", "floats", "remembered", "kept", "chosen",
    ]  # fmt: skip
    name: str
    kind: Kind
    table: Table | None = None
    part: str = ""
    """Name of the array, of those of a table, a list or a map."""


@dataclass(frozen=True)
class Failure:
    """A possible reason for a row to fail."""

    line: int
    what: str
    """Error message; empty if Python has raised an exception."""
    hint: str | None
    file: str = ""
    """File of the line; empty for that of the method."""


@dataclass(frozen=True)
class OutputColumn:
    """A column of an output: variables that are filled, or a column of the record."""

    name: str
    type: pa.DataType
    kind: Kind
    nullable: bool


@dataclass
class OutputColumns:
    """The output of one tag."""

    tag: str
    number: int
    columns: list[OutputColumn]
    taken: dict[str, str]
    """Columns of the record that are passed on unchanged, by output column."""
    grows: bool
    """Whether a call may emit there several times, so that columns must grow while being filled."""


class Writer:
    """A writer of indented Python lines, with the names that they refer to."""

    def __init__(self, texts: StringCodes) -> None:
        self.texts = texts
        self.lines: list[str] = []
        self.parameters: dict[str, Parameter] = {}
        self.failures: list[Failure] = []
        self.outputs: dict[str, OutputColumns] = {}
        self.operations: list[ScalarOperation] = []
        """Operations that Python evaluates, by number."""
        self.file = ""
        """File of the code that is being written; empty for that of the method."""
        self.timer_changes = 0
        """Number of places in the code that change timers."""
        self.loops = 0
        """Number of loops of the method that contain the current place."""
        self.timers_grow = False
        """Whether a call may execute one of them more than once."""
        self.replaced: set[str] = set()
        """Names of the arrays of lists and maps that the code replaces by larger ones."""
        self.read_lists: set[str] = set()
        """States that are lists which the code reads."""
        self._depth = 0
        self._names = 0

    def write(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.write(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.write("pass")
        self._depth -= 1

    @contextmanager
    def indented(self, by: int) -> Iterator[None]:
        self._depth += by
        yield
        self._depth -= by

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Discard the code that the block writes."""
        lines, self.lines = self.lines, list(self.lines)
        failures, self.failures = self.failures, list(self.failures)
        parameters, self.parameters = self.parameters, dict(self.parameters)
        yield
        self.lines, self.failures, self.parameters = lines, failures, parameters

    def name(self) -> str:
        """Return a new variable name."""
        self._names += 1
        return f"t{self._names}"

    def held(self, code: str) -> str:
        """Write an assignment of the code's value to a new variable, and return its name."""
        name = self.name()
        self.write(f"{name} = {code}")
        return name

    def held_value(self, value: Value) -> Value:
        """Return the value in a variable of its own. None, dataclasses and columns stay as they are."""
        if value.kind in ("none", "record", "other"):
            return value
        null = self.held(value.null) if value.null else ""
        return Value(value.kind, self.held(value.code), null)

    def parameter(self, name: str, given: Parameter) -> str:
        self.parameters.setdefault(name, given)
        return name

    def operation(self, operation: ScalarOperation) -> int:
        """Return the number of an operation. Equal operations have the same."""
        if operation not in self.operations:
            self.operations.append(operation)
        return self.operations.index(operation)

    def failure(self, line: int, what: str, hint: str | None = None) -> str:
        """Return the number of a failure, as source code; 0 means no failure.

        numba would compile a called function anew for each literal, but has one form for all `int64`.
        """
        self.failures.append(Failure(line, what, hint, self.file))
        return f"int64({len(self.failures)})"

    def require_value(self, value: Value, line: int, what: str, hint: str | None = None) -> None:
        """Write code that makes the row fail if the value is None."""
        if value.null:
            with self.block(f"if {value.null}:"):
                self.write(f"fail(failed, {self.failure(line, what, hint)})")
