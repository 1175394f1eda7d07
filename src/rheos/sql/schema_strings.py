"""Schemas as strings of DDL: 'a INT, b ARRAY<STRING>', as FROM_JSON takes them."""

from __future__ import annotations

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from rheos.sql.text import SQLGLOT_FAILURES


def schema_of(text: str) -> exp.DataType | None:
    """Parse a schema, or the name of a type; None if it is neither."""
    for written in (text, f"STRUCT<{text}>"):
        try:
            made = parse_one(written, dialect="spark", into=exp.DataType)
        except (SqlglotError, *SQLGLOT_FAILURES):
            continue
        if isinstance(made, exp.DataType) and made.this != exp.DType.USERDEFINED:
            return made
    return None
