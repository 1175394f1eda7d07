"""Parser of statements: CREATE and ALTER TABLE as in Flink, statement sets, EXPLAIN, SHOW, DESCRIBE and
RESET."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from rheos.sql.json_parser import JsonParser


class WatermarkFor(exp.Expression):
    """WATERMARK FOR ts AS ts - INTERVAL '5' SECOND."""

    arg_types = {"this": True, "expression": True}


class MetadataColumn(exp.Expression, exp.ColumnConstraintKind):
    """METADATA FROM 'timestamp' VIRTUAL, after the type of a column."""

    arg_types = {"this": False, "virtual": False}


class Explain(exp.Expression):
    """EXPLAIN query, or the first insert of EXPLAIN STATEMENT SET."""

    arg_types = {"this": True, "begins_set": False}


class Show(exp.Expression):
    """SHOW TABLES, SHOW VIEWS, SHOW FUNCTIONS, SHOW COLUMNS FROM table, SHOW CREATE TABLE table.

    `like` is a condition on the shown names.
    """

    arg_types = {"this": True, "of": False, "like": False}


class DescribeTable(exp.Expression):
    """DESCRIBE table."""

    arg_types = {"this": True}


class Reset(exp.Expression):
    """RESET, or RESET 'name'."""

    arg_types = {"this": False}


class AlterTable(exp.Expression):
    """ALTER TABLE t RENAME TO u, SET (...) or RESET (...). `change` is the word after the name."""

    arg_types = {"this": True, "kind": True, "change": True, "exists": False, "expressions": False}


class RefusedStatement(exp.Expression):
    """A statement that Rheos does not have: the reason, and what to write instead."""

    arg_types = {"this": True, "hint": True}


class ServerStatement(exp.Expression):
    """A statement without an effect, such as one about catalogs, databases, modules or JAR files."""

    arg_types = {"this": True, "note": False}


SHOWN = ("TABLES", "VIEWS", "FUNCTIONS", "COLUMNS", "CREATE")
"""Words after SHOW."""
_DETAILS = (
    *("PLAN", "EXTENDED", "FORMATTED", "CODEGEN", "COST", "ESTIMATED_COST", "CHANGELOG_MODE"),
    *("JSON_EXECUTION_PLAN", "PLAN_ADVICE"),
)
"""Words after EXPLAIN that select other forms of its output."""
_OF_SERVERS = ("USE", "ADD", "REMOVE", "LOAD", "UNLOAD", "CATALOG", "DATABASE", "SCHEMA")
_SHOWN_BY_SERVERS = (
    *("CATALOGS", "DATABASES", "SCHEMAS", "MODULES", "JARS", "PARTITIONS", "PROCEDURES"),
    *("CATALOG", "DATABASE"),
)
"""Words after SHOW, SHOW CURRENT, SHOW FULL and SHOW CREATE that ask for what Rheos does not have."""
_BEFORE_SHOWN = ("CURRENT", "FULL", "CREATE")
"""Words between SHOW and these words."""
_REFUSED = {
    ("STOP", "JOB"): ("a script cannot stop a job", "run rheos stop JOB"),
    ("CALL",): ("there are no procedures to call", "call a Python function in a query"),
    ("COMPILE", "PLAN"): (
        "plans are not stored in files: Rheos plans a script each time it starts",
        "leave out COMPILE PLAN; savepoints restore a changed script as far as its state fits",
    ),
    ("EXECUTE", "PLAN"): (
        "plans are not stored in files: Rheos plans a script each time it starts",
        "write the INSERT INTO statement itself",
    ),
    ("DESCRIBE", "FUNCTION"): ("functions are not described", "write SHOW FUNCTIONS LIKE 'a%'"),
    ("ALTER", "FUNCTION"): (
        "ALTER FUNCTION is not supported",
        "write DROP FUNCTION, then CREATE FUNCTION",
    ),
}
"""First words of statements that Rheos does not have, the reasons, and what to do."""


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
        is_type = schema or not check_func  # Elsewhere ROW may be a column.
        is_row = is_type and self._curr and self._curr.text.upper() == "ROW"
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
        after = self._next.text.upper() if self._next else ""
        for begin, (reason, hint) in _REFUSED.items():
            if (word, after)[: len(begin)] == begin:
                self._skip_statement()
                return RefusedStatement(this=reason, hint=hint).update_positions(first)
        if self._match_text_seq("EXECUTE", "STATEMENT", "SET"):
            self._match(TokenType.ALIAS)
            self._match_text_seq("BEGIN")
        elif word == "EXECUTE":
            self._advance()
        elif self._match_text_seq("BEGIN", "STATEMENT", "SET"):
            # All inserts of a script are one job anyway.
            return exp.Semicolon()
        elif (after if word in ("CREATE", "DROP", "ALTER") else word) in _OF_SERVERS:
            return self._parse_of_server()
        elif word == "ALTER" and after in ("TABLE", "VIEW"):
            return self._parse_alter_table().update_positions(first)
        elif word == "SET" and self._next:
            return self._parse_setting()
        elif word == "RESET":
            self._advance()
            return Reset(this=self._parse_string() or self._parse_column()).update_positions(first)
        elif word == "SHOW":
            return self._parse_shown(first)
        elif word == "EXPLAIN":
            self._advance()
            while self._match_texts(_DETAILS):
                self._match(TokenType.COMMA)
            self._match(TokenType.FOR)
            self._match_text_seq("EXECUTE")
            begins_set = self._match_text_seq("STATEMENT", "SET")
            self._match_text_seq("BEGIN")
            of: exp.Expr | None = super()._parse_statement()
            return Explain(this=of, begins_set=begins_set).update_positions(first)
        elif word in ("DESCRIBE", "DESC"):
            if after in _OF_SERVERS and self._index + 2 < len(self._tokens):
                return self._parse_of_server()
            self._advance()
            while self._match(TokenType.TABLE) or self._match_texts(("EXTENDED", "FORMATTED", "VIEW")):
                pass
            return DescribeTable(this=self._parse_table_parts()).update_positions(first)
        statement: exp.Expr | None = super()._parse_statement()
        return statement

    def _parse_of_server(self) -> exp.Expr:
        first = self._curr
        words = [token.text for token in self._tokens[self._index : self._index + 2]]
        self._skip_statement()
        return ServerStatement(this=" ".join(words).upper()).update_positions(first)

    def _skip_statement(self) -> None:
        while self._curr:
            self._advance()

    def _parse_alter_table(self) -> exp.Expr:
        """Parse ALTER TABLE t RENAME TO u, ALTER VIEW v AS SELECT ..., and others."""
        self._advance()
        kind = self._curr.text.upper()
        self._advance()
        exists = self._parse_exists()
        name = self._parse_table_parts()
        if kind == "VIEW" and self._match(TokenType.ALIAS):
            return exp.Create(this=name, kind=kind, replace=True, expression=self._parse_select())
        if not self._curr:
            self.raise_error("Expecting RENAME")
        change, first = self._curr.text.upper(), self._curr
        self._advance()
        listed: list[exp.Expr | None] = []
        if change == "RENAME" and self._match_text_seq("TO"):
            listed = [self._parse_table_parts()]
        elif change in ("SET", "RESET") and self._match(TokenType.L_PAREN, advance=False):
            parse: Any = self._parse_property if change == "SET" else self._parse_string
            listed = self._parse_wrapped_csv(parse)
        else:
            change = "COLUMNS"
            self._skip_statement()
        what = exp.var(change).update_positions(first)
        return AlterTable(this=name, kind=kind, change=what, exists=exists, expressions=listed)

    def _parse_setting(self) -> exp.Expr:
        """Parse SET 'name' = 'value', also without quotes, or with TO: SET table.dml-sync TO true."""
        first = self._curr
        self._advance()
        begin = at = self._index
        while at < len(self._tokens) and not _assigns(self._tokens[at]):
            at += 1
        parts = []
        for tokens in (self._tokens[begin:at], self._tokens[at + 1 :]):
            if not tokens:
                self.raise_error("SET needs a name and a value", first)
            one = tokens[0]
            quoted = len(tokens) == 1 and one.token_type == TokenType.STRING
            written = one.text if quoted else self._find_sql(one, tokens[-1])
            parts.append(exp.Literal.string(written).update_positions(one))
        self._skip_statement()
        name, value = parts
        setting = exp.SetItem(this=exp.EQ(this=name, expression=value))
        return exp.Set(expressions=[setting]).update_positions(first)

    def _parse_shown(self, first: Token) -> exp.Expr:
        words = [token.text.upper() for token in self._tokens[self._index + 1 : self._index + 3]]
        if words[:1] in ([each] for each in _BEFORE_SHOWN):
            words = words[1:]
        if words and words[0] in _SHOWN_BY_SERVERS:
            self._skip_statement()
            return ServerStatement(this=f"SHOW {words[0]}").update_positions(first)
        self._advance()
        users = self._match_text_seq("USER")
        what = self._curr.text.upper() if self._curr else ""
        if what not in SHOWN or (users and what != "FUNCTIONS"):
            self.raise_error("Expecting TABLES")
        self._advance()
        if what == "CREATE" and not self._match_texts(("TABLE", "VIEW")):
            self.raise_error("Expecting TABLE")
        of = None
        if what == "CREATE" or self._match_texts(("FROM", "IN")):
            # SHOW TABLES and SHOW VIEWS name a database, SHOW COLUMNS a table.
            of = self._parse_table_parts()
        elif what == "COLUMNS":
            self.raise_error("Expecting FROM")
        shown = "USER FUNCTIONS" if users else what
        return Show(this=shown, of=of, like=self._parse_name_pattern()).update_positions(first)

    def _parse_name_pattern(self) -> exp.Expr | None:
        """Parse [NOT] LIKE 't%' or ILIKE."""
        negated = self._match(TokenType.NOT)
        if not self._match_texts(("LIKE", "ILIKE")):
            return None
        kind = exp.ILike if self._prev.text.upper() == "ILIKE" else exp.Like
        pattern = self._parse_string()
        if pattern is None:
            self.raise_error("Expecting a pattern, as in LIKE 't%'")
        like: exp.Expr = kind(this=exp.column("name"), expression=pattern)
        return exp.Not(this=like) if negated else like


def _assigns(token: Token) -> bool:
    """Return whether a token of SET separates the name and the value."""
    is_to = token.token_type != TokenType.STRING and token.text.upper() == "TO"
    return token.token_type == TokenType.EQ or is_to
