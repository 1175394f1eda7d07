"""Bytes as strings and strings as bytes: HEX, BASE64, hashes, characters by number, and URLs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import zlib
from functools import partial
from urllib.parse import quote_plus, unquote_plus

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import (
    BYTES,
    CONSTANT_TEXT,
    SMALL_WHOLE,
    TEXT,
    WHOLE,
    Compiler,
    Takes,
    Typed,
    computes,
    computes_named,
    function,
    optional,
)
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values

_BINARY = pl.Binary()


# --- digits -------------------------------------------------------------------------------------------


_CODED = Takes(
    "an integer, a STRING or BINARY",
    lambda kind: types.is_integer(kind) or kind in (types.TEXT, _BINARY),
)


@computes_named("hex")
def hexadecimal(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile HEX: of bytes, or of an integer as 64 bits."""
    [value] = compiler.given(node, [_CODED])
    if types.is_integer(value.type):
        digits = of_values(_hex_of_long, [compiler.cast(value, types.BIGINT).expr], types.TEXT)
    else:
        digits = compiler.cast(value, _BINARY).expr.bin.encode("hex").str.to_uppercase()
    return Typed(digits, types.TEXT, node)


def _hex_of_long(value: int) -> str:
    return f"{value & (1 << 64) - 1:X}"


@function("unhex", {"digits": TEXT}, _BINARY)
def unhex(digits: pl.Expr) -> pl.Expr:
    even = pl.when(digits.str.len_bytes() % 2 == 1).then(pl.lit("0") + digits).otherwise(digits)
    return even.str.decode("hex", strict=False)


@function(("base64", "to_base64"), {"data": BYTES}, types.TEXT)
def to_base64(data: pl.Expr) -> pl.Expr:
    return data.bin.encode("base64")


@function(("unbase64", "from_base64"), {"text": TEXT}, _BINARY)
def unbase64(text: pl.Expr) -> pl.Expr:
    return of_values(_of_base64, [text], _BINARY)


def _of_base64(text: str) -> bytes | None:
    """Return the bytes as Java's MIME decoder does, which ignores other characters."""
    digits = re.sub(r"[^A-Za-z0-9+/]", "", text.partition("=")[0])
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4))
    except binascii.Error:
        return None


@function(exp.ToBase32, {"this": BYTES}, types.TEXT)
def to_base32(this: pl.Expr) -> pl.Expr:
    return of_values(_base32, [this], types.TEXT)


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode()


@function(exp.FromBase32, {"this": TEXT}, _BINARY)
def from_base32(this: pl.Expr) -> pl.Expr:
    return of_values(_of_base32, [this], _BINARY)


_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def _of_base32(text: str) -> bytes:
    """Return the bytes of the digits before the padding. Other characters are ignored, as are bits that
    fill no byte."""
    bits = count = 0
    for char in text.partition("=")[0]:
        digit = _BASE32.find(char.upper()) if char.isascii() else -1
        if digit >= 0:
            bits, count = bits << 5 | digit, count + 5
    if count % 40 == 5:  # A single digit of eight makes a byte with the digit before it, as in Spark.
        return (bits >> 5).to_bytes(count // 8, "big") + bytes([bits >> 2 & 0xFF])
    return (bits >> count % 8).to_bytes(count // 8, "big")


@computes_named("to_binary", "try_to_binary")
def to_binary(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile TO_BINARY(text[, 'hex']), also of 'base64' and 'utf-8'."""
    text, *form = compiler.given(node, [TEXT, optional(CONSTANT_TEXT)])
    match str(form[0].constant).lower() if form else "hex":
        case "hex":
            return Typed(unhex(text.expr), _BINARY, node)
        case "base64":
            return Typed(unbase64(text.expr), _BINARY, node)
        case "utf-8" | "utf8":
            return Typed(compiler.cast(text, _BINARY).expr, _BINARY, node)
    raise compiler.sql.error(
        f"{kind(node)} reads 'hex', 'base64' and 'utf-8'", form[0].node, "write TO_BINARY(s, 'hex')"
    )


# --- characters ---------------------------------------------------------------------------------------


@function("ascii", {"text": TEXT}, types.INT)
def ascii_(text: pl.Expr) -> pl.Expr:
    return of_values(_first_code, [text.str.head(1)], types.INT)


def _first_code(text: str) -> int:
    return ord(text) if text else 0


@function(("chr", "char"), {"code": WHOLE}, types.TEXT)
def character(code: pl.Expr) -> pl.Expr:
    """Return the character with the number in the last eight bits."""
    return of_values(_character, [code], types.TEXT)


def _character(code: int) -> str:
    return chr(code & 0xFF) if code >= 0 else ""


@function("bit_length", {"data": BYTES}, types.INT)
def bit_length(data: pl.Expr) -> pl.Expr:
    return (data.bin.size() * 8).cast(types.INT)


@function("octet_length", {"data": BYTES}, types.INT)
def octet_length(data: pl.Expr) -> pl.Expr:
    return data.bin.size().cast(types.INT)


CHARSETS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-32": "utf-32-be",
}


@computes(exp.Encode, exp.Decode)
def encoded(compiler: Compiler, node: exp.Encode | exp.Decode) -> Typed:
    compiler.sql.only(node, ("this", "charset"))
    charset = compiler.compile(node.args.get("charset"))
    name = CHARSETS.get(str(charset.constant).upper())
    if name is None:
        raise compiler.sql.error(
            "unknown character set", charset.node, f"supported are {', '.join(CHARSETS)}"
        )
    value = compiler.compile(node.this)
    if value.type not in (types.TEXT, _BINARY, types.NULL):
        raise compiler.wrong_type("character sets are those of STRING and BINARY", value, "")
    if isinstance(node, exp.Encode):
        text = compiler.text(node.this, "ENCODE").expr
        return Typed(of_values(partial(_encoded, charset=name), [text], _BINARY), _BINARY, node)
    data = compiler.cast(value, _BINARY).expr
    return Typed(of_values(partial(_decoded, charset=name), [data], types.TEXT), types.TEXT, node)


def _encoded(text: str, *, charset: str) -> bytes:
    return text.encode(charset, "replace")


def _decoded(data: bytes, *, charset: str) -> str:
    return data.decode(charset, "replace")


# --- hashes -------------------------------------------------------------------------------------------


@function("md5", {"data": BYTES}, types.TEXT)
def md5(data: pl.Expr) -> pl.Expr:
    return of_values(partial(_digest, algorithm="md5"), [data], types.TEXT)


@function(("sha", "sha1"), {"data": BYTES}, types.TEXT)
def sha1(data: pl.Expr) -> pl.Expr:
    return of_values(partial(_digest, algorithm="sha1"), [data], types.TEXT)


for _bits in (224, 256, 384, 512):

    @function(f"sha{_bits}", {"data": BYTES}, types.TEXT)
    def sha_of_bits(data: pl.Expr, algorithm: str = f"sha{_bits}") -> pl.Expr:
        return of_values(partial(_digest, algorithm=algorithm), [data], types.TEXT)


def _digest(data: bytes, *, algorithm: str) -> str:
    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()


@function("sha2", {"data": BYTES, "bits": SMALL_WHOLE}, types.TEXT)
def sha2(data: pl.Expr, bits: pl.Expr) -> pl.Expr:
    return of_values(_sha2, [data, bits], types.TEXT)


def _sha2(data: bytes, bits: int) -> str | None:
    known = bits in (0, 224, 256, 384, 512)
    return _digest(data, algorithm=f"sha{bits or 256}") if known else None


_HMACS = {"SHA-1": "sha1", "SHA-224": "sha224", "SHA-256": "sha256", "SHA-384": "sha384"}
_HMACS |= {"SHA-512": "sha512"}


@computes_named("hmac")
def hmac_(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile HMAC(key, message[, 'SHA-512']), by default of SHA-256."""
    key, message, *name = compiler.given(node, [BYTES, BYTES, optional(CONSTANT_TEXT)])
    algorithm = _HMACS.get(str(name[0].constant).upper() if name else "SHA-256")
    if algorithm is None:
        raise compiler.sql.error(
            f"{kind(node)} does not know this algorithm", name[0].node, f"write {', '.join(_HMACS)}"
        )
    known = pl.when(key.expr.bin.size() > 0).then(key.expr)
    made = of_values(partial(hmac.digest, digest=algorithm), [known, message.expr], _BINARY)
    return Typed(made, _BINARY, node)


@function("crc32", {"data": BYTES}, types.BIGINT)
def crc32(data: pl.Expr) -> pl.Expr:
    return of_values(zlib.crc32, [data], types.BIGINT)


# --- URLs ---------------------------------------------------------------------------------------------


@function("url_encode", {"text": TEXT}, types.TEXT)
def url_encode(text: pl.Expr) -> pl.Expr:
    return of_values(_url_encoded, [text], types.TEXT)


def _url_encoded(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


@function(("url_decode", "try_url_decode"), {"text": TEXT}, types.TEXT)
def url_decode(text: pl.Expr) -> pl.Expr:
    valid = ~text.str.contains("%(?:$|.$|[^0-9a-fA-F]|.[^0-9a-fA-F])")
    return pl.when(valid).then(of_values(unquote_plus, [text], types.TEXT))


_URL = (
    r"^(?:([^:/?#]+):)?(?://(([^/?#@]*@)?([^/?#:]*|\[[^\]]*\])(:[0-9]*)?))?"
    r"(([^?#]*)(?:\?([^#]*))?)(?:#(.*))?$"
)
"""The parts of a URL, as RFC 3986 defines them."""
_OPAQUE = r"^[^:/?#]+:[^/]"
"""The begin of a URL without hierarchy, such as mailto:a@b.c, which has neither path nor query."""
_URL_PARTS = {
    **{"PROTOCOL": 1, "AUTHORITY": 2, "USERINFO": 3, "HOST": 4},
    **{"FILE": 6, "PATH": 7, "QUERY": 8, "REF": 9},
}


@computes_named("parse_url", "try_parse_url")
def parse_url(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile PARSE_URL: null where the URL is invalid, or lacks the part."""
    given = node.expressions
    part = compiler.compile(given[1]).constant if len(given) in (2, 3) else None
    key = compiler.compile(given[2]).constant if len(given) == 3 else ""
    number = _URL_PARTS.get(str(part))
    if number is None or not isinstance(key, str):
        raise compiler.sql.error(
            "PARSE_URL takes a URL, the constant name of a part, and for QUERY a constant key",
            node,
            f"the parts are {', '.join(_URL_PARTS)}: write PARSE_URL(url, 'HOST')",
        )
    url = compiler.text(given[0], "PARSE_URL").expr
    url = pl.when(~url.str.contains(r"[\s\"<>\\^`{|}]|%(?:$|.$|[^0-9a-fA-F]|.[^0-9a-fA-F])")).then(url)
    if part not in ("PROTOCOL", "REF"):
        url = pl.when(~url.str.contains(_OPAQUE)).then(url)
    found = url.str.extract(_URL, number)
    if part == "USERINFO":
        found = found.str.strip_suffix("@")
    if part in ("HOST", "AUTHORITY"):
        found = pl.when(found != "").then(found)
    if len(given) == 3:
        found = (
            found.str.extract(f"(?:^|&){re.escape(key)}=([^&]*)")
            if part == "QUERY"
            else pl.lit(None, dtype=types.TEXT)
        )
    return Typed(found, types.TEXT, node)
