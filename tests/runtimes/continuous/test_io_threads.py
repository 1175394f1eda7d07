"""The number of I/O threads of a slot."""

from __future__ import annotations

import rheos as rh
from rheos.runtimes.continuous.worker import io_threads
from rheos.testing import MemoryLookup

COUNTRIES = MemoryLookup(["user"], [{"user": "ada", "country": "uk"}])


def test_each_lookup_adds_an_io_thread() -> None:
    def threads(lookups: int) -> int:
        env = rh.Environment(1)
        rows: rh.DataStream = env.from_source(rh.collection([{"user": "ada"}]))
        for number in range(lookups):
            rows = rows.lookup(COUNTRIES, on="user", columns={f"country {number}": "country"})
        rows.sink_to(rh.print_sink())
        return io_threads(env.plan("job"))

    assert [threads(lookups) for lookups in (0, 1, 2)] == [3, 4, 5]
