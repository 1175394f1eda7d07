"""Keys whose rows are taken back: behind the last one a key is gone, and begins with nothing when it
comes again.

From a key's first row to the one behind which it has none is a *life* of the key. A batch may end
several lives of a key: those behind the first run in slots of their own, behind those of all keys, and
what the last one leaves becomes the key's.
"""

from __future__ import annotations

import numpy as np

from rheos.core.aggregates.segments import Ints, Segments


class Lives:
    """Lives of the keys of a batch."""

    def __init__(self, rows: Segments, counts: Ints, size: int) -> None:
        """`counts` says how many rows its key has behind each row; `size` is above all slots."""
        ended = rows.gather(counts) == 0
        begins = np.zeros(rows.rows, np.bool_)
        begins[1:] = ended[:-1]
        begins[rows.starts] = False
        number = np.cumsum(begins)
        of_first = number == rows.spread(number[rows.starts])
        slots = np.where(of_first, rows.spread(rows.slots), number + (size - 1))
        last, gone = slots[rows.ends], ended[rows.ends]
        moved = (last >= size) & ~gone
        self.slots: Ints = rows.scatter(slots)
        """Slot in which each row is counted."""
        self.further: Ints = np.arange(size, size + int(number[-1]))
        """The slots of the lives that are not the first."""
        self.left_in: Ints = last[moved]
        """Those whose keys are there yet when the batch ends, """
        self.left_to: Ints = rows.slots[moved]
        """and the slots of these keys."""
        self.gone: Ints = rows.slots[gone]
        """The keys that are gone when it ends."""
