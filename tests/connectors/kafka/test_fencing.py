"""A producer that fences others waits for a coordinator, and gives up at other errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rheos.connectors.kafka import producing
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.producing import Producing

kafka = pytest.importorskip("confluent_kafka")


class Client:
    """A client of a cluster that answers with some errors first."""

    def __init__(self, *codes: int) -> None:
        self.errors = [kafka.KafkaException(kafka.KafkaError(code)) for code in codes]
        self.calls = 0

    def init_transactions(self, within_s: float) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)

    def poll(self, within_s: float) -> None: ...


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Producing]:
    monkeypatch.setattr(producing, "_FENCED_AGAIN_S", 0.0)
    made = Producing(ClientOptions("127.0.0.1:1"), "rows", "writer")
    own: Any = made.client
    yield made
    made.client = own
    made.close()


def test_a_coordinator_that_is_being_chosen_is_waited_for(made: Producing) -> None:
    error = kafka.KafkaError
    client = made.client = Client(
        error.NOT_COORDINATOR,
        error.COORDINATOR_NOT_AVAILABLE,
        error.COORDINATOR_LOAD_IN_PROGRESS,
        error._TIMED_OUT,
    )
    made.fence(60.0)
    assert client.calls == 5


def test_another_error_ends_the_attempt(made: Producing) -> None:
    client = made.client = Client(kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(kafka.KafkaException):
        made.fence(60.0)
    assert client.calls == 1


def test_a_coordinator_that_never_comes_is_given_up(made: Producing) -> None:
    made.client = Client(*[kafka.KafkaError.NOT_COORDINATOR] * 1000)
    with pytest.raises(kafka.KafkaException, match="NOT_COORDINATOR"):
        made.fence(0.0)
