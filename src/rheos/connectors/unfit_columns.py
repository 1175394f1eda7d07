"""Errors for columns of a stream that do not fit those of the table to which it is written."""

from __future__ import annotations

from collections.abc import Collection

from rheos.core.errors import SchemaError


def missing_column(
    name: str, kind: object, known: Collection[str], label: str, to_add: str
) -> SchemaError:
    """Return the error for a column that the table lacks.

    Args:
        name: Name of the column in the stream.
        kind: Type of the column, as the error shows it.
        known: Columns of the table.
        label: Name of the table.
        to_add: How the user can add the column to the table.
    """
    for each in known:
        if each.lower() == name.lower():
            return SchemaError(
                f"column {name!r} of the stream is called {each!r} in the table {label}",
                hint=f'rename it: .select(col("{name}").alias("{each}"), ...)',
            )
    return SchemaError(
        f"the table {label} has no column {name!r} ({kind}); it has {', '.join(known)}",
        hint=f"drop it with .select(...), or {to_add}",
    )


def unfit_type(name: str, kind: object, of_table: object, label: str) -> SchemaError:
    """Return the error for a column whose type the table's column does not take."""
    return SchemaError(
        f"column {name!r} is {kind} in the stream, but {of_table} in the table {label}",
        hint=f'cast it: .with_columns(col("{name}").cast(...)); or alter the table',
    )


def unfit_nulls(name: str, label: str) -> SchemaError:
    """Return the error for a nullable column whose column in the table is NOT NULL."""
    return SchemaError(
        f"column {name!r} is nullable in the stream, but not in the table {label}",
        hint="declare it as not nullable in the stream's type, or drop NOT NULL from the table's "
        "column",
    )
