"""Columns of a source of a database's changes: those of the table, and metadata of the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import pyarrow as pa

from rheos.core.errors import ProgramError, SchemaError

K = TypeVar("K", bound=str)


def known_fields(metadata: Any, fields: Sequence[K]) -> tuple[tuple[K, str], ...]:
    """Return the requested metadata fields and the names of their columns.

    Args:
        metadata: The argument `metadata=`: a name, names, or names with those of their columns.
        fields: The fields that the source has.

    Returns:
        Pairs of a field and its column, in the order of the argument.

    Raises:
        ProgramError: The source has no such field.
    """
    names = {metadata: metadata} if isinstance(metadata, str) else metadata
    pairs = dict(names) if isinstance(names, Mapping) else {each: each for each in names}
    for known, name in pairs.items():
        if known not in fields or not isinstance(name, str):
            raise ProgramError(
                f"metadata= has the unknown field {known!r}",
                hint=f"the fields are {', '.join(fields)}",
            )
    return cast("tuple[tuple[K, str], ...]", tuple(pairs.items()))


def check_names(
    table: object,
    has: Sequence[str],
    read: Sequence[str],
    wanted: pa.Schema | None,
    metadata: Sequence[str],
) -> None:
    """Check that each column of `schema=` exists, and that no two columns have one name.

    Args:
        table: The table, for messages.
        has: Columns of the table.
        read: Columns of the table that the source reads.
        wanted: The argument `schema=`; None for all columns.
        metadata: Columns of metadata.

    Raises:
        SchemaError: A column does not exist, or two columns have one name.
    """
    for name in [] if wanted is None else wanted.names:
        if name not in read and name not in metadata:
            raise SchemaError(
                f"the table {table} has no column {name!r}", hint=f"it has {', '.join(has)}"
            )
    for name in metadata:
        if name in read:
            raise SchemaError(
                f"two columns are named {name!r}: one of the table, and one from metadata=",
                hint=f'rename the latter: metadata={{"{name}": "..."}}',
            )
