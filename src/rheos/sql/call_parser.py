"""Parsing of calls and constants, which keep their places and the names that the user wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from rheos.sql import expressions
from rheos.sql.database_parser import DatabaseParser
from rheos.sql.spark_aggregates import SPARK_AGGREGATES
from rheos.sql.text import SQLGLOT_FAILURES, WRITTEN_NAME

_AROUND_CALLS = (exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
_LEAVES = (exp.Null, exp.Boolean, exp.Star, exp.Placeholder, exp.Parameter, exp.SessionParameter)
"""Nodes of one token, whose place sqlglot does not record."""
_ONE_UNIT = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*[A-Za-z]+\s*")
"""The string of an interval with one unit."""
_OWN = {name.upper() for name in expressions.NAMED}
"""Functions registered by name. sqlglot would make nodes of them, which lose what was written."""


def _regexp_extract(args: Sequence[exp.Expr]) -> exp.Expr:
    """Return the call without the group that sqlglot would add."""
    return exp.RegexpExtract(**dict(zip(("this", "expression", "group"), args, strict=False)))


def _any_of_some(args: list[exp.Expr]) -> exp.Expr:
    """Return ANY: the aggregate, or the quantifier of `x = SOME(array)`, as its place decides."""
    if len(args) != 1:
        return exp.LogicalOr.from_arg_list(args)
    made = exp.Any(this=args[0])
    made.meta[WRITTEN_NAME] = "SOME"
    return made


class CallParser(DatabaseParser):
    FUNCTIONS = {
        **{name: made for name, made in DatabaseParser.FUNCTIONS.items() if name not in _OWN},
        **SPARK_AGGREGATES,
        "REGEXP_EXTRACT": _regexp_extract,
        "REGEXP": exp.RegexpLike.from_arg_list,
        "MEAN": exp.Avg.from_arg_list,
        "TRY_AVG": exp.Avg.from_arg_list,
        "STD": exp.StddevSamp.from_arg_list,
        "SOME": _any_of_some,
        "EVERY": exp.LogicalAnd.from_arg_list,
        "COLLECT": exp.ArrayAgg.from_arg_list,
        "QUANTILE_CONT": exp.PercentileCont.from_arg_list,
        "QUANTILE_DISC": exp.PercentileDisc.from_arg_list,
    }

    FUNCTION_PARSERS = {
        name: made for name, made in DatabaseParser.FUNCTION_PARSERS.items() if name not in _OWN
    }

    def _parse_primary(self) -> exp.Expr | None:
        return self._place_at(self._curr, super()._parse_primary())

    def _parse_placeholder(self) -> exp.Expr | None:
        return self._place_at(self._curr, super()._parse_placeholder())

    def _parse_interval(self, *args: Any, **kwargs: Any) -> exp.Add | exp.Interval | None:
        """Parse an interval. Of a string, sqlglot keeps only the first number and unit."""
        written = self._next
        made: exp.Add | exp.Interval | None = super()._parse_interval(*args, **kwargs)
        if (
            isinstance(made, exp.Interval)
            and written is not None
            and written.token_type == TokenType.STRING
            and made.this.name != written.text
            and not _ONE_UNIT.fullmatch(written.text)
        ):
            whole = exp.Literal.string(written.text)
            whole.update_positions(written)
            made.set("this", whole)
            made.set("unit", None)
        return made

    def _place_at(self, token: Any, made: exp.Expr | None) -> exp.Expr | None:
        if isinstance(made, _LEAVES) and "start" not in made.meta:
            made.update_positions(token)
        return made

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        name = self._curr
        try:
            made: exp.Expr | None = super()._parse_function_call(*args, **kwargs)
        except SQLGLOT_FAILURES:
            self.raise_error(f"{name.text.upper()}() does not take these arguments", name)
        call = made
        while isinstance(call, _AROUND_CALLS):
            call = call.this
        if isinstance(call, exp.Func):
            call.meta.setdefault(WRITTEN_NAME, name.text)
            if "start" not in call.meta:
                call.update_positions(name)
        return made
