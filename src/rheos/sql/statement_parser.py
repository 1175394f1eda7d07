"""Parser of statements: CREATE TABLE as in Flink, statement sets, EXPLAIN, SHOW, DESCRIBE and RESET."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from rheos.sql.json_parser import JsonParser


class WatermarkFor(exp.Expression):
    """WATERMARK FOR ts AS ts - INTERVAL '5' SECOND."""

    arg_types = {"this": True, "expression": True}


class MetadataColumn(exp.Expression, exp.ColumnConstraintKind):
    """METADATA FROM 'timestamp' VIRTUAL, after the type of a column."""

    arg_types = {"this": False, "virtual": False}


class Explain(exp.Expression):
    """EXPLAIN query."""

    arg_types = {"this": True}


class Show(exp.Expression):
    """SHOW TABLES, SHOW VIEWS, SHOW FUNCTIONS, SHOW COLUMNS FROM table, SHOW CREATE TABLE table."""

    arg_types = {"this": True, "of": False}


class DescribeTable(exp.Expression):
    """DESCRIBE table."""

    arg_types = {"this": True}


class Reset(exp.Expression):
    """RESET, or RESET 'name'."""

    arg_types = {"this": False}


class ServerStatement(exp.Expression):
    """A statement without an effect, such as one about catalogs, databases, modules or JAR files."""

    arg_types = {"this": True, "note": False}


SHOWN = ("TABLES", "VIEWS", "FUNCTIONS", "COLUMNS", "CREATE")
"""Words after SHOW."""
_DETAILS = ("PLAN", "EXTENDED", "FORMATTED", "CODEGEN", "COST", "ESTIMATED_COST", "CHANGELOG_MODE")
"""Words after EXPLAIN that select other forms of its output."""
_OF_SERVERS = ("USE", "ADD", "REMOVE", "LOAD", "UNLOAD", "CATALOG", "DATABASE", "SCHEMA")


class StatementParser(JsonParser):
    """Statements of Flink and Spark that sqlglot does not read, or reads as one string."""

    CONSTRAINT_PARSERS = {
        **JsonParser.CONSTRAINT_PARSERS,
        "METADATA": lambda self: self._parse_metadata(),
    }
    PROPERTY_PARSERS = {
        **JsonParser.PROPERTY_PARSERS,
        # CREATE TEMPORARY SYSTEM FUNCTION
        "SYSTEM": lambda self: exp.TemporaryProperty(),
    }

    # --- CREATE TABLE ---------------------------------------------------------------------------------

    def _parse_metadata(self) -> exp.Expr:
        field = self._parse_string() if self._match(TokenType.FROM) else None
        return MetadataColumn(this=field, virtual=self._match_text_seq("VIRTUAL"))

    def _parse_constraint(self) -> exp.Expr | None:
        if not self._match_text_seq("WATERMARK", "FOR"):
            constraint: exp.Expr | None = super()._parse_constraint()
            return constraint
        column = self._parse_column()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expecting AS")
        return WatermarkFor(this=column, expression=self._parse_disjunction())

    def _parse_create_like(self) -> exp.LikeProperty | None:
        options = []
        table = self._parse_table_parts(schema=True)
        bracket = self._match(TokenType.L_PAREN)
        while self._match_texts(("INCLUDING", "EXCLUDING", "OVERWRITING")):
            does = self._prev.text.upper()
            self._advance()
            options.append(exp.Property(this=does, value=exp.var(self._prev.text.upper())))
        if bracket:
            self._match_r_paren()
        return exp.LikeProperty(this=table, expressions=options)

    def _parse_types(
        self, check_func: bool = False, schema: bool = False, *args: Any, **kwargs: Any
    ) -> exp.Expr | None:
        is_row = schema and self._curr and self._curr.text.upper() == "ROW"
        if is_row and self._next and self._next.token_type in (TokenType.LT, TokenType.L_PAREN):
            return self._parse_row_type()
        kind: exp.Expr | None = super()._parse_types(check_func, schema, *args, **kwargs)
        if kind is None and schema and self._curr.token_type == TokenType.VAR:
            self.raise_error(f"unknown type {self._curr.text}")
        return kind

    def _parse_row_type(self) -> exp.Expr:
        """Parse ROW<a INT, b STRING> or ROW(a INT, b STRING)."""
        self._advance()
        ends = TokenType.GT if self._match(TokenType.LT) else TokenType.R_PAREN
        if ends is TokenType.R_PAREN:
            self._match(TokenType.L_PAREN)
        fields = self._parse_csv(lambda: self._parse_struct_types(type_required=True))
        if not self._match(ends):
            self.raise_error("Expecting )" if ends is TokenType.R_PAREN else "Expecting >")
        return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)

    # --- statements -----------------------------------------------------------------------------------

    def _parse_statement(self) -> exp.Expr | None:
        if not self._curr:
            return None
        first, word = self._curr, self._curr.text.upper()
        if self._match_text_seq("EXECUTE", "STATEMENT", "SET"):
            self._match_text_seq("BEGIN")
        elif self._match_text_seq("BEGIN", "STATEMENT", "SET"):
            # All inserts of a script are one job anyway.
            return exp.Semicolon()
        elif (self._next.text.upper() if word == "CREATE" and self._next else word) in _OF_SERVERS:
            return self._parse_of_server()
        elif word == "SET" and self._next:
            return self._parse_setting()
        elif word == "RESET":
            self._advance()
            return Reset(this=self._parse_string() or self._parse_column()).update_positions(first)
        elif word == "SHOW":
            return self._parse_shown().update_positions(first)
        elif word == "EXPLAIN":
            self._advance()
            while self._match_texts(_DETAILS):
                self._match(TokenType.COMMA)
            self._match(TokenType.FOR)
            return Explain(this=super()._parse_statement()).update_positions(first)
        elif word in ("DESCRIBE", "DESC"):
            self._advance()
            while self._match(TokenType.TABLE) or self._match_texts(("EXTENDED", "FORMATTED", "VIEW")):
                pass
            return DescribeTable(this=self._parse_table_parts()).update_positions(first)
        statement: exp.Expr | None = super()._parse_statement()
        return statement

    def _parse_of_server(self) -> exp.Expr:
        first, words = self._curr, []
        while self._curr:
            words.append(self._curr.text)
            self._advance()
        return ServerStatement(this=" ".join(words[:2]).upper()).update_positions(first)

    def _parse_setting(self) -> exp.Expr:
        """Parse SET 'name' = 'value', also without quotes: SET table.exec.mini-batch.enabled = true."""
        first = self._curr
        self._advance()
        begin = at = self._index
        while at < len(self._tokens) and self._tokens[at].token_type != TokenType.EQ:
            at += 1
        parts = []
        for tokens in (self._tokens[begin:at], self._tokens[at + 1 :]):
            if not tokens:
                self.raise_error("SET needs a name and a value", first)
            one = tokens[0]
            quoted = len(tokens) == 1 and one.token_type == TokenType.STRING
            written = one.text if quoted else self._find_sql(one, tokens[-1])
            parts.append(exp.Literal.string(written).update_positions(one))
        while self._curr:
            self._advance()
        name, value = parts
        setting = exp.SetItem(this=exp.EQ(this=name, expression=value))
        return exp.Set(expressions=[setting]).update_positions(first)

    def _parse_shown(self) -> exp.Expr:
        self._advance()
        what = self._curr.text.upper() if self._curr else ""
        if what not in SHOWN:
            self.raise_error("Expecting TABLES")
        self._advance()
        if what == "COLUMNS" and not self._match_texts(("FROM", "IN")):
            self.raise_error("Expecting FROM")
        if what == "CREATE" and not self._match_texts(("TABLE", "VIEW")):
            self.raise_error("Expecting TABLE")
        of = self._parse_table_parts() if what in ("COLUMNS", "CREATE") else None
        return Show(this=what, of=of)
