"""Processor time of a thread, and the time it waited for a processor."""

from __future__ import annotations

import os
import time

import pytest

from rheos.runtimes.host.process_metrics import OwnThreadTime


@pytest.mark.skipif(
    not os.path.exists("/proc/thread-self/schedstat"), reason="the system does not declare"
)
def test_the_time_grows_with_the_work_of_the_thread() -> None:
    thread = OwnThreadTime()
    try:
        before, began = thread(), time.thread_time()
        while time.thread_time() < began + 0.05:
            pass
        after = thread()
        assert before is not None
        assert after is not None
        assert after.ran_us - before.ran_us >= 40_000
        assert after.queued_us >= before.queued_us
    finally:
        thread.close()
    assert thread() is None


def test_the_time_is_unknown_if_the_system_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(os, "open", absent)
    thread = OwnThreadTime()
    assert thread() is None
    thread.close()
