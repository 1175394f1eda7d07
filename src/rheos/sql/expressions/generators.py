"""Calls that return several rows for each row: EXPLODE, UNNEST, GENERATE_SERIES, JSON_TUPLE.

A function here compiles a call to a list for each row, whose elements are the rows, and to the columns
of an element. `rheos.sql.laterals` computes these calls in FROM, `rheos.sql.generated_columns` those in
SELECT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, cast

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import json_values, types, variant_edits, variants
from rheos.sql.expressions.array_functions import inner_type
from rheos.sql.expressions.arrays import listed
from rheos.sql.expressions.json_functions import JSON_TEXT, json_object_keys, json_tuple
from rheos.sql.expressions.maps import entries_type
from rheos.sql.expressions.patterns import split
from rheos.sql.expressions.postgres_arrays import string_to_array
from rheos.sql.expressions.sequences import Steps, series
from rheos.sql.expressions.table import (
    NAMED,
    WHOLE,
    Compiler,
    Typed,
    computes_named,
    optional,
)
from rheos.sql.expressions.variant_functions import VARIANT
from rheos.sql.list_rows import PLACE, zip_elements
from rheos.sql.text import SqlText, kind, number_of
from rheos.sql.value_functions import of_values

_TEXTS = pl.List(types.TEXT)
_PAIRS = pl.List(pl.Struct({"key": types.TEXT, "value": types.TEXT}))
ROWS = "rows"
"""Key of a node's metadata: whether the call returns rows, where it would else return an array."""
_EXAMPLE = "write SELECT EXPLODE(list) AS item FROM t, or FROM t LATERAL VIEW EXPLODE(list) e AS item"


@dataclass(frozen=True)
class RowColumn:
    """A column of the rows that a call returns."""

    name: str
    type: pl.DataType
    path: tuple[str, ...] = ()
    """Fields that lead from an element of the list to the value."""
    counts: bool = False
    """Whether the value is a place from 0, and the column counts from 1."""

    def within(self, field: str) -> RowColumn:
        """Return the column of elements that are a field of others."""
        return replace(self, path=(field, *self.path))

    def of(self, element: pl.Expr) -> pl.Expr:
        """Return the value of the column in an element."""
        for field in self.path:
            element = element.struct.field(field)
        return element.cast(types.BIGINT) + 1 if self.counts else element


@dataclass(frozen=True)
class RowsOfCall:
    """The rows that a call returns for each row."""

    list: Typed
    """A list of one element for each row. Without elements, or null, there are no rows."""
    columns: tuple[RowColumn, ...]
    is_outer: bool = False
    """Whether a row without others is kept, with nulls."""
    may_be_whole: bool = False
    """Whether one name is that of the whole element, if several columns are its fields."""

    @staticmethod
    def of(values: Typed, name: str) -> RowsOfCall:
        """Return rows of one column, which is the element itself."""
        return RowsOfCall(values, (RowColumn(name, inner_type(values)),))

    @staticmethod
    def of_fields(values: Typed) -> RowsOfCall:
        """Return rows with a column for each field of the elements."""
        inner = inner_type(values)
        assert isinstance(inner, pl.Struct)
        fields = cast("dict[str, pl.DataType]", dict(inner.to_schema())).items()
        return RowsOfCall(values, tuple(RowColumn(name, of, (name,)) for name, of in fields))

    def whole(self, name: str) -> RowsOfCall:
        """Return the same rows with one column for the whole element."""
        return replace(self, columns=(RowColumn(name, inner_type(self.list)),), may_be_whole=False)

    def numbered(self, name: str, *, first: bool = False) -> RowsOfCall:
        """Return the rows with a column of their places: first and from 0, or last and from 1."""
        rows = zipped([self])
        place = RowColumn(name, types.INT if first else types.BIGINT, (PLACE,), counts=not first)
        columns = (place, *rows.columns) if first else (*rows.columns, place)
        return replace(rows, columns=columns, is_outer=self.is_outer)


def zipped(every: Sequence[RowsOfCall]) -> RowsOfCall:
    """Return the rows of several calls side by side. Nulls fill those that end earlier."""
    names = tuple(f"rows {place}" for place, _ in enumerate(every))
    lists = [each.list.expr for each in every]
    if len(every) > 1:
        empty = [pl.lit([], dtype=each.list.type) for each in every]
        lists = [
            pl.when(each.is_not_null()).then(each).otherwise(none)
            for each, none in zip(lists, empty, strict=True)
        ]
    fields = {name: inner_type(each.list) for name, each in zip(names, every, strict=True)}
    kind_of = pl.List(pl.Struct({**fields, PLACE: types.INT}))
    made = of_columns(partial(zip_elements, lists=len(every), names=names), lists, kind_of)
    columns = [
        each.within(name) for name, rows in zip(names, every, strict=True) for each in rows.columns
    ]
    return RowsOfCall(Typed(made, kind_of, every[0].list.node), tuple(columns))


def named(sql: SqlText, rows: RowsOfCall, names: Sequence[str], at: exp.Expr) -> RowsOfCall:
    """Return the rows with these names of columns; without any, with their own. Raise ProgramError."""
    if not names:
        return rows
    inner = inner_type(rows.list)
    if len(names) == 1 and rows.may_be_whole:
        return rows.whole(names[0])
    if len(rows.columns) == 1 < len(names) and isinstance(inner, pl.Struct):
        rows = replace(RowsOfCall.of_fields(rows.list), is_outer=rows.is_outer)
    if len(names) != len(rows.columns):
        count = number_of(len(rows.columns), "column")
        raise sql.error(
            f"the rows have {count}, but the alias has {number_of(len(names), 'name')}",
            at,
            "write one name for each column",
        )
    pairs = zip(rows.columns, names, strict=True)
    return replace(rows, columns=tuple(replace(column, name=name) for column, name in pairs))


# --- the functions ------------------------------------------------------------------------------------


Generator: TypeAlias = Callable[[Compiler, exp.Anonymous], RowsOfCall]
GENERATORS: dict[str, Generator] = {}
"""Functions that return rows, by their names in lower case."""
ONE_OF_A_QUERY = {"explode", "posexplode", "inline", "stack", "json_tuple", "variant_explode"}
"""Spark's functions, of which SELECT takes one, without the suffix `_outer`."""


def generates(*names: str) -> Callable[[Generator], Generator]:
    """Register a function that returns rows by its names."""

    def register(generator: Generator) -> Generator:
        for name in names:
            assert name not in GENERATORS, name
            GENERATORS[name] = generator
            if name not in NAMED:
                computes_named(name)(_refuse)
        return generator

    return register


def _refuse(compiler: Compiler, node: exp.Anonymous) -> Typed:
    raise compiler.sql.error(f"{kind(node)} returns rows, not a value", node, _EXAMPLE)


def is_generator(node: exp.Expr) -> bool:
    """Return whether a call in SELECT returns rows. Some functions also have a meaning as arrays."""
    name = node.name.casefold() if isinstance(node, exp.Anonymous) else ""
    return name in GENERATORS and (NAMED[name] is _refuse or bool(node.meta.get(ROWS)))


def _elements(compiler: Compiler, node: exp.Expr, given: exp.Expr, name: str) -> RowsOfCall:
    """Return the elements of an array, or the keys and values of a map."""
    value = compiler.compile(given)
    if isinstance(value.type, pl.Map):
        return RowsOfCall.of_fields(Typed(value.expr.map.entries(), entries_type(value.type), given))
    if not isinstance(value.type, pl.List):
        raise compiler.wrong_type(
            f"{kind(node)} takes an ARRAY or a MAP", value, "name a list", at=given
        )
    return RowsOfCall.of(value, name)


def _single_argument(compiler: Compiler, node: exp.Anonymous) -> exp.Expr:
    if len(node.expressions) != 1:
        raise compiler.sql.error(f"{kind(node)} takes one ARRAY or MAP", node, _EXAMPLE)
    given: exp.Expr = node.expressions[0]
    if isinstance(given, exp.Kwarg) and given.name.casefold() in ("collection", "input"):
        given = given.expression
    return given


def _outer(node: exp.Anonymous) -> bool:
    return node.name.casefold().endswith("_outer")


@generates("explode", "explode_outer")
def explode(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    rows = _elements(compiler, node, _single_argument(compiler, node), "col")
    return replace(rows, is_outer=_outer(node))


@generates("posexplode", "posexplode_outer")
def posexplode(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    rows = _elements(compiler, node, _single_argument(compiler, node), "col")
    return replace(rows.numbered("pos", first=True), is_outer=_outer(node))


@generates("inline", "inline_outer")
def inline(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    value = compiler.compile(_single_argument(compiler, node))
    if not isinstance(value.type, pl.List) or not isinstance(value.type.inner, pl.Struct):
        raise compiler.wrong_type(
            f"{kind(node)} takes an ARRAY of STRUCTs", value, "write EXPLODE(...)"
        )
    return replace(RowsOfCall.of_fields(value), is_outer=_outer(node))


@generates("stack")
def stack(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    """Compile STACK(n, a, b, ...): n rows of these values. Nulls fill the last one."""
    count = compiler.compile(node.expressions[0]).constant if node.expressions else None
    if not isinstance(count, int) or count < 1 or len(node.expressions) < 2:
        raise compiler.sql.error(
            f"{kind(node)} takes a constant number of rows, and values",
            node,
            "write STACK(2, 'a', 1, 'b', 2)",
        )
    values = [compiler.compile(each) for each in node.expressions[1:]]
    width = -(-len(values) // count)
    columns, fields = [], {}
    for place in range(width):
        column, of = compiler.common(values[place::width], kind(node))
        if of == types.NULL:
            raise compiler.sql.wrong_type(
                "a column that is always NULL has no type", column[0].node, "write CAST(NULL AS STRING)"
            )
        missing = Typed(pl.lit(None, dtype=of), of, node)
        columns.append([each.expr for each in (*column, *[missing] * (count - len(column)))])
        fields[f"col{place}"] = of
    rows = [
        pl.struct(*(value.alias(name) for value, name in zip(row, fields, strict=True)))
        for row in zip(*columns, strict=True)
    ]
    of = pl.Struct(fields)
    return RowsOfCall.of_fields(Typed(listed(rows, of), pl.List(of), node))


@generates("unnest")
def unnest(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    """Compile UNNEST: the elements of one or more arrays and maps, side by side. Structs become
    columns."""
    if not node.expressions:
        raise compiler.sql.error(
            "UNNEST takes an ARRAY", node, "write FROM t, UNNEST(t.items) AS i(item)"
        )
    every = [_elements(compiler, node, each, "element") for each in node.expressions]
    wide = [
        RowsOfCall.of_fields(each.list) if isinstance(inner_type(each.list), pl.Struct) else each
        for each in every
    ]
    return replace(wide[0], may_be_whole=True) if len(wide) == 1 else zipped(wide)


@generates("sequence", "generate_series")
def numbers_and_times(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    is_series = node.name.casefold() == "generate_series"
    steps = Steps(compiler.sql.written(node), only_up=is_series)
    return RowsOfCall.of(series(compiler, node, steps), "generate_series" if is_series else "col")


@generates("range")
def range_(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    """Compile RANGE(end), RANGE(begin, end[, step]): integers without the end."""
    first, *others = (each.expr for each in compiler.given(node, _RANGE))
    begin, end = (first, others[0]) if others else (pl.lit(0, dtype=types.BIGINT), first)
    step = others[1] if len(others) > 1 else pl.lit(1, dtype=types.BIGINT)
    made = Steps(compiler.sql.written(node)).listed(begin, end - step.sign(), step)
    return RowsOfCall.of(Typed(made, pl.List(types.BIGINT), node), "id")


_RANGE = (WHOLE, optional(WHOLE), optional(WHOLE))


@generates("json_tuple")
def tuple_of_json(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    return RowsOfCall.of_fields(json_tuple(compiler, node))


_CHILD = pl.Struct({"pos": types.INT, "key": types.TEXT, "value": types.VARIANT})


@generates("variant_explode", "variant_explode_outer")
def variant_explode(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    given = exp.Anonymous(this=node.this, expressions=[_single_argument(compiler, node)])
    [value] = compiler.given(given, (VARIANT,))
    of = pl.List(_CHILD)
    made = of_values(variant_edits.children, [variants.documents(value.expr)], of)
    return replace(RowsOfCall.of_fields(Typed(made, of, node)), is_outer=_outer(node))


# --- PostgreSQL ---------------------------------------------------------------------------------------


@generates("regexp_split_to_table")
def regexp_split_to_table(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    text, pattern = _two(compiler, node)
    parts = split(compiler, exp.RegexpSplit(this=text, expression=pattern))
    return RowsOfCall.of(parts, "regexp_split_to_table")


@generates("string_to_table")
def string_to_table(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    text, between = (compiler.text(each, kind(node)) for each in _two(compiler, node))
    return RowsOfCall.of(
        Typed(string_to_array(text.expr, between.expr), _TEXTS, node), "string_to_table"
    )


def _two(compiler: Compiler, node: exp.Anonymous) -> list[exp.Expr]:
    if len(node.expressions) != 2:
        raise compiler.sql.error(
            f"{kind(node)} takes a string and a separator", node, f"write {kind(node)[:-1]}name, ',')"
        )
    return list(node.expressions)


def _elements_of_json(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    [document] = compiler.given(node, (JSON_TEXT,))
    name = node.name.casefold()
    compute = partial(json_values.elements, as_text=name.endswith("_text"))
    return RowsOfCall.of(Typed(of_values(compute, [document.expr], _TEXTS), _TEXTS, node), "value")


def _members_of_json(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    [document] = compiler.given(node, (JSON_TEXT,))
    compute = partial(json_values.members, as_text=node.name.casefold().endswith("_text"))
    return RowsOfCall.of_fields(Typed(of_values(compute, [document.expr], _PAIRS), _PAIRS, node))


def _keys_of_json(compiler: Compiler, node: exp.Anonymous) -> RowsOfCall:
    [document] = compiler.given(node, (JSON_TEXT,))
    name = node.name.casefold()
    return RowsOfCall.of(Typed(json_object_keys(document.expr), _TEXTS, node), name)


for _prefix in ("json", "jsonb"):
    generates(f"{_prefix}_array_elements", f"{_prefix}_array_elements_text")(_elements_of_json)
    generates(f"{_prefix}_each", f"{_prefix}_each_text")(_members_of_json)
    generates(f"{_prefix}_object_keys")(_keys_of_json)
