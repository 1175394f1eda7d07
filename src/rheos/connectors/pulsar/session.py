"""Connection to Pulsar for one thread at a time. The client has threads of its own, and retries; each
call has a time limit, and an error closes the client."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.pulsar.client_options import PulsarOptions, pulsar_error
from rheos.core.errors import UnavailableError

T = TypeVar("T")

LOGGER = logging.getLogger("rheos.pulsar")

REQUESTS = OutsideCall(
    server="Pulsar",
    call="source and sink: a request, or a batch of messages",
    limit_s=20.0,
    limit="a broker has 5 s for each answer, and 3 s to connect",
    then="the client is closed. The source continues from its position with another one. After 1 s "
    "the sink stages rows next to the checkpoints, and tries to deliver them every second; rows, "
    "checkpoints and other sinks continue",
)


class PulsarSession:
    """A client that is created by the first call, and again after an error.

    Args:
        options: Where to connect.
        doing: begins the messages of errors: "the topic 'a' cannot be read".
    """

    def __init__(self, options: PulsarOptions, doing: str) -> None:
        self._options = options
        self._doing = doing
        self._server = f"{REQUESTS.server} at {options.address}"
        self._calls = BoundedCalls()
        self._client: Any = None

    def call(self, work: Callable[[Any], T]) -> T:
        """Return the result of requests.

        Args:
            work: Makes the requests. It is passed the client.

        Returns:
            Its result.

        Raises:
            RheosError: It failed. Another call creates another client, so readers and producers of the
                former one must not be used any more.
        """
        made = self._client = self._client or self._options.connect()

        def close() -> None:
            with contextlib.suppress(Exception):
                made.shutdown()

        def run() -> T:
            try:
                return work(made)
            except BaseException:
                close()
                raise

        try:
            return self._calls.run(
                self._server, REQUESTS.limit_s, lambda progressed: run(), release=close
            )
        except AbandonedCallError as error:
            self._client = None
            raise UnavailableError(f"{self._doing}: {error.what}", hint=error.hint) from None
        except BaseException as error:
            self._client = None
            raise pulsar_error(error, self._doing, self._options) from None

    def close(self) -> None:
        """Close the client. A later call creates another."""
        made, self._client = self._client, None
        if made is not None:
            with contextlib.suppress(UnavailableError):
                self._calls.run(self._server, REQUESTS.limit_s, lambda progressed: made.shutdown())
        self._calls.close()
