"""A row's result does not depend on the other rows in its batch, for all functions of Polars. Each
function is refused when the program is built, or accepted and evaluated: for each row alone, for pairs
of rows, for all rows in several orders, and in another process that has seen other strings before."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from polars import col

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Some functions are deprecated, and still there.
    from tests.api.company.refused import REFUSED
    from tests.api.company.row_wise import ROW_WISE

import polars as pl

from rheos.api.expressions import compile_expressions
from rheos.core.errors import ProgramError, UserFunctionError
from rheos.core.graph.expression_trees import computes
from rheos.core.operators.expressions import ExpressionOperator, ExpressionSpec
from tests.api.company.functions import (
    NAMESPACES,
    NO_EXPRESSIONS,
    functions_of_polars,
    namespaces_of_polars,
)
from tests.api.company.rows import COUNT, EMPTY_ROW, NULL_ROW, ROWS
from tests.core.operators.contexts import context

ROOT = Path(__file__).parents[2]
TOGETHER = 80
"""So many expressions are evaluated by one operator."""


def test_every_function_of_polars_is_known() -> None:
    known = ROW_WISE.keys() | REFUSED.keys()
    assert namespaces_of_polars() == set(NAMESPACES)
    assert functions_of_polars() == known, "a new function of Polars: see tests/api/company"
    assert not known & NO_EXPRESSIONS


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_expressions_that_need_other_rows_are_refused(name: str) -> None:
    for expr in REFUSED[name]:
        with pytest.raises(ProgramError):
            compile_expressions("select", [expr], {}, ROWS.schema)


def operators() -> Iterator[tuple[list[str], ExpressionOperator]]:
    """Return all accepted expressions, in operators of many expressions, with their descriptions."""
    given = [(f"{name}: {expr}", expr) for name, exprs in ROW_WISE.items() for expr in exprs]
    # What computes nothing is evaluated by other operators, of batches as they are.
    given.sort(key=lambda named: computes(named[1]))
    for start in range(0, len(given), TOGETHER):
        some = given[start : start + TOGETHER]
        named = [
            (pl.struct(expr) if expr.meta.has_multiple_outputs() else expr).alias(str(place))
            for place, (_, expr) in enumerate(some)
        ]
        exprs, schema = compile_expressions("select", named, {}, ROWS.schema)
        operator = ExpressionOperator(context(ROWS.schema, schema), ExpressionSpec("select", exprs))
        yield [what for what, _ in some], operator


def evaluated(operator: ExpressionOperator, rows: Sequence[int]) -> list[list[str]]:
    """Return the values of each row as exact strings."""
    columns: list[list[str]] = []
    for out in operator.on_batch(0, ROWS.take(pa.array(rows))):
        columns = [[repr(value) for value in column.to_pylist()] for column in out.batch.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def companies() -> Iterator[list[int]]:
    everyone = list(range(COUNT))
    yield everyone
    yield everyone[::-1]
    yield everyone * 2
    for row in everyone:
        yield [row, (row + 5) % COUNT]
    for row in everyone[::2]:
        yield [NULL_ROW, row, EMPTY_ROW]


def test_a_row_has_the_same_result_alone_and_with_others() -> None:
    for some, operator in operators():
        alone = [evaluated(operator, [row])[0] for row in range(COUNT)]
        for company in companies():
            for row, values in zip(company, evaluated(operator, company), strict=True):
                for name, mine, theirs in zip(some, alone[row], values, strict=True):
                    assert theirs == mine, f"{name}: row {row} in {company}"


def fingerprint() -> list[str]:
    return [str(evaluated(operator, range(COUNT))) for _, operator in operators()]


def test_a_row_has_the_same_result_in_a_process_that_has_seen_other_strings() -> None:
    program = "\n".join(
        [
            "import sys, warnings; warnings.simplefilter('ignore')",
            "import polars as pl",
            "kept = pl.Series(['zz', 'y', 'q', 'b', 'd', 'a', 'k', '1'], dtype=pl.Categorical)",
            "from tests.api.test_rows_in_company import fingerprint",
            "sys.stdout.write('\\x00'.join(fingerprint()))",
        ]
    )
    there = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert there.stdout.split("\x00") == fingerprint()


def test_a_failing_expression_fails_alone_and_with_others() -> None:
    exprs, schema = compile_expressions("select", [col("s").cast(pl.Int64)], {}, ROWS.schema)
    operator = ExpressionOperator(context(ROWS.schema, schema), ExpressionSpec("select", exprs))
    for rows in ([0], [0, NULL_ROW], [NULL_ROW, 0, 1]):
        with pytest.raises(UserFunctionError):
            evaluated(operator, rows)
