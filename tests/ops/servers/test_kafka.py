"""The real broker as all tests start it."""

from __future__ import annotations

import stat

from confluent_kafka.admin import AdminClient

from rheos.ops.servers.kafka import KafkaBroker
from tests.ops.servers.listening import listening_at


def test_kafka_listens_on_loopback_alone(kafka_broker: KafkaBroker) -> None:
    found = AdminClient({"bootstrap.servers": kafka_broker.address}).list_topics(timeout=60)
    assert [f"{broker.host}:{broker.port}" for broker in found.brokers.values()] == [
        kafka_broker.address
    ]
    folder = kafka_broker.log.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    listening = listening_at(kafka_broker)
    # Listeners for clients, for users with passwords, for TLS, and for the controller.
    assert len(listening) == 4
    assert all(address == "127.0.0.1" for address in listening)
