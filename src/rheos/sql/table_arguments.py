"""Tables as arguments of functions: TABLE bids PARTITION BY bidder ORDER BY ts."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from rheos.sql.call_parser import CallParser
from rheos.sql.syntax_errors import WINDOWS

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


class TableArgument(exp.Expression):
    """A table that a function takes, with the keys and the order of its rows."""

    arg_types = {"this": True, "keys": False, "order": False}


class TableArgumentParser(CallParser):
    """The parser of functions that take a table."""

    FUNC_TOKENS = {*CallParser.FUNC_TOKENS, TokenType.SESSION}
    FUNCTION_PARSERS = {
        **CallParser.FUNCTION_PARSERS,
        **{name: lambda self, name=name: self._parse_call_of_table(name) for name in WINDOWS},
    }

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if not self._takes_table():
            return super()._parse_function_call(*args, **kwargs)
        name = self._curr.text
        self._advance(2)
        call = self._parse_call_of_table(name)
        self._match_r_paren(call)
        return call

    def _takes_table(self) -> bool:
        """Return whether a call begins here with the argument TABLE ..., or name => TABLE ..."""
        name = self._curr
        if name is None or name.token_type not in _NAMES or name.text.upper() in WINDOWS:
            return False
        depth = 0
        for at in range(self._index + 1, len(self._tokens)):
            token = self._tokens[at]
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth == 0:
                return False
            if depth == 1 and token.token_type == TokenType.TABLE:
                return True
        return False

    def _parse_call_of_table(self, name: str) -> exp.Expr:
        token = self._tokens[self._index - 2]
        call = exp.Anonymous(this=name, expressions=self._parse_csv(self._parse_argument))
        call.update_positions(token)
        return call

    def _parse_argument(self) -> exp.Expr | None:
        if self._next and self._next.token_type == TokenType.FARROW:
            name = self._parse_id_var()
            self._advance()
            return exp.Kwarg(this=name, expression=self._parse_argument())
        if not self._match(TokenType.TABLE):
            return self._parse_model_argument() or self._parse_disjunction()
        table: exp.Expr | None
        if self._match(TokenType.L_PAREN, advance=False):
            table = self._parse_wrapped(self._parse_query_argument)
        else:
            table = self._parse_table_parts()
        keys = self._parse_keys() if self._match(TokenType.PARTITION_BY) else []
        order = self._parse_order_of_rows() if self._match(TokenType.ORDER_BY) else None
        return TableArgument(this=table, keys=keys, order=order)

    def _parse_query_argument(self) -> exp.Expr:
        return exp.Subquery(this=self._parse_select())

    def _parse_keys(self) -> list[exp.Expr | None]:
        if self._match(TokenType.L_PAREN, advance=False):
            wrapped: list[exp.Expr | None] = self._parse_wrapped_csv(self._parse_column)
            return wrapped
        keys = [self._parse_column()]
        while self._is_key_behind_comma():
            self._advance()
            keys.append(self._parse_column())
        return keys

    def _is_key_behind_comma(self) -> bool:
        """Return whether a further column follows, and not the next argument."""
        kinds = [token.token_type for token in self._tokens[self._index : self._index + 3]]
        is_name = len(kinds) == 3 and kinds[0] == TokenType.COMMA and kinds[1] in _NAMES
        return is_name and kinds[2] not in (TokenType.FARROW, TokenType.L_PAREN)

    def _parse_order_of_rows(self) -> exp.Order:
        if self._match(TokenType.L_PAREN, advance=False):
            return exp.Order(expressions=self._parse_wrapped_csv(self._parse_ordered))
        return exp.Order(expressions=[self._parse_ordered()])
