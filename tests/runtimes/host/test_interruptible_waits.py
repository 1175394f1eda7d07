"""Ctrl-C ends a wait, although a library handles SIGINT so that waits for locks start again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from rheos.runtimes.host.interruptible_waits import event_set, result_of, thread_ended

WAITS = """
import threading
import polars
from rheos.runtimes.host.interruptible_waits import event_set
print("waits", flush=True)
event_set(threading.Event())
"""


def test_ctrl_c_ends_a_wait_in_a_process_with_polars() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"waits\n"
    process.send_signal(signal.SIGINT)
    try:
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert b"KeyboardInterrupt" in error


def test_waits_return_what_they_waited_for() -> None:
    event = threading.Event()
    assert not event_set(event, 0)
    assert not event_set(event, 0.001)
    thread = threading.Thread(target=event.set)
    thread.start()
    assert event_set(event, 60)
    thread_ended(thread)
    right: Future[int] = Future()
    right.set_result(1)
    assert result_of(right) == 1
    wrong: Future[int] = Future()
    wrong.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        result_of(wrong)
