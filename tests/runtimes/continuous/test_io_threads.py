"""How many I/O threads a slot has."""

from __future__ import annotations

import rheos as rh
from rheos.runtimes.continuous.worker import io_threads
from rheos.testing import MemoryLookup

COUNTRIES = MemoryLookup(["user"], [{"user": "ada", "country": "uk"}])


def test_lookups_that_wait_leave_the_others_their_threads() -> None:
    def threads(lookups: int) -> int:
        env = rh.Environment(1)
        rows: rh.DataStream = env.from_source(rh.collection([{"user": "ada"}]))
        for number in range(lookups):
            rows = rows.lookup(COUNTRIES, on="user", columns={f"country {number}": "country"})
        rows.sink_to(rh.print_sink())
        return io_threads(env.plan("job"))

    assert [threads(lookups) for lookups in (0, 1, 2)] == [3, 4, 5]
