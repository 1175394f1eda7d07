"""Source of a collection's documents and then their changes: `mongodb.changes(...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import msgspec
import pyarrow as pa

from rheos.connectors.change_columns import known_fields
from rheos.connectors.mongodb.change_reading import (
    ChangeReading,
    ChangeSplit,
    ChangeStream,
    ReadCollection,
)
from rheos.connectors.mongodb.document_position import DocumentPosition, encoded
from rheos.connectors.mongodb.document_rows import DocumentRows, Known
from rheos.connectors.mongodb.session import LOGGER, MongodbAddress, MongodbSession, client
from rheos.connectors.outage_patience import Patience
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ConfigurationError, ProgramError, SchemaError
from rheos.core.protocol.durations import duration_ms
from rheos.core.site import located_at_call


@located_at_call
def changes(
    collection: str,
    *,
    url: str,
    schema: Any,
    metadata: Sequence[str] | Mapping[str, str] = ("op",),
    snapshot: bool = True,
    end: Literal["now"] | None = None,
    retry_for: str = "30s",
    options: Mapping[str, Any] | None = None,
) -> MongodbChanges:
    """Read the documents of a collection of MongoDB, and then their changes.

    ```python
    orders = rh.mongodb.changes(
        "orders", url="mongodb://localhost/shop", schema={"_id": str, "price": float}
    )
    ```

    A row has the fields of a document and `op`: "snapshot" for a document that existed before,
    "insert", "update" or "delete" (only `_id`; other columns are null). The resume token of the change
    stream is in the job's checkpoints. So each change is read once if the oplog still has it.

    The changes begin at the time of this call, which asks the server. Those that were made while the
    snapshot was read follow it, although it may have them. The document of an update is the one at the
    time at which the server reads the change. Newer changes follow. So `changes.upserts(key="_id")`
    has the current documents in the end.

    The server must be a replica set or a sharded cluster, which may have a single member.

    Args:
        collection: Name of the collection.
        url: As in `rh.mongodb.sink`.
        schema: The fields that are read, a dataclass, a pyarrow.Schema or a dict, with `_id`. All
            columns but `_id` may be null. A column of type str takes any value, as extended JSON.
        metadata: Metadata to add as columns: "op", and "commit_time" (null in the snapshot). Names, or
            a mapping to the names of the columns.
        snapshot: Whether a job without a checkpoint first emits the documents that exist.
        end: "now" ends when no change is left: such a source is bounded and may be read in batch.
        retry_for: How long to retry (`retries`) if the server is down, before the job fails and is
            restarted by its strategy.
        options: As in `rh.mongodb.sink`.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The client is not installed, the server refuses the login, or it has no
            change streams.
        SchemaError: The schema has no `_id`.
        UnavailableError: The server cannot be reached.
    """
    client()
    if not isinstance(collection, str) or not collection:
        raise ProgramError(f"collection={collection!r} is not a name", hint='write "orders"')
    if end not in (None, "now"):
        raise ProgramError(f"end={end!r} is not known", hint='write end="now", or leave it out')
    known = known_fields(metadata, get_args(Known))
    declared, _ = resolve(schema)
    if "_id" not in declared.names:
        raise SchemaError("schema= lacks '_id'", hint='add it, such as {"_id": str, ...}')
    fields = pa.schema([pa.field(each.name, each.type, each.name != "_id") for each in declared])
    for _, name in known:
        if name in fields.names:
            raise SchemaError(
                f"two columns are named {name!r}: a field, and one from metadata=",
                hint=f'rename the latter: metadata={{"op": "{name}_of_change"}}',
            )
    rows = DocumentRows(collection, fields, known)
    server = MongodbAddress.of(url, options)
    of = ReadCollection(server, rows, end is not None, duration_ms(retry_for))
    return MongodbChanges(of, snapshot, encoded(_present(of)))


def _present(of: ReadCollection) -> Any:
    """Return the resume token of the present."""
    session = MongodbSession(of.server, of.doing)
    stream = ChangeStream(of.rows.collection, None)
    try:
        Patience(of.retry_for_ms, lambda: None, LOGGER).ask(lambda: session.do(stream.open))
        session.do(stream.close)
    finally:
        session.close()
    if stream.token is None:
        raise ConfigurationError(
            f"{of.server.address} returns no resume token for its present",
            hint="use MongoDB 4.2 or newer",
        )
    return stream.token


@dataclass(frozen=True)
class MongodbChanges(Source):
    """Source that `mongodb.changes` creates."""

    of: ReadCollection
    snapshot: bool
    token: bytes
    """Resume token of the time of the call of `mongodb.changes`."""
    schema: pa.Schema = field(init=False)
    bounded: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.of.rows.schema)
        object.__setattr__(self, "bounded", self.of.ends)

    def splits(self) -> Sequence[Split]:
        payload = msgspec.msgpack.encode(ChangeSplit(self.token))
        return [Split(self.of.rows.collection, payload)]

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        """Return the known splits, which keep their beginnings."""
        return [Split(split.id, known.get(split.id, split.payload)) for split in splits]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        if position is None:
            begin = msgspec.msgpack.decode(split.payload, type=ChangeSplit)
            at = DocumentPosition(begin.token, self.snapshot)
        else:
            at = DocumentPosition.decode(position)
        return ChangeReading(self.of, at, ctx).start()

    def datasets(self) -> Sequence[Dataset]:
        return [self.of.server.dataset(self.of.rows.collection)]

    def describe(self) -> str:
        return f"MongoDB collection {self.of.rows.collection} at {self.of.server.address}"
