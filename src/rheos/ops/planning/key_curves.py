"""Number of different keys among many rows, from the numbers among fewer rows. Pure.

Rows of a stream repeat keys, so that the number of keys grows more slowly than the number of rows. Its
*exponent* is the share of the growth that the keys follow: 1 if each row has a new key, and 0 if no
row has.
"""

from __future__ import annotations

from itertools import pairwise
from math import log2

from rheos.ops.planning.measurement import KeyCurve

_STEPS = 200
"""Maximum number of doublings beyond the measured rows."""


def keys_among(curve: KeyCurve, rows: float) -> float:
    """Return the number of different keys after `rows` rows of the sources.

    Between measured numbers of rows, the exponent is constant. Beyond them, each doubling of the rows
    continues the change of the exponent over the last doublings of the sample. So it falls to 0 if the
    sample has seen nearly all keys, and stays if a few keys are heavy and new ones keep arriving.
    """
    if not curve.rows or rows <= 0:
        return 0.0
    if rows <= curve.rows[0]:
        return curve.keys[0] * rows / curve.rows[0]
    for place in range(1, len(curve.rows)):
        if rows <= curve.rows[place]:
            doublings = log2(rows / curve.rows[place - 1])
            return float(curve.keys[place - 1] * 2 ** (_exponent(curve, place) * doublings))
    return curve.keys[-1] * 2 ** _growth(curve, log2(rows / curve.rows[-1]))


def scaled(curve: KeyCurve, factor: float) -> KeyCurve:
    """Return the curve of a stream in which each key is divided into `factor` equally heavy ones."""
    rows, keys = (tuple(each * factor for each in values) for values in (curve.rows, curve.keys))
    return KeyCurve(curve.edge, rows, keys)


def _exponent(curve: KeyCurve, place: int) -> float:
    """Return the exponent between two measured numbers of rows, from 0 to 1."""
    rows = log2(curve.rows[place] / curve.rows[place - 1])
    keys = log2(curve.keys[place] / curve.keys[place - 1])
    return min(max(keys / rows, 0.0), 1.0)


def _growth(curve: KeyCurve, doublings: float) -> float:
    """Return by how many doublings the keys grow if the rows grow by `doublings`."""
    places = range(max(1, len(curve.rows) - 3), len(curve.rows))
    last = [
        (_exponent(curve, place), log2(curve.rows[place] / curve.rows[place - 1])) for place in places
    ]
    if not last:
        return doublings
    exponent = last[-1][0]
    # The change per doubling: the middles of two spans are half of both lengths apart.
    ratios = [
        min(after / before, 1.0) ** (2 / (one + other)) if before else 0.0
        for (before, one), (after, other) in pairwise(last)
    ]
    ratio = ratios[-1] if ratios else 1.0
    faster = min(ratio / ratios[0], 1.0) if len(ratios) > 1 and ratios[0] else 1.0
    grown = 0.0
    for _ in range(_STEPS):
        exponent *= ratio
        ratio *= faster
        if doublings <= 1:
            return grown + exponent * max(doublings, 0.0)
        grown += exponent
        doublings -= 1
    return grown
