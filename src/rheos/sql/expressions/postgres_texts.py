"""String and binary functions of PostgreSQL."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns, of_one_length
from rheos.sql import postgres_values, types
from rheos.sql.expressions.encodings import CHARSETS
from rheos.sql.expressions.postgres_casts import cast_value
from rheos.sql.expressions.table import (
    ANY,
    BYTES,
    CONSTANT_TEXT,
    SMALL_WHOLE,
    TEXT,
    WHOLE,
    Compiler,
    Typed,
    computes_named,
    function,
    optional,
)
from rheos.sql.expressions.texts import trimmed
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values

_BINARY = pl.Binary()


def _as_text(compiler: Compiler, node: exp.Expr) -> pl.Expr:
    """Return a value as PostgreSQL writes it."""
    value = compiler.compile(node)
    made = cast_value(value.expr, value.type, types.TEXT)
    if made is None:
        raise compiler.wrong_type("this takes a STRING", value, "write CAST(... AS TEXT)", at=node)
    return made


# --- parts --------------------------------------------------------------------------------------------


@function("pg.left", {"text": TEXT, "count": SMALL_WHOLE}, types.TEXT)
def left(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    """Return the first characters; all but the last ones, if the number is negative."""
    size = text.str.len_chars().cast(types.BIGINT)
    wanted = count.cast(types.BIGINT)
    length = pl.when(wanted < 0).then((size + wanted).clip(lower_bound=0)).otherwise(wanted)
    return pl.when(count.is_not_null()).then(text.str.head(length))


@function("pg.right", {"text": TEXT, "count": SMALL_WHOLE}, types.TEXT)
def right(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    size = text.str.len_chars().cast(types.BIGINT)
    wanted = count.cast(types.BIGINT)
    length = pl.when(wanted < 0).then((size + wanted).clip(lower_bound=0)).otherwise(wanted)
    return pl.when(count.is_not_null()).then(text.str.tail(length))


_SIDES = {"pg.ltrim": "LEADING", "pg.rtrim": "TRAILING", "pg.btrim": "BOTH"}


@computes_named(*_SIDES)
def trim(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile LTRIM(text[, characters]) and similar functions, also of bytes."""
    value, *signs = compiler.given(node, [BYTES, optional(BYTES)])
    if compiler.compile(node.expressions[0]).type == _BINARY:
        side = _SIDES[node.name]
        given = [value.expr, signs[0].expr if signs else pl.lit(b" ")]
        return Typed(of_values(partial(_trimmed_bytes, side=side), given, _BINARY), _BINARY, node)
    text, *characters = compiler.given(node, [TEXT, optional(TEXT)])
    by = characters[0].expr if characters else pl.lit(" ")
    return Typed(trimmed(text.expr, by, _SIDES[node.name]), types.TEXT, node)


def _trimmed_bytes(data: bytes, signs: bytes, *, side: str) -> bytes:
    match side:
        case "LEADING":
            return data.lstrip(signs)
        case "TRAILING":
            return data.rstrip(signs)
    return data.strip(signs)


@function("pg.initcap", {"text": TEXT}, types.TEXT)
def initcap(text: pl.Expr) -> pl.Expr:
    """Return each sequence of letters and digits with one capital letter at its begin."""
    return of_values(_capitalised, [text], types.TEXT)


def _capitalised(text: str) -> str:
    return re.sub(r"[^\W_]+", lambda word: word[0][:1].upper() + word[0][1:].lower(), text)


# --- characters and numbers ---------------------------------------------------------------------------


@function("pg.chr", {"code": WHOLE}, types.TEXT)
def character(code: pl.Expr) -> pl.Expr:
    valid = code.is_between(1, 0x10FFFF) & ~code.is_between(0xD800, 0xDFFF)
    return of_values(chr, [pl.when(valid).then(code)], types.TEXT)


for _name, _base in (("to_hex", "x"), ("to_oct", "o"), ("to_bin", "b")):

    @computes_named(_name)
    def to_base(compiler: Compiler, node: exp.Anonymous, base: str = _base) -> Typed:
        """Compile TO_HEX and similar functions: of a negative number, its two's complement."""
        [value] = compiler.given(node, [WHOLE])
        kind_ = types.signed(compiler.compile(node.expressions[0]).type)
        mask = (1 << (64 if kind_ == types.BIGINT else 32)) - 1
        write = partial(_in_base, base=base, mask=mask)
        return Typed(of_values(write, [value.expr], types.TEXT), types.TEXT, node)


def _in_base(number: int, *, base: str, mask: int) -> str:
    return format(number & mask, base)


@function("unistr", {"text": TEXT}, types.TEXT)
def unistr(text: pl.Expr) -> pl.Expr:
    return of_values(_of_code_points, [text], types.TEXT)


_CODE = re.compile(r"\\(?:u?([0-9a-fA-F]{4})|\+([0-9a-fA-F]{6})|U([0-9a-fA-F]{8})|(\\))")


def _of_code_points(text: str) -> str | None:
    try:
        return _CODE.sub(lambda f: f[4] or chr(int(f[1] or f[2] or f[3], 16)), text)
    except (ValueError, OverflowError):
        return None


_FORMS: dict[str, Literal["NFC", "NFD", "NFKC", "NFKD"]] = {
    **{"NFC": "NFC", "NFD": "NFD"},
    **{"NFKC": "NFKC", "NFKD": "NFKD"},
}


@computes_named("pg.normalize")
def normalize(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile NORMALIZE(text[, NFC])."""
    name = node.expressions[1].name.upper() if len(node.expressions) == 2 else "NFC"
    form = _FORMS.get(name)
    if form is None or not 1 <= len(node.expressions) <= 2:
        raise compiler.sql.error(
            f"{kind(node)} takes a string and a form", node, "write NORMALIZE(s, NFC)"
        )
    text = compiler.text(node.expressions[0], kind(node)).expr
    return Typed(text.str.normalize(form), types.TEXT, node)


@function("pg.casefold", {"text": TEXT}, types.TEXT)
def casefold(text: pl.Expr) -> pl.Expr:
    return of_values(str.casefold, [text], types.TEXT)


# --- quoted and formatted -----------------------------------------------------------------------------


@computes_named("quote_literal", "quote_nullable", "quote_ident")
def quote(compiler: Compiler, node: exp.Anonymous) -> Typed:
    compiler.given(node, [ANY])
    text = _as_text(compiler, node.expressions[0])
    by = _identifier if node.name.casefold() == "quote_ident" else _literal
    made = of_values(by, [text], types.TEXT)
    return Typed(
        made.fill_null("NULL") if node.name.casefold() == "quote_nullable" else made, types.TEXT, node
    )


def _literal(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"E'{quoted.replace(chr(92), chr(92) * 2)}'" if "\\" in quoted else f"'{quoted}'"


def _identifier(text: str) -> str:
    if re.fullmatch(r"[a-z_][a-z0-9_$]*", text):
        return text
    return '"' + text.replace('"', '""') + '"'


_DIRECTIVE = re.compile(r"%(?:%|(?:(\d+)\$)?(-)?(\d+)?([sIL]))")


@computes_named("pg.format")
def formatted(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile FORMAT(template, values): %s, %I and %L, with positions and widths."""
    if not node.expressions:
        raise compiler.sql.error(f"{kind(node)} lacks a template", node, "write FORMAT('%s', a)")
    template = compiler.compile(node.expressions[0])
    values = [_as_text(compiler, each) for each in node.expressions[1:]]
    form = template.constant
    places = _places(form, len(values)) if isinstance(form, str) else None
    if places is None or not isinstance(form, str):
        raise compiler.sql.error(
            f"{kind(node)} takes a constant template of %s, %I and %L, and a value for each of them",
            node,
            "write FORMAT('%s of %L', a, b)",
        )
    write = partial(_formatted, template=form, places=places)
    return Typed(of_columns(write, [template.expr, *values], types.TEXT), types.TEXT, node)


def _places(template: str, count: int) -> tuple[int, ...] | None:
    """Return the number of the value of each directive; None if the template is malformed."""
    if "%" in _DIRECTIVE.sub("", template):
        return None
    places, last = [], 0
    for found in _DIRECTIVE.finditer(template):
        if found[4] is not None:
            last = int(found[1]) if found[1] else last + 1
            places.append(last)
    return tuple(places) if all(1 <= place <= count for place in places) else None


def _formatted(columns: Sequence[pl.Series], *, template: str, places: tuple[int, ...]) -> pl.Series:
    """Fill a template for each row. A row function."""
    columns = of_one_length(columns)
    rows = zip(*(each.to_list() for each in columns), strict=True)
    texts = [None if row[0] is None else _filled(template, places, row) for row in rows]
    return pl.Series(columns[0].name, texts, pl.String())


_MOST_WIDTH = 1_000


def _filled(template: str, places: tuple[int, ...], row: Sequence[str | None]) -> str:
    remaining = iter(places)

    def directive(found: re.Match[str]) -> str:
        if found[4] is None:
            return "%"
        value = row[next(remaining)]
        match found[4]:
            case "L":
                text = "NULL" if value is None else _literal(value)
            case "I":
                text = _identifier(value or "")
            case _:
                text = value or ""
        width = min(int(found[3] or 0), _MOST_WIDTH)
        return text.ljust(width) if found[2] else text.rjust(width)

    return _DIRECTIVE.sub(directive, template)


# --- bytes --------------------------------------------------------------------------------------------


def _base64_lines(data: bytes) -> str:
    """Return base 64, in lines of 76 characters."""
    return base64.encodebytes(data).decode().rstrip("\n")


def _of_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(re.sub(r"\s", "", text), validate=True)
    except binascii.Error:
        return None


def _of_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


_WRITTEN: dict[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": _base64_lines,
    "escape": postgres_values.escaped_text,
}
_READ: dict[str, Callable[[str], bytes | None]] = {
    "hex": _of_hex,
    "base64": _of_base64,
    "escape": postgres_values.bytes_of,
}


@computes_named("pg.encode", "pg.decode")
def encode(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile ENCODE(bytes, 'hex') and DECODE(text, 'hex')."""
    encodes = node.name == "pg.encode"
    value, form = compiler.given(node, [BYTES if encodes else TEXT, CONSTANT_TEXT])
    known: dict[str, Callable[..., bytes | str | None]] = {**(_WRITTEN if encodes else _READ)}
    by = known.get(form.constant.lower())
    if by is None:
        raise compiler.sql.error(
            f"{kind(node)} has no form {form.constant!r}",
            form.node,
            f"the forms are {', '.join(known)}",
        )
    to = types.TEXT if encodes else _BINARY
    return Typed(of_values(partial(_apply, by=by), [value.expr], to), to, node)


def _apply(value: bytes | str, *, by: Callable[..., bytes | str | None]) -> bytes | str | None:
    return by(value)


@computes_named("convert_from", "convert_to")
def convert(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile CONVERT_FROM(bytes, 'UTF8') and CONVERT_TO(text, 'UTF8')."""
    reads = node.name.casefold() == "convert_from"
    value, charset = compiler.given(node, [BYTES if reads else TEXT, CONSTANT_TEXT])
    names = {"UTF8": "utf-8", "LATIN1": "latin-1", "SQL_ASCII": "ascii", **CHARSETS}
    name = names.get(charset.constant.upper())
    if name is None:
        raise compiler.sql.error(
            "unknown character set", charset.node, f"supported are {', '.join(names)}"
        )
    if reads:
        made = of_values(partial(_decoded, charset=name), [value.expr], types.TEXT)
        return Typed(made, types.TEXT, node)
    return Typed(of_values(partial(_encoded, charset=name), [value.expr], _BINARY), _BINARY, node)


def _decoded(data: bytes, *, charset: str) -> str | None:
    try:
        return data.decode(charset)
    except UnicodeError:
        return None


def _encoded(text: str, *, charset: str) -> bytes | None:
    try:
        return text.encode(charset)
    except UnicodeError:
        return None


@function("get_byte", {"data": BYTES, "place": WHOLE}, types.INT)
def get_byte(data: pl.Expr, place: pl.Expr) -> pl.Expr:
    return of_values(_byte, [data, place], types.INT)


def _byte(data: bytes, place: int) -> int | None:
    return data[place] if 0 <= place < len(data) else None


@function("set_byte", {"data": BYTES, "place": WHOLE, "value": WHOLE}, _BINARY)
def set_byte(data: pl.Expr, place: pl.Expr, value: pl.Expr) -> pl.Expr:
    return of_values(_with_byte, [data, place, value], _BINARY)


def _with_byte(data: bytes, place: int, value: int) -> bytes | None:
    if not 0 <= place < len(data):
        return None
    return data[:place] + bytes([value & 0xFF]) + data[place + 1 :]


@function("pg.get_bit", {"data": BYTES, "place": WHOLE}, types.INT)
def get_bit(data: pl.Expr, place: pl.Expr) -> pl.Expr:
    return of_values(_bit, [data, place], types.INT)


def _bit(data: bytes, place: int) -> int | None:
    return data[place // 8] >> place % 8 & 1 if 0 <= place < len(data) * 8 else None


_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


@computes_named("pg.sha1", "pg.sha224", "pg.sha256", "pg.sha384", "pg.sha512")
def hashed(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile SHA256(bytes), which returns bytes."""
    [data] = compiler.given(node, [BYTES])
    compute = partial(_digest, algorithm=node.name.removeprefix("pg."))
    return Typed(of_values(compute, [data.expr], _BINARY), _BINARY, node)


@computes_named("pg.digest", "pg.hmac")
def digest(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile DIGEST(data, 'sha256') and HMAC(data, key, 'sha256'), which return bytes."""
    keyed = node.name == "pg.hmac"
    *given, name = compiler.given(node, [*[BYTES] * (2 if keyed else 1), CONSTANT_TEXT])
    algorithm = name.constant.lower()
    if algorithm not in _HASHES:
        raise compiler.sql.error(
            f"unknown algorithm {name.constant!r}", name.node, f"supported are {', '.join(_HASHES)}"
        )
    compute = partial(_keyed_digest if keyed else _digest, algorithm=algorithm)
    return Typed(of_values(compute, [each.expr for each in given], _BINARY), _BINARY, node)


def _digest(data: bytes, *, algorithm: str) -> bytes:
    return hashlib.new(algorithm, data, usedforsecurity=False).digest()


def _keyed_digest(data: bytes, key: bytes, *, algorithm: str) -> bytes:
    return hmac.new(key, data, algorithm).digest()
