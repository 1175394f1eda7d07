"""Writes the result of a function that returns one of two records: that of the row, or the kept one.

The kept record of a key is a row of the same batch. So the code stores the number of a row for each
key, and copies no fields.
"""

from __future__ import annotations

import ast
from typing import Literal

from rheos.core.compiler.scope import MethodScope
from rheos.core.compiler.values import CannotCompile
from rheos.core.compiler.writer import Parameter, Writer


class Choices:
    """A writer of the choice between the two records."""

    def __init__(self, out: Writer, scope: MethodScope) -> None:
        self.out = out
        self.scope = scope

    def keep_first(self) -> None:
        """Write code that keeps the first record of a key, for which the function is not called."""
        self.out.write(f"kept_row = {self._array('kept')}[slot]")
        with self.out.block("if kept_row < 0:"):
            self._choose("i")
            self.out.write("break")

    def write(self, node: ast.expr) -> None:
        """Write the choice of a record. Raise CannotCompile for another result."""
        if self.scope.is_record(node):
            self._choose("i")
        elif self.scope.is_kept(node):
            self._choose("kept_row")
        else:
            raise CannotCompile(
                f"return {ast.unparse(node)} cannot be compiled",
                node.lineno,
                "return one of the two records",
            )

    def _choose(self, row: str) -> None:
        self.out.write(f"{self._array('kept')}[slot] = {row}")
        self.out.write(f"{self._array('chosen')}[i] = {row}")

    def _array(self, name: Literal["kept", "chosen"]) -> str:
        return self.out.parameter(name, Parameter(name, "", "int"))
