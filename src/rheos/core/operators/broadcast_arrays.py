"""The entries of broadcast state as arrays, which compiled loops read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rheos.core.compiler.constants import Table, table_of_entries
from rheos.core.compiler.writer import Parameter
from rheos.core.operators.compiled_loops import array_of
from rheos.core.state.columnar.string_codes import StringCodes
from rheos.core.state.unkeyed_state import BroadcastHandle


class BroadcastArrays:
    """The arrays of the broadcast state of one function. They are made anew after a change."""

    def __init__(self, states: Mapping[str, BroadcastHandle], texts: StringCodes) -> None:
        self._states = states
        self._texts = texts
        self._made: dict[str, tuple[tuple[int, int], Table]] = {}
        """The tables, and the versions of the entries and of the codes of strings when they were
        made."""

    def cost(self) -> int:
        """Return the number of entries of the states that have changed."""
        return sum(
            len(self._states[name])
            for name, (version, _) in self._made.items()
            if version != self._version(name)
        )

    def array(self, parameter: Parameter) -> npt.NDArray[Any]:
        """Return the array for a parameter of a loop. Raise CannotCompile if an integer exceeds 64
        bits."""
        name, table = parameter.name, parameter.table
        assert table is not None
        version, made = self._made.get(name, ((-1, -1), table))
        if version != self._version(name):
            entries, [key] = self._states[name], table.kinds
            made = table_of_entries(
                list(entries), list(entries.values()), key, table.kind, self._texts, name
            )
            self._made[name] = self._version(name), made
        return array_of(made, parameter.part)

    def sweep_texts(self) -> None:
        """Release strings that are not in use, if there are too many."""
        if self._texts.too_many():
            tables = [table for _, table in self._made.values()]
            used = [table.parts[0] for table in tables if table.kinds == ("str",)]
            used += [table.values for table in tables if table.kind == "str"]
            self._texts.keep([codes.astype(np.int32) for codes in used])

    def _version(self, name: str) -> tuple[int, int]:
        return self._states[name].version, self._texts.generation
