"""Expressions of MATCH_RECOGNIZE: they determine which row of a match each of their columns is read
from.

`A.price` reads the last row of variable A, and `price` the last row of all. In DEFINE, the current row
is the last row of its own variable and of all. FIRST and LAST read other rows, and aggregates read all
of them. In MEASURES, these are the rows of the whole match (FINAL), or those up to the current row
(RUNNING); if a match is one row, the current row is the last one. An expression over one row (`A.price
* A.tax`) is a column that is computed before the pattern is matched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import polars as pl
from sqlglot import exp

from rheos.core.aggregates import Agg
from rheos.core.errors import InputError
from rheos.core.graph.patterns import Following, Previous
from rheos.core.operators.pattern.conditions import EarlierRows
from rheos.core.operators.pattern.match_rows import ROW, STEP
from rheos.core.operators.row_expressions import refused
from rheos.core.operators.single_rows import SingleRow
from rheos.sql import types
from rheos.sql.aggregates import aggregated, is_aggregate
from rheos.sql.expressions.table import Compiler, Typed
from rheos.sql.list_aggregates import over_list
from rheos.sql.match_parser import SeenRows
from rheos.sql.plan import SqlColumn
from rheos.sql.row_patterns import RowPattern
from rheos.sql.scope import NameScope
from rheos.sql.text import SqlText, as_sql, kind
from rheos.sql.unused_names import unused_name

_CALLS = (
    *("first", "last", "prev", "next", "match_rowtime", "match_proctime"),
    *("match_number", "classifier"),
)

Variables: TypeAlias = tuple[str, ...] | None
"""Variables; None: all."""


@dataclass(frozen=True)
class RowsRead:
    """Values of a column in rows of a match."""

    variables: tuple[str, ...] | None
    """Variables whose rows are read; None: all."""
    column: str
    place: int | None
    """Index of the row: from the first (0), or from the last (-1); None: all rows, as a list."""
    asked: bool = False
    """Whether the current row is the last of them."""

    def of(self, row: Any, earlier: EarlierRows) -> Any:
        taken: list[Any]
        match self.variables:
            case None:
                taken = [each for _, each in earlier.in_order]
            case (one,):
                taken = earlier[one]
            case several:
                taken = [each for step, each in earlier.in_order if step in several]
        rows = [*taken, row] if self.asked else taken
        if self.place is None:
            return [each[self.column] for each in rows]
        there = -len(rows) <= self.place < len(rows)
        return rows[self.place][self.column] if there else None


class BackwardCondition:
    """A condition on a row and the earlier rows of the match."""

    def __init__(
        self,
        text: str,
        expr: pl.Expr,
        columns: Mapping[str, pl.DataType],
        reads: Mapping[str, RowsRead],
    ) -> None:
        self.__name__ = text
        self._expr, self._columns, self._reads = expr, dict(columns), dict(reads)
        self._single: SingleRow | None = None

    def __call__(self, row: Any, earlier: Any) -> bool:
        if self._single is None:
            self._single = SingleRow(self._expr, self._columns)
        values = {
            name: self._reads[name].of(row, earlier) if name in self._reads else row[name]
            for name in self._columns
        }
        try:
            return self._single.value(values) is True
        except pl.exceptions.PolarsError as error:
            known = refused(error)
            if known is None:
                raise
            raise InputError(known[0], hint=known[1]) from None


@dataclass
class RowColumns:
    """Columns computed for each row, before the pattern is matched."""

    exprs: list[pl.Expr] = field(default_factory=list)
    columns: list[SqlColumn] = field(default_factory=list)

    def name(self, value: Typed, wanted: str | None = None) -> str:
        """Return the column for a computed value."""
        if wanted is None:
            plain = value.expr.meta.is_column()
            wanted = value.expr.meta.output_name() if plain else as_sql(value.node)
        for expr, column in zip(self.exprs, self.columns, strict=True):
            if expr.meta.eq(value.expr):
                return column.name
        wanted = unused_name(wanted, {column.name for column in self.columns}, "'")
        self.exprs.append(value.expr)
        self.columns.append(SqlColumn(wanted, value.type))
        return wanted


@dataclass(frozen=True)
class MeasureInputs:
    """Inputs of MEASURES."""

    final: pl.Expr
    """All rows of the match, as `operators/pattern/match_rows.py` has them."""
    running: pl.Expr
    """Rows up to the current one."""
    time: pl.Expr
    """Time at which the match became certain."""
    number: pl.Expr
    """Number of the match within its key."""


@dataclass
class RowNavigation:
    """Resolution of columns and calls in one DEFINE, or in MEASURES."""

    sql: SqlText
    scope: NameScope
    pattern: RowPattern
    computed: RowColumns
    time: str
    """Event-time column of the rows."""
    own: str | None = None
    """Variable that is defined; None in MEASURES."""
    shown: MeasureInputs | None = None
    """Rows that MEASURES reads; None in DEFINE."""
    final: bool = False
    """Whether the expression is within FINAL, in MEASURES."""
    reads: dict[str, RowsRead] = field(default_factory=dict)
    kinds: dict[str, pl.DataType] = field(default_factory=dict)
    """Types of values that DEFINE reads from other rows."""
    following: list[Following] = field(default_factory=list)
    """Values of later rows that DEFINE reads."""

    @property
    def compiler(self) -> Compiler:
        return Compiler(self.sql, self, self._instead)

    def column(self, node: exp.Column) -> Typed:
        variable, value = self._of_one_row(node)
        return self._read(node, variable, value, -1)

    def _instead(self, node: exp.Expr) -> Typed | None:
        name = node.name.casefold() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, SeenRows):
            return self._compile_extent(node)
        if isinstance(node, exp.First | exp.Last):
            self.sql.only(node, ("this",))
            return self._offset(node, type(node) is exp.First, node.this, 0)
        if name in _CALLS:
            return self._called(node, name)
        return self._aggregate(node) if is_aggregate(node) else None

    def _compile_extent(self, node: SeenRows) -> Typed:
        """Compile an expression within FINAL or RUNNING."""
        call, word = node.this, "FINAL" if node.args["final"] else "RUNNING"
        over_rows = is_aggregate(call) or isinstance(call, exp.First | exp.Last)
        if not over_rows and call.name.casefold() not in ("first", "last"):
            raise self.sql.error(f"{word} applies to FIRST, LAST and aggregates", node)
        if self.shown is None:
            raise self.sql.error(
                f"{word} is allowed in MEASURES only",
                node,
                "DEFINE cannot read later rows: leave it out",
            )
        return replace(self, final=node.args["final"]).compiler.compile(call)

    def _of_match(self, node: exp.Expr, name: str) -> Typed:
        """Compile a function about the match itself."""
        if node.expressions:
            raise self.sql.error(
                f"{name.upper()} takes no argument", node.expressions[0], "leave out the argument"
            )
        if name == "match_rowtime":
            time = exp.column(exp.to_identifier(self.time, quoted=True))
            if self.shown is None:
                return self.column(time)
            last = replace(self, final=True).column(time)
            certain = self.shown.time
            if last.type.is_temporal():
                certain = certain.cast(pl.Datetime("ms", "UTC"))
            # The row's own time may be finer.
            return Typed(pl.max_horizontal(last.expr, certain.cast(last.type)), last.type, node)
        if self.shown is None:
            raise self.sql.error(f"{name.upper()} is allowed in MEASURES only", node)
        if name == "match_number":
            return Typed(self.shown.number, types.BIGINT, node)
        return Typed(self.shown.running.list.last().struct.field(STEP), pl.String(), node)

    def _called(self, node: exp.Expr, name: str) -> Typed:
        if name in ("match_rowtime", "match_number", "classifier"):
            return self._of_match(node, name)
        if name == "match_proctime":
            raise self.sql.error(
                "a query cannot read the processing time",
                node,
                "MATCH_ROWTIME() returns the time of the last row",
            )
        if not 1 <= len(node.expressions) <= 2:
            raise self.sql.error(f"{name.upper()} takes a value and a number", node)
        value, *far = node.expressions
        n = 1 if name in ("prev", "next") else 0
        if far:
            if not isinstance(far[0], exp.Literal) or not far[0].name.isdigit():
                raise self.sql.error(f"{name.upper()} takes a constant integer", far[0])
            n = int(far[0].name)
        if name in ("first", "last"):
            return self._offset(node, name == "first", value, n)
        return self._compile_neighbour(node, name, value, n)

    def _offset(self, node: exp.Expr, first: bool, value: exp.Expr, n: int) -> Typed:
        variable, typed = self._of_one_row(value)
        return self._read(node, variable, typed, n if first else -1 - n)

    def _compile_neighbour(self, node: exp.Expr, name: str, value: exp.Expr, n: int) -> Typed:
        """Compile PREV, an earlier row of the match, or NEXT, a later row of the key."""
        call, side = name.upper(), "before" if name == "prev" else "after"
        if self.own is None:
            hint = "write LAST(A.price, 1)" if name == "prev" else "match the next row by a variable"
            raise self.sql.error(f"{call} is allowed in DEFINE only", node, hint)
        variable, typed = self._of_one_row(value)
        if variable not in (None, (self.own,)):
            raise self.sql.error(
                f"{call} reads the row {side} the current one, but {' and '.join(variable)} may have "
                "matched another row",
                node,
                f"write LAST({variable[0]}.price, 1)"
                if name == "prev"
                else f"leave out {variable[0]}, or match the next row by a variable",
            )
        if name == "next":
            return self._compile_next(node, typed, n)
        if self.pattern.rows_before(self.own) < n:
            raise self.sql.error(
                f"PREV would read a row before the match: {self.own} can match its first row",
                node,
                "begin the pattern with a variable that matches any row: PATTERN (before "
                f"{self.own} ...); or write LAST(..., {n}), which is null there",
            )
        return self._read(node, None, typed, -1 - n)

    def _compile_next(self, node: exp.Expr, value: Typed, n: int) -> Typed:
        column = self.computed.name(value)
        name = column
        if n:
            name = f"{column} at +{n}"
            self.following.append(Following(name, column, n))
            self.kinds[name] = value.type
        return Typed(pl.col(name), value.type, node)

    def _aggregate(self, node: exp.Expr) -> Typed:
        call = node.this if isinstance(node, exp.Filter) else node
        variable, rows = self._rows(node)
        of = call.this
        if isinstance(call, exp.Count) and isinstance(of, exp.Column) and isinstance(of.this, exp.Star):
            # COUNT(A.*): the rows of A.
            call.set("this", exp.Star())
        made = aggregated(rows, node)
        value = made.argument or Typed(pl.lit(True), types.BOOLEAN, node)
        if made.type == types.BIGINT and types.is_integer(value.type):
            value = rows.cast(value, types.BIGINT)
        listed = self._read(node, variable, value, None)
        agg, written = made.of("x"), self.sql.written(node)
        result = None
        if isinstance(agg, Agg) and made.fold is None:
            result = over_list(agg, listed.expr, value.type, made.type, written)
        if result is None:
            raise self.sql.error(
                f"{kind(call)} is not computed in MATCH_RECOGNIZE",
                node,
                "supported are COUNT, SUM, AVG, MIN, MAX, STDDEV and VARIANCE",
            )
        return Typed(made.result(result), made.type, node)

    def previous(self) -> list[Previous] | None:
        """Return the reads of previous rows, if every match has that many rows before."""
        assert self.own is not None
        before = self.pattern.rows_before(self.own)
        found = []
        for name, read in self.reads.items():
            if not read.asked or read.variables is not None or read.place is None:
                return None
            back = -1 - read.place
            if not 0 < back <= before:
                return None
            found.append(Previous(name, read.column, back))
        return found

    # --- rows -----------------------------------------------------------------------------------------

    def of_row(self, column: SqlColumn, at: exp.Expr) -> pl.Expr:
        """Compile a column of the current row."""
        return self._read(at, None, Typed(pl.col(column.name), column.type, at), -1).expr

    def _of_one_row(self, node: exp.Expr) -> tuple[Variables, Typed]:
        """Return a value of one row, and its variables; None means all."""
        variable, rows = self._rows(node)
        return variable, rows.compile(node)

    def _rows(self, node: exp.Expr) -> tuple[Variables, Compiler]:
        """Return the variables of all columns in an expression, and the expression over their rows."""
        of: dict[Variables, exp.Column] = {}
        for each in node.find_all(exp.Column):
            of.setdefault(self._variable(each), each)
        if len(of) > 1:
            raise self.sql.error(
                "a value of a single row must use a single variable",
                [*of.values()][1],
                "put the same variable before each column",
            )
        return next(iter(of), None), Compiler(self.sql, _OneRow(self))

    def _variable(self, node: exp.Column) -> Variables:
        parts = node.parts
        return self.pattern.named(parts[0].name) if len(parts) > 1 else None

    def _read(self, node: exp.Expr, variable: Variables, value: Typed, place: int | None) -> Typed:
        column = self.computed.name(value)
        asked = self.own is not None and (variable is None or self.own in variable)
        if asked and place == -1:
            return Typed(pl.col(column), value.type, node)
        read = RowsRead(variable, column, place, asked)
        kind = value.type if place is not None else pl.List(value.type)
        if self.shown is not None:
            rows = self.shown.final if self.final else self.shown.running
            return Typed(_in_match(read, rows), kind, node)
        name = f"{column} of {' and '.join(variable or ['all'])} at {place}"
        self.reads[name], self.kinds[name] = read, kind
        return Typed(pl.col(name), kind, node)


@dataclass(frozen=True)
class _OneRow:
    """Resolution of columns of one row, whatever variable qualifies them."""

    of: RowNavigation

    def column(self, node: exp.Column) -> Typed:
        if self.of._variable(node) is None:
            return self.of.scope.column(node)
        first, *rest = node.parts[1:]
        bare = exp.Column(this=first.copy())
        made: exp.Expr = bare
        if rest:
            made = exp.Dot.build([bare, *(each.copy() for each in rest)])
        if isinstance(made, exp.Column):
            return self.of.scope.column(made)
        return Compiler(self.of.sql, self.of.scope).compile(made)


def _in_match(read: RowsRead, rows: pl.Expr) -> pl.Expr:
    """Return the values read from the rows of a match."""
    each = pl.element()
    if read.variables is not None:
        each = each.filter(each.struct.field(STEP).is_in([*read.variables]))
    values = rows.list.eval(each.struct.field(ROW).struct.field(read.column))
    return values if read.place is None else values.list.get(read.place, null_on_oob=True)
