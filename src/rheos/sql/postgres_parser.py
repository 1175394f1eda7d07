"""Parser of PostgreSQL's operators and constants, which other dialects lack.

a ^ b    |/ a    ||/ a    @ a    a # b                       operators of numbers
a @> b    a <@ b    a && b    a ? 'k'    a ?| b    a #- b    operators of arrays and JSON
E'a\\tb'    $$a'b$$    0x1F    list[2:3]                      constants and slices
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.parsers.hive import HiveParser
from sqlglot.tokenizer_core import TokenType

from rheos.sql.table_arguments import TableArgumentParser
from rheos.sql.text import WRITTEN_NAME

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))|''", re.DOTALL
)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
KEYWORDS = {
    **{"~": TokenType.RLIKE, "@>": TokenType.AT_GT, "<@": TokenType.LT_AT, "^@": TokenType.CARET_AT},
    **{"?&": TokenType.QMARK_AMP, "?|": TokenType.QMARK_PIPE, "#-": TokenType.HASH_DASH},
    **{"|/": TokenType.PIPE_SLASH, "||/": TokenType.DPIPE_SLASH, "@?": TokenType.AT_QMARK},
    **{"&&": TokenType.DAMP, "TIMESTAMP": TokenType.TIMESTAMP, "FLOAT": TokenType.DOUBLE},
    "INTERVAL": TokenType.INTERVAL,
}
"""Tokens that PostgreSQL has, or that mean something else there."""


def call(name: str, *arguments: exp.Expr | None, of: exp.Expr | None = None) -> exp.Anonymous:
    """Return a call of a function, at the place of another node if there is one."""
    made = exp.Anonymous(this=name, expressions=[each for each in arguments if each is not None])
    if of is not None:
        made.meta.update(of.meta)
    made.meta.setdefault(WRITTEN_NAME, name.removeprefix("pg."))
    return made


def unescaped(text: str) -> str:
    """Return the characters of E'...', without the quotes."""

    def character(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code:
            return chr(int(code, 16))
        if found[4]:
            return chr(int(found[4], 8))
        return _ESCAPED.get(found[5], found[5]) if found[5] else "'"

    return _ESCAPE.sub(character, text)


_OWN_MEANING = (
    *("left", "right", "ltrim", "rtrim", "btrim", "initcap", "chr", "format", "encode", "decode"),
    *("sha1", "sha224", "sha256", "sha384", "sha512", "get_bit", "to_char", "to_date", "to_timestamp"),
    *("to_number", "to_json", "round", "trunc", "div", "width_bucket", "cardinality", "array_length"),
    *("array_position", "array_prepend", "array_remove", "date_trunc", "make_interval"),
    *("scale", "min_scale", "trim_scale", "age", "digest", "hmac", "gamma", "lgamma", "erf", "erfc"),
    *("isfinite", "normalize", "casefold"),
    *("regexp_count", "regexp_instr", "regexp_like", "regexp_replace", "regexp_substr"),
)
"""Functions that Spark has, too, with another meaning, and those whose names functions of users may
have. They are compiled by the name `pg.left`."""
_NAMED_OTHERWISE = {
    **{"jsonb_extract_path": "json_extract_path", "make_timestamp": "make_timestamp_ntz"},
    **{"jsonb_extract_path_text": "json_extract_path_text", "make_timestamptz": "make_timestamp_ltz"},
    **{"jsonb_object_keys": "json_object_keys", "jsonb_contains": "pg.contains"},
    "jsonb_exists": "pg.has_key",
}
"""Functions that have another name in Spark, Flink or the SQL standard."""


def _meant(name: str, instead: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    def made(args: list[exp.Expr]) -> exp.Expr:
        node = call(instead, *args)
        node.meta[WRITTEN_NAME] = name
        return node

    return made


def _moved(name: str, node: type[exp.Add | exp.Sub]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return the maker of a time plus or minus an interval; other arguments are refused."""

    def made(args: list[exp.Expr]) -> exp.Expr:
        return node(this=args[0], expression=args[1]) if len(args) == 2 else call(name, *args)

    return made


_FUNCTIONS = {
    **{name.upper(): _meant(name, f"pg.{name}") for name in _OWN_MEANING},
    **{name.upper(): _meant(name, instead) for name, instead in _NAMED_OTHERWISE.items()},
    "LIST_LENGTH": exp.ArraySize.from_arg_list,
    "DATE_ADD": _moved("date_add", exp.Add),
    "DATE_SUBTRACT": _moved("date_sub", exp.Sub),
}


def _parse_operator(name: str) -> Callable[[Any, exp.Expr | None], exp.Expr]:
    """Return the parser of a binary operator that is a function."""
    return lambda self, this: call(name, this, self._parse_bitwise())


class PostgresParser(TableArgumentParser):
    """The parser of PostgreSQL's forms."""

    LOG_DEFAULTS_TO_LN = False
    FUNCTIONS = {**TableArgumentParser.FUNCTIONS, **_FUNCTIONS}
    FUNCTION_PARSERS = {
        **{
            name: parse
            for name, parse in TableArgumentParser.FUNCTION_PARSERS.items()
            if name not in _FUNCTIONS
        },
        "TRIM": lambda self: self._parse_trim_of_postgres(),
        **dict.fromkeys(("JSON_AGG", "JSONB_AGG"), lambda self: self._parse_json_agg()),
        **dict.fromkeys(
            ("JSON_OBJECT_AGG", "JSONB_OBJECT_AGG"), lambda self: self._parse_json_object_agg()
        ),
    }
    BITWISE = {
        **{
            token: node
            for token, node in TableArgumentParser.BITWISE.items()
            if token != TokenType.CARET
        },
        TokenType.HASH: exp.BitwiseXor,
    }
    EXPONENT = {TokenType.CARET: exp.Pow}
    RANGE_PARSERS = {
        **TableArgumentParser.RANGE_PARSERS,
        TokenType.AT_GT: _parse_operator("pg.contains"),
        TokenType.LT_AT: lambda self, this: call("pg.contains", self._parse_bitwise(), this),
        TokenType.DAMP: _parse_operator("arrays_overlap"),
        TokenType.QMARK_AMP: _parse_operator("pg.has_all_keys"),
        TokenType.QMARK_PIPE: _parse_operator("pg.has_any_key"),
        TokenType.AT_QMARK: _parse_operator("jsonb_path_exists"),
        TokenType.CARET_AT: lambda self, this: self.expression(
            exp.StartsWith(this=this, expression=self._parse_bitwise())
        ),
    }
    UNARY_PARSERS = {
        **TableArgumentParser.UNARY_PARSERS,
        TokenType.RLIKE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_unary())),
        TokenType.PIPE_SLASH: lambda self: self.expression(exp.Sqrt(this=self._parse_unary())),
        TokenType.DPIPE_SLASH: lambda self: self.expression(exp.Cbrt(this=self._parse_unary())),
        TokenType.PARAMETER: lambda self: self.expression(exp.Abs(this=self._parse_unary())),
    }
    COLON_IS_VARIANT_EXTRACT = False
    COLUMN_OPERATORS = {
        **TableArgumentParser.COLUMN_OPERATORS,
        TokenType.PLACEHOLDER: lambda self, this, key: call("pg.has_key", this, key),
        TokenType.HASH_DASH: lambda self, this, path: call("pg.delete_path", this, path),
    }
    PRIMARY_PARSERS = {
        **TableArgumentParser.PRIMARY_PARSERS,
        TokenType.BYTE_STRING: lambda self, token: self._escape_string(token),
        TokenType.HEREDOC_STRING: lambda self, token: self._string_of(token, token.text),
        TokenType.HEX_STRING: lambda self, token: self._hexadecimal(token),
    }

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Parse a type, and keep the length of CHAR(n), which Hive's parser drops."""
        made: exp.Expr | None = super(HiveParser, self)._parse_types(*args, **kwargs)
        return made

    def _parse_json_agg(self) -> exp.Expr:
        """Parse JSON_AGG(value ORDER BY key), which keeps nulls."""
        made = self._parse_json_array_agg()
        made.set("on_null", "NULL")
        return made

    def _parse_trim_of_postgres(self) -> exp.Expr:
        """Parse TRIM([side] [characters] FROM text), and TRIM([side] [FROM] text, characters)."""
        side = self._match_texts(("BOTH", "LEADING", "TRAILING")) and self._prev.text.upper()
        name = {"LEADING": "pg.ltrim", "TRAILING": "pg.rtrim"}.get(str(side), "pg.btrim")
        first = None if self._match(TokenType.FROM) else self._parse_bitwise()
        characters = None
        if first is None:
            first = self._parse_bitwise()
        elif self._match(TokenType.FROM):
            first, characters = self._parse_bitwise(), first
        if self._match(TokenType.COMMA):
            characters = self._parse_bitwise()
        made = call(name, first, characters)
        made.meta[WRITTEN_NAME] = "trim"
        return made

    def _string_of(self, token: Any, text: str) -> exp.Expr:
        made = exp.Literal.string(text)
        made.update_positions(token)
        return made

    def _escape_string(self, token: Any) -> exp.Expr:
        written = self.sql[token.start : token.end + 1]
        return self._string_of(token, unescaped(written[2:-1]))

    def _hexadecimal(self, token: Any) -> exp.Expr:
        if self.sql[token.start] != "0":
            return exp.HexString(this=token.text)
        made = exp.Literal.number(int(token.text, 16))
        made.update_positions(token)
        return made
