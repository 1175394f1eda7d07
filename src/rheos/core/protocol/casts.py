"""Casts between Arrow types that raise an error instead of changing a value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def cast_exactly(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the array as another type. Raise ArrowInvalid if a value does not fit.

    Arrow's own safe cast refuses to truncate integers and times. But it truncates a timestamp to a
    date, and turns a finite float that is too large for a narrower type into infinity. This function
    refuses those, too. Other floats are rounded, as a narrower float type implies.
    """
    made: pa.Array = array.cast(kind)
    t = pa.types
    if t.is_timestamp(array.type) and t.is_date(kind) and not made.cast(array.type).equals(array):
        raise pa.ArrowInvalid(f"a time of day would be lost in {kind}")
    if t.is_floating(kind) and t.is_floating(array.type) and kind.bit_width < array.type.bit_width:
        overflown = pc.and_not(pc.is_inf(made), pc.is_inf(array))
        if pc.any(overflown).as_py():
            value = array[pc.index(overflown, True).as_py()]
            raise pa.ArrowInvalid(f"{value} is out of range for {kind}")
    return made
