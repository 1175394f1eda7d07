"""Spark's windows as panes of a window operator.

Spark stores the aggregates of each window as a whole. Rheos stores panes, which windows share. A pane
that only one window contains takes over a whole window:

    Tumbling, Sliding    (start, end): the first slice of the window, valid from its own end. Earlier
                         windows do not accept the pane, and later ones do not contain its slice.
    Session              (end, start, start): a session that is open from its first row to its end.

Rows that arrive later have other panes, or are merged with this one, as for rows of the job itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rheos.core.errors import InputError
from rheos.core.operators.window.contract import FixedWindows, Ints, Mask
from rheos.core.operators.window.sessions import SessionWindows
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS


def panes_of_windows(
    windows: FixedWindows | SessionWindows, starts: Ints, ends: Ints, counts: Ints | None
) -> Sequence[Ints]:
    """Return the columns `windows.pane` of panes that only these windows contain.

    Args:
        windows: The windows of the job.
        starts: Start of each of Spark's windows, in ms since the epoch.
        ends: End of each window.
        counts: Number of rows in each window, if it is known.

    Returns:
        An array for each column of the panes.

    Raises:
        InputError: The job has no such window.
    """
    match windows:
        case FixedWindows():
            unlike, panes = _unlike_fixed(windows, starts, ends), [starts, ends]
        case SessionWindows():
            unlike, panes = _unlike_sessions(windows, starts, ends, counts), [ends, starts, starts]
    if unlike.any():
        at = int(unlike.argmax())
        of = "" if counts is None else f" with {counts[at]} rows"
        raise InputError(
            f"the checkpoint has a window{of} from {starts[at]} to {ends[at]} ms since the epoch, but "
            f"the job declares {windows}",
            hint="declare the window of the query: its size, slide and offset, or its gap",
        )
    return panes


def _unlike_fixed(windows: FixedWindows, starts: Ints, ends: Ints) -> Mask:
    """Return a mask of the windows whose first slice does not begin with them, or is also in a later
    window."""
    if not len(starts):
        return np.zeros(0, np.bool_)
    slices = np.broadcast_to(windows.assign(starts, None, 0, MIN_TIMESTAMP_MS).panes[0], starts.shape)
    alike: Mask = (
        (slices == starts) & (windows.last_end(starts) == ends) & (windows.start_of(ends) == starts)
    )
    return ~alike


def _unlike_sessions(windows: SessionWindows, starts: Ints, ends: Ints, counts: Ints | None) -> Mask:
    """Return a mask of the sessions that no rows with this gap form: of n rows, a session is as long as
    one gap at least, and n gaps at most."""
    unlike: Mask = ends - starts < windows.gap
    if counts is not None:
        unlike |= ends - starts > counts * windows.gap
    return unlike
