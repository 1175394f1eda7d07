"""Start of a feed with a simulated server and a simulated clock, without waiting."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.connectors import chunk_buffer
from rheos.connectors.postgres import change_feed
from rheos.connectors.postgres.change_feed import ChangeFeed, ReadTable
from rheos.connectors.postgres.change_positions import ChangesPosition, SnapshotRange
from rheos.core.errors import ConfigurationError, InputError


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class OftenWoken:
    """Condition with many spurious notifications, as from a reader that takes chunks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        pass

    def wait(self, timeout_s: float) -> None:
        self._clock.now_s += min(timeout_s, 0.01)


class MadeUpServer:
    """Stand-in for the server, its options and sessions. Its slot is in use until a given time."""

    def __init__(
        self, clock: Clock, *, used_until_s: float = 0.0, sender_timeout_ms: int = 60_000
    ) -> None:
        self._clock = clock
        self._used_until_s = used_until_s
        self._sender_timeout_ms = sender_timeout_ms

    def connect(self, doing: str, **own: str) -> MadeUpServer:
        return self

    def rows(self, sql: str, values: object = None) -> list[tuple[Any, ...]]:
        if "FROM pg_replication_slots" in sql:
            is_active = self._clock.now_s < self._used_until_s
            return [("pgoutput", "shop", "0/10", "reserved", True, is_active)]
        if "wal_sender_timeout" in sql:
            return [(self._sender_timeout_ms,)]
        if sql == "TIMELINE_HISTORY 3":
            return [("00000003.history", "1\t0/12\tno reason\n\n2\t0/18\tno reason\n")]
        assert "pg_current_wal_insert_lsn" in sql, sql
        return [("0/20", "000000030000000000000001")]

    def close(self) -> None:
        pass


def feed_of(server: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> ChangeFeed:
    none: Any = None
    feed = ChangeFeed(ReadTable(server, "public", "t", "t", "rheos_t", none, False), none)
    monkeypatch.setattr(change_feed, "time", clock)
    monkeypatch.setattr(chunk_buffer, "time", clock)
    monkeypatch.setattr(feed._buffer, "_lock", OftenWoken(clock))
    return feed


@pytest.mark.parametrize(
    ("used_until_s", "sender_timeout_ms"), [(65.0, 60_000), (65.0, 0), (310.0, 300_000)]
)
def test_a_slot_in_use_is_waited_for_until_the_server_drops_a_lost_reader(
    monkeypatch: pytest.MonkeyPatch, used_until_s: float, sender_timeout_ms: int
) -> None:
    clock = Clock()
    server = MadeUpServer(clock, used_until_s=used_until_s, sender_timeout_ms=sender_timeout_ms)
    feed = feed_of(server, clock, monkeypatch)
    feed._begin()
    assert used_until_s <= clock.now_s < used_until_s + 1
    assert feed._at.lsn == 0x10


def test_a_slot_in_use_by_another_job_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    feed = feed_of(MadeUpServer(clock, used_until_s=1e9), clock, monkeypatch)
    with pytest.raises(ConfigurationError, match="rheos_t is in use"):
        feed._begin()


def test_a_log_that_ends_before_the_position_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    feed = feed_of(MadeUpServer(clock), clock, monkeypatch)
    feed._at = ChangesPosition(in_snapshot=False, lsn=0x20)
    feed._begin()
    feed._at = ChangesPosition(in_snapshot=False, lsn=0x21)
    with pytest.raises(InputError, match=r"has already read up to 0/21\. Check whether this is"):
        feed._begin()


def test_after_a_failover_the_new_log_must_contain_what_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    feed = feed_of(MadeUpServer(clock), clock, monkeypatch)
    for timeline, lsn, fits in [
        (0, 0x20, True),  # It was not noted.
        (1, 0x12, True),
        (2, 0x18, True),
        (3, 0x20, True),
        (1, 0x13, False),
        (2, 0x19, False),
        (4, 0x11, False),
    ]:
        feed._at = ChangesPosition(in_snapshot=False, lsn=lsn, timeline=timeline)
        if fits:
            feed._begin()
            assert feed._at == ChangesPosition(in_snapshot=False, lsn=lsn, timeline=3)
        else:
            with pytest.raises(InputError, match="\\. Check whether this is another server, one"):
                feed._begin()
    seen = (SnapshotRange("10:10:", 0x19, (5,)),)
    feed._at = ChangesPosition(seen, True, 0x18, timeline=2)
    with pytest.raises(InputError, match="has already read up to 0/19\\. Check whether this is"):
        feed._begin()
    feed._at = ChangesPosition(seen, True, 0x18, timeline=3)
    feed._begin()
