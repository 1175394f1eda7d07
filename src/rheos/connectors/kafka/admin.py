"""Kafka's admin client: how it is made, and how its answers are waited for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from rheos.connectors.kafka.client_options import ClientOptions

_LOOK_EVERY_S = 0.1


def admin_module() -> Any:
    return importlib.import_module("confluent_kafka.admin")


def admin_client(options: ClientOptions, client_id: str, on_error: Callable[[Any], None]) -> Any:
    """`on_error` is called with what the client says by itself, within its calls. Raises
    KafkaException."""
    config = options.config(client_id)
    return admin_module().AdminClient({**config, "error_cb": on_error})


def answer(admin: Any, future: Any, give_up: Callable[[], None]) -> Any:
    """What comes of a request, which has a limit of its own, or what it raises. `give_up` is called all
    the while, after the client's errors were heard, and raises where nothing more is to be waited for:
    that the brokers refuse a client it says by those alone."""
    while True:
        try:
            return future.result(_LOOK_EVERY_S)
        except TimeoutError:
            admin.poll(0)
            give_up()
