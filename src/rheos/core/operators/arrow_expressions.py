"""Expressions that Arrow evaluates, with the same values as Polars: struct fields and simple masks.

A call of Polars has a fixed cost for each batch, and Polars converts whole structs to read a field or
the nulls of one. Masks consist of null tests, boolean columns, `&`, `|`, `~`, and comparisons or
`is_in` of integers or strings. None of them can fail.

```python
schema = pa.schema([("bid", pa.struct([("price", pa.int64())]))])
bids = pa.RecordBatch.from_pylist([{"bid": {"price": 3}}, {"bid": None}], schema)
mask = arrow_mask(pl.col("bid").struct.field("price") > 2, schema)
assert mask(bids).to_pylist() == [True, None]
assert arrow_mask(pl.col("bid").struct.field("price") + 1 > 2, schema) is None
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.graph.expression_trees import FAILURES, Tree, expression_of, tree_of
from rheos.core.protocol.elements import Batch

Mask: TypeAlias = Callable[[Batch], pa.Array]
"""Returns a boolean, or null, for each row of a batch."""

_COMPARISONS: Final = {
    "Eq": pc.equal,
    "NotEq": pc.not_equal,
    "Lt": pc.less,
    "LtEq": pc.less_equal,
    "Gt": pc.greater,
    "GtEq": pc.greater_equal,
}
_CONNECTIVES: Final = {
    "And": pc.and_kleene,
    "Or": pc.or_kleene,
    "AllHorizontal": pc.and_kleene,
    "AnyHorizontal": pc.or_kleene,
}


@dataclass(frozen=True)
class ColumnPath:
    """A column, or a field of a struct in a column."""

    names: tuple[str, ...]
    type: pa.DataType


def column_path(tree: Tree, columns: pa.Schema) -> ColumnPath | None:
    """Return the column or field that the tree reads; None if it does anything else."""
    match tree:
        case {"Column": str(name)} if name in columns.names:
            return ColumnPath((name,), columns.field(name).type)
        case {"Function": {"input": [inner], "function": {"StructExpr": {"FieldByName": str(name)}}}}:
            of = column_path(inner, columns)
            if of is not None and pa.types.is_struct(of.type) and of.type.get_field_index(name) >= 0:
                return ColumnPath((*of.names, name), of.type.field(name).type)
    return None


def read_path(batch: Batch, names: Sequence[str]) -> pa.Array:
    """Return the column, or the field of the struct, that `ColumnPath.names` lists."""
    column = batch.column(names[0])
    return column if len(names) == 1 else pc.struct_field(column, names[1:])


def arrow_mask(expr: pl.Expr, columns: pa.Schema) -> Mask | None:
    """Return the mask of a filter; None if Polars has to evaluate it."""
    return _mask(tree_of(expr.meta.undo_aliases()), columns)


def _mask(tree: Tree, columns: pa.Schema) -> Mask | None:
    match tree:
        case {"Function": {"input": [inner], "function": {"Boolean": "IsNull" | "IsNotNull" as test}}}:
            path = column_path(inner, columns)
            return None if path is None else _null_test(path, test == "IsNull")
        case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
            negated = _mask(inner, columns)
            return None if negated is None else lambda batch: pc.invert(negated(batch))
        case {"Function": {"input": parts, "function": {"Boolean": str(name)}}} if name in _CONNECTIVES:
            return _connected(name, parts, columns)
        case {"BinaryExpr": {"left": left, "op": str(op), "right": right}}:
            if op in _CONNECTIVES:
                return _connected(op, [left, right], columns)
            return _comparison(op, left, right, columns)
        case {
            "Function": {
                "input": [inner, values],
                "function": {"Boolean": {"IsIn": {"nulls_equal": False}}},
            }
        }:
            return _membership(inner, values, columns)
    path = column_path(tree, columns)
    return _reader(path) if path is not None and pa.types.is_boolean(path.type) else None


def _reader(path: ColumnPath) -> Mask:
    return lambda batch: read_path(batch, path.names)


def _null_test(path: ColumnPath, is_null: bool) -> Mask:
    read = _reader(path)
    return lambda batch: read(batch).is_null() if is_null else read(batch).is_valid()


def _connected(name: str, trees: list[Tree], columns: pa.Schema) -> Mask | None:
    masks = [mask for tree in trees if (mask := _mask(tree, columns)) is not None]
    if len(masks) < len(trees):
        return None
    return lambda batch: reduce(_CONNECTIVES[name], [mask(batch) for mask in masks])


def _comparison(op: str, left: Tree, right: Tree, columns: pa.Schema) -> Mask | None:
    paths = [column_path(side, columns) for side in (left, right)]
    kind = next((path.type for path in paths if path is not None), None)
    # Polars' comparisons of other types differ: NaN equals NaN, and unsigned integers become floats.
    if op not in _COMPARISONS or kind is None:
        return None
    if not (pa.types.is_signed_integer(kind) or kind == pa.string()):
        return None
    readers: list[Callable[[Batch], Any]] = []
    for path, side in zip(paths, (left, right), strict=True):
        if path is None:
            constant = _constant(side, kind)
            if constant is None:
                return None
            readers.append(partial(_always, constant))
        elif path.type == kind:
            readers.append(_reader(path))
        else:
            return None
    compare, (first, second) = _COMPARISONS[op], readers
    return lambda batch: compare(first(batch), second(batch))


def _always(constant: pa.Scalar, batch: Batch) -> pa.Scalar:
    return constant


def _membership(tree: Tree, values: Tree, columns: pa.Schema) -> Mask | None:
    path = column_path(tree, columns)
    found = None if path is None else _constants(values, path.type, of_list=True)
    if path is None or found is None:
        return None
    read, known = _reader(path), found.drop_null()

    def mask(batch: Batch) -> pa.Array:
        column = read(batch)
        is_in = pc.is_in(column, value_set=known)
        return pc.if_else(column.is_valid(), is_in, None) if column.null_count else is_in

    return mask


def _constant(tree: Tree, kind: pa.DataType) -> pa.Scalar | None:
    """Return a constant integer or string, if its value is one of the type."""
    found = _constants(tree, kind, of_list=False)
    return found[0] if found is not None and len(found) == 1 else None


def _constants(tree: Tree, kind: pa.DataType, *, of_list: bool) -> pa.Array | None:
    """Return constant integers or strings, or those of one constant list, as values of the type."""
    match tree:
        case {"Literal": _} | {"Cast": {"expr": {"Literal": _}}}:
            pass
        case _:
            return None
    try:
        values = pl.select(expression_of(tree)).to_series()
        if of_list:
            # Polars compares each row with another list, or with a null, or refuses the constant.
            if values.dtype != pl.List or len(values) != 1 or values.has_nulls():
                return None
            values = values.explode()
        same = values.dtype == pl.String and kind == pa.string()
        both = values.dtype.is_signed_integer() and pa.types.is_signed_integer(kind)
        return pa.array(values.to_list(), kind) if same or both else None
    except (*FAILURES, pa.ArrowException, OverflowError):
        return None
