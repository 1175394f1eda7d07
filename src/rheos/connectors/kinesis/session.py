"""Requests to Kinesis."""

from __future__ import annotations

import logging
from typing import Any

from rheos.connectors.aws.client_options import AwsOptions
from rheos.connectors.aws.session import LIMIT_S, AwsSession
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.core.errors import ProgramError

LOGGER = logging.getLogger("rheos.kinesis")

REQUESTS = OutsideCall(
    server="Kinesis",
    call="source and sink: a request",
    limit_s=LIMIT_S,
    limit="the service has 10 s to answer",
    then="the source requests the records after its position again. After 1 s the sink stages rows "
    "next to the checkpoints, and tries to deliver them every second; rows, checkpoints and other "
    "sinks continue",
)
_MOST_NAME = 128
_ARN = "arn:"


def kinesis_session(options: AwsOptions, doing: str) -> AwsSession:
    """Return a session with Kinesis, as `AwsSession` describes it."""
    return AwsSession(options, REQUESTS, doing)


def check_stream(stream: Any) -> str:
    """Return a user's name of a stream, or its ARN. Raises ProgramError."""
    is_text = isinstance(stream, str) and stream.isprintable() and stream.isascii()
    if not is_text or not stream or (len(stream) > _MOST_NAME and not stream.startswith(_ARN)):
        raise ProgramError(f"stream={stream!r} does not name a stream", hint='write stream="orders"')
    return str(stream)


def named_stream(stream: str) -> dict[str, str]:
    """Return the argument of a request that names a stream."""
    return {"StreamARN" if stream.startswith(_ARN) else "StreamName": stream}
