"""Target of published rows: subjects, a format, and the streams that store the subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.name_patterns import NamePattern
from rheos.connectors.nats.client_options import NatsOptions
from rheos.connectors.nats.session import LOGGER, NatsConnection, NatsSession
from rheos.connectors.nats.subjects import any_subject
from rheos.connectors.outage_patience import Patience
from rheos.connectors.row_payloads import RowPayloads
from rheos.core.errors import InputError


@dataclass(frozen=True)
class NatsTarget:
    """Configuration of where and how rows are published. Frozen: it is sent to the workers."""

    options: NatsOptions
    subject: NamePattern
    payloads: RowPayloads

    @property
    def doing(self) -> str:
        """Return the begin of errors."""
        return f"rows cannot be published to {self.subject}"

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be published."""
        self.subject.check(schema)
        self.payloads.check(schema)

    def stream(self, retry_for_ms: int) -> Any:
        """Ask for the stream that stores the subjects.

        Args:
            retry_for_ms: How long to retry if the server is down.

        Returns:
            The client's description of the stream.

        Raises:
            InputError: No stream stores them.
            RheosError: The server does not answer.
        """

        subject = any_subject(self.subject)

        async def asked(connection: NatsConnection) -> Any:
            api = connection.stream_api
            name = await api.find_stream_name_by_subject(subject)
            return await api.stream_info(name)

        session = NatsSession(self.options, self.doing)
        try:
            return Patience(retry_for_ms, lambda: None, LOGGER).ask(lambda: session.call(asked))
        except InputError:
            raise InputError(
                f"{self.doing}, at {self.options.address}: no stream stores the subject {subject!r}",
                hint=f'create one: nats stream add NAME --subjects "{subject}"',
            ) from None
        finally:
            session.close()
