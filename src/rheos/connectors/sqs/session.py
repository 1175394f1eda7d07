"""Requests to SQS."""

from __future__ import annotations

import logging
from typing import Any, Literal, get_args

from rheos.connectors.aws.client_options import AwsOptions
from rheos.connectors.aws.session import LIMIT_S, AwsSession
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.errors import ProgramError

LOGGER = logging.getLogger("rheos.sqs")

REQUESTS = OutsideCall(
    server="SQS",
    call="source and sink: a request",
    limit_s=LIMIT_S,
    limit="the service has 10 s to answer",
    then="the source repeats it; the service delivers again what was not deleted. After 1 s the sink "
    "stages rows next to the checkpoints, and tries to deliver them every second; rows, checkpoints "
    "and other sinks continue",
)
Encoding = Literal["text", "base64"]
_MOST_NAME = 80
_URLS = ("http://", "https://")


def sqs_session(options: AwsOptions, doing: str) -> AwsSession:
    """Return a session with SQS, as `AwsSession` describes it."""
    return AwsSession(options, REQUESTS, doing)


def check_queue(queue: Any) -> str:
    """Return a user's name of a queue, or its URL. Raises ProgramError."""
    is_text = isinstance(queue, str) and queue.isprintable() and queue.isascii() and " " not in queue
    if not is_text or not queue or (len(queue) > _MOST_NAME and not queue.startswith(_URLS)):
        raise ProgramError(f"queue={queue!r} does not name a queue", hint='write queue="orders"')
    return str(queue)


def check_encoding(encoding: Any) -> Encoding:
    """Return a user's encoding of payloads. Raises ProgramError."""
    if encoding not in get_args(Encoding):
        raise ProgramError(f"encoding={encoding!r} is not known", hint='write "text" or "base64"')
    found: Encoding = encoding
    return found


def queue_url(session: AwsSession, queue: str) -> str:
    """Return the URL of a queue. Asks for it if only the name is known; raises RheosError then."""
    if queue.startswith(_URLS):
        return queue
    return str(session.ask(lambda client: client.get_queue_url(QueueName=queue)["QueueUrl"]))
