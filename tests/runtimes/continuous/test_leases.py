"""Leases find silent workers as a scan of all workers would, and scan only if one may have ended."""

from __future__ import annotations

from random import Random

import pytest

from rheos.runtimes.continuous.leases import Leases

TIMEOUT_S = 2.0


@pytest.mark.parametrize("seed", range(20))
def test_the_same_workers_are_silent_as_in_a_scan(seed: int) -> None:
    random = Random(seed)
    leases, heard, now = Leases(TIMEOUT_S), dict[bytes, float](), 0.0
    for _ in range(400):
        now += random.choice([0.0, 0.01, 0.3, 1.5])
        worker = bytes([random.randrange(8)])
        match random.randrange(10):
            case 0:
                leases.extend_all(now)
                heard = dict.fromkeys(heard, now)
            case 1 if worker in heard:
                leases.end(worker)
                del heard[worker]
            case 2 if random.random() < 0.1:
                leases.clear()
                heard.clear()
            case 3 | 4:
                expected = [each for each, at in heard.items() if now - at > TIMEOUT_S]
                assert list(leases.silent(now)) == expected
                for each in expected:
                    leases.end(each)
                    del heard[each]
            case _:
                leases.heard(worker, now)
                heard[worker] = now
        assert (worker in leases) == (worker in heard)
        assert leases.heard_at(worker) == heard.get(worker)
        assert leases.due() <= min(heard.values(), default=now) + TIMEOUT_S or not heard


def test_a_lease_that_goes_on_is_found_again() -> None:
    leases = Leases(TIMEOUT_S)
    leases.heard(b"a", 0.0)
    assert list(leases.silent(TIMEOUT_S)) == []
    assert list(leases.silent(TIMEOUT_S + 1)) == [b"a"]
    assert list(leases.silent(TIMEOUT_S + 1.5)) == [b"a"]


def test_many_workers_are_not_scanned_before_a_lease_may_end() -> None:
    leases = Leases(TIMEOUT_S)
    for number in range(1_000):
        leases.heard(str(number).encode(), number / 1_000)
    assert leases.due() == TIMEOUT_S
    for number in range(1_000):
        leases.heard(str(number).encode(), 1 + number / 1_000)
    assert list(leases.silent(2.5)) == []
    assert leases.due() == 1 + TIMEOUT_S


def test_without_workers_nothing_is_due() -> None:
    leases = Leases(TIMEOUT_S)
    assert leases.due() == float("inf")
    leases.heard(b"a", 0.0)
    leases.clear()
    assert leases.due() == float("inf")
