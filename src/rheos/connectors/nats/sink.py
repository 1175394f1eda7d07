"""Sink that publishes each row as a message of JetStream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import pyarrow as pa

from rheos.connectors.confirmed_delivery import ConfirmedDelivery
from rheos.connectors.name_patterns import NamePattern
from rheos.connectors.nats.client_options import NatsOptions, client
from rheos.connectors.nats.epochs import OnceDelivery
from rheos.connectors.nats.publishing import MessagePublishing
from rheos.connectors.nats.session import LOGGER
from rheos.connectors.nats.subjects import SUBJECTS
from rheos.connectors.nats.target import NatsTarget
from rheos.connectors.row_payloads import RowPayloads
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call

Delivery = Literal["at_least_once", "exactly_once"]
_LEAST_WINDOW_S = 60.0


@located_at_call
def sink(
    url: str,
    *,
    subject: str,
    format: Format,
    value: str | Sequence[str] | None = None,
    delivery: Delivery = "at_least_once",
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> NatsSink:
    """Publish each row as a message to a subject that a JetStream stream stores.

    ```python
    counts.sink_to(
        rh.nats.sink("nats://localhost:4222", subject="counts.{page}", format=rh.formats.json())
    )
    ```

    Args:
        url: as in `rh.nats.source`.
        subject: the subject, with names of columns in braces for their values: strings or whole
            numbers, which are not empty and have no dots, blanks, `*` or `>`.
        format: format of the payload, with one row per payload, such as rh.formats.json().
        value: the columns of the payload; all by default.
        delivery: "at_least_once" publishes rows immediately, and after a failure some of them again.
            "exactly_once" publishes rows when their checkpoint is complete, each row once. It needs one
            stream for all subjects, with limits retention.
        retry_for: how long to retry, when the job is submitted, if the server is down. A running job
            waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        options: as in `rh.nats.source`.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, such as a subject with a blank.
    """
    client()
    if delivery not in get_args(Delivery):
        raise ProgramError(
            f"delivery={delivery!r} is not known", hint='write "at_least_once" or "exactly_once"'
        )
    target = NatsTarget(
        NatsOptions.of(url, options),
        NamePattern.of(subject, SUBJECTS),
        RowPayloads.of(format, value),
    )
    return NatsSink(duration_ms(retry_for), target, delivery == "exactly_once")


@dataclass(frozen=True)
class NatsSink(SpillingSink):
    """Sink that `nats.sink` creates."""

    target: NatsTarget
    exactly_once: bool = False
    stream: str = ""
    """Stream that stores the subjects; empty until the driver has asked for it."""

    @property
    def stages_all(self) -> bool:
        return self.exactly_once

    def validate(self, schema: pa.Schema) -> None:
        self.target.check(schema)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> NatsSink:
        found = self.target.stream(self.retry_for_ms)
        config = found.config
        if self.exactly_once:
            window_s = config.duplicate_window or 0.0
            if config.retention not in (None, "limits") or window_s < _LEAST_WINDOW_S:
                raise ConfigurationError(
                    f"the stream {config.name!r} cannot store rows exactly once: its retention is "
                    f"{config.retention}, and it recognises repeated messages for {window_s:g} s",
                    hint="create it with retention=limits and a duplicate window of a minute or more, "
                    'or write delivery="at_least_once"',
                )
        return replace(self, stream=str(config.name))

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        if self.exactly_once:
            return OnceDelivery(self.target, self.stream, schema, count)
        publishing = MessagePublishing(self.target, schema)
        return ConfirmedDelivery(publishing, count, patience_ms, LOGGER)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("nats", self.target.options.address, [self.target.subject])

    def describe(self) -> str:
        return f"NATS at {self.target.options.address}, subject {self.target.subject}"
