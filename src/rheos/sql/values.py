"""VALUES: rows that the SQL contains."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from sqlglot import exp

from rheos.core.graph.types import from_polars
from rheos.sql import types
from rheos.sql.expressions.table import Compiler
from rheos.sql.plan import SqlColumn, ValueRows
from rheos.sql.scope import NameScope
from rheos.sql.text import SqlText

COLUMN_STEM = "stem of columns"
"""Key of the metadata of VALUES: how the names of its columns start, before their number."""


def value_rows(sql: SqlText, node: exp.Values, kinds: Sequence[pl.DataType] | None = None) -> ValueRows:
    """Return the rows of VALUES, for columns of these types. Raise ProgramError or SchemaError."""
    sql.only(node, ("expressions", "alias"))
    compiler = Compiler(sql, NameScope(sql, ()))
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    if not rows[0]:
        raise sql.error("a row of VALUES has at least one value", node.expressions[0], "write (1, 'a')")
    for row, given in zip(rows, node.expressions, strict=True):
        if len(row) != len(rows[0]):
            raise sql.error(
                "all rows of VALUES need the same number of columns, but this one has "
                f"{len(row)}, not {len(rows[0])}",
                given,
            )
    series, columns = [], []
    for place in range(len(rows[0])):
        if kinds is not None and len(kinds) == len(rows[0]):
            given = [compiler.assigned(row[place], kinds[place]) for row in rows]
        else:
            given = [compiler.compile(row[place]) for row in rows]
        values, kind = compiler.common(given, "VALUES")
        columns.append(SqlColumn(f"{node.meta.get(COLUMN_STEM, 'col')}{place + 1}", kind))
        # A column of nulls has no type yet: what reads it determines the type.
        stored = types.BOOLEAN if kind == types.NULL else kind
        cells = [types.constant(value.expr.cast(stored)) for value in values]
        series.append(pl.concat(cells).alias(columns[-1].name))
    frame = pl.DataFrame(series)
    table = frame.rechunk().to_arrow().cast(from_polars(frame.schema)).combine_chunks()
    return ValueRows(table, tuple(columns))


def typed_value_rows(sql: SqlText, node: exp.Values) -> ValueRows:
    """Return the rows of VALUES as a query. Raise SchemaError if a column has only nulls."""
    made = value_rows(sql, node)
    first = node.expressions[0]
    for column, value in zip(made.columns, first.expressions or [first], strict=True):
        if column.type == types.NULL:
            raise sql.wrong_type(
                "a column that is always NULL has no type", value, "write CAST(NULL AS STRING)"
            )
    return made
