"""I/O executors of real threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rheos.runtimes.host.io import DetachedIo, ThreadedIo


def wait_for(true: Callable[[], bool]) -> None:
    never = threading.Event()
    for _ in range(6000):
        if true():
            return
        never.wait(0.01)
    raise AssertionError("it never came")


def test_a_hanging_detached_call_does_not_block_others() -> None:
    io, let_go = DetachedIo(wake=lambda: None), threading.Event()
    hangs = io.submit(let_go.wait)
    done = [io.submit(lambda n=n: n * n) for n in range(5)]  # type: ignore[misc]
    wait_for(lambda: all(one.done() for one in done))
    assert [one.result() for one in done] == [0, 1, 4, 9, 16]
    assert not hangs.done()
    let_go.set()
    wait_for(hangs.done)


def test_an_exception_in_a_detached_thread_is_its_result() -> None:
    failed = DetachedIo(wake=lambda: None).submit(lambda: 1 // 0)
    wait_for(failed.done)
    with pytest.raises(ZeroDivisionError):
        failed.result()


def test_completions_and_explicit_wakes_wake_the_mailbox() -> None:
    woken: list[None] = []
    io = ThreadedIo(1, wake=lambda: woken.append(None))
    io.wake()
    assert len(woken) == 1
    io.submit(lambda: None)
    wait_for(lambda: len(woken) == 2)
    io.close()


def test_leaving_does_not_wait_for_unneeded_calls() -> None:
    begun, goes_on = threading.Event(), threading.Event()
    io = ThreadedIo(1, wake=lambda: None)
    under_way = io.submit(lambda: (begun.set(), goes_on.wait())[0])
    waits = io.submit(lambda: None)
    begun.wait()

    assert not io.close(within_s=0.0)
    assert not under_way.done()
    assert waits.done(), "it is dropped"

    goes_on.set()
    assert io.close()
    assert under_way.done()
