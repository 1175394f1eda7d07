"""Numbers of rows before and after each insertion and deletion of a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rheos.core.state.marked_rows import Mask
from rheos.core.state.numbered_rows import Numbers


class RunningCounts(NamedTuple):
    """Numbers of rows around each event."""

    before: Numbers
    after: Numbers
    first: Mask
    """Two masks: whether each event is the first of its group, and whether it is the last."""
    last: Mask


def running_counts(groups: npt.NDArray[np.integer], comes: Mask, counts: Numbers) -> RunningCounts:
    """Count the rows of each group from event to event.

    Args:
        groups: The group of each event.
        comes: Whether the event inserts a row; otherwise it deletes one.
        counts: For each event, the number of rows of its group before all events.
    """
    order = np.argsort(groups, kind="stable")
    opens = np.concatenate([[True], groups[order][1:] != groups[order][:-1]])[: len(order)]
    steps = np.where(comes[order], 1, -1)
    total = np.cumsum(steps)
    begins = np.flatnonzero(opens)
    lengths = np.diff(np.append(begins, len(order)))
    start = np.repeat(total[begins] - steps[begins], lengths)
    after = np.empty(len(order), np.int64)
    after[order] = total - start + counts[order]
    first, last = np.empty(len(order), np.bool_), np.empty(len(order), np.bool_)
    first[order] = opens
    last[order] = np.append(opens[1:], True)[: len(order)]
    return RunningCounts(after - np.where(comes, 1, -1), after, first, last)
