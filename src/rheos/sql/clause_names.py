"""Names of clauses as users write them, and words of other systems, with what to write instead."""

from __future__ import annotations

DATABASES = (*("default", "default_database", "public", "main", "default_catalog", "spark_catalog"),)
"""Names that other systems have for their first database and its catalog: all tables are in it."""

CLAUSES: dict[str, tuple[str, str | None]] = {
    "sample": ("TABLESAMPLE", "filter by a column, as in WHERE id % 10 = 0"),
    "locks": ("FOR UPDATE", "leave it out: a query only reads"),
    "hints": ("WITH (...)", "leave it out"),
    "into": ("INTO", "write INSERT INTO t SELECT ... in env.sql_script(...)"),
    "connect": ("CONNECT BY", "write a loop in Python: stream.iterate(...)"),
    "conflict": ("ON CONFLICT", "leave it out: a row replaces the earlier one of its PRIMARY KEY"),
    "returning": ("RETURNING", "leave it out, and write SELECT * FROM the table"),
    "field": ("a column as the list", "write x IN (1, 2), or ARRAY_CONTAINS(list, x)"),
    "kind": ("this kind", None),
    "on": ("ON (...)", "write ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) AS n, and WHERE n = 1"),
}
"""By sqlglot's name of the part: its name in SQL, and what to do."""

KINDS = {
    "Subquery": "a query",
    "Tuple": "a list of values",
    "Select": "SELECT",
    "Table": "a table",
    "TableAlias": "a table's name",
    "Identifier": "a name",
    "ColumnDef": "a column",
    "DataType": "a type",
    "Join": "JOIN",
}
"""By sqlglot's name of the node: its name in errors, where it differs from the name in capitals."""

_FIRST = "write LIMIT 10 at the end of the query"
_RECENT = "for recent rows, use windows of event time, or RANGE BETWEEN INTERVAL '1' DAY PRECEDING"
_CLOCK = "the current time would be another one after a restart: compute it upstream of the job"

FOREIGN = {
    "top": _FIRST,
    "rownum": _FIRST,
    "dual": "leave out FROM dual",
    "nolock": "leave out (NOLOCK)",
    "prewhere": "write WHERE",
    "distinctrow": "write DISTINCT",
    "glob": "write LIKE 'a%'",
    "~": "write name RLIKE '^a'",
    "getdate": _CLOCK,
    "sysdate": _CLOCK,
    "now": _CLOCK,
    "today": _CLOCK,
    "mz_now": _RECENT,
    "subscribe": "write SELECT: the shell shows rows as they change",
    "include": "declare a column instead: sent TIMESTAMP(3) METADATA FROM 'timestamp'",
    "connection": "write the address in WITH (...) of CREATE TABLE",
    "secret": "read the password from a file of settings",
    "alter": "write the whole CREATE TABLE",
    "mutually": "write a loop in Python: stream.iterate(...)",
    "isnumeric": "write TRY_CAST(x AS DOUBLE) IS NOT NULL",
    "strlen": "write LENGTH(name)",
    "convert": "write CAST(x AS INT)",
    "safe_cast": "write TRY_CAST(x AS INT)",
    "safe_divide": "write a / b, which is null if b is 0",
    "arraysize": "write SIZE(list)",
    "toint64": "write CAST(x AS BIGINT)",
    "tostring": "write CAST(x AS STRING)",
    "ilike_any": "write name ILIKE ANY ('a%', 'b%')",
    "group_concat": "write LISTAGG(name, ',')",
}
"""Words of other systems, in lower case, and what to write here."""


def foreign_hint(word: str) -> str:
    """Return what to write for a word of another system, before a further hint; "" if none is known."""
    found = FOREIGN.get(word.casefold())
    return f"{found}; " if found else ""
