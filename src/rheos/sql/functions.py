"""Python functions of the user in SQL. Annotations declare their arguments and results:

def dollars(cents: int) -> float                  of the values of a row
def score(text: pl.Series) -> pl.Series           of columns; returns= declares the type
def total(price: pl.Expr, n: pl.Expr) -> pl.Expr  an expression, which is inlined
def words(text: str) -> Iterator[Word]            a table
class Spread(rh.AggregateFunction)                an aggregate
class Sessions(rh.KeyedProcessFunction)           a table computed from a table
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, assert_never

import polars as pl
import pyarrow as pa
from sqlglot import exp
from sqlglot.parsers.spark import SparkParser

from rheos.api.function_checks import EMITTING, emitted_type
from rheos.api.function_typing import UNSAID, Signature, declared_type
from rheos.core.callables import check_kind, check_methods, function_name
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.aggregate_functions import AggregateFunction
from rheos.core.graph.functions import KeyedProcessFunction, RichFunction
from rheos.core.operators.call import CallForm
from rheos.core.protocol.columns import without_none
from rheos.core.protocol.types import arrow_type, schema_of
from rheos.core.safe_strings import shown
from rheos.sql import types
from rheos.sql.expressions.table import CAST, NAMED, Compiler, OwnCall, Typed
from rheos.sql.named_aggregates import named_aggregate
from rheos.sql.syntax_errors import WINDOWS
from rheos.sql.text import SqlText, kind

_TABLES = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator)
_COLUMNS = {pl.Series: CallForm.SERIES, pa.Array: CallForm.ARROW}


class FunctionKind(Enum):
    """Kind of a function, which determines where a query may call it."""

    EXPRESSION = auto()
    SCALAR = auto()
    TABLE = auto()
    AGGREGATE = auto()
    PROCESS = auto()


@dataclass(frozen=True)
class SqlParameter:
    """A parameter of a function."""

    name: str
    type: pl.DataType | None
    """None: values of any type."""
    takes_null: bool
    optional: bool = False


@dataclass(frozen=True)
class UserFunction:
    """A function that queries can call by name."""

    name: str
    fn: Any
    kind: FunctionKind
    form: CallForm
    takes: tuple[SqlParameter, ...]
    further: SqlParameter | None
    """Type of further arguments, as in *names."""
    gives: pa.DataType | None
    """For a table function, the type of its rows; None: the expression determines it."""
    record: type | None = None
    """For an aggregate with several arguments, the class in which they are passed."""
    returns: Any = None
    """For a process function, the declared type of its rows."""

    def arguments(self, compiler: Compiler, node: exp.Expr) -> list[Typed]:
        """Return the arguments of a call with the function's types. Raise ProgramError or
        SchemaError."""
        given = node.expressions
        least = sum(not each.optional for each in self.takes)
        most = None if self.further is not None else len(self.takes)
        if len(given) < least or (most is not None and len(given) > most):
            counted = (
                str(least) if least == most else f"{least} to {most}" if most else f"{least} or more"
            )
            raise compiler.sql.error(
                f"{kind(node)} takes {counted} arguments, but has {len(given)}",
                node,
                "its signature is "
                f"{function_name(self.fn)}({', '.join(each.name for each in self.takes)})",
            )
        return [
            fitted(compiler, compiler.compile(each), self.parameter(place), node)
            for place, each in enumerate(given)
        ]

    def parameter(self, place: int) -> SqlParameter:
        found = self.takes[place] if place < len(self.takes) else self.further
        assert found is not None, "the call has no more arguments than the function has parameters"
        return found


def fitted(compiler: Compiler, value: Typed, wanted: SqlParameter, node: exp.Expr) -> Typed:
    """Return an argument of a call with the parameter's type. Raise SchemaError."""
    to = wanted.type
    if to is None:
        return value
    if types.is_timestamp(to) or to == types.DATE:
        value = compiler.cast_text(value, to)
    if types.is_decimal(to) and (types.is_integer(value.type) or types.is_decimal(value.type)):
        return compiler.cast(value, types.as_decimal(value.type))
    if types.common(types.signed(value.type), to) != to:
        raise compiler.wrong_type(
            f"{kind(node)} takes {types.name(to)} as {wanted.name!r}", value, CAST, at=value.node
        )
    return compiler.cast(value, to)


class UserCall(OwnCall):
    """A call of a user's function. Each function has a class of its own."""

    function: ClassVar[UserFunction]

    def typed(self, compiler: Compiler) -> Typed:
        if self.function.kind is FunctionKind.EXPRESSION:
            return _inlined(compiler, self)
        raise self.misplaced(compiler.sql)

    def misplaced(self, sql: SqlText) -> ProgramError:
        """Return the error for a call at a place where functions of this kind cannot be called."""
        name, of = self.function.name, self.function.kind
        match of:
            case FunctionKind.TABLE:
                what = "returns a table"
                hint = f"write FROM t, LATERAL TABLE({name}(...)) AS f, or LATERAL VIEW {name}(...) f"
            case FunctionKind.AGGREGATE:
                what, hint = "is an aggregate", "aggregate in the SELECT list or in HAVING"
            case FunctionKind.PROCESS:
                what, hint = "computes a table from a table", process_example(name)
            case FunctionKind.SCALAR | FunctionKind.EXPRESSION:
                what = "cannot be called here"
                hint = "call it in a subquery, and give its result a name"
            case _:
                assert_never(of)
        return sql.error(f"{kind(self)} {what}", self, hint)


class UserAggregateCall(UserCall, exp.AggFunc):
    """A call of a user's aggregate."""


def process_example(name: str) -> str:
    """Return what to write in order to call a process function."""
    return f"write FROM {name}(TABLE bids PARTITION BY bidder)"


def _inlined(compiler: Compiler, node: UserCall) -> Typed:
    """Inline the expression that the function returns for its arguments."""
    of = node.function
    given = [value.expr for value in of.arguments(compiler, node)]
    made = of.fn(*given)
    if not isinstance(made, pl.Expr):
        raise compiler.sql.error(
            f"{function_name(of.fn)} returned {type(made).__name__}, not an expression", node
        )
    kinds = {
        typed.expr.meta.output_name(): typed.type
        for typed in (compiler.compile(each) for each in node.find_all(exp.Column))
        if typed.expr.meta.is_column()
    }
    try:
        given_type = types.of_exact(made, kinds)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        declared_result = str(error).strip().splitlines()[0]
        raise compiler.sql.wrong_type(
            f"{function_name(of.fn)} does not accept its arguments: {declared_result}", node, CAST
        ) from None
    return Typed(made, given_type, node)


def resolved(tree: exp.Expr, functions: typing.Mapping[str, type[OwnCall]]) -> None:
    """Replace calls of known functions by their nodes. Other names may be those of aggregates."""
    for node in [*tree.find_all(exp.Anonymous)]:
        known = functions.get(node.name.casefold()) or named_aggregate(node.name)
        if known is not None:
            call = known(expressions=node.expressions)
            call.meta.update(node.meta)
            node.replace(call)


# --- what it takes and gives --------------------------------------------------------------------------


def called(name: str, fn: Any, returns: Any) -> type[UserCall]:
    """Return the class for the calls of a function. Raise ProgramError or SchemaError."""
    upper = name.upper()
    if upper in SparkParser.FUNCTIONS or name.casefold() in NAMED or upper in (*WINDOWS, "TABLE"):
        raise ProgramError(
            f"SQL already has a function {upper}", hint="register the function with another name"
        )
    match fn:
        case AggregateFunction():
            of = _aggregate(name, fn)
        case KeyedProcessFunction():
            of = _process(name, fn, fn, (), returns)
        case type() if issubclass(fn, KeyedProcessFunction):
            # Only its annotations are read; a call makes an instance with its arguments.
            of = _process(name, fn, fn.__new__(fn), _constructor(fn), returns)
        case _:
            of = _function(name, fn, returns)
    base = UserAggregateCall if of.kind is FunctionKind.AGGREGATE else UserCall
    return type(upper, (base,), {"_sql_names": [upper], "function": of})


def _function(name: str, fn: Any, returns: Any) -> UserFunction:
    if not callable(fn) or (isinstance(fn, type) and issubclass(fn, AggregateFunction | RichFunction)):
        made = f", {fn.__name__}()" if isinstance(fn, type) else ""
        raise ProgramError(
            f"register_function() takes a function, not {shown(fn)}",
            hint=f"write env.register_function({name!r}{made or ', dollars'})",
        )
    check_kind(fn, "register_function", yields=True)
    signature = Signature(fn)
    takes, further = _parameters(fn, signature)
    declared_result = signature.result if returns is None else returns
    annotations = {without_none(each)[0] for each in signature.parameters if _hashable(each)}
    if pl.Expr in annotations:
        any_type = tuple(SqlParameter(each.name, None, True, each.optional) for each in takes)
        return UserFunction(name, fn, FunctionKind.EXPRESSION, CallForm.VALUES, any_type, further, None)
    for column, form in _COLUMNS.items():
        if column in annotations:
            if returns is None:
                raise SchemaError(
                    f"{function_name(fn)} does not declare the type of the values in the "
                    f"{column.__name__} that it returns",
                    hint=f"write env.register_function({name!r}, {function_name(fn)}, returns=float)",
                )
            gives = _type(returns, fn)
            return UserFunction(name, fn, FunctionKind.SCALAR, form, takes, further, gives)
    if declared_result in (UNSAID, Any, None, type(None)):
        raise SchemaError(
            f"{function_name(fn)} does not declare its return type",
            hint="annotate its return type, as in `-> float`, or write "
            f"env.register_function({name!r}, {function_name(fn)}, returns=float)",
        )
    of = without_none(declared_result)[0]
    if (typing.get_origin(of) or of) in _TABLES:
        element = (*typing.get_args(of), UNSAID)[0]
        if element in (UNSAID, Any):
            raise SchemaError(
                f"{function_name(fn)} does not declare the type of the rows that it returns",
                hint="annotate its return type as `-> Iterator[Word]`, where Word is a dataclass",
            )
        gives = _type(element, fn)
        return UserFunction(name, fn, FunctionKind.TABLE, CallForm.MANY, takes, further, gives)
    check_kind(fn, "register_function")
    gives = _type(declared_result, fn)
    return UserFunction(name, fn, FunctionKind.SCALAR, CallForm.VALUES, takes, further, gives)


def _aggregate(name: str, fn: AggregateFunction[Any]) -> UserFunction:
    """Return a user's aggregate. It takes one value, or several as the fields of a dataclass."""
    check_methods(fn, AggregateFunction, "register_function")
    add, result = Signature(fn.add), Signature(fn.get_result).result
    if result in (UNSAID, Any):
        raise SchemaError(
            f"{type(fn).__name__} does not declare its return type",
            hint="annotate its method: `def get_result(self, accumulator: Range) -> float`",
        )
    gives = _type(result, fn)
    record, null = without_none(add.first)
    if isinstance(record, type) and hasattr(record, "__dataclass_fields__"):
        takes = tuple(
            SqlParameter(field.name, types.of_arrow(field.type), field.nullable)
            for field in schema_of(record)
        )
        return UserFunction(
            name, fn, FunctionKind.AGGREGATE, CallForm.VALUES, takes, None, gives, record
        )
    parameter = SqlParameter("record", _parameter_type(record, fn), null)
    return UserFunction(name, fn, FunctionKind.AGGREGATE, CallForm.VALUES, (parameter,), None, gives)


def _process(
    name: str,
    fn: Any,
    instance: KeyedProcessFunction,
    takes: tuple[SqlParameter, ...],
    returns: Any,
) -> UserFunction:
    """Return a process function: an instance, or a class with the parameters of its constructor."""
    check_methods(instance, KeyedProcessFunction, "register_function")
    emitted = emitted_type(
        instance, KeyedProcessFunction, EMITTING, returns, method="register_function"
    )
    if not len(emitted.schema):
        raise SchemaError(
            f"{function_name(fn)} emits no rows", hint="annotate process_element as -> Iterator[Alert]"
        )
    gives = pa.struct(list(emitted.schema))
    return UserFunction(
        name, fn, FunctionKind.PROCESS, CallForm.VALUES, takes, None, gives, returns=returns
    )


def _constructor(cls: type) -> tuple[SqlParameter, ...]:
    """Return the parameters of a class."""
    make = cls.__init__  # type: ignore[misc]
    if make is object.__init__:
        return ()
    [_, *takes], _ = _parameters(make, Signature(make))
    return tuple(takes)


def _parameters(fn: Any, signature: Signature) -> tuple[tuple[SqlParameter, ...], SqlParameter | None]:
    takes, further = [], None
    try:
        named = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        raise SchemaError(
            f"{function_name(fn)} does not declare the types of its parameters",
            hint="wrap it in a function: def name(value: float) -> float",
        ) from None
    for declared_result, each in zip(signature.parameters, named, strict=True):
        if each.kind is inspect.Parameter.VAR_KEYWORD or (
            each.kind is inspect.Parameter.KEYWORD_ONLY and each.default is not each.empty
        ):
            continue
        if each.kind is inspect.Parameter.KEYWORD_ONLY:
            raise SchemaError(
                f"{function_name(fn)} has the keyword-only parameter {each.name!r}, but SQL "
                "passes arguments by position",
                hint="remove the * from its parameters",
            )
        annotation, null = without_none(declared_result)
        made = SqlParameter(
            each.name,
            _parameter_type(annotation, fn),
            null or declared_result is UNSAID,
            each.default is not each.empty,
        )
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            further = made
        else:
            takes.append(made)
    return tuple(takes), further


def _parameter_type(annotation: Any, fn: Any) -> pl.DataType | None:
    """Return the type of a parameter; None for any type."""
    if annotation in (UNSAID, Any, pl.Expr, *_COLUMNS):
        return None
    return types.of_arrow(_type(annotation, fn))


def _type(annotation: Any, fn: Any) -> pa.DataType:
    """Return the SQL type of an annotation. Raise SchemaError, with the name of the parameter or
    result."""
    if isinstance(annotation, pa.DataType):
        return annotation
    if isinstance(annotation, dict | pa.Schema):
        return pa.struct(list(declared_type(annotation).schema))
    try:
        return arrow_type(annotation)
    except SchemaError as error:
        error.what = f"{function_name(fn)}: {error.what}"
        raise


def _hashable(annotation: Any) -> bool:
    return isinstance(annotation, collections.abc.Hashable)


# --- aggregates ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldFunction:
    """An aggregate as a function of all values, in order."""

    function: AggregateFunction[Any]
    record: type | None

    def __call__(self, values: Sequence[Any] | None) -> Any:
        of = self.function
        accumulator = of.create_accumulator()
        for value in values or ():
            taken = value if self.record is None else self.record(**value)
            accumulator = of.add(taken, accumulator)
        return of.get_result(accumulator)

    @property
    def __name__(self) -> str:
        return type(self.function).__name__
