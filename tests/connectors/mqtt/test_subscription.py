"""Messages that were not acknowledged: which ones of another connection are new."""

from __future__ import annotations

from rheos.connectors.mqtt.connection import MqttMessage
from rheos.connectors.mqtt.subscription import UnacknowledgedMessages


def message(packet: int, payload: bytes, *, again: bool = False) -> MqttMessage:
    return MqttMessage(packet, again, "t", payload, False)


def test_messages_that_the_broker_sends_again_are_not_new() -> None:
    open_ones = UnacknowledgedMessages()
    assert [open_ones.is_new(message(n, b"%d" % n), n) for n in (1, 2, 3)] == [True] * 3
    assert open_ones.taken_to(1) == [1]
    open_ones.reconnected(is_session_kept=True)
    # Nothing is acknowledged on a connection that has not received it.
    assert open_ones.taken_to(3) == []
    assert not open_ones.is_new(message(2, b"2", again=True), 4)
    assert open_ones.taken_to(2) == [2]
    # A packet id that the broker uses for another message is new, and so is one of QoS 0.
    assert open_ones.is_new(message(3, b"other", again=True), 4)
    assert open_ones.is_new(message(0, b"3", again=True), 5)
    assert open_ones.taken_to(5) == [3]


def test_a_session_that_the_broker_has_lost_sends_nothing_again() -> None:
    open_ones = UnacknowledgedMessages()
    open_ones.is_new(message(1, b"1"), 1)
    open_ones.reconnected(is_session_kept=False)
    assert open_ones.is_new(message(1, b"1", again=True), 2)
    assert open_ones.taken_to(1) == []
    assert open_ones.taken_to(2) == [1]


def test_a_second_interruption_forgets_nothing() -> None:
    open_ones = UnacknowledgedMessages()
    for n in (1, 2):
        open_ones.is_new(message(n, b"%d" % n), n)
    open_ones.reconnected(is_session_kept=True)
    assert not open_ones.is_new(message(1, b"1", again=True), 3)
    open_ones.reconnected(is_session_kept=True)
    assert not open_ones.is_new(message(1, b"1", again=True), 3)
    assert not open_ones.is_new(message(2, b"2", again=True), 3)
    assert open_ones.taken_to(2) == [1, 2]
