"""Options of Kafka's client: they are passed through, and never shown."""

from __future__ import annotations

import logging
import pickle

import pytest

from rheos.connectors.kafka.client_options import LOGGER, ClientOptions
from rheos.core.errors import ProgramError

SECRETS = {
    "security.protocol": "SASL_SSL",
    "sasl.username": "visits",
    "sasl.password": "hunter2!",
    "ssl.key.password": "key-word",
    "ssl.key.pem": "-----BEGIN PRIVATE KEY-----\nabc",
    "ssl.key.location": "/etc/client.key",
    "sasl.oauthbearer.client.secret": "o-auth",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens",
    "linger.ms": 20,
}


def test_options_reach_the_client_and_those_of_rheos_come_last() -> None:
    options = ClientOptions.of(
        ["a:9092", " b:9092"], {"linger.ms": 20, "socket.keepalive.enable": True}
    )
    config = options.config("sink", group_id="g", enable_auto_commit=False)
    assert isinstance(config.pop("logger"), logging.Logger)
    assert config == {
        "client.id": "sink",
        "log_level": 5,
        "reconnect.backoff.max.ms": 1000,
        "socket.connection.setup.timeout.ms": 5000,
        "socket.timeout.ms": 10_000,
        "bootstrap.servers": "a:9092,b:9092",
        "linger.ms": 20,
        "socket.keepalive.enable": True,
        "group.id": "g",
        "enable.auto.commit": False,
    }


def test_no_value_of_an_option_is_shown() -> None:
    options = ClientOptions.of("a:9092", SECRETS)
    for text in (repr(options), str(options), f"{[options]}"):
        assert "a:9092" in text
        assert "sasl.password=***" in text
        assert not any(str(value) in text for value in SECRETS.values())
    assert pickle.loads(pickle.dumps(options)) == options


def test_messages_of_the_client_are_shown_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    options = ClientOptions.of("a:9092", SECRETS)
    said = "user visits with hunter2! and o-auth, key /etc/client.key of key-word, from https://tokens"
    shown = "user visits with *** and ***, key /etc/client.key of ***, from https://tokens"
    assert options.redact(said) == shown
    with caplog.at_level(logging.WARNING, LOGGER.name):
        options.config("sink")["logger"].warning("%s: %s", "FAIL", said)
    assert [record.getMessage() for record in caplog.records] == [f"FAIL: {shown}"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bootstrap.servers": "x"}, "'bootstrap.servers' is set by Rheos"),
        ({"group.id": "x"}, "'group.id' is set by Rheos"),
        ({"sasl.password": ["hunter2!"]}, "'sasl.password' is a list"),
        ({3: "x"}, "the name 3"),
        ([("linger.ms", 3)], "must be a dict, not a list"),
    ],
)
def test_invalid_options_are_refused_without_their_values(options: object, said: str) -> None:
    with pytest.raises(ProgramError) as refused:
        ClientOptions.of("a:9092", options, {"group.id": "leave it out"})  # type: ignore[arg-type]
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("brokers", ["", [], ["a:9092", ""], [3], None, 9092])
def test_brokers_are_required(brokers: object) -> None:
    with pytest.raises(ProgramError, match="brokers="):
        ClientOptions.of(brokers)  # type: ignore[arg-type]
