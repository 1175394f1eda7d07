"""Functions on the maps of a state, which generated code calls. `MapColumn` explains the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rheos.core.state.columnar.map_column import FACTORS

_compiled: Any = njit(error_model="numpy")

_OF_ITEM, _OF_SLOT = FACTORS


@_compiled
def _place(slot, item):  # type: ignore[no-untyped-def]
    """Return the hash of an entry, which is that of `places_of`."""
    hashed = np.int64(item) * _OF_ITEM ^ np.int64(slot) * _OF_SLOT
    hashed = (hashed ^ hashed >> 32) * _OF_ITEM
    return hashed ^ hashed >> 29


@_compiled
def _cell(index, owners, items, slot, item):  # type: ignore[no-untyped-def]
    """Return the cell of the index with an entry, dead or living, or the free cell where it belongs."""
    mask = len(index) - 1
    at = _place(slot, item) & mask
    while index[at] != 0 and (owners[index[at] - 1] != slot or items[index[at] - 1] != item):
        at = (at + 1) & mask
    return at


@_compiled
def find_entry(index, owners, items, born, versions, present, slot, item):  # type: ignore[no-untyped-def]
    """Return the number of an entry, or -1."""
    entry = index[_cell(index, owners, items, slot, item)] - 1
    if entry >= 0 and present[entry] and born[entry] == versions[slot]:
        return entry
    return -1


@_compiled
def note_entry(changed, journal, counts, entry):  # type: ignore[no-untyped-def]
    """Note that an entry has changed. The journal has room for it."""
    if not changed[entry]:
        changed[entry] = True
        journal[counts[1]] = entry
        counts[1] += 1


@_compiled
def drop_entry(present, lengths, changed, journal, counts, slot, entry):  # type: ignore[no-untyped-def]
    """Remove an entry. The journal has room for it."""
    present[entry] = False
    lengths[slot] -= 1
    note_entry(changed, journal, counts, entry)


@_compiled
def put_entry(  # type: ignore[no-untyped-def]
    index, owners, items, born, versions, present, lengths, changed, journal, counts, stamps, values,
    slot, item, value, stamp,
):  # fmt: skip
    """Set the value of an item, for which all arrays have room."""
    cell = _cell(index, owners, items, slot, item)
    entry = index[cell] - 1
    if entry < 0 or not present[entry] or born[entry] != versions[slot]:
        entry = counts[0]
        counts[0] += 1
        index[cell] = entry + 1
        owners[entry] = slot
        items[entry] = item
        born[entry] = versions[slot]
        present[entry] = True
        changed[entry] = False
        lengths[slot] += 1
    values[entry] = value
    stamps[entry] = stamp
    note_entry(changed, journal, counts, entry)


@_compiled
def clear_map(versions, lengths, journal, counts, slot):  # type: ignore[no-untyped-def]
    """Remove all entries of a slot. The journal has room for that."""
    versions[slot] += 1
    lengths[slot] = 0
    journal[counts[1]] = ~np.int64(slot)
    counts[1] += 1


@_compiled
def larger_index(index, owners, items):  # type: ignore[no-untyped-def]
    """Return an index of twice the size, with the same entries."""
    more = np.zeros(2 * len(index), index.dtype)
    for number in index:
        if number != 0:
            more[_cell(more, owners, items, owners[number - 1], items[number - 1])] = number
    return more


NAMES = {
    each.__name__: each
    for each in (find_entry, note_entry, drop_entry, put_entry, clear_map, larger_index)
}
"""Functions that generated code may call."""
