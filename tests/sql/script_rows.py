"""Runs scripts as `rheos sql` does: a SELECT reads the tables as they are at its place."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

import rheos as rh
from rheos.cli.shell.current_rows import CurrentRows
from rheos.sql.dialect import parse
from rheos.sql.text import SqlText

Rows = list[tuple[Any, ...]]


def rows_of(script: str) -> list[Rows]:
    """Return the sorted current rows of each SELECT; null is the smallest value."""
    env = rh.Environment(runtime="simulated")
    session = env._sql_session()
    session.say = lambda text: None
    sql = SqlText(script)
    statements = parse(sql)
    session.prepare(statements)
    shown: dict[str, CurrentRows] = {}
    for each in statements:
        if isinstance(each, exp.Query | exp.Values):
            stream = session.stream(sql, each)
            name = str(len(shown))
            shown[name] = CurrentRows(stream.schema.names, stream._type.changes)
            stream.collect(name)
        else:
            session.carry_out(sql, each)
    session.write()
    found = env.execute("script").collected
    for name, rows in shown.items():
        rows.add(found[name])
    return [sorted(rows, key=_order) for rows in shown.values()]


def _order(row: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is not None, "" if value is None else value) for value in row]
