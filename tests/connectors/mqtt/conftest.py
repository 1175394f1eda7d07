"""A client of the real broker that is not Rheos's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pytest

from tests.waiting import wait_for

_MARK = b"mark "


class Client:
    """A client with a thread of its own. It receives what was published after it subscribed."""

    def __init__(self, url: str) -> None:
        mqtt = pytest.importorskip("paho.mqtt.client")
        self._client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._found: list[tuple[str, bytes, bool]] = []
        self._subscribed: list[int] = []
        parts = urlsplit(url)
        if parts.username is not None:
            self._client.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
        self._client.on_message = lambda *given: self._found.append(
            (given[-1].topic, given[-1].payload, given[-1].retain)
        )
        self._client.on_subscribe = lambda *given: self._subscribed.append(given[2])
        self._client.reconnect_delay_set(0.05, 0.1)
        self._client.connect(str(parts.hostname), int(parts.port or 0))
        self._client.loop_start()

    def put(self, topic: str, *payloads: Any, retain: bool = False) -> None:
        """Publish payloads with QoS 1: bytes, or values that become JSON."""
        wait_for(self._client.is_connected, 30)
        sent = [
            self._client.publish(
                topic,
                payload if isinstance(payload, bytes) else msgspec.json.encode(payload),
                qos=1,
                retain=retain,
            )
            for payload in payloads
        ]
        for each in sent:
            each.wait_for_publish(30)

    def subscribe(self, topic: str) -> None:
        wait_for(self._client.is_connected, 30)
        _, packet = self._client.subscribe(topic, qos=1)
        wait_for(lambda: packet in self._subscribed, 30)

    def received(self, count: int) -> list[tuple[str, Any, bool]]:
        """Return the topics, values of JSON and retained flags of at least `count` messages."""
        wait_for(lambda: len(self._found) >= count, 30)
        return [(topic, msgspec.json.decode(payload), kept) for topic, payload, kept in self._found]

    def payloads(self, topic: str) -> list[bytes]:
        """Return all payloads that the broker has accepted for a topic since it was subscribed to."""
        mark = _MARK + uuid.uuid4().bytes
        self.put(topic, mark)
        wait_for(lambda: any(payload == mark for _, payload, _ in self._found), 30)
        return [payload for _, payload, _ in self._found if not payload.startswith(_MARK)]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def mqtt_client(mqtt_server: Any) -> Iterator[Client]:
    client = Client(mqtt_server.url)
    yield client
    client.close()
