"""Functions of vectors, which are arrays of FLOAT: norms, distances, products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types, vectors
from rheos.sql.expressions.table import NUMBER, Compiler, Takes, Typed, computes_named, optional
from rheos.sql.text import kind

_VECTOR = Takes("an ARRAY of FLOAT", lambda of: of == vectors.VECTOR, vectors.VECTOR)
_FLOAT = pl.Float32()
_DEGREES = (1.0, 2.0, float("inf"))


@computes_named("vector_norm", "vector_normalize")
def norm(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile VECTOR_NORM(v[, degree]) and VECTOR_NORMALIZE(v[, degree])."""
    vector, *given = compiler.given(node, (_VECTOR, optional(NUMBER)))
    degree = float(types.constant(given[0].expr).item()) if given else 2.0
    if degree not in _DEGREES:
        raise compiler.sql.error(
            f"{kind(node)} takes the degree 1, 2 or infinity", given[0].node, "write 2.0F"
        )
    is_norm = node.name.casefold() == "vector_norm"
    compute = partial(vectors.norm if is_norm else vectors.normalized, degree=degree)
    return _of_rows(compiler, node, [vector], compute, _FLOAT if is_norm else vectors.VECTOR)


_OF_TWO = {
    "vector_inner_product": vectors.inner_product,
    "vector_l2_distance": vectors.l2_distance,
    "vector_cosine_similarity": vectors.cosine_similarity,
}


@computes_named(*_OF_TWO)
def of_two(compiler: Compiler, node: exp.Anonymous) -> Typed:
    both = compiler.given(node, (_VECTOR, _VECTOR))
    return _of_rows(compiler, node, both, _OF_TWO[node.name.casefold()], _FLOAT)


def _of_rows(
    compiler: Compiler,
    node: exp.Expr,
    given: list[Typed],
    compute: Callable[..., object],
    returns: pl.DataType,
) -> Typed:
    call = compiler.sql.written(node)
    made = partial(vectors.of_rows, compute=compute, returns=returns, call=call)
    return Typed(of_columns(made, [each.expr for each in given], returns), returns, node)
