"""Functions of vectors, which are arrays of FLOAT: norms, distances, sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rheos.core.graph.row_functions import of_one_length
from rheos.core.operators.row_expressions import refusal

Vector: TypeAlias = npt.NDArray[np.float64]
VECTOR = pl.List(pl.Float32())


def _vector(values: Sequence[float | None] | None) -> Vector | None:
    """Return a vector; None for null, and if an element is null."""
    if values is None or None in values:
        return None
    return np.asarray(values, np.float64)


def of_rows(
    columns: Sequence[pl.Series], *, compute: Callable[..., object], returns: pl.DataType, call: str
) -> pl.Series:
    """Return a function of the vectors of each row, or null if one of them is null.

    Args:
        columns: The vectors.
        compute: The function.
        returns: The type of the result.
        call: The call in the query.

    Raises:
        ComputeError: the vectors of a row have different lengths.
    """
    made = []
    for row in zip(*(column.to_list() for column in of_one_length(columns)), strict=True):
        vectors = [vector for vector in map(_vector, row) if vector is not None]
        if len({len(vector) for vector in vectors}) > 1:
            raise _of_other_length(call, vectors)
        made.append(compute(*vectors) if len(vectors) == len(row) else None)
    return pl.Series(columns[0].name, made, returns)


def _of_other_length(call: str, vectors: Sequence[Vector]) -> Exception:
    lengths = [*dict.fromkeys(len(vector) for vector in vectors)]
    return refusal(
        f"{call} received vectors of {lengths[0]} and of {lengths[1]} elements",
        "filter such rows by SIZE(vector)",
    )


def norm(vector: Vector, *, degree: float) -> float:
    """Return the norm of a degree: 1, 2 or infinity."""
    return float(np.linalg.norm(vector, degree)) if len(vector) else 0.0


def normalized(vector: Vector, *, degree: float) -> list[float] | None:
    """Return the vector divided by its norm; null if that is 0."""
    by = norm(vector, degree=degree)
    if not len(vector):
        return []
    return (vector / by).tolist() if by else None


def inner_product(one: Vector, other: Vector) -> float:
    return float(one @ other)


def l2_distance(one: Vector, other: Vector) -> float:
    return norm(one - other, degree=2)


def cosine_similarity(one: Vector, other: Vector) -> float | None:
    """Return the cosine of the angle between two vectors; null if one of them has no direction."""
    both = norm(one, degree=2) * norm(other, degree=2)
    return float(one @ other) / both if both else None


def of_lists(columns: Sequence[pl.Series], *, mean: bool, call: str) -> pl.Series:
    """Return the sum or the mean of the vectors of each list, without those that have a null.

    Raises:
        ComputeError: the vectors of a list have different lengths.
    """
    [lists] = columns
    made: list[object] = []
    for values in lists.to_list():
        vectors = [vector for vector in map(_vector, values or ()) if vector is not None]
        if len({len(vector) for vector in vectors}) > 1:
            raise _of_other_length(call, vectors)
        if not vectors:
            made.append(None)
            continue
        total = np.sum(vectors, axis=0)
        made.append((total / len(vectors) if mean else total).tolist())
    return pl.Series(lists.name, made, VECTOR)
