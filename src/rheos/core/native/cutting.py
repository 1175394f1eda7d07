"""The cut of batches by key, as one native call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import pyarrow as pa

from rheos.core.native.descriptions import ArrowArray, columns_of, keys_of
from rheos.core.native.library import PYTHON, Kernels

MOST_ROWS = 4096
"""Maximum number of rows that a kernel cuts."""


class NativeCut:
    """Cuts the batches of one schema among targets. See `task.partition`, which is its Python form."""

    def __init__(self, schema: pa.Schema, keys: Sequence[str], targets: int, groups: int) -> None:
        """Describe the batches. `groups` is the number of key groups."""
        self.schema = schema
        self._columns, self._keys = columns_of(schema), keys_of(schema, keys)
        self._targets = targets
        self._groups = groups
        self._given = ArrowArray()
        self._given_at = ctypes.addressof(self._given)
        self._made = (ArrowArray * targets)()
        self._made_at = [ctypes.addressof(each) for each in self._made]

    def split(self, kernels: Kernels, batch: pa.RecordBatch) -> list[pa.RecordBatch | None] | None:
        """Return the rows of each target, or None, in order; None if the Python form must cut the
        batch. The batch has rows, and the schema of this cut."""
        if self._columns is None or self._keys is None:
            return None
        batch._export_to_c(self._given_at)
        result = kernels.cut(
            self._given_at,
            self._columns,
            len(self._columns),
            self._keys,
            len(self._keys),
            self._targets,
            self._groups,
            self._made,
        )
        if result == PYTHON:
            return None
        parts: list[pa.RecordBatch | None] = [None] * self._targets
        if result < self._targets:
            parts[result] = batch
            return parts
        for target, at in enumerate(self._made_at):
            # The last but one word is the function that releases the array, if there is one.
            if self._made[target].words[8]:
                parts[target] = pa.RecordBatch._import_from_c(at, self.schema)
        return parts
