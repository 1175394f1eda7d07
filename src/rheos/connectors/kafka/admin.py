"""Kafka's admin client: its creation, and how to wait for its responses."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from rheos.connectors.kafka.client_options import ClientOptions

_LOOK_EVERY_S = 0.1


def admin_module() -> Any:
    return importlib.import_module("confluent_kafka.admin")


def admin_client(options: ClientOptions, client_id: str, on_error: Callable[[Any], None]) -> Any:
    """Create an admin client. During its calls, it passes errors of its own, such as a lost connection,
    to `on_error`. Raises KafkaException."""
    config = options.config(client_id)
    return admin_module().AdminClient({**config, "error_cb": on_error})


def answer(admin: Any, future: Any, give_up: Callable[[], None]) -> Any:
    """Return the result of a request, or raise its error. The request has its own time limit. While it
    waits, `answer` calls `give_up` repeatedly. `give_up` raises an error if waiting is pointless,
    because the client reports a refusal by the brokers only through its error callback."""
    while True:
        try:
            return future.result(_LOOK_EVERY_S)
        except TimeoutError:
            admin.poll(0)
            give_up()
