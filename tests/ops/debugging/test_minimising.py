"""The fewest items that still show something are found."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from rheos.ops.debugging.minimising import minimised


@pytest.mark.parametrize("seed", range(30))
def test_exactly_the_needed_items_are_left(seed: int) -> None:
    random = Random(seed)
    items = list(range(random.randrange(1, 200)))
    needed = sorted(random.sample(items, random.randrange(min(len(items), 9) + 1)))
    asked: list[Sequence[int]] = []

    def shows(some: Sequence[int]) -> bool:
        asked.append(some)
        return set(needed) <= set(some)

    assert minimised(items, shows) == needed
    assert len(asked) <= 2 * (len(needed) + 1) * (len(items).bit_length() + 2) + 2


def test_each_item_is_needed_where_items_replace_one_another() -> None:
    found = minimised([3, 9, 4, 9, 5, 1], lambda some: sum(some) >= 12)
    assert sum(found) >= 12
    assert all(sum(found) - item < 12 for item in found)


def test_the_search_ends_when_time_is_up() -> None:
    left = iter([False, False, True])
    found = minimised(range(64), lambda some: 63 in some, lambda: next(left))
    assert 63 in found
    assert len(found) == 32
