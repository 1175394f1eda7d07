"""Parsing of SQL: Spark's dialect as sqlglot reads it, with Flink's forms for streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from rheos.sql.chains import with_halved_chains
from rheos.sql.dialect_meanings import with_meanings
from rheos.sql.element_queries import with_element_queries
from rheos.sql.expressions.bits import UNSIGNED
from rheos.sql.flink_parser import FlinkParser
from rheos.sql.option_hints import OptionHintParser, with_option_hints
from rheos.sql.ordered_aggregates import with_groups_inside
from rheos.sql.plain_conditions import with_plain_conditions
from rheos.sql.postgres_parser import KEYWORDS as POSTGRES_KEYWORDS
from rheos.sql.postgres_parser import PostgresParser
from rheos.sql.statement_parser import Explain
from rheos.sql.syntax_errors import (
    NO_COLUMNS,
    NOTHING_BEHIND,
    NOTHING_BEHIND_COMMA,
    READ_AS,
    unfinished,
    unreadable,
    without_comments,
)
from rheos.sql.text import SourceDialect, Span, SqlText


class _UnreadableError(ParseError):
    """An unreadable part of the SQL, with its place."""

    def __init__(self, what: str, span: Span) -> None:
        super().__init__(what)
        self.span = span


class _Parser(OptionHintParser):
    # sqlglot ignores a comma or a keyword that nothing follows.

    def _parse_csv(
        self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA
    ) -> list[Any]:
        commas = 0

        def behind_comma() -> Any:
            nonlocal commas
            comma = self._prev
            found = parse_method()
            if found is None and commas and sep == TokenType.COMMA:
                self.raise_error(NOTHING_BEHIND_COMMA, comma)
            commas += 1
            return found

        found: list[Any] = super()._parse_csv(behind_comma, sep)
        return found

    def _parse_term(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Parse a term. After the third > of a >>> b, it is the distance of an unsigned shift."""
        signs = self._tokens[max(self._index - 2, 0) : self._index + 1]
        is_unsigned = [each.token_type for each in signs] == [TokenType.GT] * 3 and signs[
            2
        ].start == signs[1].start + 1 == signs[0].start + 2
        if is_unsigned:
            self._advance()
        made: exp.Expr | None = super()._parse_term(*args, **kwargs)
        if is_unsigned and made is not None:
            made.meta[UNSIGNED] = True
        return made

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        comma = self._curr
        join: exp.Join | None = super()._parse_join(*args, **kwargs)
        if join is None and comma and comma.token_type == TokenType.COMMA and self._prev is comma:
            self.raise_error(NOTHING_BEHIND_COMMA, comma)
        if join is not None and self._prev.token_type == TokenType.ON:
            self.raise_error(NOTHING_BEHIND, self._prev)
        return join

    def _parse_group(self, *args: Any, **kwargs: Any) -> exp.Group | None:
        group: exp.Group | None = super()._parse_group(*args, **kwargs)
        if group is not None and not any(group.args.values()):
            self.raise_error(NOTHING_BEHIND, self._prev)
        return group

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        columns, others = super()._parse_projections()
        if not columns:
            self.raise_error(NO_COLUMNS, self._prev)
        return columns, others

    def _parse_statement(self) -> exp.Expr | None:
        is_table = self._curr is not None and self._curr.token_type == TokenType.TABLE
        made: exp.Expr | None = self._parse_select() if is_table else super()._parse_statement()
        return made

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Parse a query. TABLE t is SELECT * FROM t."""
        made: exp.Expr | None
        if self._curr is None or self._curr.token_type != TokenType.TABLE or not self._is_name_next():
            made = super()._parse_select(*args, **kwargs)
            return made
        self._advance()
        table = self._parse_table_parts()
        assert table is not None, "a name follows"
        rows = exp.select("*").from_(table)
        made = self._parse_query_modifiers(self._parse_set_operations(rows))
        return made

    def _is_name_next(self) -> bool:
        return self._next is not None and self._next.token_type in (TokenType.VAR, TokenType.IDENTIFIER)

    def _parse_command(self) -> NoReturn:
        self._parse_as_command(self._prev)

    def _parse_as_command(self, start: Any) -> NoReturn:
        if start.text.upper() == "CREATE" and self._curr and self._curr.start > start.end:
            self.raise_error("Invalid expression / Unexpected token")
        raise _UnreadableError(
            f"{start.text.upper()} is not supported here", Span(start.start, start.end + 1)
        )

    def raise_error(self, message: str, token: Any = None) -> None:
        at = token or self._curr or self._prev
        raise _UnreadableError(message, Span(at.start, at.end + 1))


_AS_ONE_STRING = ("EXPLAIN", "SHOW", "EXECUTE", "ADD JAR", "ADD JARS")
"""Keywords after which sqlglot would read the rest as one string."""


class StreamSql(Spark):
    """Spark's SQL with Flink's extensions for streams."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'"]
        HEX_STRINGS = [(f"{sign}{space}'", "'") for sign in "Xx" for space in ("", " ")]
        KEYWORDS = {
            **{k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if k not in _AS_ONE_STRING},
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
            "BYTES": TokenType.VARBINARY,
        }

    Parser = _Parser


class FlinkSql(StreamSql):
    """Flink's quotes and division."""

    TYPED_DIVISION = True

    class Tokenizer(StreamSql.Tokenizer):
        QUOTES = ["'"]
        IDENTIFIERS = ["`", '"']
        STRING_ESCAPES = ["'"]

    class Parser(_Parser, FlinkParser):
        pass


class PostgresSql(FlinkSql):
    """PostgreSQL's quotes, operators, division, and order of nulls."""

    NULL_ORDERING = "nulls_are_large"
    NUMBERS_CAN_BE_UNDERSCORE_SEPARATED = True
    IDENTIFIERS_CAN_START_WITH_DIGIT = False

    class Tokenizer(FlinkSql.Tokenizer):
        KEYWORDS = {**FlinkSql.Tokenizer.KEYWORDS, **POSTGRES_KEYWORDS}
        BYTE_STRINGS = [("e'", "'"), ("E'", "'")]
        BYTE_STRING_ESCAPES = ["'", "\\"]
        HEREDOC_STRINGS = ["$"]
        HEREDOC_TAG_IS_IDENTIFIER = True
        HEREDOC_STRING_ALTERNATIVE = TokenType.PARAMETER
        SINGLE_TOKENS = {**FlinkSql.Tokenizer.SINGLE_TOKENS, "$": TokenType.HEREDOC_STRING}
        VAR_SINGLE_TOKENS = {"$"}

    class Parser(_Parser, PostgresParser):
        pass


_DIALECTS: dict[SourceDialect, StreamSql] = {
    SourceDialect.SPARK: StreamSql(),
    SourceDialect.FLINK: FlinkSql(),
    SourceDialect.POSTGRES: PostgresSql(),
}
_SET_DIALECT = re.compile(r"(?:\A|;)\s*SET\s+'?dialect'?\s*=\s*'?(\w+)'?\s*(?=;|\Z)", re.IGNORECASE)

MOST_OPEN = 30
"""Maximum nesting of brackets, CASE and signs. The parser recurses for each, and Python's stack holds
only a few dozen of them."""
MOST_LEVELS = 50
"""Maximum depth of an expression. Polars reads no serialised expression of more than 128 levels, and a
level of SQL takes at least two."""
_IN_STEPS = "move a part of it to WITH name AS (...), or compute it in a subquery in FROM"
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
_NOTHING = (exp.Semicolon, exp.EndStatement)
"""Nodes that only sqlglot considers statements: a comment ahead of a semicolon, and the END of a
statement set."""
_SIGNS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


def parse(sql: SqlText) -> list[exp.Expr]:
    """Parse the statements; SET dialect holds for those after it. Raises ProgramError at the place that
    cannot be read.
    """
    text = without_comments(sql.text)
    changes = [*_SET_DIALECT.finditer(text)]
    known = {each.value: each for each in SourceDialect}
    places = [0, *(each.end() for each in changes), len(sql.text)]
    dialects = [sql.dialect, *(known.get(each[1].casefold(), sql.dialect) for each in changes)]
    return [
        statement
        for dialect, (start, stop) in zip(dialects, pairwise(places), strict=True)
        for statement in _parsed(sql, dialect, start, stop)
    ]


def _parsed(sql: SqlText, dialect: SourceDialect, start: int, stop: int) -> list[exp.Expr]:
    """Parse a part of the SQL that has one dialect."""
    reader = _DIALECTS[dialect]
    # Blanks in place of other parts keep the places of errors.
    text = re.sub(r"[^\n]", " ", sql.text[:start]) + sql.text[start:stop]
    try:
        tokens = with_option_hints(reader.tokenize(text), text, reader.tokenize)
        _check_open(sql, tokens)
        for token, following in pairwise(tokens):
            if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
                token.token_type = TokenType.VAR  # Spark's function, not the clause.
        read = reader.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    except _UnreadableError as error:
        raise unreadable(sql, str(error), error.span) from None
    except TokenError as error:
        raise unfinished(sql) or sql.error(f"this is not valid SQL: {error}", None, READ_AS) from None
    except ParseError as error:
        what = str(error).strip().splitlines()[0]
        raise sql.error(f"this is not valid SQL: {what}", None, READ_AS) from None
    except RecursionError:
        raise sql.error(
            f"the SQL is nested too deeply: a query may have up to {MOST_OPEN} levels", None, _IN_STEPS
        ) from None
    read = _with_explained_sets(read)
    statements = [each for each in read if each is not None and not isinstance(each, _NOTHING)]
    statements = [with_meanings(sql, each, dialect) for each in statements]
    statements = [with_plain_conditions(with_groups_inside(each)) for each in statements]
    for statement in map(with_element_queries, statements):
        _check_levels(sql, with_halved_chains(statement))
    return statements


def _with_explained_sets(statements: Sequence[exp.Expr | None]) -> list[exp.Expr | None]:
    """Return the statements, with EXPLAIN for each insert of EXPLAIN STATEMENT SET BEGIN ... END."""
    found: list[exp.Expr | None] = []
    inside = False
    for each in statements:
        if isinstance(each, exp.EndStatement):
            inside = False
        elif inside and isinstance(each, exp.Insert):
            explained = Explain(this=each)
            explained.meta.update(each.meta)
            found.append(explained)
            continue
        elif isinstance(each, Explain) and each.args.get("begins_set"):
            inside = True
        found.append(each)
    return found


def _check_open(sql: SqlText, tokens: Sequence[Token]) -> None:
    """Raise ProgramError at the first place that is nested too deeply."""
    is_open, signs = 0, 0
    for token in tokens:
        signs = signs + 1 if token.token_type in _SIGNS else 0
        if token.token_type in _OPENING:
            is_open += 1
        elif token.token_type in _CLOSING:
            is_open -= 1
        if is_open + signs > MOST_OPEN:
            raise sql.error(
                f"the SQL is nested too deeply: more than {MOST_OPEN} levels are open here",
                Span(token.start, token.end + 1),
                _IN_STEPS,
            )


def _check_levels(sql: SqlText, statement: exp.Expr) -> None:
    """Raise ProgramError if an expression is nested too deeply."""
    depth: dict[int, int] = {}
    for node in statement.walk():
        above = 0 if node.parent is None else depth.get(id(node.parent), 0)
        depth[id(node)] = above + 1
        if above > MOST_LEVELS:
            raise sql.error(
                f"the SQL is nested too deeply: this is {MOST_LEVELS} levels down", node, _IN_STEPS
            )
