"""Keys whose rows are retracted. A key is removed when its last row is retracted. If the key arrives
again, it starts without state.

A *life* of a key lasts from its first row to the row after which it has no rows. A batch may end
several lives of a key. Lives after the first use separate slots, after the slots of all keys. The state
that the last life leaves becomes the key's state.
"""

from __future__ import annotations

import numpy as np

from rheos.core.aggregates.segments import Ints, Segments


class KeyLifetimes:
    """Lives of the keys of a batch, and the slots that they use."""

    def __init__(self, rows: Segments, counts: Ints, size: int) -> None:
        """Compute the lives. `counts` is the number of rows of the key after each row; `size` exceeds
        all slots."""
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
        """Slots of the lives after the first."""
        self.left_in: Ints = last[moved]
        """Slots of later lives whose keys still exist at the end of the batch."""
        self.left_to: Ints = rows.slots[moved]
        """Slots of the keys of `left_in`, to which the state of these lives moves."""
        self.gone: Ints = rows.slots[gone]
        """Slots of the keys that no longer exist at the end of the batch."""
