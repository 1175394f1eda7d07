"""Columns of previous rows, for a whole batch at once.

The rows of a preferring match are consecutive, and a match that continues has taken the newest row of
its key. So the row before a row of the batch is in the batch, or was taken by a match of the key. No
other rows must be kept. For a key without a match the column may be null, because no condition reads
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from rheos.core.graph.patterns import Previous
from rheos.core.operators.pattern.live_matches import LiveMatches
from rheos.core.operators.pattern.matched_rows import MatchedRows
from rheos.core.protocol.elements import Batch
from rheos.core.state.slots import Slots


def previous_types(previous: Sequence[Previous], schema: pa.Schema) -> list[pa.Field]:
    return [pa.field(each.name, schema.field(each.column).type) for each in previous]


def with_previous(
    previous: Sequence[Previous],
    rows: Batch,
    slots: Slots,
    alive: Mapping[int, LiveMatches],
    kept: MatchedRows,
) -> Batch:
    """Return the rows, which are in order, with these columns added. `slots` belong to their keys."""
    columns = list(dict.fromkeys(each.column for each in previous))
    most = max(each.back for each in previous)
    order = np.argsort(slots, kind="stable")
    of_key = slots[order]
    starts = np.flatnonzero(np.concatenate([[True], of_key[1:] != of_key[:-1]]))
    taken = [_newest(alive.get(slot), most) for slot in of_key[starts].tolist()]
    lengths = np.array(list(map(len, taken)), np.int64)
    # Rows taken before precede the batch, grouped by key with the newest first.
    before = kept.take(np.array([event for each in taken for event in each], np.int64), columns)
    ends = np.cumsum(lengths) - lengths
    numbers = np.repeat(np.arange(len(starts)), np.diff([*starts, len(order)]))
    rank = np.arange(len(order)) - starts[numbers]
    added = {}
    for each in previous:
        missing = each.back - rank
        inside = np.arange(len(order)) - each.back
        places = np.where(
            missing <= 0,
            before.num_rows + order[np.maximum(inside, 0)],
            ends[numbers] + missing - 1,
        )
        known = missing <= lengths[numbers]
        found = np.empty(len(order), np.int64)
        there = np.empty(len(order), bool)
        found[order], there[order] = places, known
        values = pa.concat_arrays([before.column(each.column), rows.column(each.column)])
        added[each.name] = values.take(pa.array(found, mask=~there))
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows


def _newest(alive: LiveMatches | None, most: int) -> list[int]:
    """Return up to `most` rows that the key's first match has taken, the newest first."""
    if alive is None or not alive.partials:
        return []
    return [node.event for node in islice(alive.partials[0].node.chain(), most)]
