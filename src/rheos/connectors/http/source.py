"""Source of requests that other systems send (webhooks). It has one split: one subtask listens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from rheos.connectors.http.listener import ListenAddress
from rheos.connectors.http.webhook import Webhook
from rheos.connectors.user_formats import check_format, rows_of
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
    """Create a source of the rows that clients POST to the job, as webhooks do.

    ```python
    orders = env.from_source(rh.http.source(port=8080, path="/orders", schema=Order))
    ```

    The source's only subtask listens on its machine: with a local master, this one. The logger
    `rheos.http` prints the address. A body is one record, a JSON array of records, or one record per
    line. If a record is malformed, the source refuses the whole body (400, with the reason) and emits
    none of it.

    Args:
        port: Port to listen on; 0 takes a free one.
        path: Path of the requests; other paths are answered with 404.
        schema: A dataclass, a pyarrow.Schema or a dict. Not needed if the format has its own columns.
        format: Format of the records; JSON by default.
        acknowledge: "checkpoint" answers when a checkpoint with the rows is complete (200). A client
            without an answer sends its rows again, so no row is lost. With a header `Idempotency-Key`,
            repeated rows are emitted once, within the last 10,000 keys. "received" answers at once
            (202): if the job fails or ends, rows since the last checkpoint are lost.
        host: Address to listen on. An address that other machines can reach needs a token.
        token: Token that clients must send (`Authorization: Bearer ...`). It is shown nowhere.
        max_body_bytes: Maximum size of a body; larger ones are refused (413).
        max_connections: Maximum number of requests at a time, up to 1024; further ones are refused
            (503). With "checkpoint", a request keeps its connection until it is answered. So this is
            the number of requests per checkpoint interval: 64 in 10 s by default. For many clients,
            raise it or shorten the interval. Connections without a token, or (if there is no token)
            without a whole request so far, do not count. The source keeps 64 of them; a new one
            replaces the oldest.

    Returns:
        The source, for `env.from_source`.

    Raises:
        ProgramError: An argument is invalid, or `host` needs a token.
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
    at = ListenAddress(host, port, token, max_connections)
    return WebhookSource(at, path, form, rows, record, acknowledge, max_body_bytes)


@dataclass(frozen=True)
class WebhookSource(Source):
    """Source that `http.source` creates."""

    at: ListenAddress
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
            return None  # A sender without an answer sends again.
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
