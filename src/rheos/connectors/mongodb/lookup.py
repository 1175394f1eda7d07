"""Lookup of documents of a MongoDB collection by fields: `mongodb.lookup(...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from rheos.connectors.keyed_rows import LookupRows
from rheos.connectors.mongodb.documents import documents, rows_of
from rheos.connectors.mongodb.session import MongodbAddress, MongodbSession, bson, client
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

MAX_FOUND = 1_000_000
"""Maximum number of documents that one query may find."""
_ASKED_KEYS = 1000
"""Maximum number of keys in a query."""
_OBJECT_ID_CHARS = 24


@located_at_call
def lookup(
    collection: str,
    *,
    url: str,
    key: str | Sequence[str],
    schema: Any,
    options: Mapping[str, Any] | None = None,
) -> MongodbLookup:
    """Create a lookup of a collection's documents by key, for `stream.lookup`.

    ```python
    users = rh.mongodb.lookup(
        "users", url="mongodb://localhost/shop", key="_id", schema={"country": str}
    )
    visits.lookup(users, on="user_id", cache_for="10m")
    ```

    Args:
        collection: Name of the collection.
        url: As in `rh.mongodb.sink`.
        key: The field or fields of the key, preferably those of an index: strings, whole numbers or
            bytes. A string of 24 hexadecimal digits also finds the ObjectId with these digits. `on=` of
            the lookup names a column of the stream for each, in this order. If several documents have a
            key, all are found.
        schema: The fields that are found, a dataclass, a pyarrow.Schema or a dict. A missing field is
            null. A column of type str takes any value, as extended JSON.
        options: As in `rh.mongodb.sink`.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The client is not installed.
        SchemaError: The schema declares no columns, or one of the key.
    """
    client()
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys or not all(isinstance(each, str) and each for each in keys) or len({*keys}) < len(keys):
        raise ProgramError(
            f"key={key!r} does not name fields", hint='write key="_id" or key=["shop", "order"]'
        )
    if not isinstance(collection, str) or not collection:
        raise ProgramError(f"collection={collection!r} is not a name", hint='write "users"')
    rows, _ = resolve(schema)
    for name in keys:
        if name in rows.names:
            raise SchemaError(
                f"schema= has the key {name!r}", hint="leave it out: it is a column of the stream"
            )
    return MongodbLookup(MongodbAddress.of(url, options), collection, keys, rows)


@dataclass(frozen=True)
class MongodbLookup(Lookup):
    """Lookup that `mongodb.lookup` creates."""

    server: MongodbAddress
    collection: str
    keys: tuple[str, ...]
    schema: pa.Schema

    def validate(self, keys: pa.Schema) -> None:
        t = pa.types
        for own, asked in zip(self.keys, keys, strict=True):
            if not any(check(asked.type) for check in (t.is_integer, t.is_string, t.is_binary)):
                raise SchemaError(
                    f"the key {own!r} is compared with a column that is {asked.type}",
                    hint="cast it to a string or a whole number",
                )

    def open(self, ctx: LookupContext) -> LookupClient:
        return _MongodbClient(self)

    def datasets(self) -> Sequence[Dataset]:
        return [self.server.dataset(self.collection)]

    def describe(self) -> str:
        return (
            f"MongoDB collection {self.collection} at {self.server.address}, by {', '.join(self.keys)}"
        )


class _MongodbClient(LookupClient):
    def __init__(self, lookup: MongodbLookup) -> None:
        self._lookup = lookup
        doing = f"the collection {lookup.collection} cannot be read"
        self._session = MongodbSession(lookup.server, doing)

    def fetch(self, keys: Batch) -> Found:
        lookup = self._lookup
        found: list[Mapping[str, Any]] = []
        for begin in range(0, keys.num_rows, _ASKED_KEYS):
            part = documents(keys.slice(begin, _ASKED_KEYS).rename_columns(list(lookup.keys)))
            found += self._session.do(partial(self._find_documents, part))
        asked = pa.schema(
            [(name, field.type) for name, field in zip(lookup.keys, keys.schema, strict=True)]
        )
        by = rows_of(found, asked, lookup.collection)
        rows = rows_of(found, lookup.schema, lookup.collection)
        return LookupRows(pa.Table.from_batches([by]), pa.Table.from_batches([rows])).find(keys)

    def _find_documents(self, asked: list[dict[str, Any]], database: Any) -> list[Any]:
        lookup = self._lookup
        if len(lookup.keys) == 1:
            [name] = lookup.keys
            where: dict[str, Any] = {name: {"$in": [v for each in asked for v in _values(each[name])]}}
        else:
            where = {
                "$or": [
                    {name: {"$in": _values(value)} for name, value in each.items()} for each in asked
                ]
            }
        fields = dict.fromkeys((*lookup.keys, *lookup.schema.names), 1)
        cursor = database[lookup.collection].find(where, fields).limit(MAX_FOUND + 1)
        found = list(cursor)
        if len(found) > MAX_FOUND:
            raise InputError(
                f"{len(asked)} keys have more than {MAX_FOUND:,} documents in {lookup.collection}",
                hint="look up by a key that fewer documents have",
            )
        return found

    def close(self) -> None:
        self._session.close()


def _values(value: Any) -> list[Any]:
    """Return the values of a field that a key finds."""
    if isinstance(value, str) and len(value) == _OBJECT_ID_CHARS and bson().ObjectId.is_valid(value):
        return [value, bson().ObjectId(value)]
    return [value]
