"""Sink that writes rows to a collection of MongoDB: each row replaces the document with its `_id`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from rheos.connectors.gathered_rows import GatheringDelivery
from rheos.connectors.mongodb.documents import check_writable, documents
from rheos.connectors.mongodb.session import (
    LOGGER,
    MongodbAddress,
    MongodbSession,
    bson,
    client,
    may_pass,
)
from rheos.connectors.outage_patience import Patience
from rheos.connectors.spilling import Count, SpillingSink, TargetDelivery
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import check_changes_key, check_column, shorten, shown_row
from rheos.core.errors import InputError, ProgramError, UnavailableError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

_DUPLICATE = 11000


@located_at_call
def sink(
    collection: str,
    *,
    url: str,
    id: str | Sequence[str] | None,
    delete: str | None = None,
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> MongodbSink:
    """Write each row as a document of a collection, replacing the document with its `_id`.

    ```python
    counts.sink_to(rh.mongodb.sink("pages", url="mongodb://localhost/shop", id="page"))
    ```

    Rows are written at the latest at each checkpoint, and are visible at once. After a failure, rows
    since the last checkpoint are written again, in order. So a document may show an earlier value until
    the job has caught up. Key the stream by the id, so that one subtask writes the rows of an id in
    order.

    Args:
        collection: Name of the collection, which MongoDB creates if it does not exist.
        url: "mongodb://host:27017/database", with user:password@ before the host if it needs a login,
            and commas between the servers of a replica set. The password is never shown.
        id: The column whose value is the document's `_id`. Of several columns, `_id` is a document with
            their values. The columns are also fields of the document. With `id=None` the client makes
            ids: rows that are written again after a failure then occur twice.
        delete: A boolean column: for true the document is deleted.
        retry_for: How long to retry, when the job is submitted, if the server is down. A running job
            waits as long as it takes: rows are staged next to the checkpoints, and other sinks
            continue. Each retry is counted (`retries`).
        options: Files for TLS: `tls_ca_file`, `tls_certificate_key_file`.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid, or `delete` is set without `id`.
        ConfigurationError: The client is not installed.
    """
    client()
    if not isinstance(collection, str) or not collection or {*collection} & {"$", "\0"}:
        raise ProgramError(
            f"collection={collection!r} is not a valid name", hint='write a name such as "orders"'
        )
    ids = () if id is None else (id,) if isinstance(id, str) else tuple(id)
    if not all(isinstance(each, str) for each in ids) or len(set(ids)) < len(ids):
        raise ProgramError(
            f"id={id!r} does not name columns", hint='write id="order" or id=["shop", "order"]'
        )
    if delete is not None and not ids:
        raise ProgramError("delete= needs id=", hint='write id="column"')
    server = MongodbAddress.of(url, options)
    return MongodbSink(duration_ms(retry_for), server, collection, ids, delete)


@dataclass(frozen=True)
class MongodbSink(SpillingSink):
    """Sink that `mongodb.sink` creates."""

    server: MongodbAddress
    collection: str
    id: tuple[str, ...]
    """Columns of `_id`; none if the client makes ids."""
    delete: str | None

    def validate(self, schema: pa.Schema) -> None:
        for name in self.id:
            check_column(
                schema, "id", name, _is_id, "a string, bytes, a whole number, a date or a time"
            )
        if self.delete is not None:
            check_column(schema, "delete", self.delete, pa.types.is_boolean, "true or false")
        if len(self.id) != 1 and "_id" in schema.names:
            raise ProgramError(
                "the stream has a column '_id', but id= names others", hint='write id="_id"'
            )
        check_writable(pa.schema([field for field in schema if field.name != self.delete]))

    def of_changes(self, key: Sequence[str], delete: str) -> MongodbSink:
        check_changes_key("id", self.id, key, self.delete)
        return replace(self, delete=delete)

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> MongodbSink:
        """Check that the server is reachable and accepts the login."""
        session = self.session()
        reads = partial(session.do, lambda database: database[self.collection].find_one({"_id": None}))
        self.asked(reads, session.close, LOGGER)
        return self

    def session(self) -> MongodbSession:
        """Return a session for writes."""
        return MongodbSession(self.server, f"the collection {self.collection} cannot be written")

    def delivery(self, schema: pa.Schema, count: Count, patience_ms: int) -> TargetDelivery:
        return MongodbDelivery(self, count, patience_ms)

    def datasets(self) -> Sequence[Dataset]:
        return [self.server.dataset(self.collection)]

    def describe(self) -> str:
        return f"MongoDB collection {self.collection} at {self.server.address}"


def _is_id(kind: pa.DataType) -> bool:
    t = pa.types
    checks = (t.is_integer, t.is_string, t.is_large_string, t.is_binary, t.is_date32, t.is_timestamp)
    return any(check(kind) for check in checks)


class MongodbDelivery(GatheringDelivery):
    """Writes about a thousand rows at a time, each `_id` once, and waits for all of them."""

    def __init__(self, sink: MongodbSink, count: Count, patience_ms: int) -> None:
        super().__init__()
        self._sink = sink
        self._patience = Patience(patience_ms, lambda: count("retries", 1), LOGGER)
        self._session = sink.session()

    def deliver(self, rows: Batch) -> None:
        left = list(self._requests(rows))
        self._patience.begin()
        while left:
            try:
                left = self._session.do(partial(self._send_requests, rows, left))
            except UnavailableError as error:
                self._patience.spend(error)
            else:
                if left:
                    what = f"{len(left)} documents of {self._sink.collection} are refused at the moment"
                    self._patience.spend(UnavailableError(what, hint="see the server's log"))
        self._patience.restore()

    def close(self) -> None:
        self._session.close()

    def _requests(self, rows: Batch) -> Iterator[tuple[int, Any]]:
        """Yield the last row of each `_id`, with its request."""
        pymongo, sink = client(), self._sink
        gone = [False] * rows.num_rows
        if sink.delete is not None:
            gone = rows.column(sink.delete).to_pylist()
            rows = rows.drop_columns([sink.delete])
        found = documents(rows)
        if not sink.id:
            # An id that is made once is the same in every try.
            for row, document in enumerate(found):
                document["_id"] = bson().ObjectId()
                yield row, pymongo.ReplaceOne({"_id": document["_id"]}, document, upsert=True)
            return
        last: dict[Any, int] = {}
        for row, document in enumerate(found):
            values = tuple(document[name] for name in sink.id)
            if None in values:
                raise InputError(
                    f"a row cannot be written: a column of id= ({', '.join(sink.id)}) is null",
                    record=shown_row(rows, row),
                    hint="filter such rows out first",
                )
            last[values] = row
        for values, row in last.items():
            id = values[0] if len(values) == 1 else dict(zip(sink.id, values, strict=True))
            if gone[row]:
                yield row, pymongo.DeleteOne({"_id": id})
            else:
                yield row, pymongo.ReplaceOne({"_id": id}, {**found[row], "_id": id}, upsert=True)

    def _send_requests(
        self, rows: Batch, requests: Sequence[tuple[int, Any]], database: Any
    ) -> list[tuple[int, Any]]:
        """Send requests. Return those that must be sent again; raises InputError for a refused row."""
        pymongo = client()
        target = database[self._sink.collection]
        try:
            target.bulk_write([request for _, request in requests], ordered=False)
        except pymongo.errors.BulkWriteError as error:
            details = error.details
            again = []
            for failed in details.get("writeErrors", ()):
                row, request = requests[failed["index"]]
                code, why = failed.get("code"), str(failed.get("errmsg", ""))
                # Two writers may insert one id at the same time.
                if may_pass(code) or (code == _DUPLICATE and "_id_" in why):
                    again.append((row, request))
                    continue
                raise InputError(
                    f"the collection {self._sink.collection} refuses a document: {shorten(why, 500)}",
                    record=shown_row(rows, row),
                    hint="correct the row, or the collection's validator or indexes",
                ) from None
            if not again and details.get("writeConcernErrors"):
                return list(requests)
            return again
        except pymongo.errors.DocumentTooLarge as error:
            raise InputError(
                f"a document of {self._sink.collection} is too large: {shorten(str(error))}",
                hint="MongoDB's limit is 16 MB: write fewer or smaller columns",
            ) from None
        return []
