"""The functions that compile expressions, by the class of the node, and what they use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import polars as pl
from sqlglot import exp

from rheos.core.errors import SchemaError
from rheos.sql import byte_characters, types
from rheos.sql.expressions.untyped_literals import UNTYPED, read_as
from rheos.sql.text import WRITTEN_NAME, SqlText, as_sql, kind


@dataclass(frozen=True)
class Typed:
    """An expression of a row's columns."""

    expr: pl.Expr
    type: pl.DataType
    node: exp.Expr
    """The expression in the SQL."""
    constant: Any = None
    """Value of a literal."""
    is_constant: bool = False


class _MissingError(Exception):
    """An operand that is not in the SQL."""


class OwnCall(exp.Expression, exp.Func):
    """A call of a function that the user has registered."""

    arg_types = {"expressions": False}
    is_var_len_args = True

    def typed(self, compiler: Compiler) -> Typed:
        """Return the value, as an expression of the row's columns. Raises ProgramError, SchemaError."""
        raise NotImplementedError


class Columns(Protocol):
    """Resolution of column names."""

    def column(self, node: exp.Column) -> Typed:
        """Return the column. Raises SchemaError if no column has the name, or several do."""


@dataclass(frozen=True)
class Compiler:
    """Compiler of nodes to expressions."""

    sql: SqlText
    columns: Columns
    instead: Callable[[exp.Expr], Typed | None] = lambda node: None
    """Replacement for a whole node: the column of an aggregate that was computed before."""
    reached: tuple[pl.Expr, ...] = ()
    """Conditions under which the values are used, as in a branch of CASE."""
    _compiled: dict[int, tuple[exp.Expr, Typed]] = field(default_factory=dict, init=False, repr=False)
    """Nodes that were compiled, by their identity. A function may compile an argument to learn its
    type, and pass it on to another."""

    def where(self, condition: pl.Expr) -> Compiler:
        """Return the compiler of a branch that is taken if the condition is true."""
        return replace(self, reached=(*self.reached, condition))

    def compile(self, node: exp.Expr | None) -> Typed:
        """Compile an expression; `None` is one that the SQL lacks. Raises ProgramError, SchemaError at
        its place in the SQL."""
        if node is None:
            raise _MissingError
        found = self.instead(node)
        if found is not None:
            return found
        if id(node) not in self._compiled:
            self._compiled[id(node)] = node, self._compile(node)
        return self._compiled[id(node)][1]

    def _compile(self, node: exp.Expr) -> Typed:
        if isinstance(node, exp.Anonymous):
            made = NAMED.get(node.name.casefold())
            if made is None:
                raise self.unknown_function(node)
            return made(self, node)
        if isinstance(node, OwnCall):
            return node.typed(self)
        handler = HANDLERS.get(type(node))
        if handler is None:
            raise self.refused(node)
        with self.arguments_of(node):
            return handler(self, node)

    @contextmanager
    def arguments_of(self, node: exp.Expr) -> Iterator[None]:
        """Raise ProgramError at the node if the SQL lacks an argument of it that is compiled."""
        try:
            yield
        except (_MissingError, KeyError) as error:
            if isinstance(error, KeyError) and error.args[0] not in node.arg_types:
                raise
            if isinstance(node, exp.Func) and WRITTEN_NAME not in node.meta and node.parent:
                raise _MissingError from None  # A part of the call that the user wrote.
            what = f"{kind(node)} is missing an argument"
            raise self.sql.error(what, node, "write all of its arguments") from None

    def unknown_function(self, node: exp.Anonymous) -> SchemaError:
        listed = "the functions are those of docs/sql-reference.md"
        return self.sql.unknown("function", node.name, node, function_names(), listed, names_them=False)

    def wrong_type(self, what: str, value: Typed, hint: str, at: exp.Expr | None = None) -> SchemaError:
        """Return the error for a value whose type does not fit, at its place or another; `what`
        describes the requirement, as in "SIZE takes an ARRAY"."""
        return self.sql.wrong_type(
            f"{what}, but this is {types.name(value.type)}", at or value.node, hint
        )

    def text(self, node: exp.Expr, where: str) -> Typed:
        """Compile a STRING, or NULL."""
        made = self.compile(node)
        if made.type not in (types.TEXT, types.NULL):
            raise self.wrong_type(
                f"{where} takes a STRING", made, "convert it with CAST(... AS STRING)", at=node
            )
        return self.cast(made, types.TEXT)

    def condition(self, node: exp.Expr, where: str) -> Typed:
        """Compile a condition: a BOOLEAN, or NULL."""
        made = self.compile(node)
        if made.type not in (types.BOOLEAN, types.NULL):
            raise self.wrong_type(
                f"{where} takes a condition",
                made,
                "compare it with something, as in status < 400",
                at=node,
            )
        return self.cast(made, types.BOOLEAN)

    def cast(self, value: Typed, to: pl.DataType) -> Typed:
        """Return the value as another type. Raises SchemaError if there is no such cast."""
        if value.type == to:
            return value
        made = types.cast(value.expr, value.type, to)
        if made is None:
            raise self.sql.wrong_type(
                f"{types.name(value.type)} cannot be converted to {types.name(to)}", value.node, CAST
            )
        return replace(value, expr=made, type=to, is_constant=False)

    def common(self, values: Sequence[Typed], where: str) -> tuple[list[Typed], pl.DataType]:
        """Cast the values to a common type, and return both. If one value is a time, string literals
        are read as times."""
        kind: pl.DataType = types.NULL
        timed = next((each.type for each in values if _is_time(each.type)), None)
        if timed is not None:
            values = [self.cast_text(each, timed) for each in values]
        values = self.with_typed_literals(values)
        for value in values:
            both = types.common(kind, types.signed(value.type))
            if both is None:
                raise self.sql.wrong_type(
                    f"{where} takes values of one type, but this is {types.name(value.type)}, not "
                    f"{types.name(kind)}",
                    value.node,
                    CAST,
                )
            kind = both
        return [self.cast(value, kind) for value in values], kind

    def with_typed_literals(self, values: Sequence[Typed]) -> Sequence[Typed]:
        """Return the values with untyped literals of the type of the others."""
        is_untyped = [bool(each.node.meta.get(UNTYPED)) for each in values]
        others = (each.type for each, untyped in zip(values, is_untyped, strict=True) if not untyped)
        kind = next((each for each in others if each not in (types.NULL, types.TEXT)), None)
        if kind is None or not any(is_untyped):
            return values
        nodes = (read_as(self.sql, each.node, kind) for each in values)
        return [
            each if node is each.node else self.compile(node)
            for node, each in zip(nodes, values, strict=True)
        ]

    def cast_text(self, value: Typed, to: pl.DataType) -> Typed:
        """Return a constant string as the type that it is compared with."""
        if not (value.is_constant and isinstance(value.constant, str)):
            return value
        made = self.cast(value, to)
        read = pl.select(made.expr).to_series()
        if read.null_count():
            raise self.sql.wrong_type(
                f"{value.constant!r} is not a valid {types.name(to)}",
                value.node,
                _VALID_TIME,
            )
        # Once for all rows; the number that it is, as Python has no year 10000.
        number = read.to_physical()
        return replace(made, expr=pl.lit(number.item(), dtype=number.dtype).cast(to))

    def assigned(self, node: exp.Expr, to: pl.DataType) -> Typed:
        """Compile a value for a column of a type. A literal is read as a value of this type. Raises
        ProgramError or SchemaError."""
        value = self.compile(node)
        if types.common(value.type, to) == to or not _is_literal(node):
            return self.cast(value, to) if value.type == types.NULL else value
        made = self.cast(value, to)
        if pl.select(made.expr).to_series().null_count():
            raise self.sql.wrong_type(
                f"{as_sql(node)} is not a valid {types.name(to)}",
                node,
                _VALID_TIME if _is_time(to) else CAST,
            )
        return made

    def given(self, node: exp.Func, takes: Sequence[Takes]) -> list[Typed]:
        """Return the arguments of a call, checked and cast. Optional ones may be missing. Raise
        ProgramError or SchemaError."""
        least = sum(not each.optional for each in takes)
        if not least <= len(node.expressions) <= len(takes):
            counted = f"{least}" if least == len(takes) else f"{least} to {len(takes)}"
            wanted = ", ".join(each.what for each in takes)
            raise self.sql.error(
                f"{kind(node)} takes {counted} arguments, but has {len(node.expressions)}",
                node,
                f"its arguments are {wanted}",
            )
        return [
            _fitted(self, node, wanted, given)
            for wanted, given in zip(takes, node.expressions, strict=False)
        ]

    def refused(self, node: exp.Expr) -> Exception:
        if isinstance(node, exp.AggFunc):
            return self.sql.error(
                f"{kind(node)} is an aggregate, but this expression is computed for each row",
                node,
                "aggregate in the SELECT list or in HAVING",
            )
        if isinstance(node, exp.Window):
            return self.sql.error(
                "OVER is not computed here",
                node,
                "compute it in SELECT, and filter by it with QUALIFY or in a query around this one",
            )
        if isinstance(node, exp.Exists) and not isinstance(node.this.unnest(), exp.Query):
            return self.sql.error("EXISTS takes a query", node, "write EXISTS (SELECT 1 FROM ...)")
        refusal = next((each for of, each in _REFUSALS.items() if isinstance(node, of)), None)
        if refusal is not None:
            what, hint = refusal
            return self.sql.error(what.format(kind(node)), node, hint)
        is_query = isinstance(node, exp.Query | exp.Exists) and not node.args.get("expression")
        if is_query or isinstance(node, exp.SetOperation):
            return self.sql.error(
                "a query within an expression is not computed here",
                node,
                "use IN and EXISTS in WHERE, combined with other conditions by AND; a scalar "
                "subquery in WHERE, or in SELECT without GROUP BY",
            )
        return self.sql.not_computed(node)


CAST = "convert it with CAST(... AS ...)"
_VALID_TIME = "write '2026-03-01', or '2026-03-01 12:00:00'"
_NEEDS_OVER = (
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile),
    *(exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue),
)
_REFUSALS: dict[Any, tuple[str, str]] = {
    _NEEDS_OVER: ("{} needs OVER", "write ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...)"),
    exp.Star: ("* means all columns, and is not a value", "name a column, or write COUNT(*)"),
    exp.Lambda: (
        "a function of elements can only be an argument",
        "write TRANSFORM(list, x -> x + 1)",
    ),
    exp.Tuple: (
        "several values in parentheses can only be compared with as many others",
        "write (a, b) = (c, d), or (a, b) IN (SELECT ...)",
    ),
    (exp.Placeholder, exp.Parameter, exp.SessionParameter): (
        "SQL here has no parameters",
        "write the value itself",
    ),
}
"""Why nodes of some kinds are no expressions, and what to write."""


def _is_literal(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal)


def _is_time(kind: pl.DataType) -> bool:
    return kind == types.DATE or types.is_timestamp(kind)


Handler: TypeAlias = Callable[[Compiler, Any], Typed]
HANDLERS: dict[type[exp.Expr], Handler] = {}
NAMED: dict[str, Handler] = {}
"""Functions that sqlglot has no class for, by their names. A name with a point, such as `pg.left`, is
one that only the parser of a dialect writes."""
AGGREGATES: list[type[exp.Expr]] = [exp.Count]
"""Aggregates, which are computed over groups and frames, not over single rows."""


def function_names() -> list[str]:
    """Return the names of the functions that queries can call."""
    classes = [node for node in (*HANDLERS, *AGGREGATES) if issubclass(node, exp.Func)]
    named = [name for name in NAMED if "." not in name]
    return [*named, *(name.lower() for node in classes for name in node.sql_names())]


N = TypeVar("N", bound=Handler)


def computes(*nodes: type[exp.Expr]) -> Callable[[N], N]:
    """Register the function that compiles nodes of these classes."""

    def register(handler: N) -> N:
        for node in nodes:
            assert node not in HANDLERS, node
            HANDLERS[node] = handler
        return handler

    return register


def computes_named(*names: str) -> Callable[[N], N]:
    """Register the function that compiles calls of these names, for which the parser has no node."""

    def register(handler: N) -> N:
        for name in names:
            assert name not in NAMED, name
            NAMED[name] = handler
        return handler

    return register


# --- functions of arguments -------------------------------------------------------------------------


@dataclass(frozen=True)
class Takes:
    """Requirement for an argument of a function."""

    what: str
    """The requirement, in the words of an error."""
    fits: Callable[[pl.DataType], bool]
    to: pl.DataType | None = None
    """Type to which the argument is cast first; None: no cast."""
    constant: bool = False
    """Whether it must be a literal, whose value is passed to the function."""
    default: Any = None
    """Default of a literal that may be left out."""
    optional: bool = False


def _is(*kinds: pl.DataType) -> Callable[[pl.DataType], bool]:
    return lambda kind: kind in kinds or kind == types.NULL


ANY = Takes("a value", lambda kind: True)
TEXT = Takes("a STRING", _is(types.TEXT), types.TEXT)
TEXT_OF_BYTES = Takes("a STRING or BINARY", _is(types.TEXT, pl.Binary()), types.TEXT)
"""A STRING; of a BINARY, the string that is encoded as these bytes."""
CHARACTERS = Takes("a STRING or BINARY", _is(types.TEXT, pl.Binary()))
"""A STRING; of a BINARY, its bytes as characters. If all such arguments are BINARY, the result is."""
BYTES = Takes("a STRING or BINARY", _is(types.TEXT, pl.Binary()), pl.Binary())
NUMBER = Takes("a number", lambda kind: types.is_number(types.signed(kind)))
REAL = Takes("a number", lambda kind: types.is_number(types.signed(kind)), types.DOUBLE)
WHOLE = Takes("an integer", lambda kind: types.is_integer(types.signed(kind)), types.BIGINT)
SMALL_WHOLE = replace(WHOLE, to=types.INT)
"""An INT; of a BIGINT, the last 32 bits."""
DAY = Takes("a DATE or TIMESTAMP", _is_time, types.DATE)
MOMENT = Takes("a TIMESTAMP", _is_time, types.TIMESTAMP)
CONSTANT_TEXT = replace(TEXT, what="a constant string", constant=True)
CONSTANT_WHOLE = replace(WHOLE, what="a constant integer", constant=True)


def optional(takes: Takes, default: Any = None) -> Takes:
    return replace(takes, optional=True, default=default)


Gives: TypeAlias = pl.DataType | str
"""The type of a result, or the name of the argument whose type it has."""


def function(
    node: type[exp.Expr] | str | Sequence[str],
    takes: Mapping[str, Takes],
    gives: Gives,
    flags: Sequence[str] = (),
) -> Callable[[Callable[..., pl.Expr]], Callable[..., pl.Expr]]:
    """Register a function by the node's class, or by its names.

    Args:
        takes: the arguments by their names in the node; for a function by name, in their order.
        flags: further arguments of the node, which are always the same and are ignored.
    """

    def register(compute: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
        def handler(compiler: Compiler, node: exp.Expr) -> Typed:
            given = _arguments(compiler, node, takes, flags)
            values: dict[str, Any] = {}
            kinds: dict[str, pl.DataType] = {}
            for name, wanted in takes.items():
                values[name], kinds[name] = _argument(compiler, node, wanted, given.get(name))
            kind = kinds[gives] if isinstance(gives, str) else gives
            of_bytes = [name for name in given if takes[name] is CHARACTERS]
            if pl.Binary() in [kinds[name] for name in of_bytes]:
                return _of_bytes(compiler, node, values, of_bytes, kinds, compute)
            return Typed(compute(**values), kind, node)

        if isinstance(node, type):
            computes(node)(handler)
        else:
            computes_named(*([node] if isinstance(node, str) else node))(handler)
        return compute

    return register


def _of_bytes(
    compiler: Compiler,
    node: exp.Expr,
    values: dict[str, Any],
    names: Sequence[str],
    kinds: Mapping[str, pl.DataType],
    compute: Callable[..., pl.Expr],
) -> Typed:
    """Return a function of the bytes of BINARY as BINARY. Raise ProgramError if some are STRING."""
    if any(kinds[name] != pl.Binary() for name in names):
        raise compiler.sql.error(
            f"{kind(node)} takes only STRING or only BINARY", node, "write CAST(... AS BINARY)"
        )
    texts = {name: byte_characters.characters(values[name]) for name in names}
    return Typed(byte_characters.bytes_of(compute(**{**values, **texts})), pl.Binary(), node)


def _arguments(
    compiler: Compiler, node: exp.Expr, takes: Mapping[str, Takes], flags: Sequence[str]
) -> Mapping[str, exp.Expr]:
    if not isinstance(node, exp.Anonymous):
        compiler.sql.only(node, (*takes, *flags), f" in {kind(node)}")
        return {name: node.args[name] for name in takes if isinstance(node.args.get(name), exp.Expr)}
    if len(node.expressions) > len(takes):
        raise compiler.sql.error(
            f"{kind(node)} takes {len(takes)} arguments, but has {len(node.expressions)}", node
        )
    return dict(zip(takes, node.expressions, strict=False))


def _argument(
    compiler: Compiler, node: exp.Expr, wanted: Takes, given: exp.Expr | None
) -> tuple[Any, pl.DataType]:
    if given is None:
        if not wanted.optional:
            raise compiler.sql.error(f"{kind(node)} lacks an argument: {wanted.what}", node)
        return wanted.default, types.NULL
    value = _fitted(compiler, node, wanted, given)
    if wanted.constant:
        return value.constant, value.type
    timed = wanted.to is not None and _is_time(wanted.to)
    return types.dated(value.expr, value.type) if timed else value.expr, value.type


def _fitted(compiler: Compiler, node: exp.Expr, wanted: Takes, given: exp.Expr) -> Typed:
    """Return an argument as the function takes it. Raise ProgramError or SchemaError."""
    value = compiler.compile(given)
    if wanted.to is not None and _is_time(wanted.to):
        value = compiler.cast_text(value, wanted.to)
    if not (wanted.fits(value.type) or value.type == types.NULL):
        raise compiler.wrong_type(f"{kind(node)} takes {wanted.what}", value, CAST, at=given)
    if wanted.constant:
        if not value.is_constant or value.constant is None:
            raise compiler.sql.error(f"{kind(node)} takes {wanted.what} here", given)
        return value
    return compiler.cast(value, types.signed(value.type) if wanted.to is None else wanted.to)
