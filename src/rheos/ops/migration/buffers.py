"""Spark's buffers of aggregates, matched with the aggregates of a Rheos job.

Spark stores the buffers of one operator as a struct, whose fields have names but no input columns:

    count                  count: long
    sum                    sum: long or double; of decimals also isEmpty: boolean
    avg                    sum: double or decimal, count: long
    min, max               min or max: type of the column

So the job must have the same aggregates in the same order. Spark stores equal aggregates once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.aggregates.contract import Agg
from rheos.core.errors import ConfigurationError, InputError

Parts: TypeAlias = dict[str, pa.Array]

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "count": ("count",),
    "sum": ("sum",),
    "mean": ("sum", "count"),
    "min": ("min",),
    "max": ("max",),
}
"""Fields of the buffers, by the kind of the aggregate in Rheos."""

EXACT_FLOAT = 2.0**53
"""Magnitude up to which each integer is a float."""


@dataclass(frozen=True)
class Buffer:
    """The buffer of one aggregate. Its columns are those of the DataFrame with the buffers."""

    kind: str
    column: str | None
    fields: Mapping[str, str]
    """Columns of the DataFrame, by the names of the fields."""

    def values(self, rows: pa.RecordBatch, field: str) -> pa.Array:
        return rows.column(self.fields[field])

    def counts(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the count, or for an aggregate without one whether it has had a value."""
        if "count" in self.fields:
            return self.values(rows, "count").cast(pa.int64()).fill_null(0)
        first = next(iter(self.fields))
        valid = self.values(rows, first).is_valid()
        if "isEmpty" in self.fields:
            valid = pc.and_(valid, pc.invert(self.values(rows, "isEmpty").fill_null(True)))
        return valid.cast(pa.int64())


def match_buffers(
    aggregates: Mapping[str, Agg], fields: Sequence[tuple[str, str]]
) -> dict[str, Buffer]:
    """Return the buffer of each aggregate of the job.

    Args:
        aggregates: The aggregates by their names, in the order of the program.
        fields: Name of each field of Spark's buffers, and of its column in the DataFrame.

    Raises:
        ConfigurationError: An aggregate has no counterpart, or their order differs.
    """
    left = list(fields)
    known: dict[tuple[str, str | None], Buffer] = {}
    made: dict[str, Buffer] = {}
    for name, agg in aggregates.items():
        if agg.kind not in _FIELDS:
            raise ConfigurationError(
                f"{name}={agg} cannot be moved: Spark's buffer of it has another form",
                hint="movable are count, sum, min, max and mean; compute others in a new job",
            )
        same = known.get((agg.kind, agg.column))
        if same is not None:
            made[name] = same
            continue
        wanted = _FIELDS[agg.kind]
        found = left[: len(wanted)]
        if tuple(field for field, _ in found) != wanted:
            raise _other_order(aggregates, fields, name)
        left = left[len(wanted) :]
        if agg.kind == "sum" and left and left[0][0] == "isEmpty":
            found.append(left.pop(0))
        made[name] = known[agg.kind, agg.column] = Buffer(agg.kind, agg.column, dict(found))
    if left:
        raise _other_order(aggregates, fields, None)
    return made


def _other_order(
    aggregates: Mapping[str, Agg], fields: Sequence[tuple[str, str]], name: str | None
) -> ConfigurationError:
    there = ", ".join(field for field, _ in fields)
    given = ", ".join(f"{name}={agg}" for name, agg in aggregates.items())
    where = "more fields than the job has aggregates" if name is None else f"no buffer for {name!r}"
    return ConfigurationError(
        f"the aggregates do not match: the checkpoint has the fields {there}, the job has {given}; "
        f"there is {where}",
        hint="write the aggregates in the order of the query; avg is mean here",
    )


def whole_sums(values: pa.Array, what: str) -> npt.NDArray[np.int64]:
    """Return sums of integers, which Spark's avg stores as floats. Raise InputError if one is so large
    that digits may be missing."""
    floats = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    large = np.abs(floats) >= EXACT_FLOAT
    if large.any() or (floats != np.floor(floats)).any():
        raise InputError(
            f"the sum of the mean {what} is {float(floats[large.argmax()])!r}: Spark's avg has "
            "rounded it, so the mean of integers cannot continue exactly",
            hint="declare the column as a float in the job, or start this mean anew",
        )
    whole: npt.NDArray[np.int64] = floats.astype(np.int64)
    return whole
