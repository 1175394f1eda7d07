"""Queries over the views and states of a job: `rh.query(job).sql(...)`.

The query runs in the process of the caller, over copies of the tables that it names.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from sqlglot import exp

from rheos.api.environment import Environment
from rheos.api.overrides import without_overrides
from rheos.core.errors import ConfigurationError
from rheos.core.graph.changelog import DELETE, OP, UPDATE_BEFORE, Changes
from rheos.core.known_names import names_hint
from rheos.ops.views.view_rows import ViewRows
from rheos.ops.views.view_tables import ReadTables, ViewTables
from rheos.sql.first_rows import ORDER

_RESULT = "result"
_PLACE, _COUNT = "__place", "__count"


def query_rows(views: ReadTables, query: str, dialect: str | None) -> ViewRows:
    """Return the rows of a query over views and states; see `JobViews.sql`."""
    with without_overrides():
        # The rows are in this process, so their query needs no Spark.
        env = Environment(1, runtime="simulated")
        tables = ViewTables(env, views)
        read: list[ViewRows] = []

        def copy_tables(parsed: exp.Expr) -> None:
            rows = tables.read(parsed)
            if rows is None:
                names = [table.sql() for table in parsed.find_all(exp.Table)]
                raise ConfigurationError(
                    f"the query reads no view and no state of the job: {query.strip()!r}",
                    hint=names_hint(names[0] if names else "", tables.columns(), "the tables are"),
                )
            read.append(rows)

        session = env._sql_session()
        session.sorts = True
        stream = session.query(query, dialect=dialect, before=copy_tables)
        stream.collect(_RESULT)
        rows = env.execute("query").collected[_RESULT]
        table = in_order(final_rows(rows, stream._type.changes))
        return ViewRows(table, read[0].checkpoint, read[0].completed)


def in_order(rows: pa.Table) -> pa.Table:
    """Return the rows of a result in the order of its ORDER BY, if it has one."""
    if ORDER not in rows.column_names:
        return rows
    frame = pl.DataFrame({ORDER: pl.from_arrow(rows[ORDER])})
    places = frame.select(pl.arg_sort_by(ORDER, maintain_order=True)).to_series()
    return rows.drop_columns([ORDER]).take(pa.array(places.to_numpy()))


def final_rows(rows: pa.Table, changes: Changes | None) -> pa.Table:
    """Return the rows of a table after all its changes.

    Args:
        rows: The changes, in order; or the rows themselves.
        changes: Kind of the changelog; None if every row is new.
    """
    if changes is None:
        return rows
    rows = rows.combine_chunks()
    names = list(changes.key) or [name for name in rows.column_names if name != OP]
    frame = pl.from_arrow(rows.select([*names, OP]))
    assert isinstance(frame, pl.DataFrame)
    is_taken_away = pl.col(OP).is_in([UPDATE_BEFORE, DELETE])
    frame = frame.with_row_index(_PLACE)
    if changes.key:
        frame = frame.unique(names, keep="last", maintain_order=True).filter(~is_taken_away)
        places = frame[_PLACE]
    else:
        count = pl.when(is_taken_away).then(-1).otherwise(1).sum().alias(_COUNT)
        groups = frame.group_by(names, maintain_order=True).agg(pl.col(_PLACE).first(), count)
        kept = groups.filter(pl.col(_COUNT) > 0)
        places = kept.select(pl.col(_PLACE).repeat_by(_COUNT).explode())[_PLACE]
    return rows.drop_columns([OP]).take(pa.array(places.to_numpy()))
