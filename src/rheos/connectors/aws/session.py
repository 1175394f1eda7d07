"""Requests to a service of AWS with time limits, for one thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from rheos.connectors.aws.client_options import ANSWER_S, CONNECT_S, AwsOptions, aws_error
from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.errors import UnavailableError

T = TypeVar("T")

LIMIT_S = 2 * (CONNECT_S + ANSWER_S)
"""Seconds for a request, which may first have to get credentials."""


class AwsSession:
    """Requests of one reader or writer.

    Args:
        options: how to connect.
        requests: what a request is, with its limit.
        doing: begins the messages of errors: "the stream 'a' cannot be read".
    """

    def __init__(self, options: AwsOptions, requests: OutsideCall, doing: str) -> None:
        self._options = options
        self._requests = requests
        self._doing = doing
        self._calls = BoundedCalls()

    def ask(self, work: Callable[[Any], T], record: Callable[[], str | None] = lambda: None) -> T:
        """Return the result of a request.

        Args:
            work: Makes the request. It is passed the client.
            record: Returns the record to show if the request is refused.

        Returns:
            Its result.

        Raises:
            RheosError: The request failed.
        """
        server = f"{self._requests.server} at {self._options.address}"
        try:
            return self._calls.run(
                server, self._requests.limit_s, lambda progressed: work(self._options.client())
            )
        except AbandonedCallError as error:
            raise UnavailableError(f"{self._doing}: {error.what}", hint=error.hint) from None
        except Exception as error:
            raise aws_error(error, self._doing, self._options, record=record()) from None

    def close(self) -> None:
        """End the idle thread of requests. A later request starts another."""
        self._calls.close()


def answered_at_ms(answer: Any) -> int:
    """Return the service's time of an answer, which it sends in whole seconds."""
    date = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
    return int(parsedate_to_datetime(date).timestamp()) * 1000
