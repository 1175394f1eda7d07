"""The messages between a command and a running job.

A request is MessagePack of the job's id and an operation of the table `JOB_OPERATIONS`; on the control
socket the record's token precedes it. Nothing is unpickled.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, TypeVar, Union

import msgspec

from rheos.core.errors import RheosError
from rheos.core.protocol.decoding import BoundedDecoder
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ids import JobId
from rheos.runtimes.job_operations import answer_type
from rheos.runtimes.operation_contract import JobOperation

T = TypeVar("T")

MAX_REQUEST_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class Returned(msgspec.Struct, Generic[T], frozen=True, tag=True):
    """The result of the operation."""

    value: T


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The error that the operation raised."""

    error: ErrorData

    @classmethod
    def of(cls, error: RheosError) -> Refused:
        return cls(error=ErrorData.of(error))


encode = msgspec.msgpack.Encoder().encode


def encoded_request(job: JobId, operation: JobOperation[Any]) -> bytes:
    """Return the encoded request of an operation, without the token."""
    return encode((job, operation))


@cache
def request_decoder(
    operations: tuple[type[JobOperation[Any]], ...],
) -> BoundedDecoder[tuple[JobId, JobOperation[Any]]]:
    """Return the decoder of requests for any of these operations."""
    request: Any = Union[operations]  # noqa: UP007
    return BoundedDecoder(tuple[JobId, request], max_bytes=MAX_REQUEST_BYTES)


@cache
def answer_decoder(operation: type[JobOperation[T]]) -> BoundedDecoder[Returned[T] | Refused]:
    """Return the decoder of the answers to an operation."""
    answered: Any = Returned
    return BoundedDecoder(answered[answer_type(operation)] | Refused, max_bytes=MAX_ANSWER_BYTES)
