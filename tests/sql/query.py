"""A query of the corpus."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    sql: str
    duckdb: str | None = None
    """The same in DuckDB's words."""
    spark: bool = True
    """Whether Spark reads it, and means the same."""
    since: str = ""
    """Version of Spark that computes it, such as 4.0, if the oldest one does not."""
    expression: str = ""
    """The expression, if the query only computes one for each row of the table of its topic."""
