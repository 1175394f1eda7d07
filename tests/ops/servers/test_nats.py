"""The real NATS server: it requires its token, listens on loopback, and keeps its streams."""

from __future__ import annotations

import pytest

from rheos.connectors.nats.client_options import NatsOptions
from rheos.connectors.nats.session import NatsSession
from rheos.core.errors import ConfigurationError
from rheos.ops.servers.nats import NatsServer
from rheos.ops.servers.server import HOST, development_server
from tests.connectors.nats.conftest import Streams


def test_nats_requires_its_token_and_keeps_its_streams(nats_server: NatsServer) -> None:
    assert development_server("nats") is NatsServer
    streams = Streams(nats_server.url)
    streams.create("KEPT")
    streams.put("KEPT.x", 1)
    for user in ("", "guessed@"):
        session = NatsSession(NatsOptions.of(f"nats://{user}{nats_server.address}"), "nobody may ask")
        with pytest.raises(ConfigurationError, match="Authorization Violation"):
            session.call(lambda on: on.stream_api.stream_info("KEPT"))
    nats_server.kill()
    nats_server.start()
    assert streams.messages("KEPT") == [("KEPT.x", 1)]
    streams.delete("KEPT")
    streams.close()
    assert nats_server.address.startswith(HOST)


def test_a_machine_without_nats_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(ConfigurationError, match="nats-server is not installed"):
        NatsServer().install()
