"""Source of lines from a TCP server. It has one split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from rheos.connectors.inbox import REJECTED, Inbox
from rheos.connectors.socket.reader import SocketReader
from rheos.connectors.user_formats import check_format, rows_of
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format
from rheos.core.site import located_at_call
from rheos.formats import text

_HELD_BYTES = 1 << 20
"""Maximum size of buffered lines, which a checkpoint may contain."""


@located_at_call
def source(
    address: str,
    *,
    format: Format | None = None,
    schema: Any = None,
    on_error: OnError = "fail",
) -> SocketSource:
    """Read lines that a TCP server writes to each client, such as `nc -lk 9999`. For demonstrations: a
    socket cannot be read again.

    ```python
    words = env.from_source(rh.socket.source("localhost:9999"))
    ```

    Each line that has arrived when a checkpoint is taken is emitted exactly once, even after a failure
    or a stop. Lines after the job's last checkpoint are emitted at most once. If the connection ends or
    cannot be made, the source retries without limit, after 0.1 s and up to 5 s; the status shows the
    counters `connections` and `connect_failures`. A server that vanishes without closing its connection
    is noticed after a minute.

    Args:
        address: "host:port" of the server.
        format: format of a line; by default text, in a column `value`. Also JSON, CSV without a header,
            and any other format whose payloads are lines.
        schema: a dataclass, a pyarrow.Schema or a dict. Not needed if the format has its own columns.
        on_error: what to do with a line that does not fit the schema: "fail" the job, or "skip" it,
            which counts it (`skipped`) and emits it to the side output "rejected". The same holds for a
            line of more than 1 MB, whose content is dropped.

    Returns:
        The source, for `env.from_source`.

    Raises:
        ProgramError: An argument is invalid, or the format does not encode rows as lines.
    """
    check_on_error(on_error)
    form = text() if format is None else check_format(format)
    lies = form.in_lines
    if lies is None:
        raise ProgramError(
            f"the format {form.name} does not encode rows as lines",
            hint="write format=rh.formats.text(), json() or csv(header=False)",
        )
    if lies.header:
        raise ProgramError(
            "a socket has no CSV header line",
            hint="write format=rh.formats.csv(header=False): fields are in schema order",
        )
    rows, record = rows_of(form, schema)
    return SocketSource(*_host_and_port(address), form, rows, record, on_error)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ProgramError(
            f"address={address!r} is not of the form host:port",
            hint='write "localhost:9999" or "[::1]:9999"',
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass(frozen=True)
class SocketSource(Source):
    """Source that `socket.source` creates."""

    host: str
    port: int
    format: Format
    schema: pa.Schema
    record: type | None
    on_error: OnError
    bounded: ClassVar[bool] = False  # type: ignore[misc]

    def only_reader(self) -> str | None:
        return "the server sends each line once, to whichever client is connected"

    def lost_by_failure(self) -> str | None:
        return "lines received since the last checkpoint, because a socket cannot be read again"

    def splits(self) -> Sequence[Split]:
        return [Split("socket")]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        inbox = Inbox(
            self.format,
            self.schema,
            f"{self.host}:{self.port}",
            position,
            ctx,
            _HELD_BYTES,
            skip_bad=self.on_error == "skip",
        )
        lies = self.format.in_lines
        assert lies is not None
        return SocketReader(
            (self.host, self.port), inbox, keep_blank=lies.blank, skip_bad=self.on_error == "skip"
        )

    def record_class(self) -> type | None:
        return self.record

    def rejected_schema(self) -> pa.Schema | None:
        return REJECTED if self.on_error == "skip" else None

    def describe(self) -> str:
        return f"lines of {self.host}:{self.port}"
