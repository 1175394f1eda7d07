"""Checks of the arguments of `stream.lookup(...)`: its operator, and its output columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import pyarrow as pa

from rheos.core.connectors.lookup import Lookup
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.operators.lookup import LookupSpec
from rheos.core.protocol.durations import duration_ms
from rheos.core.safe_strings import shown
from rheos.core.state.key_groups import is_key_type

How = Literal["left", "inner"]
_EXAMPLE = 'write .lookup(rh.redis.lookup(...), on="user_id")'


def looked_up(
    schema: pa.Schema,
    lookup: Any,
    on: str | Sequence[str],
    columns: Sequence[str] | Mapping[str, str] | None,
    how: Any,
    cache_for: str | None,
    cache_keys: int,
    retry_for: str,
) -> tuple[LookupSpec, pa.Schema]:
    """Return the operator and the output columns for a stream with this schema. Raise ProgramError for
    invalid arguments."""
    if not isinstance(lookup, Lookup):
        known = callable(lookup) or hasattr(lookup, "columns")
        hint = 'write .lookup(rh.lookup_table(table, key="id"), on="id")' if known else _EXAMPLE
        raise ProgramError(f"lookup() takes a lookup, not {shown(lookup)}", hint=hint)
    if how not in get_args(How):
        raise ProgramError(f"how={how!r} is not known", hint='write how="left" or how="inner"')
    if not isinstance(cache_keys, int) or cache_keys < 1:
        raise ProgramError(
            f"cache_keys must be a number of keys, not {cache_keys!r}", hint="write 100_000"
        )
    spec = LookupSpec(
        lookup,
        _key_columns(schema, lookup, on),
        _columns(schema, lookup, columns),
        how,
        0 if cache_for is None else duration_ms(cache_for),
        cache_keys,
        duration_ms(retry_for),
    )
    lookup.validate(spec.lookup_keys(schema))
    new = [lookup.schema.field(old).with_name(name) for name, old in spec.columns]
    return spec, pa.schema([*schema, *(f if how == "inner" else f.with_nullable(True) for f in new)])


def _key_columns(schema: pa.Schema, lookup: Lookup, on: Any) -> tuple[str, ...]:
    names = (on,) if isinstance(on, str) else tuple(on)
    if len(names) != len(lookup.keys):
        raise ProgramError(
            f"on={on!r} names {len(names)} columns, but the key of {lookup.describe()} is "
            f"{', '.join(lookup.keys)}",
            hint="name one column of the stream for each key column, in the same order",
        )
    for name in names:
        if name not in schema.names:
            raise SchemaError(
                f"on= names the column {name!r}, which the stream does not have",
                hint=f"it has {', '.join(schema.names)}",
            )
        if not lookup.takes_vectors and not is_key_type(schema.field(name).type):
            raise SchemaError(
                f"on= names the column {name!r}, which is {schema.field(name).type}",
                hint="a key is a number, a string, a time or bytes",
            )
    return names


def _columns(schema: pa.Schema, lookup: Lookup, columns: Any) -> tuple[tuple[str, str], ...]:
    if columns is None:
        columns = lookup.schema.names
    elif isinstance(columns, str):
        columns = [columns]
    pairs = columns.items() if isinstance(columns, Mapping) else [(name, name) for name in columns]
    if not pairs:
        raise ProgramError(
            "no column to look up is named", hint='name the columns: columns=["country"]'
        )
    taken = set(schema.names)
    for name, old in pairs:
        if old not in lookup.schema.names:
            raise SchemaError(
                f"columns= names {old!r}, which {lookup.describe()} does not have",
                hint=f"it has {', '.join(lookup.schema.names)}",
            )
        if name in taken:
            raise SchemaError(
                f"the result would have two columns named {name!r}",
                hint=f'rename the new one: columns={{"their_{name}": "{old}"}}',
            )
        taken.add(name)
    return tuple(pairs)
