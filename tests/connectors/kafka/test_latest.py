"""The end of a topic while transactions become readable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from rheos.connectors.kafka import cluster
from rheos.connectors.kafka.bounds import Offsets, Partition

A, B = ("orders", 0), ("orders", 1)


class Clock:
    """Stand-in for the module `time`, whose sleeps take no time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Brokers(cluster._Brokers):
    """Brokers whose records end at 20 and 7, and are readable up to offsets that rise."""

    def __init__(self, readable: Iterator[Offsets], read_committed: bool = True) -> None:
        self._readable = readable
        self._committed_only = read_committed
        self._spec = SimpleNamespace(latest=lambda: None)

    def _listed(
        self, partitions: Sequence[Partition], spec: Any, *, committed_only: bool | None = None
    ) -> Offsets:
        return {A: 20, B: 7} if committed_only is False else next(self._readable)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cluster, "time", clock)
    return clock


def test_a_transaction_that_is_being_committed_counts(clock: Clock) -> None:
    readable = iter([{A: 18, B: 7}, {A: 18, B: 7}, {A: 20, B: 7}])
    assert Brokers(readable).latest([A, B]) == {A: 20, B: 7}
    assert 0 < clock.now_s < 1


def test_records_of_an_open_transaction_are_left_out(clock: Clock) -> None:
    readable = iter([{A: 18, B: 7}] * 100)
    assert Brokers(readable).latest([A, B]) == {A: 18, B: 7}
    assert 1 <= clock.now_s < 1.1


def test_readable_records_need_no_wait(clock: Clock) -> None:
    assert Brokers(iter([{A: 20, B: 7}])).latest([A, B]) == {A: 20, B: 7}
    assert clock.now_s == 0
