"""A new function of SQL is a decorated function in a module of `expressions`. This test adds two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from sqlglot import exp

import rheos as rh
from rheos.core.errors import ProgramError, SchemaError
from rheos.sql import expressions, types
from rheos.sql.expressions.table import HANDLERS, NAMED, TEXT, WHOLE, function, optional

SOURCE = Path(expressions.__file__).parents[1]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do what a module of `expressions` does when it is imported."""
    handlers, named = {**HANDLERS}, {**NAMED}

    @function("shout", {"text": TEXT, "times": optional(WHOLE, default=pl.lit(1))}, types.TEXT)
    def shout(text: pl.Expr, times: pl.Expr) -> pl.Expr:
        return text.str.to_uppercase() + pl.lit("!").repeat_by(times).list.join("")

    # A class of SQLGlot for which Rheos has no function so far.
    @function(exp.Unicode, {"this": TEXT}, types.TEXT)
    def unicode(this: pl.Expr) -> pl.Expr:
        return this.str.slice(0, 1)

    yield
    for table, before in ((HANDLERS, handlers), (NAMED, named)):
        table.clear()  # type: ignore[attr-defined]
        table.update(before)  # type: ignore[attr-defined]


def environment() -> rh.Environment:
    env = rh.Environment(1, runtime="simulated")
    rows = pa.table({"k": ["a", "b", None], "n": [2, 1, 3]})
    env.register("t", env.from_source(rh.collection(rows)))
    return env


def result(query: str) -> list[Any]:
    env = environment()
    env.sql(query).collect("found")
    return [tuple(row.values()) for row in env.execute("new").collected["found"].to_pylist()]


def test_a_new_function_works_in_any_expression() -> None:
    assert result("SELECT SHOUT(k, n) AS s, shout(k) AS once FROM t WHERE SHOUT(k) <> 'B!'") == [
        ("A!!", "A!")
    ]
    assert result("SELECT UNICODE(k) AS s, COUNT(*) AS n FROM t WHERE n < 2 GROUP BY UNICODE(k)") == [
        ("b", 1, "insert")
    ]


def test_arguments_of_a_new_function_are_checked() -> None:
    with pytest.raises(SchemaError, match=r"SHOUT\(\) takes a STRING, but this is BIGINT") as wrong:
        environment().sql("SELECT SHOUT(n) AS s FROM t")
    assert wrong.value.hint
    with pytest.raises(ProgramError, match=r"SHOUT\(\) lacks an argument: a STRING"):
        environment().sql("SELECT SHOUT() AS s FROM t")
    with pytest.raises(ProgramError, match=r"SHOUT\(\) takes 2 arguments, but has 3"):
        environment().sql("SELECT SHOUT(k, n, n) AS s FROM t")


def test_a_misspelled_new_function_is_suggested() -> None:
    with pytest.raises(SchemaError) as caught:
        environment().sql("SELECT SHOT(k) AS s FROM t")
    assert "SHOUT" in f"{caught.value} {caught.value.hint}".upper()


def test_each_module_that_registers_functions_is_imported_by_the_package() -> None:
    """Its entry in the package is the only place outside its own file."""
    registering = re.compile(r"^@?(function|computes|computes_named|generates|real)\(", re.MULTILINE)
    files = (SOURCE / "expressions").glob("*.py")
    found = {file.stem for file in files if registering.search(file.read_text())}
    assert found == {module.__name__.rpartition(".")[2] for module in expressions.MODULES}
    others = [path for path in SOURCE.glob("*.py") if registering.search(path.read_text())]
    assert others == []
