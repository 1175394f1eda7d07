"""Publishing of rows as messages of a queue."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pyarrow as pa

from rheos.connectors.aws.batch_delivery import BatchEntry, BatchLimits, BatchPublishing, RefusedEntry
from rheos.connectors.aws.client_options import AwsOptions, is_temporary
from rheos.connectors.name_patterns import NamePattern, NameSyntax
from rheos.connectors.row_payloads import PayloadEncoder, RowPayloads
from rheos.connectors.sqs.session import Encoding, queue_url, sqs_session
from rheos.core.connectors.schemas import check_column, shown_row
from rheos.core.errors import InputError
from rheos.core.protocol.elements import Batch

_IDS = r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`|~]+"


def _ids(argument: str, example: str) -> NameSyntax:
    return NameSyntax(
        argument=argument,
        part="a part",
        names=_IDS,
        values=f"^{_IDS}$",
        values_rule="has only letters, digits and punctuation of ASCII",
        example=example,
        most_bytes=128,
    )


GROUPS = _ids("group", "{country}")
DEDUPLICATIONS = _ids("deduplication", "{order_id}")
_LIMITS = BatchLimits(10, 256 << 10)
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that the service does not accept in a message."""


@dataclass(frozen=True)
class SqsTarget:
    """Configuration of where and how rows are sent. Frozen: it is sent to the workers."""

    options: AwsOptions
    queue: str
    payloads: RowPayloads
    encoding: Encoding
    attributes: tuple[str, ...]
    """Columns that become message attributes."""
    group: NamePattern | None
    """Group of a message in a FIFO queue; None for a standard queue."""
    deduplication: NamePattern | None
    """Id by which a FIFO queue recognises repeated messages; None for ids that Rheos makes."""
    keeps_order: bool

    @property
    def doing(self) -> str:
        """Return the begin of errors."""
        return f"rows cannot be sent to the queue {self.queue!r}"

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be sent."""
        for pattern in (self.group, self.deduplication):
            if pattern is not None:
                pattern.check(schema)
        for name in self.attributes:
            check_column(schema, "attributes", name, _is_attribute, "a string or a number")
        self.payloads.check(schema)


def _is_attribute(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return is_text or _is_number(kind)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


class QueuePublishing(BatchPublishing):
    """Sends rows to the queue, by requests for up to ten messages."""

    def __init__(self, target: SqsTarget, schema: pa.Schema) -> None:
        super().__init__(_LIMITS, target.doing, keeps_order=target.keeps_order)
        self._target = target
        self._encoder = PayloadEncoder(target.payloads, schema)
        self._session = sqs_session(target.options, target.doing)
        self._url = ""

    def check(self) -> None:
        """Raise RheosError if the queue does not exist, or the service does not answer."""
        url = queue_url(self._session, self._target.queue)
        self._session.ask(
            lambda client: client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        )

    def entries(self, rows: Batch, ids: Sequence[str] | None) -> Sequence[BatchEntry]:
        target = self._target
        bodies = [
            self._body(rows, row, payload) for row, payload in enumerate(self._encoder.encode(rows))
        ]
        attributes = _attributes(rows, target.attributes)
        named: list[dict[str, str]] = [{}] * rows.num_rows
        if target.group is None:
            groups = [""] * rows.num_rows
        else:
            groups = target.group.names(rows)
            if target.deduplication is not None:
                ids = target.deduplication.names(rows)
            own = ids or [uuid4().hex for _ in range(rows.num_rows)]
            named = [
                {"MessageGroupId": group, "MessageDeduplicationId": id}
                for group, id in zip(groups, own, strict=True)
            ]
        return [
            BatchEntry(
                row,
                groups[row],
                len(body.encode()) + sum(map(_size_bytes, attributes[row].items())),
                {"MessageBody": body, "MessageAttributes": attributes[row], **named[row]},
            )
            for row, body in enumerate(bodies)
        ]

    def _body(self, rows: Batch, row: int, payload: bytes) -> str:
        if self._target.encoding == "base64":
            return base64.b64encode(payload).decode()
        try:
            body = payload.decode()
        except UnicodeDecodeError:
            body = "\0"
        if _FORBIDDEN.search(body):
            raise InputError(
                f"{self._target.doing}: a payload has bytes that a message cannot have",
                hint='write encoding="base64", and the same where it is read',
                record=shown_row(rows, row),
            )
        return body

    def send(self, rows: Batch, entries: Sequence[BatchEntry]) -> Sequence[RefusedEntry]:
        self._url = url = self._url or queue_url(self._session, self._target.queue)
        request = [{"Id": str(at), **entry.request} for at, entry in enumerate(entries)]

        def largest() -> str | None:
            # If the service refuses the whole request, a message is too large.
            return shown_row(rows, max(entries, key=lambda entry: entry.size_bytes).row)

        answer: Any = self._session.ask(
            lambda client: client.send_message_batch(QueueUrl=url, Entries=request), largest
        )
        return [
            RefusedEntry(
                int(each["Id"]),
                str(each["Code"]),
                str(each.get("Message", "")),
                not each["SenderFault"] or is_temporary(str(each["Code"])),
            )
            for each in answer.get("Failed", ())
        ]

    def close(self) -> None:
        self._session.close()


def _attributes(rows: Batch, names: Sequence[str]) -> list[dict[str, dict[str, str]]]:
    """Return the message attributes of each row. An attribute cannot be null or empty."""
    found: list[dict[str, dict[str, str]]] = [{} for _ in range(rows.num_rows)]
    for name in names:
        column = rows.column(name)
        kind = "Number" if _is_number(column.type) else "String"
        for attributes, value in zip(found, column.cast(pa.string()).to_pylist(), strict=True):
            if value:
                attributes[name] = {"DataType": kind, "StringValue": value}
    return found


def _size_bytes(attribute: tuple[str, dict[str, str]]) -> int:
    name, parts = attribute
    return len(name.encode()) + sum(len(part.encode()) for part in parts.values())
