"""Thread that receives the messages of a queue, and deletes them at checkpoints."""

from __future__ import annotations

import base64
import binascii
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from rheos.connectors.acknowledging import AcknowledgedReading, AcknowledgedRows
from rheos.connectors.aws.client_options import AwsOptions
from rheos.connectors.message_chunks import MessagePosition
from rheos.connectors.sqs.held_messages import HeldMessage, HeldMessages
from rheos.connectors.sqs.session import LOGGER, Encoding, queue_url, sqs_session
from rheos.core.connectors.contract import ReaderContext
from rheos.core.connectors.rejected_records import rejected_schema
from rheos.core.errors import RheosError

ATTRIBUTE = "attribute."
"""Prefix of the fields that are message attributes."""
FIELDS: Mapping[str, pa.DataType] = {
    "group": pa.string(),
    "message_id": pa.string(),
    "receive_count": pa.int64(),
    "sent": pa.timestamp("ms", "UTC"),
}
"""Fields of a message that may be columns."""
OPTIONAL = ("group",)
REJECTED = rejected_schema(
    pa.field("queue", pa.string(), nullable=False), pa.field("message", pa.int64(), nullable=False)
)
_SYSTEM = ("ApproximateReceiveCount", "MessageGroupId", "SentTimestamp")
_AT_ONCE = 10
"""Maximum number of messages of a request."""
_WAIT_S = 1
_ROOM_WITHIN_S = 0.5
_RELEASE_WITHIN_S = 3.0


@dataclass(frozen=True, kw_only=True)
class SqsRows(AcknowledgedRows):
    """Configuration of the rows to read. Frozen: it is sent to the workers."""

    options: AwsOptions
    queue: str
    encoding: Encoding
    in_flight: int
    """Maximum number of messages of a consumer that are not deleted."""
    hidden_s: int
    """Time for which a delivery hides a message from others."""


class SqsReading(AcknowledgedReading):
    """Reading of one queue by one consumer, in a thread.

    Args:
        of: the rows.
        split: name of the split.
        position: position of a checkpoint; None for a new job.
        ctx: context of the reader.
    """

    def __init__(
        self, of: SqsRows, split: str, position: MessagePosition | None, ctx: ReaderContext
    ) -> None:
        super().__init__("rheos-sqs", split, of, position, ctx, LOGGER)
        self._of = of
        self._held = HeldMessages(of.hidden_s)
        self._to_delete: list[HeldMessage] = []
        self._session = sqs_session(of.options, f"the queue {of.queue!r} cannot be read")
        self._url = ""

    # --- in the thread
    # ------------------------------------------------------------------------------

    def disconnect(self) -> None:
        if self._url:
            with contextlib.suppress(RheosError):
                self._delete()
                self._release()
        self._session.close()

    def read(self) -> None:
        """Read until the buffer is closed."""
        self._url = self._url or queue_url(self._session, self._of.queue)
        while not self.buffer.is_closing:
            self._delete()
            self._extend()
            room = self._of.in_flight - len(self._held)
            if room <= 0:
                self.buffer.pause(_ROOM_WITHIN_S)
            elif self.buffer.wait_for_room(_ROOM_WITHIN_S):
                self._receive(min(room, _AT_ONCE))

    def _receive(self, most: int) -> None:
        asked_s = time.monotonic()
        request = {
            "MaxNumberOfMessages": most,
            "WaitTimeSeconds": _WAIT_S,
            "VisibilityTimeout": self._of.hidden_s,
            "MessageSystemAttributeNames": [*_SYSTEM],
            "MessageAttributeNames": ["All"],
        }
        answer = self._session.ask(lambda client: client.receive_message(QueueUrl=self._url, **request))
        self.patience.restore()
        new: list[Any] = []
        for message in answer.get("Messages", ()):
            number = self.number + len(new) + 1
            if self._held.is_new(message["MessageId"], message["ReceiptHandle"], number, asked_s):
                new.append(message)
        if new:
            payloads = [_payload(message["Body"], self._of.encoding) for message in new]
            self.give(payloads, partial(_column, messages=new))

    def _delete(self) -> None:
        """Delete the messages of completed checkpoints."""
        self._to_delete += self._held.taken_to(self.complete)
        while self._to_delete:
            some = self._to_delete[:_AT_ONCE]
            entries = [{"Id": str(at), "ReceiptHandle": held.receipt} for at, held in enumerate(some)]
            answer = self._session.ask(partial(_deleted, self._url, entries))
            # If a receipt has expired, the service has delivered its message again.
            again = [some[int(each["Id"])] for each in _failed(answer) if not each.get("SenderFault")]
            self._to_delete[:_AT_ONCE] = []
            if again:
                self._to_delete += again
                return

    def _extend(self) -> None:
        """Hide messages for longer whose checkpoint is not complete."""
        now_s = time.monotonic()
        for some in _parts(self._held.due(now_s)):
            failed = self._hide(some, self._of.hidden_s)
            self._held.extended(some, now_s)
            # Another consumer may have got them. They are new if they arrive again.
            self._held.forget(some[int(each["Id"])].id for each in failed if each.get("SenderFault"))

    def _release(self) -> None:
        """Let others receive at once what is not deleted, as far as time allows."""
        until_s = time.monotonic() + _RELEASE_WITHIN_S
        for some in _parts(self._held.all()):
            if time.monotonic() > until_s:
                return
            self._hide(some, 0)

    def _hide(self, messages: Sequence[HeldMessage], seconds: int) -> Sequence[Any]:
        """Hide messages from now on, and return the failures."""
        entries = [
            {"Id": str(at), "ReceiptHandle": held.receipt, "VisibilityTimeout": seconds}
            for at, held in enumerate(messages)
        ]
        answer = self._session.ask(
            lambda client: client.change_message_visibility_batch(QueueUrl=self._url, Entries=entries)
        )
        return _failed(answer)


def _deleted(url: str, entries: Sequence[Mapping[str, str]], client: Any) -> Any:
    return client.delete_message_batch(QueueUrl=url, Entries=entries)


def _failed(answer: Any) -> Sequence[Any]:
    found: Sequence[Any] = answer.get("Failed", ())
    return found


def _parts(messages: Sequence[HeldMessage]) -> Iterator[Sequence[HeldMessage]]:
    for at in range(0, len(messages), _AT_ONCE):
        yield messages[at : at + _AT_ONCE]


def _payload(body: str, encoding: Encoding) -> bytes:
    if encoding == "base64":
        with contextlib.suppress(binascii.Error, ValueError):
            return base64.b64decode(body, validate=True)
    # The format rejects what is not encoded.
    return body.encode()


def _column(name: str, messages: Sequence[Any]) -> pa.Array:
    if name.startswith(ATTRIBUTE):
        wanted = name.removeprefix(ATTRIBUTE)
        attributes = [message.get("MessageAttributes", {}).get(wanted, {}) for message in messages]
        return pa.array([each.get("StringValue") for each in attributes], pa.string())
    system = [message.get("Attributes", {}) for message in messages]
    match name:
        case "message_id":
            return pa.array([message["MessageId"] for message in messages], pa.string())
        case "group":
            return pa.array([each.get("MessageGroupId") for each in system], pa.string())
        case "receive_count":
            return pa.array([int(each["ApproximateReceiveCount"]) for each in system], pa.int64())
        case _:
            return pa.array([int(each["SentTimestamp"]) for each in system], FIELDS[name])
