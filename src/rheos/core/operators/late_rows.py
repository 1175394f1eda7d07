"""Late rows: they are counted, and emitted to a side output.

A row is late if its time is at or before `__wm`, the watermark of its own split. So lateness depends on
the data alone. If its split was idle, a row may be on time for the split, although the operator's
watermark has passed it. Such rows are late, too, and are also counted as `late_purged`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.records import HiddenColumns, with_hidden
from rheos.core.protocol.elements import TS, WM, Batch, strip_hidden

LATE = "late"
"""Side output of late rows."""

DELIVERED_LATE = "delivered_late"
"""Counter of late rows that the function received. They are not counted as `late`."""

LATE_OF_TWO = ("late_left", "late_right")
"""Side outputs of late rows of an operator with two keyed ports."""


def not_late(
    ctx: OperatorContext, tag: str, batch: Batch, passed: npt.NDArray[np.bool_]
) -> Generator[Out, None, Batch]:
    """Return the rows that are not late, and emit the others to the output `tag`. `passed` marks the
    rows that the operator's watermark has passed."""
    late = late_rows(batch, passed)
    if not late.any():
        return batch
    own = late_rows(batch)
    count_late(ctx, int(late.sum()), int((late & ~own).sum()))
    yield from emit_late(ctx, tag, batch.filter(pa.array(late)))
    return batch.filter(pa.array(~late))


def late_rows(batch: Batch, passed: npt.NDArray[np.bool_] | bool = False) -> npt.NDArray[np.bool_]:
    """Return which rows are late: by the watermark of their own split, or because the operator's
    watermark has `passed` them."""
    late: npt.NDArray[np.bool_] = batch.column(TS).to_numpy() <= batch.column(WM).to_numpy()
    return late | passed


def count_delivered_late(ctx: OperatorContext, rows: int) -> None:
    """Count late rows that are delivered to the function."""
    ctx.count(DELIVERED_LATE, rows)


def count_late(ctx: OperatorContext, late: int, purged: int) -> None:
    """Count `late` rows. Of these, `purged` rows were late only by the operator's watermark."""
    ctx.count("late", late)
    if purged:
        ctx.count("late_purged", purged)


def emit_late(ctx: OperatorContext, tag: str | None, late: Batch) -> Iterator[Out]:
    """Emit late rows, if the program reads them."""
    output = None if tag is None else ctx.outputs.get(tag)
    if tag is not None and output is not None:
        whole = with_hidden(strip_hidden(late), output.schema, HiddenColumns.of(late))
        for begin in range(0, whole.num_rows, ctx.batch_rows):
            yield Out(whole.slice(begin, ctx.batch_rows), tag)
