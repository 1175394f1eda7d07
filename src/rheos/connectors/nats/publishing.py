"""Publishing of rows: many messages are under way at once, and the server confirms each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rheos.connectors.nats.client_options import client, nats_error
from rheos.connectors.nats.session import NatsConnection, NatsSession
from rheos.connectors.nats.target import NatsTarget
from rheos.connectors.row_payloads import PayloadEncoder
from rheos.core.connectors.schemas import shown_row
from rheos.core.protocol.elements import Batch

MESSAGE_ID = "Nats-Msg-Id"
"""Header by which the server recognises a message that it already has."""


@dataclass
class _RefusedError(Exception):
    """Raised if the server has not confirmed a message."""

    row: int
    error: BaseException


class MessagePublishing:
    """Publishes rows over one session, and waits until the server has confirmed them.

    Args:
        stream: the stream that must store them; None for any.
    """

    def __init__(self, target: NatsTarget, schema: pa.Schema, stream: str | None = None) -> None:
        self._target = target
        self._stream = stream
        self._encoder = PayloadEncoder(target.payloads, schema)
        self._session = NatsSession(target.options, target.doing)

    def publish(self, rows: Batch, ids: Sequence[str] | None = None) -> None:
        """Publish rows in their order.

        Args:
            rows: The rows, one of the `pieces` of a batch.
            ids: Their ids, by which the server drops repeated messages; None for none.

        Raises:
            UnavailableError: The server did not confirm all rows; some of them may be in the stream.
            InputError: The server never accepts one of the rows.
        """
        payloads = self._encoder.encode(rows)
        subjects = self._target.subject.names(rows)

        async def publish(connection: NatsConnection) -> None:
            api, futures = connection.stream_api, []
            for row, (subject, payload) in enumerate(zip(subjects, payloads, strict=True)):
                headers = None if ids is None else {MESSAGE_ID: ids[row]}
                try:
                    futures.append(
                        await api.publish_async(subject, payload, stream=self._stream, headers=headers)
                    )
                except client().errors.MaxPayloadError as error:
                    raise _RefusedError(row, error) from None
            for row, future in enumerate(futures):
                try:
                    await future
                except client().js.errors.Error as error:
                    raise _RefusedError(row, error) from None

        try:
            self._session.call(publish)
        except _RefusedError as refused:
            target = self._target
            record = shown_row(rows, refused.row)
            raise nats_error(refused.error, target.doing, target.options, record=record) from None

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        self._session.close()
