"""Parser of the statements of databases of materialized views: RisingWave, Materialize and others.

    CREATE SOURCE visits (...) WITH (connector = 'kafka', ...) FORMAT PLAIN ENCODE JSON;
    CREATE MATERIALIZED VIEW counts AS SELECT ... EMIT ON WINDOW CLOSE;
    CREATE SINK results FROM counts WITH (connector = 'print');

They become the statements of Flink that mean the same.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from rheos.sql.model_parser import ModelParser
from rheos.sql.statement_parser import ServerStatement, StatementParser


class PlainProperty(exp.Property):
    """A clause of CREATE TABLE that changes nothing, such as APPEND ONLY."""

    arg_types = {"this": True}


_TABLES = ("SOURCE", "STREAM")
"""Words for TABLE."""
_INDEX = "an index has no effect: Rheos keeps what a query needs"
_WITHOUT_EFFECT = {
    ("FLUSH",): "FLUSH has no effect: queries read all rows of earlier statements",
    ("WAIT",): "WAIT has no effect: queries read all rows of earlier statements",
    ("CREATE", "INDEX"): _INDEX,
    ("CREATE", "DEFAULT", "INDEX"): _INDEX,
    ("CREATE", "UNIQUE", "INDEX"): _INDEX,
    ("DROP", "INDEX"): _INDEX,
    ("CREATE", "CLUSTER"): "clusters have no effect: rheos run starts the job",
    ("ANALYZE",): "ANALYZE has no effect: Rheos chooses how a query runs without statistics",
    ("SHOW", "JOBS"): "SHOW JOBS has no effect: rheos jobs lists the running jobs",
    ("DESCRIBE", "JOB"): "DESCRIBE JOB has no effect: rheos status JOB describes a running job",
    ("DESC", "JOB"): "DESCRIBE JOB has no effect: rheos status JOB describes a running job",
}
"""First words of statements that cannot change rows, and the note about each."""
_FORMATS = {("DEBEZIUM", "JSON"): "debezium-json", ("CANAL", "JSON"): "canal-json"}
"""Formats of FORMAT ... ENCODE ...; others have the name of the encoding."""
_OF_SINKS = ("type", "force_append_only", "primary_key")
"""Options of CREATE SINK that no connector has: the query determines how its rows change."""


class DatabaseParser(ModelParser):
    PROPERTY_PARSERS = {
        **StatementParser.PROPERTY_PARSERS,
        "APPEND": lambda self: self._parse_append_only(),
        "FORMAT": lambda self: self._parse_encoding(),
    }

    def _parse_statement(self) -> exp.Expr | None:
        if not self._curr:
            return None
        first = self._curr
        words = tuple(token.text.upper() for token in self._tokens[self._index : self._index + 6])
        for begin, note in _WITHOUT_EFFECT.items():
            if words[: len(begin)] == begin:
                self._advance(len(self._tokens) - self._index)
                return ServerStatement(this=" ".join(begin), note=note).update_positions(first)
        place = 3 if words[1:3] == ("OR", "REPLACE") else 1
        place += words[place : place + 1] in (("TEMPORARY",), ("TEMP",))
        kind = words[place] if len(words) > place else ""
        if words[0] == "CREATE" and kind == "SINK":
            self._advance(place + 1)
            return self._parse_sink(first)
        if words[0] in ("CREATE", "DROP") and kind in _TABLES:
            token = self._tokens[self._index + place]
            token.token_type, token.text = TokenType.TABLE, "TABLE"
        return super()._parse_statement()

    def _parse_sink(self, first: Token) -> exp.Create:
        """Parse CREATE SINK name FROM t WITH (...), or AS SELECT ... WITH (...): a table of a query."""
        exists = self._parse_exists(not_=True)
        name: exp.Expr | None = self._parse_table_parts(schema=True)
        if self._match(TokenType.FROM):
            table: Any = self._parse_table_parts()
            query: exp.Expr | None = exp.select("*").from_(table)
        elif self._match(TokenType.ALIAS):
            query = self._parse_select()
        else:
            self.raise_error("Expecting FROM")
        properties, key = self._parse_properties(), []
        for each in properties.expressions if properties else []:
            if each.name.lower() == "primary_key":
                key = [exp.to_identifier(part.strip()) for part in each.args["value"].name.split(",")]
        if properties:
            kept = [each for each in properties.expressions if each.name.lower() not in _OF_SINKS]
            properties.set("expressions", kept)
        if key:
            name = exp.Schema(this=name, expressions=[exp.PrimaryKey(expressions=key)])
        create = exp.Create(
            this=name, kind="TABLE", expression=query, properties=properties, exists=exists
        )
        return create.update_positions(first)

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
        words = [token.text.upper() for token in self._tokens[self._index : self._index + 2]]
        if words in (["EMIT", "CHANGES"], ["EMIT", "ON"]):
            return None
        alias: exp.TableAlias | None = super()._parse_table_alias(*args, **kwargs)
        return alias

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        after = [token.token_type for token in self._tokens[self._index : self._index + 4]]
        if after[:2] == [TokenType.WITH, TokenType.L_PAREN] and after[3:] == [TokenType.EQ]:
            return None  # The options of CREATE SINK, after its query.
        hints: list[exp.Expr] | None = super()._parse_table_hints()
        return hints

    def _parse_append_only(self) -> exp.Expr | None:
        return PlainProperty(this="APPEND ONLY") if self._match_text_seq("ONLY") else None

    def _parse_encoding(self) -> exp.Expr | None:
        """Parse FORMAT PLAIN ENCODE JSON: the option 'format'."""
        form, at = self._curr, self._index
        self._advance()
        if not self._match_text_seq("ENCODE"):
            self._retreat(at)
            made: exp.Expr = StatementParser.PROPERTY_PARSERS["FORMAT"](self)
            return made
        encoding = self._curr
        self._advance()
        words = form.text.upper(), encoding.text.upper()
        value = exp.Literal.string(_FORMATS.get(words, encoding.text.lower()))
        return exp.Property(this=exp.Literal.string("format"), value=value.update_positions(encoding))

    def _parse_query_modifiers(self, this: Any) -> Any:
        made = super()._parse_query_modifiers(this)
        if self._curr and self._curr.text.upper() == "EMIT" and self._next:
            at = self._curr
            self._advance()
            if self._match_text_seq("CHANGES") or self._match_text_seq("ON", "WINDOW", "CLOSE"):
                if made is not None:
                    made.set("emit", exp.var("EMIT").update_positions(at))
            else:
                self.raise_error("Expecting CHANGES")
        return made
