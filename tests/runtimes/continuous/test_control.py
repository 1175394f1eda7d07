"""The control channel: workers and driver notice when the other side joins or falls silent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from rheos.core.errors import WorkerLostError
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt
from rheos.runtimes.continuous import control_server
from rheos.runtimes.continuous.control import (
    Join,
    JoinRefused,
    Welcome,
    body_of,
    framed,
    from_driver,
    heartbeat_s,
)
from rheos.runtimes.continuous.control_client import ControlClient
from rheos.runtimes.continuous.control_server import AllJoined, ControlServer, Silent
from tests.waiting import wait_for

TOKEN = b"t" * 16
NEVER_MS = 600_000
SOON_MS = 2_000
FIRST = Attempt(1)


@pytest.fixture
def others() -> Iterator[list[zmq.Context[Any]]]:
    """Yield contexts of two other processes."""
    contexts: list[zmq.Context[Any]] = [zmq.Context(1), zmq.Context(1)]
    yield contexts
    for each in contexts:
        each.destroy(linger=0)


def server(timeout_ms: int) -> ControlServer:
    return ControlServer("tcp://127.0.0.1:*", TOKEN, "1.0", None, timeout_ms)


def client(
    context: zmq.Context[Any], at: ControlServer, timeout_ms: int = NEVER_MS, **fields: Any
) -> ControlClient:
    defaults = {"attempt": FIRST, "subtask": 0, "address": "tcp://a", "version": "1.0"}
    join = Join(**{**defaults, **fields})
    return ControlClient(context, at.address, TOKEN, join, None, lambda: None, timeout_ms)


def next_of(driver: ControlServer, wanted: type) -> Any:
    """Return the next message of that kind; those before it are dropped."""
    return wait_for(lambda: [m for m in driver.poll() if isinstance(m, wanted)])[0]


def test_a_worker_joins_and_exchanges_messages(context: zmq.Context[Any]) -> None:
    driver = server(NEVER_MS)
    driver.expect(FIRST, 1)
    worker = client(context, driver)
    assert worker.start() == Welcome(FIRST, ["tcp://a"])
    assert next_of(driver, AllJoined) == AllJoined(FIRST)
    drained = control.Drained(attempt=FIRST, subtask=0)
    worker.send(drained)
    assert next_of(driver, control.Drained) == drained
    driver.send(control.Finish(attempt=FIRST))
    assert wait_for(worker.receive) == [control.Finish(attempt=FIRST)]
    worker.close()
    driver.close()


def test_large_messages_to_all_workers_are_compressed() -> None:
    """Their size grows with the number of slots, and so does the number of receivers."""
    addresses = [f"tcp://10.20.{number // 16}.1:{30_000 + number}" for number in range(2_000)]
    message = Welcome(FIRST, addresses)
    frame = framed(TOKEN, message, to_all=True)
    assert len(frame) < len(framed(TOKEN, message)) / 3
    body = body_of(TOKEN, frame, "the driver")
    assert body is not None
    assert from_driver.decode(body) == message
    small = Welcome(FIRST, addresses[:2])
    assert framed(TOKEN, small, to_all=True) == framed(TOKEN, small)


def test_a_copy_of_a_running_task_waits_until_the_attempt_ends(
    context: zmq.Context[Any], others: list[zmq.Context[Any]]
) -> None:
    """Spark starts such copies if `spark.speculation` is set."""
    driver = server(SOON_MS)
    driver.expect(FIRST, 1)
    worker = client(context, driver)
    worker.start()
    next_of(driver, AllJoined)
    copy = client(others[0], driver, address="tcp://copy", timeout_ms=SOON_MS)
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(copy.start()))
    waiting.start()
    beats = heartbeat_s(SOON_MS) * (control_server._LOST_AFTER_HEARTBEATS + 3)
    waiting.join(beats)
    assert answers == []
    assert driver.poll() == []
    driver.send(control.Cancel(attempt=FIRST))
    waiting.join()
    assert answers == [JoinRefused(FIRST, "the attempt is over")]
    late = client(others[1], driver, address="tcp://late")
    assert late.start() == JoinRefused(FIRST, "the attempt is over")
    for each in (worker, copy, late):
        each.close()
    driver.close()


def test_a_worker_whose_task_is_started_again_is_lost(
    context: zmq.Context[Any],
    others: list[zmq.Context[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_server, "_LOST_AFTER_HEARTBEATS", 1)
    driver = server(NEVER_MS)
    driver.expect(FIRST, 1)
    worker = client(context, driver, pid=42, host="here")
    worker.start()
    next_of(driver, AllJoined)
    worker.close()
    again = client(others[0], driver, address="tcp://again")
    waiting = threading.Thread(target=again.start)
    waiting.start()
    lost = next_of(driver, Silent)
    assert (lost.subtask, type(lost.error)) == (0, WorkerLostError)
    assert "Spark has started its task again" in str(lost.error)
    driver.expect(Attempt(2), 1)
    waiting.join()
    again.close()
    driver.close()


def test_messages_sent_before_the_close_arrive(context: zmq.Context[Any]) -> None:
    driver = server(NEVER_MS)
    driver.expect(FIRST, 1)
    worker = client(context, driver)
    worker.start()
    for subtask in range(20):
        worker.send(control.Drained(attempt=FIRST, subtask=subtask))
    worker.close()
    assert not worker._thread.is_alive()
    heard: list[Any] = []
    while len(heard) < 20:
        driver.wait(NEVER_MS)
        heard += [message for message in driver.poll() if isinstance(message, control.Drained)]
    assert [message.subtask for message in heard] == list(range(20))
    driver.close()


def test_a_wake_between_two_waits_ends_the_next_wait() -> None:
    """Nothing else would end the wait, as there is no worker."""
    driver = server(NEVER_MS)
    driver.wake()
    driver.wait(NEVER_MS)
    driver.wake()
    assert driver.poll() == []
    driver.wait(NEVER_MS)
    driver.close()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"attempt": Attempt(2)}, "the attempt is over"),
        ({"version": "0.9"}, "it has Rheos 0.9, but the driver 1.0"),
    ],
)
def test_a_worker_of_another_attempt_or_version_is_refused(
    context: zmq.Context[Any], fields: dict[str, Any], reason: str
) -> None:
    driver = server(NEVER_MS)
    driver.expect(FIRST, 1)
    worker = client(context, driver, **fields)
    assert worker.start() == JoinRefused(fields.get("attempt", FIRST), reason)
    worker.close()
    driver.close()


def test_a_worker_without_heartbeats_is_given_up(context: zmq.Context[Any]) -> None:
    """Invariant CP23 at the driver. The other worker has sent several heartbeats by then, and is
    kept."""
    driver = server(SOON_MS)
    driver.expect(FIRST, 2)
    beating = client(context, driver)
    beating._thread.start()
    silent = silent_worker(driver)
    assert next_of(driver, AllJoined) == AllJoined(FIRST)
    given_up = next_of(driver, Silent)
    assert (given_up.attempt, given_up.subtask) == (FIRST, 1)
    assert "subtask 1 at tcp://b (an unknown process) has not reported for 2 s" in str(given_up.error)
    drained = control.Drained(attempt=FIRST, subtask=1)
    silent.send(framed(TOKEN, drained))
    beating.send(control.Drained(attempt=FIRST, subtask=0))
    assert next_of(driver, control.Drained).subtask == 0, "CP5: who was given up is not heard"
    beating.close()
    driver.close()
    silent.context.destroy(linger=0)


def silent_worker(driver: ControlServer) -> zmq.Socket[bytes]:
    """Join as a worker that then sends nothing."""
    socket: zmq.Socket[bytes] = zmq.Context(1).socket(zmq.DEALER)
    socket.connect(driver.address)
    socket.send(framed(TOKEN, Join(FIRST, 1, "tcp://b", "1.0")))
    return socket


def test_a_worker_without_a_driver_is_cancelled(context: zmq.Context[Any]) -> None:
    """Invariant CP23 at the worker."""
    driver = server(NEVER_MS)
    driver.expect(FIRST, 1)
    worker = client(context, driver, SOON_MS)
    assert isinstance(worker.start(), Welcome)
    driver.close()
    left = wait_for(worker.receive)
    assert left == [control.Cancel(attempt=FIRST)]
    worker.close()


def test_several_heartbeats_fit_into_any_timeout() -> None:
    assert heartbeat_s(15_000) == 0.5
    assert heartbeat_s(1_000) == 0.2
