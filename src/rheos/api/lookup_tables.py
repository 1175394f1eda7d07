"""`lookup_table`: lookups in a table that the program passes or loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rheos.connectors.collection import table_of
from rheos.connectors.table_lookup import TableLookup
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.types import canonical_schema
from rheos.core.graph.validate import unknown_column
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.state_config import MIB
from rheos.core.site import located_at_call
from rheos.core.state.key_groups import is_key_type

MOST_BYTES = 256 * MIB
"""Maximum size of a table that is sent with the program."""


@located_at_call
def lookup_table(
    table: Any,
    key: str | Sequence[str],
    *,
    schema: Any = None,
    reload_every: Duration | None = None,
) -> TableLookup:
    """Create a lookup of a table's rows by key, for `stream.lookup`.

    ```python
    events.lookup(rh.lookup_table(countries, key="code"), on="country")

    def prices() -> pl.DataFrame:
        return pl.read_parquet("prices.parquet")

    sales.lookup(rh.lookup_table(prices, key="item", schema=Price, reload_every="10m"), on="item")
    ```

    Args:
        table: a DataFrame of Polars, pandas or Spark, a pyarrow Table, dataclass instances or dicts,
            which are sent with the program; or a function without arguments that returns one of these.
            Each subtask calls it on its worker.
        key: its key column, or several. If a key has several rows, the lookup emits one row for each.
        schema: its columns, as a dataclass, a pyarrow.Schema or a dict; required if the table is a
            function.
        reload_every: maximum age of the loaded table: a later lookup calls the function again. If the
            function raises, it is retried as set by `lookup(retry_for=)`.

    Returns:
        The lookup.

    Raises:
        ProgramError: The table is too large to send to workers, or `schema` or a function is missing.
        SchemaError: The table has no such key, or its rows do not fit the schema.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    if callable(table):
        if schema is None:
            raise ProgramError(
                "the columns of the table are unknown until its function is called",
                hint="declare them: schema=Price, a dataclass, a pyarrow.Schema or a dict",
            )
        whole = canonical_schema(resolve(schema)[0])
        loaded = None
    else:
        if reload_every is not None:
            raise ProgramError(
                "reload_every= needs a function that loads the table; this one is already in memory",
                hint="pass a function that loads it, such as lambda: pl.read_parquet(path)",
            )
        loaded = table_of(_collected(table), None if schema is None else resolve(schema)[0])[0]
        whole = canonical_schema(loaded.schema)
        loaded = loaded.cast(whole)
        if loaded.nbytes > MOST_BYTES:
            raise ProgramError(
                f"the table has {loaded.nbytes // MIB} MiB, which is too large to send to every worker",
                hint="write it to a file, and pass a function that reads it",
            )
    every_ms = None if reload_every is None else duration_ms(reload_every)
    if every_ms is not None and every_ms <= 0:
        raise ProgramError(f"reload_every must be greater than 0, not {reload_every!r}")
    of_key, rest = _parted(whole, keys)
    return TableLookup(
        keys,
        rest,
        of_key,
        loaded,
        table if callable(table) else None,
        None if every_ms is None else every_ms * 1000,
    )


def _collected(table: Any) -> Any:
    if type(table).__module__.partition(".")[0] != "pyspark":
        return table
    from rheos.connectors.spark.collecting import collected_table

    return collected_table(table)


def _parted(whole: pa.Schema, keys: tuple[str, ...]) -> tuple[pa.Schema, pa.Schema]:
    """Divide the columns of a schema into the key columns and the others."""
    if not keys or len(set(keys)) < len(keys):
        raise ProgramError(f"key must name at least one column, not {keys!r}", hint='write key="id"')
    for key in keys:
        if key not in whole.names:
            raise unknown_column(key, whole, " in key=")
        if not is_key_type(whole.field(key).type):
            raise SchemaError(
                f"the column {key!r} cannot be a key, because it is {whole.field(key).type}"
            )
    rest = pa.schema([field for field in whole if field.name not in keys])
    if not rest.names:
        raise SchemaError("the table has no columns but its key", hint="add the columns to look up")
    return pa.schema([whole.field(key) for key in keys]), rest
