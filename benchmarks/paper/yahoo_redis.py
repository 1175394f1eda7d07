"""What the Yahoo benchmark has written to Redis, and when: seen from outside, as its readers see it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from redis import Redis

from benchmarks.paper.ads import WINDOW_MS, Counts, campaigns
from benchmarks.paper.yahoo_program import FIELD, KEY

_LOOK_EVERY_S = 0.05
_WATCHED = 3
"""Windows: that of now, and those before."""


def key_of(campaign: str, window: int) -> str:
    return KEY.format(campaign=campaign, window=window)


def read_counts(redis: Any) -> Counts:
    """All that is there."""
    keys = list(redis.scan_iter(count=1000))
    with redis.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.hget(key, FIELD)
        values = pipeline.execute()
    counts: Counts = Counter()
    for key, value in zip(keys, values, strict=True):
        _, campaign, window = key.decode().split(":")
        counts[campaign, int(window)] = int(value)
    return counts


class LastUpdates:
    """Looks at the windows of now twenty times a second, from `with` to its end."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self._seen: Counts = Counter()
        self._changed_ms: dict[tuple[str, int], float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="last updates", daemon=True)

    def __enter__(self) -> LastUpdates:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def latencies_ms(
        self, first: int, end: int, expected: Counts, all_sent_ms: Callable[[int], float]
    ) -> tuple[list[float], int]:
        """Of each campaign and each whole window in this time (ms since the epoch): from the window's
        end to its last update, as the benchmark defines it; but from when all of it had been sent
        where that was later, which is asked of `all_sent_ms` by the window's end. With it comes how
        many had their last update when they were not looked at any more: these are not among them."""
        whole = [each for each in expected if first <= each[1] and each[1] + WINDOW_MS <= end]
        seen = [each for each in whole if self._seen[each] == expected[each]]
        latencies = [
            self._changed_ms[each] - max(each[1] + WINDOW_MS, all_sent_ms(each[1] + WINDOW_MS))
            for each in seen
        ]
        return latencies, len(whole) - len(seen)

    def _run(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            window = int(time.time() * 1000) // WINDOW_MS * WINDOW_MS
            watched = [
                (campaign, window - back * WINDOW_MS)
                for back in range(_WATCHED)
                for campaign in campaigns()
            ]
            with self._redis.pipeline(transaction=False) as pipeline:
                for each in watched:
                    pipeline.hget(key_of(*each), FIELD)
                values = pipeline.execute()
            now_ms = time.time() * 1000
            for each, value in zip(watched, values, strict=True):
                if value is not None and int(value) != self._seen[each]:
                    self._seen[each] = int(value)
                    self._changed_ms[each] = now_ms


def connect(url: str) -> Any:
    return Redis.from_url(url)
