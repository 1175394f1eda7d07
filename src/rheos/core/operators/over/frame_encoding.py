"""The stored state of OVER for one key: packed columns, and an older form.

A frame with a beginning stores its rows: a column of sort values, and one for each argument. A frame
without a beginning stores the state of each function, and then the rows after its end. Rows without
results follow, with all their
columns. Older versions, which recomputed each frame, stored rows as tuples, and one value for each
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from rheos.core.aggregates.exact_totals import units_of
from rheos.core.aggregates.frames import Columns
from rheos.core.operators.over.moving_frames import FrameRow, MovingFrames
from rheos.core.state.packed_columns import pack_columns, unpack_columns


def pack(frames: MovingFrames, waiting: Sequence[tuple[Any, ...]]) -> bytes:
    """Return the state of a key as bytes."""
    parts: list[Columns] = [] if frames.has_beginning else frames.stored_states()
    if frames.stores_rows:
        rows = frames.stored_rows()
        parts.append([[row.by for row in rows], *zip(*(row.values for row in rows), strict=True)])
    sizes = [len(part) for part in parts]
    columns = [column for part in parts for column in part]
    return pack_columns([sizes, *columns, *zip(*waiting, strict=True)])


def unpack(data: bytes, frames: MovingFrames) -> list[tuple[Any, ...]]:
    """Restore the frames of a key, and return the rows without results."""
    sizes, *columns = unpack_columns(data)
    parts: list[Columns] = []
    for size in sizes:
        parts.append(columns[:size])
        columns = columns[size:]
    if frames.stores_rows:
        by, *arguments = parts.pop()
        values = zip(*arguments, strict=True) if arguments else [()] * len(by)
        frames.restore_rows([FrameRow(*row) for row in zip(by, values, strict=True)])
    if not frames.has_beginning:
        frames.restore_states(parts)
    return [*zip(*columns, strict=True)]


def restore_folded(kept: Sequence[Any], frames: MovingFrames, functions: Sequence[str]) -> None:
    """Restore frames from the older form. `functions` are the names of the functions."""
    if frames.has_beginning:
        frames.restore_rows([FrameRow(by, tuple(values)) for by, values in kept])
        return
    found = zip(functions, kept, frames.stored_states(), strict=True)
    frames.restore_states(
        [empty if folded is None else _COLUMNS[name](folded) for name, folded, empty in found]
    )


def _total(total: Any) -> Sequence[Any]:
    if isinstance(total, float):
        # The older version rounded the sum. A sum that was not finite stays so.
        finite = total - total == 0
        odd = [total != total, total == float("inf"), total == -float("inf")]
        return [units_of(total) if finite else 0, *map(int, odd)]
    return [total]


def _spread(folded: tuple[int, Any, Any]) -> Columns:
    """Return the sums that correspond to a count, a mean and squared deviations."""
    count, mean, apart = folded
    if not (mean - mean == 0 and apart - apart == 0):
        return [[0, 0, count, 1, 0]]
    total = Fraction(mean) * count
    squares = Fraction(apart) + Fraction(mean) * Fraction(mean) * count
    return [[int(total * _UNIT), int(squares * _UNIT * _UNIT), count, 0, _UNIT.bit_length() - 1]]


_UNIT = units_of(1.0)

_COLUMNS: dict[str, Callable[[Any], Columns]] = {
    "COUNT": lambda folded: [[folded]],
    # The count only shows whether any values exist.
    "SUM": lambda folded: [[1], _total(folded)],
    "MEAN": lambda folded: [[folded[1]], _total(folded[0])],
    "MIN": lambda folded: [[folded]],
    "MAX": lambda folded: [[folded]],
    "FIRST": lambda folded: [[folded[0]]],
    "LAST": lambda folded: [[folded[0]]],
    **dict.fromkeys(("VARIANCE", "VARIANCE_POP", "STDDEV", "STDDEV_POP"), _spread),
    "COUNT_DISTINCT": lambda folded: [
        [float("nan") if key is None else key[1] for key in folded],
        [1] * len(folded),
    ],
    "RANK": lambda folded: [[folded[0], folded[1]], [folded[2]]],
    "DENSE_RANK": lambda folded: [[folded[0], 1], [folded[1]]],
}
"""Conversions from the older form to the stored state, by function."""
