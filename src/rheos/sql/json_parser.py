"""Parser of the JSON operators and of the JSON functions that have clauses of their own.

payload -> 'a' ->> 'b'                                       operators of PostgreSQL
payload:a.b[0]                                               paths of Spark into a VARIANT
JSON_VALUE(payload, '$.a' RETURNING INT DEFAULT 0 ON EMPTY)  functions of the SQL standard
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from rheos.sql.match_parser import MatchParser


class JsonArrow(exp.Expression, exp.Binary):
    """`->`, `->>`, `#>` and `#>>`."""

    arg_types = {"this": True, "expression": True, "as_text": False, "is_path": False}


class VariantExtract(exp.Expression):
    """`payload:a.b[0]`. Its expressions are the keys and indexes, as literals."""

    arg_types = {"this": True, "expressions": True}


class JsonClauses(exp.Expression, exp.Func):
    """A call of the SQL standard: its arguments, and its clauses by name."""

    arg_types = {
        "expressions": False,
        "returning": False,
        "wrapper": False,
        "on_empty": False,
        "on_error": False,
        "on_null": False,
    }
    is_var_len_args = True


class JsonValue(JsonClauses):
    _sql_names = ["JSON_VALUE"]


class JsonQuery(JsonClauses):
    _sql_names = ["JSON_QUERY"]


class JsonExists(JsonClauses):
    _sql_names = ["JSON_EXISTS"]


class JsonObject(JsonClauses):
    """JSON_OBJECT(KEY 'a' VALUE 1). Its expressions are keys and values in turns."""

    _sql_names = ["JSON_OBJECT"]


class JsonArray(JsonClauses):
    _sql_names = ["JSON_ARRAY"]


class JsonObjectAgg(exp.Expression, exp.AggFunc):
    """JSON_OBJECTAGG(KEY name VALUE price)."""

    arg_types = {"this": True, "expression": True, "on_null": False}
    _sql_names = ["JSON_OBJECTAGG"]


class JsonArrayAgg(exp.Expression, exp.AggFunc):
    """JSON_ARRAYAGG(price ORDER BY at)."""

    arg_types = {"this": True, "on_null": False}
    _sql_names = ["JSON_ARRAYAGG"]


_WITH_CLAUSES: dict[str, type[JsonClauses]] = {
    "JSON_VALUE": JsonValue,
    "JSON_QUERY": JsonQuery,
    "JSON_EXISTS": JsonExists,
    "JSON_OBJECT": JsonObject,
    "JSON_ARRAY": JsonArray,
}
_ARROWS = {
    TokenType.ARROW: (False, False),
    TokenType.DARROW: (True, False),
    TokenType.HASH_ARROW: (False, True),
    TokenType.DHASH_ARROW: (True, True),
}


def _arrow(as_text: bool, is_path: bool) -> Callable[[Any, Any, Any], exp.Expr]:
    return lambda parser, this, key: JsonArrow(
        this=this, expression=key, as_text=as_text, is_path=is_path
    )


class JsonParser(MatchParser):
    COLON_IS_VARIANT_EXTRACT = True
    _keeps_colons = False
    COLUMN_OPERATORS = {
        **MatchParser.COLUMN_OPERATORS,
        **{token: _arrow(*form) for token, form in _ARROWS.items()},
    }
    FUNCTION_PARSERS = {
        **MatchParser.FUNCTION_PARSERS,
        **{
            name: lambda self, name=name: self._parse_json_clauses(_WITH_CLAUSES[name])
            for name in _WITH_CLAUSES
        },
        "JSON_OBJECTAGG": lambda self: self._parse_json_object_agg(),
        "JSON_ARRAYAGG": lambda self: self._parse_json_array_agg(),
    }

    def _parse_colon_as_variant_extract(self, this: exp.Expr | None) -> exp.Expr | None:
        while not self._keeps_colons and self._match(TokenType.COLON):
            steps = [self._parse_variant_key()]
            while self._match_set((TokenType.DOT, TokenType.L_BRACKET)):
                if self._prev.token_type == TokenType.DOT:
                    steps.append(self._parse_variant_key())
                    continue
                steps.append(self._parse_variant_element())
            this = VariantExtract(this=this, expressions=steps)
            while self._match(TokenType.DCOLON):
                to = self._parse_types()
                if to is None:
                    self.raise_error("a type is expected here")
                this = exp.Cast(this=this, to=to)
        return this

    def _parse_variant_key(self) -> exp.Expr:
        if self._match(TokenType.L_BRACKET):
            return self._parse_variant_element()
        name = self._parse_id_var(any_token=True)
        if name is None:
            self.raise_error("a key is expected here")
        assert name is not None, "raise_error does not return"
        key = exp.Literal.string(name.name)
        key.meta.update(name.meta)
        return key

    def _parse_variant_element(self) -> exp.Expr:
        key = self._parse_primary()
        if not isinstance(key, exp.Literal) or not self._match(TokenType.R_BRACKET):
            self.raise_error("an index, or a key in quotes, and ] are expected here")
        assert key is not None, "raise_error does not return"
        return key

    # --- functions with clauses -----------------------------------------------------------------------

    def _parse_json_clauses(self, call: type[JsonClauses]) -> exp.Expr:
        pairs = call is JsonObject
        values: list[exp.Expr | None] = []
        while self._curr and self._curr.token_type != TokenType.R_PAREN and not self._is_clause():
            values.extend(self._parse_json_pair() if pairs else [self._parse_disjunction()])
            if not self._match(TokenType.COMMA):
                break
        made = call(expressions=[each for each in values if each is not None])
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            self._parse_json_clause(made)
        return made

    def _is_clause(self) -> bool:
        words = self._curr.text.upper(), self._next.text.upper() if self._next else ""
        return words in (("NULL", "ON"), ("ABSENT", "ON"))

    def _parse_json_pair(self) -> list[exp.Expr | None]:
        """Parse `KEY k VALUE v`, `k VALUE v`, `k: v` or `k, v`."""
        if self._next and self._next.token_type not in (TokenType.COLON, TokenType.COMMA):
            self._match_text_seq("KEY")
        self._keeps_colons = True  # Here a colon separates key and value.
        try:
            key = self._parse_bitwise()
        finally:
            self._keeps_colons = False
        if not (self._match_text_seq("VALUE") or self._match_set((TokenType.COLON, TokenType.COMMA))):
            self.raise_error("JSON_OBJECT() takes pairs: KEY 'name' VALUE value", self._prev)
        return [key, self._parse_disjunction()]

    def _parse_json_clause(self, call: exp.Expr) -> None:
        start = self._curr
        if self._match_text_seq("RETURNING"):
            call.set("returning", self._parse_types())
        elif self._curr.text.upper() in ("WITH", "WITHOUT"):
            words = [self._curr.text.upper()]
            self._advance()
            while self._match_texts(("CONDITIONAL", "UNCONDITIONAL", "ARRAY", "WRAPPER")):
                words.append(self._prev.text.upper())
            if words[-1] != "WRAPPER":
                self.raise_error(f"{start.text.upper()} is not supported here", start)
            kind = "CONDITIONAL" if "CONDITIONAL" in words else "UNCONDITIONAL"
            call.set("wrapper", None if words[0] == "WITHOUT" else kind)
        else:
            does = self._parse_json_behaviour()
            if does is None or not self._match(TokenType.ON):
                self.raise_error(f"{start.text.upper()} is not supported here", start)
            if not self._match_texts(("EMPTY", "ERROR", "NULL")):
                self.raise_error("EMPTY, ERROR or NULL is expected here")
            name = f"on_{self._prev.text.lower()}"
            call.set(name, does)

    def _parse_json_behaviour(self) -> exp.Expr | str | None:
        if self._match(TokenType.DEFAULT):
            return self._parse_disjunction()
        if self._match_texts(("NULL", "ERROR", "TRUE", "FALSE", "UNKNOWN", "ABSENT")):
            return str(self._prev.text.upper())
        if self._match_text_seq("EMPTY"):
            self._match_texts(("ARRAY", "OBJECT"))
            return "EMPTY OBJECT" if self._prev.text.upper() == "OBJECT" else "EMPTY ARRAY"
        return None

    # --- aggregates -----------------------------------------------------------------------------------

    def _parse_json_object_agg(self) -> exp.Expr:
        key, value = self._parse_json_pair()
        made = JsonObjectAgg(this=key, expression=value)
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            self._parse_json_clause(made)
        return made

    def _parse_json_array_agg(self) -> exp.Expr:
        made = JsonArrayAgg(this=self._parse_lambda())
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            self._parse_json_clause(made)
        return made
