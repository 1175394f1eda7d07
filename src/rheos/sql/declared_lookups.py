"""Tables of CREATE TABLE in which rows are looked up: JOIN t FOR SYSTEM_TIME AS OF PROCTIME()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import duration_ms
from rheos.sql.catalog import DeclaredTable
from rheos.sql.inserted_rows import InsertedRows
from rheos.sql.joined_plans import DEFAULT_CALLS, LookupArguments
from rheos.sql.joins import Joining
from rheos.sql.lookups import LookupJoin
from rheos.sql.plan import ColumnRole
from rheos.sql.scope import NameScope, SqlRelation
from rheos.sql.text import SqlText
from rheos.sql.windows import is_clock

_TIME = ("lookup.cache-for", "lookup.partial-cache.expire-after-write", "lookup.cache.ttl")
_KEYS = ("lookup.cache-keys", "lookup.partial-cache.max-rows", "lookup.cache.max-rows")
_RETRIES = ("lookup.retry-for",)
_KIND = "lookup.cache"
_FIXED: Mapping[str, tuple[str, ...]] = {
    _KIND: ("none", "partial"),
    "lookup.partial-cache.cache-missing-key": ("true",),
    "lookup.cache.caching-missing-key": ("true",),
}
"""Options of Flink with the values that Rheos has."""
_WITHOUT_EFFECT = ("lookup.max-retries",)
_KNOWN = (*_TIME, *_KEYS, *_RETRIES, *_FIXED, *_WITHOUT_EFFECT)


def is_looked_up(table: DeclaredTable) -> bool:
    """Return whether a join with the current rows of a table looks them up in its system."""
    options = table.options
    return (
        not isinstance(options, InsertedRows)
        and options.connector.sql_lookup_key is not None
        and table.watermark is None
    )


def declared_lookup(
    work: Joining, table: DeclaredTable, left: SqlRelation, conditions: Sequence[exp.Expr]
) -> LookupJoin:
    """Return the join that looks rows of a table up by the columns that its conditions compare. Raise
    ProgramError."""
    sql, node, options = work.sql, work.node, table.options
    assert not isinstance(options, InsertedRows), "is_looked_up has checked it"
    _check_time(work, left)
    if table.computed or table.metadata:
        raise sql.error(
            "a table in which rows are looked up has only columns of its database",
            node.this,
            "declare it without computed columns and metadata",
        )
    alias = node.this.alias_or_name.casefold()
    keys: dict[str, None] = {}
    for each in conditions:
        if not isinstance(each, exp.EQ):
            continue
        for one, other in ((each.this, each.expression), (each.expression, each.this)):
            inside = {column.table.casefold() for column in other.find_all(exp.Column)}
            if isinstance(one, exp.Column) and one.table.casefold() == alias and alias not in inside:
                known = (name for name in table.schema.names if name.casefold() == one.name.casefold())
                keys |= dict.fromkeys(known)
    if not keys:
        raise sql.error(
            f"no condition compares a column of {node.this.alias_or_name} with one of the rows",
            node.args.get("on") or node.this,
            f"write ON a.id = {node.this.alias_or_name}.id",
        )
    made = options.lookup(table.sql, table.schema, tuple(keys))
    return LookupJoin(sql, node, made, work.how, _calls(table.sql, options.options))


def _check_time(work: Joining, left: SqlRelation) -> None:
    time, sql = work.as_of, work.sql
    assert time is not None, "a lookup in a declared table has FOR SYSTEM_TIME AS OF"
    named = NameScope(sql, left.tables).find(time) if isinstance(time, exp.Column) else None
    of_clock = named is not None and named.column.role is ColumnRole.PROCESSING_TIME
    if not of_clock and not is_clock(time):
        raise sql.error(
            "rows of this table are looked up as they are now, not as of another time",
            time,
            "write FOR SYSTEM_TIME AS OF PROCTIME()",
        )


def _calls(sql: SqlText, options: Mapping[str, exp.Expr]) -> LookupArguments:
    """Return how the lookup is called, by the options `lookup.` of a table. Raise ProgramError."""
    given = {
        name.replace("_", "-"): node for name, node in options.items() if name.startswith("lookup.")
    }
    for name, node in given.items():
        if name not in _KNOWN:
            raise sql.unknown("option", name, node, _KNOWN, "the options of a lookup are")
        if name in _FIXED and node.name.casefold() not in _FIXED[name]:
            raise sql.unknown("value", node.name, node, _FIXED[name], f"the values of {name!r} are")
    kept, keys, retries = (_first(given, names) for names in (_TIME, _KEYS, _RETRIES))
    kind = given.get(_KIND)
    if kind is not None and kind.name.casefold() == "none":
        kept = None
    elif kept is None and (kind or keys) is not None:
        raise sql.error(
            "a cache needs the time for which it keeps rows",
            kind or keys,
            f"write '{_TIME[0]}' = '10 min'",
        )
    return LookupArguments(
        DEFAULT_CALLS.cache_for if kept is None else _duration(sql, kept),
        DEFAULT_CALLS.cache_keys if keys is None else _number(sql, keys),
        DEFAULT_CALLS.retry_for if retries is None else _duration(sql, retries),
    )


def _first(given: Mapping[str, exp.Expr], names: Sequence[str]) -> exp.Expr | None:
    return next((given[name] for name in names if name in given), None)


def _duration(sql: SqlText, node: exp.Expr) -> str:
    try:
        duration_ms(node.name)
    except ProgramError as error:
        raise sql.error(error.what, node, error.hint) from None
    return node.name


def _number(sql: SqlText, node: exp.Expr) -> int:
    if not node.name.isdecimal() or int(node.name) < 1:
        raise sql.error(f"{node.name!r} is not a number of keys", node, "write '10000'")
    return int(node.name)
