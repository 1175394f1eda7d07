"""Functions of elements: TRANSFORM(list, (x, i) -> x + i), ZIP_WITH, ARRAY_SORT, AGGREGATE, MAP_FILTER.

A body that reads only its element is an expression over the elements. One that reads the place of the
element, elements of another list, or columns of the row is an expression over structs of all of these,
which `list_rows.zip_elements` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, cast

import polars as pl
from sqlglot import exp

from rheos.core.graph.exact_decimals import exact_one
from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.array_functions import ARRAY, inner_type
from rheos.sql.expressions.arrays import list_of, sort_by_order
from rheos.sql.expressions.maps import MAP, entries_type, type_of_map
from rheos.sql.expressions.table import Compiler, Takes, Typed, computes, computes_named
from rheos.sql.list_rows import PLACE, fold_elements, zip_elements
from rheos.sql.list_sorting import sort_by_comparing
from rheos.sql.map_joins import KEY, OTHER_VALUE, VALUE, join_maps
from rheos.sql.text import kind

_SUM, _ELEMENT, _OTHER, _ENTRY = "accumulated", "element", "other element", "entry"

ElementColumn: TypeAlias = tuple[Callable[[pl.Expr], pl.Expr], pl.DataType]
"""Function that computes a column from an element, and the column's type."""


@dataclass(frozen=True)
class _Parameters:
    """The columns that the body of a lambda reads: its parameters, and those of the row."""

    outside: Compiler
    values: Mapping[str, Typed]
    """Parameters by name in lower case."""
    read: Callable[[str], pl.Expr] | None
    """Returns what reads a value of the row by its name in `of_row`. None: the body can read it."""
    of_row: dict[str, Typed] = field(default_factory=dict)
    """Values of the row that the body reads."""

    def column(self, node: exp.Column) -> Typed:
        known = None if node.table else self.values.get(node.name.casefold())
        if known is not None:
            return replace(known, node=node)
        value = self.outside.compile(node)
        if self.read is None:
            return value
        name = f"column {node.sql()}"
        self.of_row[name] = value
        return Typed(self.read(name), value.type, node)

    @property
    def compiler(self) -> Compiler:
        """Return the compiler of bodies."""
        return replace(self.outside, columns=self, instead=lambda each: None, reached=())

    def compile(self, body: exp.Expr) -> Typed:
        named = body.transform(
            lambda part: (
                exp.column(part)
                if isinstance(part, exp.Identifier) and not isinstance(part.parent, exp.Column)
                else part
            )
        )
        return self.compiler.compile(named)


def _names(
    compiler: Compiler, node: exp.Expr, given: exp.Expr | None, counts: Sequence[int]
) -> list[str]:
    """Return the names of a lambda's parameters. Raise ProgramError unless their number is allowed."""
    if not isinstance(given, exp.Lambda) or len(given.expressions) not in counts:
        example = "x -> x + 1" if counts[0] == 1 else "(x, y) -> x + y"
        number = " or ".join(map(str, counts))
        raise compiler.sql.error(
            f"{kind(node)} takes a function of {number} argument{'s' * (counts[-1] > 1)}",
            given or node,
            f"write {example}",
        )
    return [each.name.casefold() for each in given.expressions]


def _reads_only(node: exp.Expr, names: set[str]) -> bool:
    """Return whether the body of a lambda reads its parameters only, and no columns of the row."""
    match node:
        case exp.Lambda():
            return _reads_only(node.this, names | {each.name.casefold() for each in node.expressions})
        case exp.Dot():
            return _reads_only(node.this, names)
        case exp.Column():
            return not node.table and node.name.casefold() in names
        case exp.Identifier():
            return node.name.casefold() in names
        case _:
            return all(_reads_only(each, names) for each in node.iter_expressions())


def _of_elements(
    compiler: Compiler,
    node: exp.Expr,
    lists: Sequence[Typed],
    given: exp.Expr | None,
    *,
    places: bool = False,
    copies: bool = False,
) -> tuple[pl.Expr, Typed]:
    """Return a list, and the body of a lambda as an expression over its elements.

    Args:
        compiler: The compiler of the call.
        node: The call.
        lists: Arrays whose elements are the first parameters.
        given: The lambda.
        places: Whether a further parameter may be the place, from 0.
        copies: Whether the result may contain values of the row once for each element.
    """
    names = _names(compiler, node, given, (len(lists), len(lists) + 1) if places else (len(lists),))
    assert isinstance(given, exp.Lambda)
    read = pl.element().struct.field
    if len(lists) == len(names) == 1 and _reads_only(given.this, {*names}):
        element = Typed(pl.element(), inner_type(lists[0]), node)
        return lists[0].expr, _Parameters(compiler, {names[0]: element}, read).compile(given.this)
    fields = [f"argument {place}" for place in range(len(lists))]
    values = [
        Typed(read(name), inner_type(value), node) for name, value in zip(fields, lists, strict=True)
    ]
    values.append(Typed(read(PLACE), types.INT, node))
    parameters = _Parameters(compiler, dict(zip(names, values, strict=False)), read)
    body = parameters.compile(given.this)
    zipped = _zipped(compiler, node, dict(zip(fields, lists, strict=True)), parameters, copies=copies)
    return zipped, body


def _zipped(
    compiler: Compiler,
    node: exp.Expr,
    lists: Mapping[str, Typed],
    parameters: _Parameters,
    *,
    copies: bool,
) -> pl.Expr:
    """Return the elements of lists at each place, with what a body reads of the row, as structs."""
    columns = {**lists, **parameters.of_row}
    of_element = {
        name: inner_type(value) if name in lists else value.type for name, value in columns.items()
    }
    return of_columns(
        partial(
            zip_elements,
            lists=len(lists),
            names=tuple(columns),
            copied_by=compiler.sql.written(node) if copies else None,
        ),
        [value.expr for value in columns.values()],
        pl.List(pl.Struct({**of_element, PLACE: types.INT})),
    )


class Elements:
    """The elements of a list as rows, whose expressions may read columns of the outer row."""

    def __init__(self, outside: Compiler, values: Typed, columns: Mapping[str, ElementColumn]) -> None:
        """Create the rows.

        Args:
            outside: Compiler of the outer row.
            values: The list.
            columns: Columns of the rows by their names in lower case.
        """
        read = pl.element().struct.field
        typed = {
            name: Typed(of(read(_ELEMENT)), kind, values.node) for name, (of, kind) in columns.items()
        }
        self._outside, self._values = outside, values
        self._parameters = _Parameters(outside, typed, read)
        self.compiler = self._parameters.compiler
        """Compiler of expressions over the rows, which `pl.element()` is."""

    def rows(self) -> pl.Expr:
        """Return the list of rows, with all that the expressions compiled so far read."""
        node, lists = self._values.node, {_ELEMENT: self._values}
        return _zipped(self._outside, node, lists, self._parameters, copies=True)


def _of_entries(
    compiler: Compiler, node: exp.Expr, entries: Typed, given: exp.Expr | None
) -> tuple[pl.Expr, Typed, Callable[[str], pl.Expr]]:
    """Return a list, the body of a lambda whose parameters are the fields of its elements, which are
    structs, and what reads a field of an element."""
    struct = inner_type(entries)
    assert isinstance(struct, pl.Struct)
    names = _names(compiler, node, given, (len(struct.fields),))
    assert isinstance(given, exp.Lambda)
    alone = _reads_only(given.this, {*names})
    read = pl.element().struct.field

    def field_of(name: str) -> pl.Expr:
        return read(name) if alone else read(_ENTRY).struct.field(name)

    values = {
        name: Typed(field_of(each.name), cast("pl.DataType", each.dtype), node)
        for name, each in zip(names, struct.fields, strict=True)
    }
    parameters = _Parameters(compiler, values, read)
    body = parameters.compile(given.this)
    if alone:
        return entries.expr, body, field_of
    return _zipped(compiler, node, {_ENTRY: entries}, parameters, copies=True), body, field_of


def _condition(compiler: Compiler, body: Typed) -> pl.Expr:
    if body.type not in (types.BOOLEAN, types.NULL):
        raise compiler.wrong_type("the function must be a condition", body, "compare the element")
    return compiler.cast(body, types.BOOLEAN).expr


# --- of arrays ----------------------------------------------------------------------------------------


@computes(exp.Transform)
def transform(compiler: Compiler, node: exp.Transform) -> Typed:
    value, _ = list_of(compiler, node, node.this)
    elements, body = _of_elements(compiler, node, [value], node.expression, places=True, copies=True)
    return Typed(elements.list.eval(body.expr), pl.List(body.type), node)


@computes(exp.ArrayFilter)
def filter_(compiler: Compiler, node: exp.ArrayFilter) -> Typed:
    value, _ = list_of(compiler, node, node.this)
    elements, body = _of_elements(compiler, node, [value], node.expression, places=True)
    kept = pl.element().filter(_condition(compiler, body).fill_null(False))
    if elements is not value.expr:
        kept = kept.struct.field("argument 0")
    return Typed(elements.list.eval(kept), value.type, node)


def _quantified(
    compiler: Compiler, node: exp.Expr, of: exp.Expr, given: exp.Expr, *, every: bool
) -> Typed:
    """Return whether a condition holds for all elements, or for any. Null is unknown."""
    value, _ = list_of(compiler, node, of)
    elements, body = _of_elements(compiler, node, [value], given)
    holds = _condition(compiler, body)
    made = holds.all(ignore_nulls=False) if every else holds.any(ignore_nulls=False)
    found = elements.list.eval(made).list.first()
    empty = pl.when(value.expr.list.len() == 0).then(pl.lit(every))
    return Typed(empty.otherwise(found), types.BOOLEAN, node)


@computes_named("forall")
def forall(compiler: Compiler, node: exp.Anonymous) -> Typed:
    if len(node.expressions) != 2:
        raise compiler.sql.error("FORALL takes an ARRAY and a function", node, "write x -> x > 0")
    return _quantified(compiler, node, *node.expressions, every=True)


@computes(exp.Exists)
def exists(compiler: Compiler, node: exp.Exists) -> Typed:
    """Compile EXISTS(list, x -> x > 0). EXISTS of a query is a condition of WHERE."""
    given = node.args.get("expression")
    if given is None:
        raise compiler.refused(node)
    return _quantified(compiler, node, node.this, given, every=False)


def _with_lambda(
    compiler: Compiler, node: exp.Anonymous, takes: Sequence[Takes]
) -> tuple[list[Typed], exp.Expr]:
    """Return the arguments before a lambda, which is the last, and the lambda."""
    if len(node.expressions) != len(takes) + 1:
        raise compiler.sql.error(
            f"{kind(node)} takes {len(takes) + 1} arguments, but has {len(node.expressions)}",
            node,
            "the last of them is a function",
        )
    *values, given = node.expressions
    return compiler.given(exp.Anonymous(this=node.this, expressions=values), takes), given


@computes_named("zip_with")
def zip_with(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ZIP_WITH(list, list, (x, y) -> x + y). Shorter lists are filled with nulls."""
    values, given = _with_lambda(compiler, node, [ARRAY, ARRAY])
    elements, body = _of_elements(compiler, node, values, given, copies=True)
    return Typed(elements.list.eval(body.expr), pl.List(body.type), node)


@computes(exp.Reduce)
def aggregate(compiler: Compiler, node: exp.Reduce) -> Typed:
    """Compile AGGREGATE(list, start, (sum, x) -> sum + x[, sum -> sum * 2])."""
    compiler.sql.only(node, ("this", "initial", "merge", "finish"))
    value, inner = list_of(compiler, node, node.this)
    start = compiler.compile(node.args.get("initial"))
    merge, finish = node.args.get("merge"), node.args.get("finish")
    names = _names(compiler, node, merge, (2,))
    assert isinstance(merge, exp.Lambda)

    def merged(of: pl.DataType) -> tuple[_Parameters, Typed]:
        values = [Typed(pl.col(_SUM), of, node), Typed(pl.col(_ELEMENT), inner, node)]
        parameters = _Parameters(compiler, dict(zip(names, values, strict=True)), pl.col)
        return parameters, parameters.compile(merge.this)

    parameters, body = merged(start.type)
    result = types.common(start.type, body.type)
    if result is not None and result != body.type:
        parameters, body = merged(result)
    if result is None or types.common(result, body.type) != result:
        raise compiler.wrong_type(
            f"the function must return {types.name(start.type)}, as the start is", body, "convert it"
        )
    columns = {name: each.type for name, each in parameters.of_row.items()}
    frame = pl.LazyFrame(schema={_SUM: result, _ELEMENT: inner, **columns})
    folded = of_columns(
        partial(
            fold_elements,
            merge=exact_one(compiler.cast(body, result).expr, frame),
            names=(_SUM, _ELEMENT, *columns),
            written=compiler.sql.written(node),
        ),
        [
            compiler.cast(start, result).expr,
            value.expr,
            *(each.expr for each in parameters.of_row.values()),
        ],
        result,
    )
    if finish is None:
        return Typed(folded, result, node)
    [name] = _names(compiler, node, finish, (1,))
    assert isinstance(finish, exp.Lambda)
    made = _Parameters(compiler, {name: Typed(folded, result, node)}, None).compile(finish.this)
    return Typed(made.expr, made.type, node)


@computes(exp.ArraySort)
def sort(compiler: Compiler, node: exp.ArraySort) -> Typed:
    """Compile ARRAY_SORT(list[, (x, y) -> ...]), whose function returns -1, 0 or 1, and SORT_ARRAY."""
    given = node.args.get("expression")
    if given is None:
        return sort_by_order(compiler, node)
    value, inner = list_of(compiler, node, node.this)
    names = _names(compiler, node, given, (2,))
    assert isinstance(given, exp.Lambda)
    elements = [Typed(pl.col(name), inner, node) for name in (_ELEMENT, _OTHER)]
    parameters = _Parameters(compiler, dict(zip(names, elements, strict=True)), pl.col)
    body = parameters.compile(given.this)
    if not types.is_integer(body.type):
        raise compiler.wrong_type("the function must return an INT", body, "return -1, 0 or 1")
    columns = {name: each.type for name, each in parameters.of_row.items()}
    frame = pl.LazyFrame(schema={_ELEMENT: inner, _OTHER: inner, **columns})
    compare = exact_one(body.expr, frame)
    made = partial(sort_by_comparing, compare=compare, names=(_ELEMENT, _OTHER, *columns))
    inputs = [value.expr, *(each.expr for each in parameters.of_row.values())]
    return Typed(of_columns(made, inputs, value.type), value.type, node)


# --- of maps ------------------------------------------------------------------------------------------


@computes_named("map_filter", "transform_keys", "transform_values")
def of_map(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile a function of the keys and values of a map."""
    [value], given = _with_lambda(compiler, node, [MAP])
    key, of = type_of_map(compiler, node, value)
    listed = Typed(value.expr.map.entries(), entries_type(value.type), value.node)
    entries, body, field_of = _of_entries(compiler, node, listed, given)
    parts = {name: field_of(name).alias(name) for name in (KEY, VALUE)}
    match node.name.casefold():
        case "map_filter":
            kept = _condition(compiler, body).fill_null(False)
            made = entries.list.eval(pl.struct(*parts.values()).filter(kept))
            return Typed(made.list.to_map(), value.type, node)
        case "transform_keys":
            parts[KEY], key = body.expr.alias(KEY), body.type
        case _:
            parts[VALUE], of = body.expr.alias(VALUE), body.type
    made = entries.list.eval(pl.struct(*parts.values())).list.to_map()
    return Typed(made, pl.Map(key, of), node)


@computes_named("map_zip_with")
def map_zip_with(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile MAP_ZIP_WITH(map, map, (key, value, other) -> ...). A missing value is null."""
    [one, other], given = _with_lambda(compiler, node, [MAP, MAP])
    key, of = type_of_map(compiler, node, one)
    other_key, of_other = type_of_map(compiler, node, other)
    if key != other_key:
        raise compiler.sql.error(
            f"{kind(node)} takes maps whose keys have one type", node, "convert the keys with CAST"
        )
    entries = pl.List(pl.Struct({KEY: key, VALUE: of, OTHER_VALUE: of_other}))
    joined = Typed(of_columns(join_maps, [one.expr, other.expr], entries), entries, node)
    elements, body, field_of = _of_entries(compiler, node, joined, given)
    entry = pl.struct(field_of(KEY).alias(KEY), body.expr.alias(VALUE))
    return Typed(elements.list.eval(entry).list.to_map(), pl.Map(key, body.type), node)
