"""Target of published rows: subjects, a format, and the streams that store the subjects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.nats.client_options import NatsOptions
from rheos.connectors.nats.session import LOGGER, NatsConnection, NatsSession
from rheos.connectors.nats.subjects import SubjectPattern
from rheos.connectors.outage_patience import Patience
from rheos.core.connectors.schemas import check_column
from rheos.core.errors import InputError, SchemaError, UnavailableError
from rheos.core.formats.contract import Format


@dataclass(frozen=True)
class NatsTarget:
    """Configuration of where and how rows are published. Frozen: it is sent to the workers."""

    options: NatsOptions
    subject: SubjectPattern
    format: Format
    value: tuple[str, ...] | None
    """Columns of the payload; None for all."""

    @property
    def doing(self) -> str:
        """Return the begin of errors."""
        return f"rows cannot be published to {self.subject}"

    def value_columns(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of the payload."""
        return pa.schema([schema.field(name) for name in self.value or schema.names])

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be published."""
        self.subject.check(schema)
        for name in self.value or ():
            check_column(schema, "value", name, lambda _: True, "")
        columns = self.value_columns(schema)
        if not columns.names:
            raise SchemaError("the rows have no columns", hint="select a column for the payload")
        if self.format.rows_per_payload > 1:
            raise SchemaError(
                f"the format {self.format.name} puts several rows into one payload, but each row is a "
                "message of its own",
                hint="choose a format with one row per payload",
            )
        self.format.check_encodes(columns)

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

        async def asked(connection: NatsConnection) -> Any:
            api = connection.stream_api
            name = await api.find_stream_name_by_subject(self.subject.any)
            return await api.stream_info(name)

        session = NatsSession(self.options, self.doing)
        patience = Patience(retry_for_ms, lambda: None, LOGGER)
        try:
            while True:
                try:
                    found = session.call(asked)
                except UnavailableError as error:
                    patience.spend(error)
                else:
                    patience.restore()
                    return found
        except InputError:
            raise InputError(
                f"{self.doing}, at {self.options.address}: no stream stores the subject "
                f"{self.subject.any!r}",
                hint=f'create one: nats stream add NAME --subjects "{self.subject.any}"',
            ) from None
        finally:
            session.close()
