"""Lookups of a LanceDB table: `lancedb.lookup(...)` by key, `lancedb.nearest(...)` by vector."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.keyed_rows import LookupRows, is_comparable
from rheos.connectors.lancedb.predicates import key_literal, quoted
from rheos.connectors.lancedb.vector_store import VectorStore, check_table
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call

Metric = Literal["l2", "cosine", "dot"]
MAX_FOUND = 1_000_000
"""Maximum number of rows that one query by key may find."""
MAX_NEAREST = 1000
_ASKED_KEYS = 1000
"""Maximum number of keys in a query."""
_ASKED_VECTORS = 64
"""Maximum number of vectors in a query."""
_DISTANCE = "_distance"
_QUERY = "query_index"


@located_at_call
def lookup(
    table: str,
    *,
    uri: str | os.PathLike[str],
    key: str,
    columns: Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
) -> LanceDbLookup:
    """Create a lookup of a table's rows by key, for `stream.lookup`.

    ```python
    users = rh.lancedb.lookup("users", uri="vectors", key="id")
    visits.lookup(users, on="user_id", columns=["country"], cache_for="10m")
    ```

    Args:
        table: Its name. This call inspects the table.
        uri: As in `rh.lancedb.sink`. Each worker reads it.
        key: The key column, a whole number or a string, preferably with a scalar index. If several rows
            have a key, all are found.
        columns: The columns to read; by default all but the key.
        options: As in `rh.lancedb.sink`.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid, or no column is left to look up.
        ConfigurationError: The table does not exist, or LanceDB is not installed.
        SchemaError: The table has no such column, or its type cannot be a key.
        UnavailableError: The storage does not answer.
    """
    store, found = _inspected(table, uri, options)
    if not isinstance(key, str) or not key:
        raise ProgramError(f"key={key!r} does not name a column", hint='write key="id"')
    own = _field(found, key, table)
    t = pa.types
    if not (t.is_integer(own.type) or t.is_string(own.type) or t.is_large_string(own.type)):
        raise SchemaError(
            f"the column {key!r} of the table {table} is {own.type}, which is no key",
            hint="look up by a column of whole numbers or strings; for vectors, write "
            "rh.lancedb.nearest(...)",
        )
    wanted = _wanted(found, table, columns, key)
    return LanceDbLookup(store, table, (key,), own.type, pa.schema(wanted))


@located_at_call
def nearest(
    table: str,
    *,
    uri: str | os.PathLike[str],
    vector: str,
    limit: int = 1,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    metric: Metric = "l2",
    distance: str = "distance",
    options: Mapping[str, object] | None = None,
) -> NearestLookup:
    """Create a lookup of the rows whose vectors are nearest to the stream's, for
    `stream.lookup(notes, on="vector")`. A row of the stream is repeated for each, the nearest first.

    ```python
    notes = rh.lancedb.nearest("notes", uri="vectors", vector="vector", limit=3)
    ```

    Without an index of the vectors, LanceDB compares all rows of the table. With one, it may miss some
    of the nearest.

    Args:
        table: Its name. This call inspects the table.
        uri: As in `rh.lancedb.sink`. Each worker reads it.
        vector: The column of vectors. `on=` of the lookup names the stream's column: a list of floats
            with the same number of elements.
        limit: Number of rows to find, up to 1,000.
        columns: The columns to read; by default all but the vectors.
        where: Condition in SQL that the found rows meet: "lang = 'de'".
        metric: Distance of vectors: "l2" (the squared Euclidean distance), "cosine" or "dot". An index
            of the vectors must have the same.
        distance: Name of the added column with the distance, a float32.
        options: As in `rh.lancedb.sink`.

    Returns:
        The lookup.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: The table does not exist, or LanceDB is not installed.
        SchemaError: The table has no such column, or it has no vectors.
        UnavailableError: The storage does not answer.
    """
    store, found = _inspected(table, uri, options)
    if not isinstance(limit, int) or not 0 < limit <= MAX_NEAREST:
        raise ProgramError(
            f"limit={limit!r} is not between 1 and {MAX_NEAREST:,}", hint="write limit=3"
        )
    if metric not in get_args(Metric):
        raise ProgramError(f"metric={metric!r} is not known", hint='write "l2", "cosine" or "dot"')
    if where is not None and not (isinstance(where, str) and where.strip()):
        raise ProgramError(f"where={where!r} is no condition", hint="write where=\"lang = 'de'\"")
    if not isinstance(vector, str) or not vector:
        raise ProgramError(f"vector={vector!r} does not name a column", hint='write vector="vector"')
    own = _field(found, vector, table)
    if not pa.types.is_fixed_size_list(own.type) or not pa.types.is_floating(own.type.value_type):
        raise SchemaError(
            f"the column {vector!r} of the table {table} is {own.type}, which has no vectors",
            hint="a column of vectors is a list of floats of a fixed size",
        )
    wanted = _wanted(found, table, columns, vector)
    if not isinstance(distance, str) or not distance or distance in (each.name for each in wanted):
        raise ProgramError(
            f"distance={distance!r} is no name for the distance, or that of another column",
            hint='write distance="their_distance"',
        )
    schema = pa.schema([*wanted, pa.field(distance, pa.float32())])
    search = Search(vector, own.type.list_size, limit, where, metric, distance)
    return NearestLookup(store, table, (vector,), search, schema)


def _inspected(
    table: object, uri: object, options: Mapping[str, object] | None
) -> tuple[VectorStore, pa.Schema]:
    name = check_table(table)
    store = VectorStore.of(uri, options)
    columns: pa.Schema = store.read(
        f"the table {name} cannot be inspected", lambda database, _: database.open_table(name).schema
    )
    return store, columns


def _field(found: pa.Schema, name: str, table: str) -> pa.Field:
    if name not in found.names:
        raise SchemaError(
            f"the table {table} has no column {name!r}", hint=f"it has {', '.join(found.names)}"
        )
    return found.field(name)


def _wanted(
    found: pa.Schema, table: str, columns: Sequence[str] | None, key: str
) -> Sequence[pa.Field]:
    names = [columns] if isinstance(columns, str) else columns
    if names is None:
        names = [name for name in found.names if name != key]
    if not names:
        raise ProgramError("no column to look up is named", hint='name the columns: columns=["text"]')
    return [_field(found, name, table) for name in names]


@dataclass(frozen=True)
class _TableLookup(Lookup):
    store: VectorStore
    table: str
    keys: tuple[str, ...]

    def open(self, ctx: LookupContext) -> LookupClient:
        return _LanceDbClient(self)

    @abstractmethod
    def found(self, table: Any, keys: Batch, progressed: Progressed) -> Found:
        """Return the rows of some keys. `progressed` restarts the limit of the call."""

    def datasets(self) -> Sequence[Dataset]:
        return [self.store.dataset(self.table)]


@dataclass(frozen=True)
class LanceDbLookup(_TableLookup):
    """Lookup that `lancedb.lookup` creates."""

    key_type: pa.DataType
    schema: pa.Schema

    def validate(self, keys: pa.Schema) -> None:
        asked = keys.field(0).type
        if not is_comparable(_plain(asked), _plain(self.key_type)):
            raise SchemaError(
                f"the key {self.keys[0]!r} of the table {self.table} is {self.key_type}, but the "
                f"stream's column is {asked}",
                hint="cast the stream's column first",
            )

    def found(self, table: Any, keys: Batch, progressed: Progressed) -> Found:
        [key], asked = self.keys, keys.column(0)
        pieces, count = [], 0
        for begin in range(0, len(asked), _ASKED_KEYS):
            names = ", ".join(map(key_literal, asked.slice(begin, _ASKED_KEYS).to_pylist()))
            query = table.search().where(f"{quoted(key)} IN ({names})").limit(MAX_FOUND + 1)
            pieces.append(query.select([*{key: None, **dict.fromkeys(self.schema.names)}]).to_arrow())
            count += pieces[-1].num_rows
            if count > MAX_FOUND:
                raise InputError(
                    f"{len(asked)} keys have more than {MAX_FOUND:,} rows in the table {self.table}",
                    hint="look up by a key that fewer rows have",
                )
            progressed()
        rows = pa.concat_tables(pieces)
        return LookupRows(rows.select([key]), rows.select(self.schema.names)).find(keys)

    def describe(self) -> str:
        return f"table {self.table} of LanceDB in {self.store}, by {self.keys[0]}"


@dataclass(frozen=True)
class Search:
    """Search for the nearest vectors."""

    vector: str
    size: int
    """Number of elements of a vector."""
    limit: int
    where: str | None
    metric: Metric
    distance: str


@dataclass(frozen=True)
class NearestLookup(_TableLookup):
    """Lookup that `lancedb.nearest` creates."""

    search: Search
    schema: pa.Schema
    takes_vectors: ClassVar[bool] = True

    def validate(self, keys: pa.Schema) -> None:
        asked, t = keys.field(0).type, pa.types
        nested = t.is_list(asked) or t.is_large_list(asked) or t.is_fixed_size_list(asked)
        if not nested or not t.is_floating(asked.value_type):
            raise SchemaError(
                f"the stream's column is {asked}, which has no vectors",
                hint=f"name a column of lists of {self.search.size} floats: on=",
            )
        if t.is_fixed_size_list(asked) and asked.list_size != self.search.size:
            raise SchemaError(
                f"vectors of the stream have {asked.list_size} elements, but {self.search.size} in the "
                f"column {self.search.vector!r} of the table {self.table}",
                hint="use the same model for both",
            )

    def found(self, table: Any, keys: Batch, progressed: Progressed) -> Found:
        search, vectors = self.search, self._vectors(keys.column(0))
        names = [name for name in self.schema.names if name != search.distance]
        columns: list[list[pa.ChunkedArray]] = []
        places = []
        for begin in range(0, len(vectors), _ASKED_VECTORS):
            query = table.search(vectors[begin : begin + _ASKED_VECTORS], search.vector)
            query = query.distance_type(search.metric).limit(search.limit)
            if search.where is not None:
                query = query.where(search.where)
            rows = query.select([*names, _DISTANCE]).to_arrow()
            if _QUERY not in rows.column_names:
                rows = rows.append_column(_QUERY, pa.repeat(pa.scalar(0, pa.int32()), len(rows)))
            rows = rows.sort_by([(_QUERY, "ascending"), (_DISTANCE, "ascending")])
            columns.append([rows[name] for name in (*names, _DISTANCE)])
            places.append(pc.add(rows[_QUERY], begin).cast(pa.int32()))
            progressed()
        of_query = [pa.Table.from_arrays(each, [*names, search.distance]) for each in columns]
        whole = pa.concat_tables(of_query).select(self.schema.names).cast(self.schema)
        found = pa.chunked_array([each for one in places for each in one.chunks], pa.int32())
        arrays = [column.combine_chunks() for column in whole.columns]
        return Found(pa.RecordBatch.from_arrays(arrays, schema=self.schema), found.combine_chunks())

    def _vectors(self, column: pa.Array) -> np.ndarray[Any, Any]:
        """Return vectors as rows of a matrix. Raises InputError for one that has no nearest vectors."""
        size = self.search.size
        numbers = column.flatten().to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            matrix: np.ndarray[Any, Any] = numbers.astype(np.float32)
        fits = pc.all(pc.equal(pc.list_value_length(column), size)).as_py()
        if not fits or not np.isfinite(matrix).all():
            raise InputError(
                f"a vector cannot be searched for in the column {self.search.vector!r} of the table "
                f"{self.table}: it needs {size} finite numbers",
                hint="filter such rows out first",
            )
        return matrix.reshape(-1, size)

    def describe(self) -> str:
        found = f"the nearest {self.search.limit} by {self.search.vector}"
        return f"table {self.table} of LanceDB in {self.store}, {found}"


class _LanceDbClient(LookupClient):
    def __init__(self, lookup: _TableLookup) -> None:
        self._lookup = lookup

    def fetch(self, keys: Batch) -> Found:
        lookup = self._lookup

        def work(database: Any, progressed: Progressed) -> Found:
            return lookup.found(database.open_table(lookup.table), keys, progressed)

        return lookup.store.read(f"the table {lookup.table} cannot be read", work)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind
