"""Requests that others send (webhooks), as a source. It has one split: one subtask listens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from rheos.connectors.formatted import check_format, rows_of
from rheos.connectors.http.listener import ListenAt
from rheos.connectors.http.webhook import Webhook
from rheos.core.connectors.contract import ReaderContext, Source, SourceClient, Split, SplitReader
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.site import located_at_call
from rheos.formats import json as json_format

Acknowledge = Literal["checkpoint", "received"]

_MOST_BODY_BYTES = 1 << 26


@located_at_call
def source(
    port: int,
    *,
    path: str = "/",
    schema: Any = None,
    format: Format | None = None,
    acknowledge: Acknowledge = "checkpoint",
    host: str = "127.0.0.1",
    token: str | None = None,
    max_body_bytes: int = 1 << 20,
    max_connections: int = 64,
) -> WebhookSource:
    """Rows that others POST to a job, as webhooks do.

    ```python
    orders = env.from_source(rh.http.source(port=8080, path="/orders", schema=Order))
    ```

    It listens where the subtask of the source runs, with a local master on this machine; the logger
    `rheos.http` says where. A body is one record, an array of JSON, or a record in each line. A body
    with a bad record is refused whole (400, with what is wrong), and nothing of it is taken.

    Args:
        port: 0 takes a free one.
        path: others are answered with 404.
        schema: a dataclass or a pyarrow schema. Not needed where the format has columns of its own.
        format: of the records; JSON by default.
        acknowledge: "checkpoint" answers when a checkpoint with the rows is complete (200). Who had no
            such answer sends again, and so no row is lost. With a header `Idempotency-Key`, what is
            sent again is taken once, within the last 10,000 keys. "received" answers at once (202):
            what was taken since the last checkpoint is lost when the job fails or ends.
        host: the address to listen at. One that others can reach needs a token.
        token: who does not send it is refused (`Authorization: Bearer ...`). It is shown nowhere.
        max_body_bytes: a larger body is refused (413).
        max_connections: number of requests that are served at a time, up to 1024; further ones are
            refused (503). With "checkpoint" a request has its connection until it is answered, so this
            is the number of requests in a checkpoint's interval: 64 in 10 s by default. Many senders
            need more, or a shorter interval. Connections that have sent no token, or without a token no
            whole request, do not count: of these 64 are kept, and a new one takes the place of the
            oldest.
    """
    if acknowledge not in get_args(Acknowledge):
        raise ProgramError(
            f"acknowledge={acknowledge!r} is not known", hint='write "checkpoint" or "received"'
        )
    if not (isinstance(path, str) and path.startswith("/") and path.isascii() and "?" not in path):
        raise ProgramError(f"path={path!r} is not a path", hint='write path="/orders"')
    if not 0 < max_body_bytes <= _MOST_BODY_BYTES:
        raise ProgramError(f"max_body_bytes={max_body_bytes} is not between 1 and {_MOST_BODY_BYTES}")
    form = json_format() if format is None else check_format(format)
    if form.in_lines is not None and form.in_lines.header:
        raise ProgramError(
            "request bodies have no CSV header line",
            hint="write format=rh.formats.csv(header=False): fields are in schema order",
        )
    rows, record = rows_of(form, schema)
    at = ListenAt(host, port, token, max_connections)
    return WebhookSource(at, path, form, rows, record, acknowledge, max_body_bytes)


@dataclass(frozen=True)
class WebhookSource(Source):
    """Made by `source`."""

    at: ListenAt
    path: str
    format: Format
    schema: pa.Schema
    record: type | None
    acknowledge: Acknowledge
    max_body_bytes: int
    bounded: ClassVar[bool] = False  # type: ignore[misc]

    def only_reader(self) -> str | None:
        return "requests are pushed to the job, and cannot be read again"

    def lost_by_failure(self) -> str | None:
        if self.acknowledge == "checkpoint":
            return None  # Whoever has no answer sends again.
        return "rows received since the last checkpoint, because requests are answered earlier"

    def splits(self) -> Sequence[Split]:
        return [Split("requests")]

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return Webhook(
            self.at,
            self.path,
            self.format,
            self.schema,
            waits=self.acknowledge == "checkpoint",
            max_body_bytes=self.max_body_bytes,
            ctx=ctx,
        )

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert isinstance(ctx.client, Webhook)
        return ctx.client.open(position)

    def record_class(self) -> type | None:
        return self.record

    def describe(self) -> str:
        return f"requests at {self.at.host}:{self.at.port}{self.path}"
