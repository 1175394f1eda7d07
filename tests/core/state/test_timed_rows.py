"""Rows of a side are found by key and time as by a search of all rows, however they arrived."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from rheos.core.state.levels import FAN_IN
from rheos.core.state.numbered_array import NumberedArray
from rheos.core.state.spill import SpillFolder
from rheos.core.state.timed_rows import TimedRows, _order

SCHEMA = pa.schema([("n", pa.int64()), ("__ts", pa.int64())])


class Kept(NamedTuple):
    slot: int
    at: int
    n: int


@pytest.mark.parametrize("most", [5, 60])
@pytest.mark.parametrize("on_disk", [False, True])
def test_lookups_agree_with_a_search_of_all_rows(most: int, on_disk: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(most)
    rows = TimedRows(SCHEMA, SpillFolder(str(tmp_path)) if on_disk else None)
    known: list[Kept] = []
    dropped, was_due = -1, set()
    for step in range(80):
        count = int(rng.integers(0, most))
        slots = rng.integers(0, 7, count).astype(np.int32)
        stamps = np.maximum(rng.integers(step, step + 30, count), dropped + 1)
        numbers = np.arange(len(known), len(known) + count)
        rows.add(slots, pa.record_batch([numbers, stamps], schema=SCHEMA))
        rows.spill(0)
        assert (rows.memory_bytes == 0) or not on_disk
        known += [Kept(*each) for each in zip(*(v.tolist() for v in (slots, stamps, numbers)))]  # noqa: B905

        asked = rng.integers(0, 9, 8).astype(np.int32)
        low = np.maximum(rng.integers(step - 5, step + 20, 8), dropped + 1)
        high = low + rng.integers(0, 9, 8)
        got = []
        for by, places in rows.find(asked, low, high).pieces(3):
            assert 0 < len(by) <= 3
            found, times = rows.at(places)
            taken = rows.take(found, ["__ts", "n"])
            assert taken.column("n").to_pylist() == found.tolist()
            assert taken.column("__ts").to_pylist() == times.tolist()
            got += list(zip(by.tolist(), found.tolist(), strict=True))
        wanted = [
            (look_up, row.n)
            for look_up in range(8)
            for row in known
            if row.slot == asked[look_up] and low[look_up] <= row.at <= high[look_up]
        ]
        assert sorted(got) == wanted
        assert all(one[0] <= other[0] for one, other in pairwise(got)), "in the order of the look-ups"

        if step % 3 == 0:
            due = set(rows.due(step).tolist())
            assert due == {row.n for row in known if row.at <= step} - was_due
            was_due |= due
        if step % 6 == 0:
            rows.drop(step)
            dropped = step
        assert rows.alive(step) == sum(row.at > step for row in known)
    assert rows.kept < len(known) / 2, "what is behind all times is dropped"
    assert len(list(rows.segments())) < 4 * FAN_IN, "small segments are put together"


def test_an_array_that_grows_and_shrinks_keeps_its_numbers() -> None:
    growing = NumberedArray(np.int64)
    for first in range(0, 40_000, 400):
        growing.add(np.arange(first, first + 400))
        growing.drop_before(max(first - 300, 0))
        growing.drop_since(first + 390)
        growing.add(np.arange(first + 390, first + 400))
        assert (growing.all() == np.arange(growing.first, growing.next)).all()
        assert growing.since(first).tolist() == list(range(first, first + 400))
    assert growing.size_bytes < 64 * 1024


@pytest.mark.parametrize("slots", [1, 50, 1 << 16, 1 << 20])
@pytest.mark.parametrize("runs", [1, 3, 400])
def test_rows_are_ordered_by_slot_time_and_arrival(slots: int, runs: int) -> None:
    rng = np.random.default_rng(slots + runs)
    parts = [np.sort(rng.integers(0, 30, 1200 // runs)) for _ in range(runs)]
    stamps = np.concatenate(parts) + 1_700_000_000_000
    of = rng.integers(0, slots, len(stamps)).astype(np.int32)
    assert _order(of, stamps).tolist() == np.lexsort((stamps, of)).tolist()
