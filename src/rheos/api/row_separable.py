"""Check that an expression reads only its own row and returns one value for it.

Polars reports this for each function (`Expr.meta.is_row_separable`), but only for the outermost one:
`col("v") + col("v").mean()` is a sum, which is row-separable. So every part of the expression is
checked.

Polars reports some functions as row-wise although their result for a row depends on other rows of the
batch. They are refused here by their form. Every function of Polars is either refused, or returns the
same for a row alone and in any batch (`tests/api/test_rows_in_company.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import polars as pl

from rheos.core.errors import ProgramError
from rheos.core.graph.expression_trees import (
    FAILURES,
    Tree,
    expression_of,
    is_constant,
    tree_of,
    typed_parts,
    types_of,
)

if TYPE_CHECKING:
    from polars._typing import PolarsDataType

_PER_WINDOW = (
    "a stream has no end, so it cannot be computed over all rows: use "
    '.key_by(...).window(rh.Tumbling("1m")).aggregate(x=rh.agg.mean(...)) for a result per '
    "window, or .key_by(...).running(...) for one per row"
)
_PER_RECORD = "use .map(fn) for a function of a record"
_WITHIN_ROWS = ("List", "ListAgg", "Array", "ArrayAgg")


def shallow_tree(expr: pl.Expr, spelled: str) -> Tree | None:
    """Return the expression's tree, in the form of `tree_of`. Raise ProgramError if it has too many
    levels.

    Polars takes seconds to derive the type of an expression with thousands of levels.
    """
    with _few_levels(spelled):
        return tree_of(expr)


def check_row_separable(tree: Tree | None, spelled: str, frame: pl.LazyFrame) -> None:
    """Raise a ProgramError, with an alternative, unless the expression is row-separable. `tree` is the
    result of `shallow_tree`; `frame` has the columns but no rows."""
    with _few_levels(spelled):
        _check(tree, spelled, frame)


@contextmanager
def _few_levels(spelled: str) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise _too_deep(spelled) from None


def _too_deep(spelled: str) -> ProgramError:
    return ProgramError(
        f"{spelled} is nested too deeply",
        hint="compute it in steps: .with_columns(...) for each, or in SQL a query in FROM for a part",
    )


def _check(tree: Tree | None, spelled: str, frame: pl.LazyFrame) -> None:
    if tree is None:
        raise ProgramError(
            f"{spelled} calls a Python function within an expression",
            hint="use .map(fn) for a function of a record, or .map_batches(fn, returns=...) for one of "
            "whole batches",
        )
    for part, columns in typed_parts(tree, frame):
        _refuse_company(part, spelled, columns)
    try:
        for asked in _parts(expression_of(_askable(tree))):
            _ask(asked, spelled)
    except FAILURES as error:
        if "recursion limit" in str(error):
            raise _too_deep(spelled) from None
        raise ProgramError(
            f"{spelled} may depend on other rows: Polars does not guarantee that it works row by row",
            hint=f"{_PER_RECORD}; {_PER_WINDOW}",
        ) from error


# --- what Polars says -----------------------------------------------------------------------------


def _parts(expr: pl.Expr) -> Iterator[pl.Expr]:
    yield expr
    for part in expr.meta.pop():
        yield from _parts(part)


def _ask(part: pl.Expr, spelled: str) -> None:
    meta = part.meta
    if not meta.is_row_separable():
        if str(part) == "Series":
            raise ProgramError(
                f"{spelled} contains a Series, which is not aligned with the rows",
                hint="write a list: pl.lit([1, 2, 3])",
            )
        raise ProgramError(
            f"{spelled} depends on other rows, so its result would differ per batch", hint=_PER_WINDOW
        )
    if not (meta.is_length_preserving() or meta.is_scalar()):
        raise ProgramError(
            f"{spelled} does not return one value per row",
            hint="use .filter(...) to drop rows, and .flat_map(fn) to return several rows for one",
        )


def _askable(tree: Tree) -> Tree:
    """Replace functions that Polars resolves only in a frame by similar functions that it resolves
    without one, and return the tree."""
    if isinstance(tree, list):
        return [_askable(branch) for branch in tree]
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"Literal": _}:
            return tree
        case {"Selector": _} | {"Field": _}:
            # One of the selected columns represents all.
            return {"Column": "any"}
        case {"Eval": {"expr": outer, "variant": variant}} if _name(variant) in _WITHIN_ROWS:
            # Evaluation within the elements of a list stays within the row.
            return _askable(outer)
        case {"StructEval": {"expr": outer, "evaluation": inner}}:
            return _row_wise([outer, *inner])
        case {"Cast": {"expr": inner, "dtype": {"OfExpr": _}}}:
            return _row_wise([inner])
        case {
            "Function": {"function": {"Boolean": {"IsIn": _}} | {"Sql": {"IsIn": _}}, "input": inputs}
        }:
            # The values to look for may be a constant of any length.
            return _row_wise(_without_constants(inputs))
        case {
            "Function": {
                "function": "Replace" | {"ReplaceStrict": _} | {"Business": _},
                "input": inputs,
            }
        }:
            # The values to replace, and holidays, may be constants, too.
            return _row_wise(_without_constants(inputs))
        case {"Function": {"function": function, "input": inputs}} if _is_row_wise(function):
            return _row_wise(inputs)
        case {"AnonymousFunction": {"input": inputs}}:
            # A row function: `tree_of` returns no tree with another Python function.
            return _row_wise(inputs)
    return {name: _askable(branch) for name, branch in tree.items()}


def _is_row_wise(function: Tree) -> bool:
    """Return whether a function that Polars resolves only in a frame is row-wise."""
    match function:
        case {"Sql": _} | {"Reinterpret": _} | {"ArrayExpr": {"ToStruct": _}}:
            return True
        case {"StructExpr": {"SelectFields": _}}:
            return True
        case {"Bin": {"method": {"Intervals": {"spec": {"Breaks": _}}}}}:
            return True
    return False


def _row_wise(inputs: list[Tree]) -> Tree:
    """Return a row-wise function of a row's values, which replaces such a function."""
    return {"Function": {"input": _askable(inputs), "function": "AsStruct"}}


def _without_constants(inputs: list[Tree]) -> list[Tree]:
    first, *others = inputs
    return [first, *(each for each in others if not is_constant(each))]


def _name(form: Tree) -> str:
    return str(next(iter(form))) if isinstance(form, dict) else str(form)


# --- what Polars does not say ---------------------------------------------------------------------


def _refuse_company(part: Tree, spelled: str, columns: pl.LazyFrame) -> None:
    """Raise an error for a part whose result for a row depends on other rows."""
    match part:
        case {"Eval": {"variant": variant}} if _name(variant) not in _WITHIN_ROWS:
            raise ProgramError(
                f"{spelled} depends on other rows, so its result would differ per batch",
                hint=_PER_WINDOW,
            )
        case {"Function": {"function": function, "input": [value, *others]}}:
            match function:
                case (
                    "ToPhysical"
                    | {"Categorical": "Physical"}
                    | {"Hash": _}
                    | "MinHorizontal"
                    | "MaxHorizontal"
                    | {"ListExpr": "Min" | "Max"}
                    | {"ArrayExpr": "Min" | "Max"}
                    | "PeakMin"
                    | "PeakMax"
                ) if _hold_codes(types_of(value, columns)):
                    _refuse_codes(spelled)
                case {"Categorical": {"To": _}} if _hold_codes(types_of(part, columns)):
                    _refuse_codes(spelled)
                case "Replace" | {"ReplaceStrict": _} if not all(map(is_constant, others[:2])):
                    raise ProgramError(
                        f"{spelled} derives its replacements from all rows of a batch",
                        hint="pass constants, as in replace({1: 10, 2: 20}), or use "
                        "pl.when(...).then(...).otherwise(...)",
                    )
                case {"StringExpr": {"Strptime": [_, {"format": None}]}}:
                    raise ProgramError(
                        f"{spelled} would infer the format anew for each batch",
                        hint='pass the format, as in col("at").str.to_datetime("%Y-%m-%d %H:%M:%S")',
                    )
                case (
                    {"StringExpr": {"Replace": _} | {"ContainsAny": _} | {"ReplaceMany": _}}
                    | {"ListExpr": "CountMatches"}
                    | {"ArrayExpr": "CountMatches"}
                ) if not is_constant(others[0]):
                    raise ProgramError(
                        f"{spelled} takes its pattern from a column, which Polars supports only for "
                        f"a batch of one row",
                        hint=f"use a constant, or {_PER_RECORD}",
                    )
                case (
                    {"ListExpr": {"Sample": {"seed": None}}}
                    | {"Random": {"seed": None}}
                    | {"Rank": {"options": {"method": "Random"}, "seed": None}}
                ):
                    raise ProgramError(
                        f"{spelled} is random: a row that is read again after a failure would "
                        "get another value",
                        hint="set seed=",
                    )
                case {"Mode": {"maintain_order": False}} | {"ValueCounts": {"sort": False}}:
                    raise ProgramError(
                        f"{spelled} returns values in no fixed order",
                        hint="write maintain_order=True, or sort=True",
                    )
                case {"ListExpr": "Sum" | "Mean" as name} | {"ArrayExpr": "Sum" as name} if (
                    not _is_exact(name, types_of(value, columns))
                ):
                    space = "list" if "ListExpr" in function else "arr"
                    raise ProgramError(
                        f"{spelled} rounds the result of a row differently if other rows are null",
                        hint=f"write .{space}.agg(pl.element().{name.lower()}())",
                    )
                case {"ArrayExpr": {"Slice": _}}:
                    raise ProgramError(
                        f"{spelled} fails if all rows of a batch are null",
                        hint="leave as_array=True out, and append .list.to_array(width)",
                    )


def _refuse_codes(spelled: str) -> NoReturn:
    raise ProgramError(
        f"{spelled} reads the codes of a Categorical, whose numbering depends on the values "
        "that each process has seen",
        hint="cast to pl.Enum([...]), whose codes are fixed, or keep the strings: .cast(pl.String)",
    )


def _hold_codes(kinds: list[pl.DataType]) -> bool:
    """Return whether the types are or contain a Categorical. Unknown types count as such."""
    return not kinds or any(map(_holds_codes, kinds))


def _holds_codes(kind: pl.DataType) -> bool:
    match kind:
        case pl.Categorical():
            return True
        case pl.List() | pl.Array():
            return _holds_codes(_instance(kind.inner))
        case pl.Struct():
            return any(_holds_codes(_instance(field.dtype)) for field in kind.fields)
    return False


def _is_exact(name: str, kinds: list[pl.DataType]) -> bool:
    """Return whether the sum of such lists needs no rounding."""
    inners = [getattr(kind, "inner", None) for kind in kinds]
    return name == "Sum" and not any(inner is None or _instance(inner).is_float() for inner in inners)


def _instance(kind: PolarsDataType) -> pl.DataType:
    return kind() if isinstance(kind, type) else kind
