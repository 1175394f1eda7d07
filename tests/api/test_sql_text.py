"""SQL strings: a word that is the name of a column is that column, whatever else it means in SQL."""

from __future__ import annotations

import polars as pl
import pytest
from polars import col

from rheos.api.sql_text import read_sql
from rheos.core.errors import ProgramError

COLUMNS = ["user", "order", "current_date", "end", "value", "date", "from", "x", "null"]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("user = 1", col("user") == 1),
        ("value < 400 AND user IS NOT NULL", (col("value") < 400) & col("user").is_not_null()),
        ("abs(user) > order", col("user").abs() > col("order")),
        ("current_date > 3", col("current_date") > 3),
        ('"user" = 1', col("user") == 1),
        ("date = 1", col("date") == 1),
        ("x = 'user'", col("x") == "user"),
        ("x = 'it''s user'", col("x") == "it's user"),
        ("CASE WHEN x > 1 THEN 2 END", pl.when(col("x") > 1).then(2)),
        ("CASE WHEN end > 1 THEN 2 END", pl.when(col("end") > 1).then(2)),
        ("case when x > 1 then 2 end", pl.when(col("x") > 1).then(2)),
        ("x is distinct from value", col("x").ne_missing(col("value"))),
        ("x IS null", col("x").is_null()),
    ],
)
def test_a_word_that_is_a_column_is_the_column(text: str, means: pl.Expr) -> None:
    assert str(read_sql(text, COLUMNS, "")) == str(means)


@pytest.mark.parametrize(
    ("text", "columns", "hint"),
    [
        ("USER = 1", ["user"], 'write "user" in double quotes, as it is a keyword of SQL'),
        ("value >", ["value"], "the example"),
        ("user = 1", ["value"], "the example"),
    ],
)
def test_invalid_sql_has_a_hint(text: str, columns: list[str], hint: str) -> None:
    with pytest.raises(ProgramError, match="is neither a column nor SQL") as caught:
        read_sql(text, columns, "the example")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)
