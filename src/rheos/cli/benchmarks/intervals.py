"""Medians, intervals and differences of measurements from several rounds.

A benchmark runs its cells in turns, and repeats that for some rounds. Two cells are compared by the
ratios of their pairs: a pair is what both had in the same round. The interval of a ratio contains its
median with at least 90 % confidence, whatever the distribution is: its ends are order statistics of
the pairs. Five rounds are the fewest that have such an interval. So nothing here is random, and nothing
is returned for fewer rounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

CONFIDENCE = 0.9
"""Least probability with which an interval contains the median."""
MIN_ROUNDS = 5
"""Fewest rounds whose minimum and maximum enclose the median with `CONFIDENCE` (93.75 %)."""
APPROXIMATELY = "~"
"""Mark of a value of too few rounds."""
_ZEROS = re.compile(r"(\.\d*?)0+(?!\d)")
"""Zeros at the end of a fraction."""


@dataclass(frozen=True)
class Interval:
    """A median, and the ends of its interval."""

    middle: float
    low: float
    high: float

    def contains(self, value: float) -> bool:
        """Return whether the measurements agree with a value."""
        return self.low <= value <= self.high

    def map(self, function: Callable[[float], float]) -> Interval:
        """Return the interval of a monotonic function of the value."""
        low, high = sorted((function(self.low), function(self.high)))
        return Interval(function(self.middle), low, high)

    def text(self, form: Callable[[float], str]) -> str:
        """Return the median, and the ends in brackets.

        >>> Interval(1.0, 0.9, 1.2).text("{:.2f}".format)
        '1.00 (0.90 to 1.20)'
        """
        return f"{form(self.middle)} ({form(self.low)} to {form(self.high)})"


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the median and its interval, by order statistics.

    Args:
        values: One measurement of each round.
        confidence: Least probability with which the interval contains the median.

    Returns:
        None if there are too few values for this confidence.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0])
    Interval(middle=3.0, low=1.0, high=5.0)
    >>> median_interval([1.0, 2.0, 3.0, 4.0]) is None
    True
    """
    ordered, count = sorted(values), len(values)
    left_out = 0
    """Number of values on each side that the interval does without."""
    for left in range(count // 2 + 1):
        # The probability that at most `left` values are below the median, or that few above.
        outside = 2 * sum(math.comb(count, k) for k in range(left + 1)) / 2**count
        if outside > 1 - confidence:
            left_out = left
            break
    if left_out == 0:
        return None
    return Interval(median(ordered), ordered[left_out - 1], ordered[count - left_out])


def ratio(pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the median ratio of the pairs of all rounds, with its interval.

    Args:
        pairs: What both sides had in the same round. Pairs with a zero are left out.
        confidence: Least probability with which the interval contains the median ratio.

    Returns:
        None if there are too few pairs.

    >>> ratio([(2.0, 1.0), (2.2, 1.0), (1.9, 1.0), (2.0, 1.0), (4.0, 2.0)])
    Interval(middle=2.0, low=1.9, high=2.2)
    """
    return median_interval([ours / theirs for ours, theirs in pairs if ours and theirs], confidence)


def cell(values: Sequence[float], form: Callable[[float], str]) -> str:
    """Return how a table shows the measurements of a cell.

    With enough rounds it is the median with its interval. With fewer, it is the median to two digits,
    after the mark `APPROXIMATELY`. Without a value, it is empty.

    >>> cell([10.0, 12.0, 11.0, 12.0, 11.0], "{:.1f}".format)
    '11.0 (10.0 to 12.0)'
    >>> cell([10.234], "{:.1f}".format), cell([], "{:.1f}".format)
    ('~10', '')
    """
    if not values:
        return ""
    found = median_interval(values)
    if found is not None:
        return found.text(form)
    shown = form(float(f"{median(values):.2g}"))
    return f"{APPROXIMATELY}{_ZEROS.sub(lambda zeros: zeros[1].rstrip('.'), shown)}"


def ratio_cell(pairs: Sequence[tuple[float, float]]) -> str:
    """Return how a table shows a ratio: empty if there are too few pairs."""
    found = ratio(pairs)
    return "" if found is None else found.text("{:.2f}".format)


def change(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """Return by which share the first of each pair exceeds the second; None for too few pairs."""
    found = ratio(pairs)
    return None if found is None else found.map(lambda value: value - 1)


def change_text(share: Interval | None) -> str:
    """Return a share in per cent, or that no difference is seen; empty if there is no interval.

    >>> change_text(Interval(0.1, 0.08, 0.12))
    '10.0 % (8.0 % to 12.0 %)'
    >>> change_text(Interval(0.1, -0.1, 0.12))
    'no difference seen (-10.0 % to 12.0 %)'
    """
    if share is None:
        return ""
    if share.contains(0):
        return f"no difference seen ({_percent(share.low)} to {_percent(share.high)})"
    return share.text(_percent)


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"
