"""Exact computation of decimals in expressions, with Spark's result types.

Polars computes decimals by its own rules: `0.0000001 / 0.0000001` is 0 for columns of 18 digits after
the point, products of wide decimals fail, and halves are rounded to even. So before an expression is
typed or evaluated, Rheos replaces each operation that yields or compares decimals (`decimal_kernels`).
`decimal_types` determines the types of the results. Divisions of floats by a constant are replaced, too
(`float_division`). Other expressions are returned unchanged.

A program's plan keeps the user's expressions; they are replaced when they are typed or run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce
from typing import Any, Final

import polars as pl

from rheos.core.errors import ProgramError
from rheos.core.graph import decimal_types, operation_trees, row_functions
from rheos.core.graph.decimal_kernels import (
    DecimalArithmetic,
    DecimalComparison,
    ToDecimal,
    ToFloat,
    ToInteger,
    WholeDecimals,
)
from rheos.core.graph.expression_trees import (
    FAILURES,
    Tree,
    elements_named,
    expression_of,
    fields_taken,
    is_constant,
    is_whole,
    subtrees,
    tree_of,
    types_of,
)
from rheos.core.graph.float_division import DIVISIONS, FloatDivision

_RESULTS: Final[dict[str, Callable[[pl.Decimal, pl.Decimal], pl.Decimal]]] = {
    "Plus": decimal_types.of_sum,
    "Minus": decimal_types.of_sum,
    "Multiply": decimal_types.of_product,
    "TrueDivide": decimal_types.of_quotient,
    "Divide": decimal_types.of_quotient,
    "FloorDivide": decimal_types.of_whole_quotient,
    "Modulus": decimal_types.of_remainder,
}
_COMPARISONS: Final = ("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "EqValidity", "NotEqValidity")
_OF_ONE_TYPE: Final = ("Coalesce", "FillNull", "MaxHorizontal", "MinHorizontal")
"""Functions that convert their arguments to one type."""
_OF_SEVERAL: Final = (
    *("Coalesce", "MaxHorizontal", "MinHorizontal", "SumHorizontal", "MeanHorizontal", "AsStruct"),
    *("AllHorizontal", "AnyHorizontal", "ConcatHorizontal", "Format", "Concat"),
)
"""Functions in whose arguments a selector expands to several arguments."""


def exact(exprs: Iterable[pl.Expr], frame: pl.LazyFrame) -> list[pl.Expr]:
    """Return the expressions with exact decimals. `frame` has the columns, and needs no rows.

    An expression that selects several columns, and computes with decimals, becomes one per column.
    """
    given = list(exprs)
    try:
        schema = frame.collect_schema()
    except FAILURES:
        return given
    of_columns = any(_holds_decimals(kind) for kind in schema.dtypes())
    return [made for expr in given for made in _exact(expr, frame, of_columns)]


def exact_one(expr: pl.Expr, frame: pl.LazyFrame) -> pl.Expr:
    """Return an expression with one output that computes decimals exactly."""
    made = exact([expr], frame)
    return made[0] if len(made) == 1 else expr


def _exact(expr: pl.Expr, frame: pl.LazyFrame, of_columns: bool) -> list[pl.Expr]:
    if expr.meta.is_column() or not (of_columns or _is_affected(expr)):
        return [expr]
    made, changed = [], False
    try:
        tree = tree_of(expr)
        if tree is None or not is_whole(tree):
            return [expr]
        for each in _expanded(tree, frame):
            scope = _Scope(frame)
            part = scope.part(each)
            made.append(expression_of(part.tree))
            changed |= scope.changed
    except (*FAILURES, ValueError):
        # The expression is invalid. Polars reports that when the expression is typed.
        return [expr]
    except RecursionError:
        raise ProgramError(
            "a decimal expression is nested too deeply",
            hint="compute it in steps: .with_columns(...) for each",
        ) from None
    return made if changed else [expr]


def _is_affected(expr: pl.Expr) -> bool:
    """Return whether the expression names a decimal type, or divides."""
    try:
        form = expr.meta.serialize(format="json")
        return '"Decimal"' in form or any(f'"{division}"' in form for division in DIVISIONS)
    except (*FAILURES, ValueError):
        return False


class ExactExpression:
    """An expression with one output that computes decimals exactly. The types of its first frame
    determine how."""

    def __init__(self, expr: pl.Expr) -> None:
        self._expr = expr
        self._made: pl.Expr | None = None

    def values(self, frame: pl.DataFrame) -> pl.Series:
        """Return the expression's values. All frames must have the same columns."""
        if self._made is None:
            self._made = exact_one(self._expr, pl.LazyFrame(schema=frame.schema))
        return frame.select(self._made).to_series()


def _holds_decimals(kind: Any) -> bool:
    match kind:
        case pl.Decimal():
            return True
        case pl.List() | pl.Array():
            return _holds_decimals(kind.inner)
        case pl.Struct():
            return any(_holds_decimals(field.dtype) for field in kind.fields)
    return False


# --- selectors --------------------------------------------------------------------------------------


def _expanded(tree: Tree, frame: pl.LazyFrame) -> list[Tree]:
    """Return the trees of the expressions to which an expression with selectors expands."""
    if not any(isinstance(part, dict) and "Selector" in part for part in subtrees(tree)):
        return [tree]
    match tree:
        case {"Selector": _}:
            names = frame.select(expression_of(tree)).collect_schema().names()
            return [{"Column": name} for name in names]
        case {"Function": {"input": inputs, "function": function}} if _takes_several(function):
            flat = [each for given in inputs for each in _expanded(given, frame)]
            return [{"Function": {"input": flat, "function": function}}]
        case dict():
            return _combined(list(tree), [_expanded(branch, frame) for branch in tree.values()], dict)
        case list():
            return _combined(range(len(tree)), [_expanded(branch, frame) for branch in tree], list)
    return [tree]


def _combined(
    keys: Sequence[Any], branches: Sequence[list[Tree]], make: Callable[[Any], Tree]
) -> list[Tree]:
    rows = max(map(len, branches), default=1)
    if any(len(branch) not in (1, rows) for branch in branches):
        raise ValueError("selectors of different lengths")
    made = []
    for row in range(rows):
        chosen = [branch[row if len(branch) > 1 else 0] for branch in branches]
        made.append(make(zip(keys, chosen, strict=True)) if make is dict else chosen)
    return made


def _takes_several(function: Tree) -> bool:
    """Return whether a function is one of `_OF_SEVERAL`. Its tree may have options, and the name of its
    kind."""
    match function:
        case str():
            return function in _OF_SEVERAL
        case {"Boolean": inner} | {"StringExpr": inner} | {"ListExpr": inner}:
            return _takes_several(inner)
        case dict():
            return any(name in _OF_SEVERAL for name in function)
    return False


# --- parts --------------------------------------------------------------------------------------------


class _Part:
    """A rewritten part of an expression, with its type."""

    def __init__(self, tree: Tree, ask: Callable[[Tree], pl.DataType | None]) -> None:
        self.tree = tree
        self._ask = ask

    @property
    def kind(self) -> pl.DataType | None:
        """Return the type; None if Polars cannot determine it."""
        return self._ask(self.tree)

    @cached_property
    def decimal(self) -> pl.Decimal | None:
        """Return the decimal type for the values; None unless they are decimals or integers."""
        match self.tree:
            case {"Literal": {"Dyn": {"Int": value}} | {"Scalar": value}} if (
                whole := _integer(value)
            ) is not None:
                return decimal_types.of_constant(whole)
        return None if self.kind is None else decimal_types.as_decimal(self.kind)

    @property
    def column(self) -> pl.Decimal | None:
        """Return the decimal type for a column of the values; a constant has its own narrower type."""
        return None if self.kind is None else decimal_types.as_decimal(self.kind)

    @property
    def is_decimal(self) -> bool:
        return isinstance(self.kind, pl.Decimal)


def _integer(value: Tree) -> int | None:
    match value:
        case int():
            return value
        case {**typed} if len(typed) == 1:
            ((name, whole),) = typed.items()
            if str(name).startswith(("Int", "UInt")) and isinstance(whole, int):
                return whole
    return None


class _Scope:
    """Rewrites the parts of expressions that read the columns of one frame."""

    def __init__(
        self, frame: pl.LazyFrame, as_columns: Callable[[Tree], Tree] = lambda tree: tree
    ) -> None:
        self._frame = frame
        self._schema = frame.collect_schema()
        self._as_columns = as_columns
        """Replaces list elements and struct fields in a tree by columns of the frame."""
        self._asked: dict[int, tuple[Tree, pl.DataType | None]] = {}
        """The types of trees by their ids. The trees are kept, so an id is not used again."""
        self._open: dict[int, tuple[Tree, bool]] = {}
        self.changed = False

    def _ask(self, tree: Tree) -> pl.DataType | None:
        if id(tree) not in self._asked:
            kind = self._type_of_operation(tree)
            if kind is None or kind.is_nested():
                kind = self._type_of_whole(tree)
            self._asked[id(tree)] = (tree, kind)
        return self._asked[id(tree)][1]

    def _type_of_operation(self, tree: Tree) -> pl.DataType | None:
        """Return the type by those of the operands: so a deep tree is not read again for each of its
        parts. A nested type is not final, because it may contain the names of operands."""
        placed: list[Tree] = []
        kinds: list[pl.DataType] = []
        for operand in operation_trees.operands(tree):
            if "Literal" in operand or self._is_open(operand):
                placed.append(operand)
            elif (kind := self._ask(operand)) is not None:
                placed.append(operation_trees.placeholder(len(kinds)))
                kinds.append(kind)
            else:
                return None
        return operation_trees.result_type(tree, placed, tuple(kinds)) if kinds else None

    def _is_open(self, tree: Tree) -> bool:
        """Return whether the value has no final type, such as the constant 1 + 2: the other operand
        determines it."""
        if id(tree) not in self._open:
            operands = operation_trees.operands(tree)
            is_open = operation_trees.is_open_literal(tree) or (
                bool(operands) and "Cast" not in tree and all(map(self._is_open, operands))
            )
            self._open[id(tree)] = (tree, is_open)
        return self._open[id(tree)][1]

    def _type_of_whole(self, tree: Tree) -> pl.DataType | None:
        if "Literal" in tree:
            return operation_trees.literal_type(tree)
        seen = self._as_columns(tree)
        if isinstance(seen, dict) and seen.get("Column") in self._schema:
            return self._schema[seen["Column"]]
        kinds = types_of(seen, self._frame)
        return kinds[0] if len(kinds) == 1 else None

    def part(self, tree: Tree, *, strict: bool = True) -> _Part:
        """Return the part rewritten with exact decimals."""
        match tree:
            case {
                "Literal": {"Scalar": {"Decimal": [int(units), decimal_types.MOST_DIGITS, int(scale)]}}
            }:
                # Polars types a constant with the maximum number of digits; here it gets only its own.
                kind = decimal_types.of_constant(units, scale)
                assert kind is not None
                self.changed = True
                narrow = {"Decimal": [units, kind.precision, scale]}
                return self._part_of_kind({"Literal": {"Scalar": narrow}}, kind)
            case {"Literal": _}:
                return _Part(tree, self._ask)
            case {"BinaryExpr": {"left": left, "op": op, "right": right}}:
                return self._binary(self.part(left), op, self.part(right), strict)
            case {"Cast": {"expr": inner, "options": options}}:
                return self._cast(tree, self.part(inner, strict=options == "Strict"), options)
            case {"Ternary": {"predicate": asked, "truthy": then, "falsy": other}}:
                first, second = self._of_one_type([self.part(then), self.part(other)])
                condition = self.part(asked).tree
                ternary = {"predicate": condition, "truthy": first, "falsy": second}
                return _Part({"Ternary": ternary}, self._ask)
            case {"Function": {"input": inputs, "function": function}}:
                return self._function([self.part(each) for each in inputs], function)
            case {"Eval": {"expr": outer, "evaluation": inner, **rest}}:
                lists = self.part(outer)
                element = getattr(lists.kind, "inner", None) or pl.Null()
                within = _Scope(pl.LazyFrame(schema={"": element}), elements_named)
                made = within.part(inner).tree
                self.changed |= within.changed
                return _Part({"Eval": {"expr": lists.tree, "evaluation": made, **rest}}, self._ask)
            case {"StructEval": {"expr": outer, "evaluation": inner, **rest}}:
                struct = self.part(outer).tree
                within = _Scope(self._frame, lambda each: self._as_columns(fields_taken(each, struct)))
                parts = [within.part(each).tree for each in inner]
                self.changed |= within.changed
                return _Part({"StructEval": {"expr": struct, "evaluation": parts, **rest}}, self._ask)
            case {"Alias": [inner, name]}:
                return _Part({"Alias": [self.part(inner, strict=strict).tree, name]}, self._ask)
            case dict():
                branches = {name: self._branch(branch) for name, branch in tree.items()}
                return _Part(branches, self._ask)
        return _Part(tree, self._ask)

    def _branch(self, branch: Tree) -> Tree:
        match branch:
            case dict():
                return self.part(branch).tree
            case list():
                return [self._branch(each) for each in branch]
        return branch

    def _part_of_kind(self, tree: Tree, kind: pl.DataType) -> _Part:
        self._asked[id(tree)] = (tree, kind)
        return _Part(tree, self._ask)

    def _call(
        self,
        kernel: Callable[[Sequence[pl.Series]], pl.Series],
        inputs: Sequence[_Part],
        kind: pl.DataType,
    ) -> _Part:
        """Return the part that calls a kernel."""
        self.changed = True
        expr = row_functions.of_columns(kernel, [pl.col("input")], kind)
        tree = json.loads(expr.meta.serialize(format="json"))
        tree["AnonymousFunction"]["input"] = [each.tree for each in inputs]
        return self._part_of_kind(tree, kind)

    # --- operators ------------------------------------------------------------------------------------

    def _binary(self, one: _Part, op: str, other: _Part, strict: bool) -> _Part:
        plain = {"BinaryExpr": {"left": one.tree, "op": op, "right": other.tree}}
        if not (op in _RESULTS or op in _COMPARISONS) or not (one.is_decimal or other.is_decimal):
            made = _Part(plain, self._ask)
            divides = op in DIVISIONS and is_constant(other.tree) and not is_constant(one.tree)
            if divides and made.kind is not None and made.kind.is_float():
                return self._call(FloatDivision(op, made.kind), [one, other], made.kind)
            return made
        # NULL takes the type of the other operand.
        first = one.decimal if one.kind != pl.Null else other.decimal
        second = other.decimal if other.kind != pl.Null else first
        if first is None or second is None:
            sides = [
                self._nearest_float(each, partner) for each, partner in ((one, other), (other, one))
            ]
            if sides != [one, other]:
                plain = {"BinaryExpr": {"left": sides[0].tree, "op": op, "right": sides[1].tree}}
            return _Part(plain, self._ask)
        if op in _RESULTS:
            kind = _RESULTS[op](first, second)
            if op in ("Plus", "Minus") and decimal_types.is_wider(kind, first, second):
                return self._plain_sum(one, op, other, kind)
            return self._call(DecimalArithmetic(op, kind, strict), [one, other], kind)
        if not decimal_types.holds_both(first, second):
            return self._call(DecimalComparison(op), [one, other], pl.Boolean())
        both = decimal_types.common(first, second)
        left, right = (self._widened(each, both) for each in (one, other))
        return _Part({"BinaryExpr": {"left": left, "op": op, "right": right}}, self._ask)

    def _plain_sum(self, one: _Part, op: str, other: _Part, kind: pl.Decimal) -> _Part:
        """Return a sum whose type has room for all digits: Polars computes it exactly, and fast."""
        left, right = (self._widened(each, kind) for each in (one, other))
        made = _Part({"BinaryExpr": {"left": left, "op": op, "right": right}}, self._ask)
        return self._part_of_kind(self._widened(made, kind), kind)

    def _nearest_float(self, part: _Part, partner: _Part) -> _Part:
        """Convert decimals to floats if the other operand is a float."""
        if not part.is_decimal or partner.kind is None or not partner.kind.is_float():
            return part
        return self._call(ToFloat(pl.Float64()), [part], pl.Float64())

    def _widened(self, part: _Part, to: pl.Decimal) -> Tree:
        """Cast values to a wider type by Polars, which is exact because all of them fit."""
        if part.kind == to:
            return part.tree
        self.changed = True
        form = {"Literal": {"Decimal": [to.precision, to.scale]}}
        return {"Cast": {"expr": part.tree, "dtype": form, "options": "Strict"}}

    # --- casts ----------------------------------------------------------------------------------------

    def _cast(self, tree: Tree, value: _Part, options: str) -> _Part:
        plain = {"Cast": {**tree["Cast"], "expr": value.tree}}
        to, strict = self._ask(tree), options == "Strict"
        match to:
            case pl.Decimal() if value.kind == to:
                # The cast must see the constant's own number of digits.
                return self._part_of_kind(plain, to) if "Literal" in value.tree else value
            case pl.Decimal():
                from_ = value.column
                if from_ is not None:
                    whole = decimal_types.whole_digits(to) >= decimal_types.whole_digits(from_)
                    if whole and to.scale >= from_.scale:
                        return self._part_of_kind(plain, to)
                elif value.kind is None or not (value.kind.is_float() or value.kind == pl.String):
                    return self._part_of_kind(plain, to)
                return self._call(ToDecimal(to, strict), [value], to)
            case _ if to is not None and value.is_decimal:
                if to.is_float():
                    return self._call(ToFloat(to), [value], to)
                if to.is_integer() and to not in (pl.Int128, pl.UInt128):
                    return self._call(ToInteger(to, strict, options == "Overflowing"), [value], to)
        return _Part(plain, self._ask)

    # --- functions ------------------------------------------------------------------------------------

    def _function(self, inputs: list[_Part], function: Tree) -> _Part:
        decimals = any(each.is_decimal for each in inputs)
        match function:
            case {"SumHorizontal": {"ignore_nulls": skips}} if decimals and all(
                each.decimal is not None for each in inputs
            ):
                parts = [self._filled(each) if skips else each for each in inputs]
                return reduce(lambda one, other: self._binary(one, "Plus", other, True), parts)
            case {"Clip": _} if decimals:
                return self._call_part(self._of_one_type(inputs), function)
            case {"Boolean": {"IsBetween": {"closed": closed}}} if decimals:
                value, low, high = inputs
                above = "GtEq" if closed in ("Both", "Left") else "Gt"
                below = "LtEq" if closed in ("Both", "Right") else "Lt"
                both = [self._binary(value, above, low, True), self._binary(value, below, high, True)]
                self.changed = True
                sides = {"left": both[0].tree, "op": "And", "right": both[1].tree}
                return _Part({"BinaryExpr": sides}, self._ask)
            case "Floor" | "Ceil" if decimals:
                (value,) = inputs
                assert value.column is not None
                kind = decimal_types.of_whole(value.column)
                return self._call(WholeDecimals(kind, function == "Ceil"), inputs, kind)
            case {"Pow": _} if decimals:
                floats = [
                    self._call(ToFloat(pl.Float64()), [each], pl.Float64()) if each.is_decimal else each
                    for each in inputs
                ]
                return self._call_part([each.tree for each in floats], function)
            case str() if function in _OF_ONE_TYPE and decimals:
                return self._call_part(self._of_one_type(inputs), function)
        return self._call_part([each.tree for each in inputs], function)

    def _call_part(self, inputs: Sequence[Tree], function: Tree) -> _Part:
        return _Part({"Function": {"input": [*inputs], "function": function}}, self._ask)

    def _filled(self, part: _Part) -> _Part:
        zero = {"Literal": {"Dyn": {"Int": 0}}}
        filled = self._of_one_type([part, _Part(zero, self._ask)])
        kind = part.column if part.is_decimal else part.kind
        assert kind is not None
        return self._part_of_kind({"Function": {"input": filled, "function": "FillNull"}}, kind)

    def _of_one_type(self, parts: Sequence[_Part]) -> list[Tree]:
        """Cast decimals and integers to one type; return anything else unchanged."""
        kinds = [each.decimal for each in parts if each.kind != pl.Null]
        if not any(each.is_decimal for each in parts) or None in kinds:
            return [each.tree for each in parts]
        to = reduce(decimal_types.common, [each for each in kinds if each is not None])
        return [each.tree if each.kind == pl.Null else self._cast_to(each, to) for each in parts]

    def _cast_to(self, part: _Part, to: pl.Decimal) -> Tree:
        from_ = part.decimal
        assert from_ is not None
        if decimal_types.common(from_, to) == to and decimal_types.holds_both(from_, to):
            return self._widened(part, to)
        return self._call(ToDecimal(to, True), [part], to).tree
