"""Random expressions of SQL: right and wrong ones, nested, and with odd arguments."""

# ruff: noqa: E501 - The choices of a pool are a line.
from __future__ import annotations

from random import Random

from rheos.sql.dialect import StreamSql
from rheos.sql.expressions.table import function_names

_NAMES = sorted({*(name.upper() for name in function_names()), *StreamSql.Parser.FUNCTIONS})
_COLUMNS = (
    "s",
    "r",
    "ns",
    "ts",
    "i8",
    "i",
    "l",
    "f",
    "x",
    "y",
    "b",
    "d",
    "t",
    "n",
    "z",
    "a",
    "o",
    "o.p",
    "edges.s",
    "nothing",
)
_CONSTANTS = (
    "NULL", "TRUE", "1", "0", "-1", "2147483648", "1e400", "1e-400", "1.50", "9" * 38, "''", "'a'", "'%'", "'yyyy'", "'\\\\'", "'('", "X'1F'", "'2026-13-01'", "1Y",
    "INTERVAL '1' DAY", "INTERVAL '1' MONTH", "DATE '2026-03-01'", "TIMESTAMP '2026-03-01 00:00:00'", "CURRENT_DATE", "ARRAY(1, 2)", "ARRAY()", "MAP('a', 1)", "STRUCT(1)",
    "?", ":p", "*", "$1",
)  # fmt: skip
_SIGNS = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "DIV",
    "||",
    "=",
    "<",
    "<=>",
    "AND",
    "OR",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "IS DISTINCT FROM",
    "LIKE",
    "ILIKE",
    "RLIKE",
    "NOT LIKE",
    "->",
    "->>",
)
_TYPES = (
    "INT",
    "STRING",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "DECIMAL(40, 2)",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP(4)",
    "BOOLEAN",
    "BINARY",
    "ARRAY<INT>",
    "MAP<STRING, INT>",
    "STRUCT<a: INT>",
    "CHAR(3)",
    "VARIANT",
    "NOTHING",
)
_AMOUNTS = ("'1'", "'-1'", "'1.5'", "'999999999999999'", "'1e3'", "'i'", "'1 2:3'", "i")
_UNITS = ("DAY", "MONTH", "YEAR", "SECOND", "HOURS", "DAY TO SECOND", "WEEKS", "MOONS")
_FORMS = (
    "EXTRACT(YEAR FROM {})", "EXTRACT(SECOND FROM {})", "EXTRACT(FOO FROM {})", "TRIM(BOTH {} FROM {})", "POSITION({} IN {})", "SUBSTRING({} FROM {} FOR {})", "OVERLAY({} PLACING {} FROM 1)",
    "{} AT TIME ZONE 'UTC'", "({}).p", "{}[{}]", "{}::INT", "NOT {}", "- {}", "~ {}", "{} IS NULL", "{} IS NOT TRUE", "{} BETWEEN {} AND {}", "{} IN ({}, {})", "{} IN ()", "({}, {})",
    "CASE WHEN {} THEN {} END", "CASE {} WHEN {} THEN {} ELSE {} END", "SUM({}) OVER (PARTITION BY {} ORDER BY {})", "COUNT(DISTINCT {}) FILTER (WHERE {})", "(SELECT {} FROM edges)", "EXISTS ({})",
)  # fmt: skip


def drawn(draw: Random, depth: int = 0) -> str:
    """Return a random expression over the table of `edges`."""
    if depth > 3 or draw.random() < 0.25:
        return draw.choice(_COLUMNS if draw.random() < 0.6 else _CONSTANTS)
    match draw.choice(("call", "call", "sign", "cast", "interval", "form")):
        case "call":
            arguments = (_argument(draw, depth + 1) for _ in range(draw.choice((0, 1, 1, 2, 2, 3, 4))))
            return f"{draw.choice(_NAMES)}({', '.join(arguments)})"
        case "sign":
            return f"({drawn(draw, depth + 1)} {draw.choice(_SIGNS)} {drawn(draw, depth + 1)})"
        case "cast":
            return f"CAST({drawn(draw, depth + 1)} AS {draw.choice(_TYPES)})"
        case "interval":
            length = f"INTERVAL {draw.choice(_AMOUNTS)} {draw.choice(_UNITS)}"
            return f"{drawn(draw, depth + 1)} {draw.choice('+-')} {length}"
    form = draw.choice(_FORMS)
    return form.format(*(drawn(draw, depth + 1) for _ in range(form.count("{}"))))


def _argument(draw: Random, depth: int) -> str:
    prefix = "" if draw.random() < 0.85 else draw.choice(("DISTINCT ", "x -> ", "(x, y) -> ", "a => "))
    return prefix + drawn(draw, depth)
