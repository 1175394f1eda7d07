"""A consumer reports that its brokers are unreachable, and since when, until they answer."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.connectors.kafka import consumer
from rheos.connectors.kafka.consumer import TopicConsumer
from rheos.connectors.unreachable_servers import UnreachableServers
from rheos.core.connectors.contract import ReaderContext
from rheos.core.errors import UnavailableError

kafka = pytest.importorskip("confluent_kafka")


class Watch:
    """Topics whose brokers answer, or do not."""

    def __init__(self) -> None:
        self.away = True
        self.looked_soon = 0

    def look_soon(self) -> None:
        self.looked_soon += 1

    def topics_exist(self, _splits: Any) -> bool:
        if self.away:
            raise UnavailableError("no broker of 127.0.0.1:9092 answers")
        return True


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> UnreachableServers:
    made = UnreachableServers()
    monkeypatch.setattr(consumer, "SERVERS_AWAY", made)
    return made


def reading(watch: Watch) -> tuple[Any, Any]:
    from rheos.connectors.kafka.client_options import ClientOptions

    ctx: Any = ReaderContext(None, None, None, None, lambda: None)  # type: ignore[arg-type]
    options = ClientOptions("127.0.0.1:9092")
    made: Any = TopicConsumer(
        options,
        None,
        group=None,
        read_committed=True,
        bounded=False,
        now=None,
        ctx=ctx,  # type: ignore[arg-type]
    )
    made._watch = watch
    return made, kafka.KafkaError(kafka.KafkaError._ALL_BROKERS_DOWN)


def test_brokers_are_unreachable_until_they_return_the_topics(away: UnreachableServers) -> None:
    watch = Watch()
    made, down = reading(watch)
    assert list(away.waits()) == []
    made._on_error(down)
    assert away.is_away(made)
    ((what, _),) = away.waits()
    assert "cannot be read" in what
    assert watch.looked_soon == 1, "their answer is looked for soon: a quiet topic has no records"
    assert made._topics_exist([]) is False
    assert away.is_away(made)
    watch.away = False
    assert made._topics_exist([]) is True
    assert not away.is_away(made)


def test_one_broker_of_several_is_not_an_outage(away: UnreachableServers) -> None:
    made, _ = reading(Watch())
    made._on_error(kafka.KafkaError(kafka.KafkaError._TRANSPORT))
    assert list(away.waits()) == []
