"""Arguments of RabbitMQ's source and sink that are refused, without a server."""

from __future__ import annotations

from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.testing.servers import RabbitmqServer

JSON: dict[str, Any] = {"format": rh.formats.json()}


@pytest.mark.parametrize(
    "given",
    [
        {"queue": ""},
        {"queue": ["a", "a"]},
        {"queue": "q" * 256},
        {"prefetch": 0},
        {"prefetch": 65_536},
        {"metadata": {"offset": "o"}},
        {"stream": "s"},
        {"queue": None},
        {"queue": None, "stream": ""},
        {"queue": None, "stream": "s", "metadata": {"redelivered": "r"}},
        {"queue": None, "stream": "s", "start": "latest"},
        {"queue": None, "stream": "s", "start": -1},
        {"queue": None, "stream": "s", "on_removed": "skip"},
        {"start": 5},
        {"on_removed": "continue"},
        {"options": {"tls_ca_file": "/ca.pem"}},
        {"options": {"user": "ada"}},
        {"url": "http://localhost"},
        {"url": "amqp://"},
        {"url": "amqp://localhost/a/b"},
    ],
    ids=str,
)
def test_wrong_arguments_of_the_source_are_refused(given: dict[str, Any]) -> None:
    fine = {"url": "amqp://localhost/shop", "queue": "q", "schema": {"n": int}, **JSON}
    rh.rabbitmq.source(**fine)
    with pytest.raises(ProgramError):
        rh.rabbitmq.source(**{**fine, **given})


@pytest.mark.parametrize(
    "given",
    [
        {"routing_key": ""},
        {"routing_key": "a{n"},
        {"routing_key": "k" * 256},
        {"exchange": "e" * 256},
        {"on_unrouted": "ignore"},
        {"value": []},
    ],
    ids=str,
)
def test_wrong_arguments_of_the_sink_are_refused(given: dict[str, Any]) -> None:
    fine = {"url": "amqps://localhost", "routing_key": "a.{k}", **JSON}
    rh.rabbitmq.sink(**fine)
    with pytest.raises(ProgramError):
        rh.rabbitmq.sink(**{**fine, **given})


def test_a_machine_without_rabbitmq_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(ConfigurationError, match="rabbitmq-server is not installed"):
        RabbitmqServer().install()
