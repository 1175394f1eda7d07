"""Rows that come too late: counted, and given to a side output.

A row is late when its time is at or before `__wm`, the watermark of its own split: by the data alone.
Rows whose own split was idle while the operator's watermark passed them are late, too, and are counted
as `late_purged` besides.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.records import hidden_column, with_hidden
from rheos.core.protocol.elements import SWM, TS, WM, Batch, strip_hidden

LATE = "late"
"""The side output of late rows."""

LATE_OF_TWO = ("late_left", "late_right")
"""The side outputs of an operator with two keyed ports."""


def not_late(
    ctx: OperatorContext, tag: str, batch: Batch, passed: npt.NDArray[np.bool_]
) -> Generator[Out, None, Batch]:
    """The rows that are not late; emits the others by their tag. `passed` are those that the operator's
    watermark has passed."""
    own = batch.column(TS).to_numpy() <= batch.column(WM).to_numpy()
    late = own | passed
    if not late.any():
        return batch
    ctx.count("late", int(late.sum()))
    purged = int((late & ~own).sum())
    if purged:
        ctx.count("late_purged", purged)
    output = ctx.outputs.get(tag)
    if output is not None:
        rows = batch.filter(pa.array(late))
        hidden = (hidden_column(rows, name) for name in (TS, WM, SWM))
        yield Out(with_hidden(strip_hidden(rows), output.schema, *hidden), tag)
    return batch.filter(pa.array(~late))
