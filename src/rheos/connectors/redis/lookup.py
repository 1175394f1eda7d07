"""Lookup of rows in Redis: hashes by fields, or values in a format, at keys built from columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.connectors.redis.client_options import RedisOptions, client, may_pass, redis_error
from rheos.connectors.redis.connection import RedisConnection, RefusedError
from rheos.connectors.redis.keys import KeyPattern, Separators
from rheos.connectors.redis.text import (
    argument,
    bulk,
    check_fields,
    command,
    concatenated,
    from_bytes,
    head,
    of_texts,
)
from rheos.connectors.user_formats import check_format, rows_of
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import InputError
from rheos.core.formats.contract import Format
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

_DOING = "keys cannot be looked up in Redis"


@located_at_call
def lookup(
    url: str,
    *,
    key: str,
    schema: Any = None,
    format: Format | None = None,
    separators: Separators = "refuse",
    options: Mapping[str, Any] | None = None,
) -> RedisLookup:
    """Create a lookup of Redis values by their keys, for `stream.lookup`.

    ```python
    users = rh.redis.lookup("redis://localhost:6379", key="user:{id}", schema=User)
    visits.lookup(users, on="user_id")
    ```

    A key that does not exist, or a hash without any of the columns, is not found. A value that does not
    fit the schema, or a key that is not a hash, is an error that names the key. With a `format`, a key
    that is not a string value is not found.

    Args:
        url: Address of the server; see `rh.redis.sink`.
        key: The key, with names in braces: `on=` of the lookup names a column of the stream for each,
            in order.
        schema: The columns that are found, a dataclass, a pyarrow.Schema or a dict: fields of the hash
            at the key, or the columns of the format.
        format: Format of the value at the key, such as rh.formats.json(). Without a format the value is
            a hash.
        separators: As in `rh.redis.sink`; it must be the same as that of the sink that wrote the keys.
        options: Further options of the client (redis-py's Connection). Their values are shown nowhere.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid, such as a key without names.
        SchemaError: The format cannot decode the columns of the schema.
    """
    client()
    if format is None:
        rows, _ = resolve(schema)
        check_fields(rows)
    else:
        rows, _ = rows_of(check_format(format), schema)
    return RedisLookup(RedisOptions.of(url, options), KeyPattern.of(key, separators), format, rows)


@dataclass(frozen=True)
class RedisLookup(Lookup):
    """Lookup that `redis.lookup` creates."""

    options: RedisOptions
    key: KeyPattern
    format: Format | None
    """Format of the value; None for a hash."""
    schema: pa.Schema
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", self.key.columns)

    def validate(self, keys: pa.Schema) -> None:
        self.key.check(keys)

    def open(self, ctx: LookupContext) -> LookupClient:
        return _RedisLookupClient(self)

    def datasets(self) -> Sequence[Dataset]:
        return server_datasets("redis", self.options.address, [self.key])

    def describe(self) -> str:
        return f"Redis at {self.options.address}, keys {self.key}"


class _RedisLookupClient(LookupClient):
    def __init__(self, lookup: RedisLookup) -> None:
        self._lookup = lookup
        self._connection = RedisConnection(lookup.options)
        self._decoder = None if lookup.format is None else lookup.format.decoder(lookup.schema)

    def fetch(self, keys: Batch) -> Found:
        asked = self._lookup.key.keys(keys)
        try:
            return self._hashes(asked) if self._decoder is None else self._values(asked)
        except (OSError, client().RedisError) as error:
            if may_pass(error):
                raise  # The operator retries.
            raise redis_error(error, _DOING, self._lookup.options) from None

    def close(self) -> None:
        self._connection.close()

    def _hashes(self, asked: pa.Array) -> Found:
        """Look up hashes, with one HMGET per key in a single round trip."""
        schema = self._lookup.schema
        names = b"".join(bulk(name.encode()) for name in schema.names)
        texts = concatenated(head(b"HMGET", 2 + len(schema)), argument(asked), names)
        commands = of_texts(texts, np.ones(len(asked), np.int64))
        self._connection.send(commands.data)
        try:
            answers = self._connection.receive(commands.count)
        except RefusedError as refused:
            if may_pass(refused.error):
                raise refused.error from None
            error = redis_error(refused.error, _DOING, self._lookup.options)
            error.key = asked[refused.reply].as_py().decode(errors="replace")
            raise error from None
        there = [at for at, values in enumerate(answers) if any(v is not None for v in values)]
        columns = zip(*(answers[at] for at in there), strict=True) if there else ((),) * len(schema)
        arrays = {
            name: pa.array(values, pa.binary())
            for name, values in zip(schema.names, columns, strict=True)
        }
        rows, _, bad = from_bytes(arrays, len(there), schema)
        if bad:
            raise _bad(asked[there[bad[0][0]]].as_py(), bad[0][1])
        return Found(rows, pa.array(there, pa.int32()))

    def _values(self, asked: pa.Array) -> Found:
        """Look up values, with one MGET."""
        assert self._decoder is not None
        [values] = self._connection.ask(command(b"MGET", *asked.to_pylist()))
        there = np.array([at for at, value in enumerate(values) if value is not None], np.int32)
        decoded = self._decoder.decode(pa.array([values[at] for at in there], pa.binary()))
        if decoded.bad:
            raise _bad(asked[int(there[decoded.bad[0].at])].as_py(), decoded.bad[0].error)
        of = there if decoded.origin is None else there[decoded.origin]
        return Found(decoded.rows, pa.array(of, pa.int32()))


def _bad(key: bytes, error: str) -> InputError:
    return InputError(
        f"the value at a key does not fit the schema: {error}",
        key=key.decode(errors="replace"),
        hint="correct the schema, or the value",
    )
