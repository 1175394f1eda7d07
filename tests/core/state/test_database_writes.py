"""Tests of writes of many entries to a database."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rheos.core.state.rocksdb.database import Database


def test_entries_are_written_by_place_a_few_at_a_time(tmp_path: Path) -> None:
    places = [number.to_bytes(2, "big") for number in range(5_000)]
    random.Random(1).shuffle(places)
    with closing(Database(str(tmp_path))) as database:
        database.write_entries(places, lambda some: [b"old"] * len(some))
        asked: list[bytes] = []

        def values(some: Sequence[int]) -> list[bytes | None]:
            assert len(some) <= 64
            mine = [places[at] for at in some]
            asked.extend(mine)
            return [None if place[1] % 2 else place * 500 for place in mine]

        database.write_entries(places, values)
        assert asked == sorted(places)
        left = [(place, place * 500) for place in sorted(places) if place[1] % 2 == 0]
        assert list(database.scan(b"", b"\xff")) == left
