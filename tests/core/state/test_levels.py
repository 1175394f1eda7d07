"""Segments by level, and which of them are spilled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rheos.core.state.levels import FAN_IN, level_of, to_spill


def test_merged_segments_are_of_a_higher_level() -> None:
    for rows in (1, 7, 8, 9, 100, 4_096, 1_000_000):
        assert level_of(FAN_IN * rows) == level_of(rows) + 1


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(-10, 200))
def test_the_largest_segments_go_to_disk_until_the_others_fit(sizes: list[int], until: int) -> None:
    spilled = list(to_spill(((size, at) for at, size in enumerate(sizes)), until))
    kept = [size for at, size in enumerate(sizes) if at not in spilled]
    gone = [sizes[at] for at in spilled]
    assert sum(kept) <= max(until, 0)
    assert not gone or min(gone) >= max(kept, default=0)
    # Without the last one that went, the others did not fit.
    assert not gone or sum(kept) + gone[-1] > until
    assert 0 not in gone
