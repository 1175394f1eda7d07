"""Sink that writes rows to an index of OpenSearch or Elasticsearch, each as a document with an id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from rheos.connectors.opensearch.bulk import BulkSender
from rheos.connectors.opensearch.client import LOGGER, Connection, Endpoint, client
from rheos.connectors.opensearch.documents import (
    Action,
    DocumentEncoder,
    DocumentLayout,
    cut,
    newest_of_each,
)
from rheos.connectors.outage_patience import Patience
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.connectors.schemas import check_changes_key
from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

_TOGETHER_ROWS = 4096
_INDEX = re.compile(r"[a-z0-9.][a-z0-9._-]{0,200}")
_LEAST_REQUEST_BYTES = 1 << 10


@located_at_call
def sink(
    url: str,
    *,
    index: str,
    id: str | None,
    version: str | None = None,
    delete: str | None = None,
    on_error: OnError = "fail",
    max_request_bytes: int = 5 << 20,
    retry_for: str = "30s",
    api_key: str | None = None,
    ca_certs: str | None = None,
) -> OpenSearchSink:
    """Create a sink that writes each row as a document of an index, replacing the document with its id.

    ```python
    counts.sink_to(rh.opensearch.sink("http://localhost:9200", index="pages", id="page"))
    ```

    Rows are written at the latest at each checkpoint, and become visible when the index is refreshed.
    After a failure, rows since the last checkpoint are written again, in order. So a document may show
    an earlier value until the job has caught up.

    Args:
        url: "https://host:9200", with user:password@ before the host if it needs a login.
        index: Name of the index, of an alias, or of a data stream's backing index.
        id: The column with the document's id (strings or whole numbers). Key the stream by it, so that
            one subtask writes the rows of an id in order. With `id=None` the server makes ids: rows
            that are written again after a failure then occur twice.
        version: A column of whole numbers: a row replaces only a document with its version or a lower
            one (external_gte). Older rows are counted (`stale`). Without it, an older row may replace a
            newer one if a request that received no answer was still in progress.
        delete: A boolean column: for true the document is deleted. The index remembers the version of a
            deletion for 60 s (`index.gc_deletes`).
        on_error: What to do with a row that the index refuses as invalid: "fail" the job with index,
            id, row and reason, or "skip" the row, which is counted (`rejected`).
        max_request_bytes: Maximum size of a bulk request.
        retry_for: How long to retry, when the job is submitted, if the server is down or refuses
            temporarily (429, 503). A running job waits as long as it takes: rows are staged next to the
            checkpoints, and other sinks continue. Each retry is counted (`retries`).
        api_key: API key, instead of a user. It is shown nowhere.
        ca_certs: File with the certificates that the server's certificate is checked against.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, or `version` or `delete` is set without `id`.
    """
    client()
    check_on_error(on_error)
    if not isinstance(index, str) or not _INDEX.fullmatch(index) or index in (".", ".."):
        raise ProgramError(
            f"index={index!r} is not a valid index name",
            hint="use lower-case letters, digits, '.', '_' and '-'",
        )
    if id is None and (version is not None or delete is not None):
        raise ProgramError("version= and delete= need id=", hint='write id="column"')
    if not isinstance(max_request_bytes, int) or max_request_bytes < _LEAST_REQUEST_BYTES:
        raise ProgramError(
            f"max_request_bytes={max_request_bytes!r} is less than {_LEAST_REQUEST_BYTES}"
        )
    return OpenSearchSink(
        duration_ms(retry_for),
        Endpoint(url, api_key, ca_certs),
        index,
        DocumentLayout(id, version, delete),
        on_error,
        max_request_bytes,
    )


@dataclass(frozen=True)
class OpenSearchSink(SpillingSink):
    """Sink that `opensearch.sink` creates."""

    endpoint: Endpoint
    index: str
    layout: DocumentLayout
    on_error: OnError
    max_request_bytes: int

    def validate(self, schema: pa.Schema) -> None:
        self.layout.check(schema)

    def of_changes(self, key: Sequence[str], delete: str) -> OpenSearchSink:
        named = () if self.layout.id is None else (self.layout.id,)
        check_changes_key("id", named, key, self.layout.delete)
        return replace(self, layout=replace(self.layout, delete=delete))

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> OpenSearchSink:
        """Check that the server is reachable and accepts the login."""
        connection = Connection(self.endpoint)
        # It is not an error if the index does not exist yet.
        self.asked(partial(connection.ask, "HEAD", f"/{self.index}"), connection.close, LOGGER)
        return self

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        return OpenSearchDelivery(self, schema, count, patience_ms)

    def datasets(self) -> Sequence[Dataset]:
        place = self.endpoint.address.partition("://")[2]
        return server_datasets("opensearch", place, [self.index])

    def describe(self) -> str:
        return f"index {self.index} at {self.endpoint.address}"


class OpenSearchDelivery(TargetDelivery):
    """Buffers rows until they fill a request."""

    def __init__(self, sink: OpenSearchSink, schema: pa.Schema, count: Count, patience_ms: int) -> None:
        self._layout = sink.layout
        self._max_request_bytes = sink.max_request_bytes
        self._encoder = DocumentEncoder(sink.layout, schema)
        self._connection = Connection(sink.endpoint)
        patience = Patience(patience_ms, lambda: count("retries", 1), LOGGER)
        self._sender = BulkSender(
            self._connection,
            sink.index,
            patience,
            count,
            versioned=sink.layout.version is not None,
            skip_bad=sink.on_error == "skip",
        )
        self._gathered: list[Action] = []
        self._gathered_bytes = 0
        self._gathered_rows = 0

    def write(self, batch: Batch) -> None:
        for begin in range(0, batch.num_rows, _TOGETHER_ROWS):
            rows = batch.slice(begin, _TOGETHER_ROWS)
            actions = self._encoder.actions(rows)
            self._gathered_rows += rows.num_rows
            self._gathered += actions
            self._gathered_bytes += sum(len(action.lines) for action in actions)
            if len(self._gathered) >= _TOGETHER_ROWS or self._gathered_bytes >= self._max_request_bytes:
                self.settle()

    def close(self) -> None:
        self._connection.close()

    def settle(self) -> None:
        actions, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if self._layout.id is not None and self._layout.version is None:
            actions = newest_of_each(actions)
        for part in cut(actions, self._max_request_bytes):
            self._sender.send(part)
        self.settled_rows += self._gathered_rows
        self._gathered_rows = 0
