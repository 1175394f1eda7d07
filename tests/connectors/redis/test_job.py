"""A whole job from a stream to keys, whose workers crash, and whose server is killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.testing import Faults, simulate

ROWS = 60
VISIT = pa.schema([("page", pa.string()), ("n", pa.int64())])
AT_ROW: dict[int, Callable[[], None]] = {}
"""What happens when the job comes to a row, once."""


def passed(row: Any) -> Any:
    AT_ROW.pop(row.n, lambda: None)()
    return row


@pytest.mark.proves("Redis", faults=["the server is killed", "workers of a simulated job crash"])
def test_counts_are_right_after_any_crash(redis_server: Any, redis: Any, prefix: str) -> None:
    for n in range(ROWS):
        redis.xadd(f"{prefix}:in", {"page": f"p{n % 3}", "n": n})
    url = redis_server.url

    def restart() -> None:
        redis_server.kill()
        redis_server.start()

    def build(env: rh.Environment) -> rh.DataStream:
        stream = rh.redis.source(url, stream=f"{prefix}:in", schema=VISIT, end="latest")
        visits = env.from_source(stream).map(passed, returns=VISIT)
        counts = visits.key_by("page").running(visits=rh.agg.count(), total=rh.agg.sum("n"))
        counts.sink_to(rh.redis.sink(url, key=f"{prefix}:out:{{page}}", value=["visits", "total"]))
        return counts

    AT_ROW[30] = restart
    done = simulate(build, seed=5, faults=Faults(crash_slot=40.0), parallelism=2)
    assert done.crashes > 0
    assert not AT_ROW
    assert done.out.num_rows == ROWS
    for page in range(3):
        wanted = {"visits": str(ROWS // 3), "total": str(sum(range(page, ROWS, 3)))}
        assert redis.hgetall(f"{prefix}:out:p{page}") == wanted
