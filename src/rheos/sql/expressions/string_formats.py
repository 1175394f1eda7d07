"""Values as strings of a format: FORMAT_STRING, FORMAT_NUMBER."""

from __future__ import annotations

import re
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.table import (
    ANY,
    CONSTANT_TEXT,
    NUMBER,
    TEXT,
    Compiler,
    Takes,
    Typed,
    computes_named,
)
from rheos.sql.java_formats import (
    MOST_WIDTH,
    SPECIFIER,
    Specifier,
    number_pattern,
    places_pattern,
    text_of,
    text_of_integer,
    text_of_real,
)
from rheos.sql.number_formats import NumberFormat, number_format
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values

_BITS: dict[type[pl.DataType], int] = {pl.Int8: 8, pl.Int16: 16, pl.Int32: 32, pl.Int64: 64}
_TEXT, _TRUTH, _WHOLE, _REAL = "s", "b", "dxoc", "feg"
"""Letters of a format, by the type of their argument."""
_FLAGS = {"s": "-", "b": "-", "c": "-", "d": "-+ 0,(", "x": "-#0", "o": "-#0", "f": "-+ 0,(#"}
_FLAGS |= {"g": "-+ 0,(", "e": "-+ 0(#"}


@computes_named("format_string", "printf")
def format_string(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile FORMAT_STRING('%s: %.2f', name, price). A null is written as null."""
    form, *values = compiler.given(node, [CONSTANT_TEXT, *[ANY] * (max(1, len(node.expressions)) - 1)])
    parts: list[pl.Expr] = [pl.lit("")]
    at, ordinary, last = 0, 0, -1
    for found in SPECIFIER.finditer(form.constant):
        parts.append(_literal(compiler, form, form.constant[at : found.start()]))
        at = found.end()
        letter = found["kind"]
        if letter in "%n":
            parts.append(pl.lit("\n" if letter == "n" else "%".rjust(int(found["width"] or 0))))
            continue
        spec = _specifier(compiler, form, found)
        if found["place"]:
            last = int(found["place"]) - 1
        elif not found["same"]:
            last, ordinary = ordinary, ordinary + 1
        if not 0 <= last < len(values):
            raise compiler.sql.error(
                f"{found[0]} has no argument", form.node, f"{kind(node)} has {len(values)} of them"
            )
        parts.append(_formatted(compiler, values[last], spec, found[0]))
    parts.append(_literal(compiler, form, form.constant[at:]))
    return Typed(pl.concat_str(parts), types.TEXT, node)


def _literal(compiler: Compiler, form: Typed, text: str) -> pl.Expr:
    if "%" in text:
        raise compiler.sql.error(
            f"{text[text.index('%') :][:8]!r} is not valid in a format", form.node, "write %% for a %"
        )
    return pl.lit(text)


def _specifier(compiler: Compiler, form: Typed, found: re.Match[str]) -> Specifier:
    """Return a part of a format. Raise ProgramError if it is not one of those that are computed."""
    letter, flags = found["kind"], found["flags"]
    width, precision = int(found["width"] or 0), found["precision"]
    lower = letter.lower()
    known = lower in _FLAGS and not (letter.isupper() and lower in "dof")
    whole = lower in _WHOLE and precision is not None
    lacks_width = ("-" in flags or "0" in flags) and not width
    clashes = ("-" in flags and "0" in flags) or ("+" in flags and " " in flags)
    too_long = max(width, int(precision or 0)) > MOST_WIDTH
    if not known or {*flags} - {*_FLAGS[lower]} or whole or lacks_width or clashes or too_long:
        letters = ", ".join(f"%{each}" for each in _FLAGS)
        raise compiler.sql.error(
            f"{found[0]} is not valid in a format",
            form.node,
            f"a format consists of {letters}, %n and %%, with flags, width and precision as in Java",
        )
    return Specifier(
        lower, letter.isupper(), flags, width, None if precision is None else int(precision)
    )


def _formatted(compiler: Compiler, value: Typed, spec: Specifier, written: str) -> pl.Expr:
    """Return an argument as its part of the format defines it. Raise SchemaError."""
    made, nothing = _of_value(compiler, value, spec, written), "false" if spec.kind == "b" else "null"
    return made.fill_null(pl.lit(text_of(nothing, spec)))


def _of_value(compiler: Compiler, value: Typed, spec: Specifier, written: str) -> pl.Expr:
    of = types.signed(value.type)
    plain = not spec.width and spec.precision is None and not spec.upper
    if of == types.NULL:
        return pl.lit(None, dtype=types.TEXT)
    if spec.kind in _WHOLE and types.is_integer(of):
        number = compiler.cast(value, of).expr
        if spec.kind == "d" and not spec.flags and plain:
            return number.cast(types.TEXT)
        if spec.kind == "c":
            number = pl.when(number.is_between(0, 0x10FFFF)).then(number)
        compute = partial(text_of_integer, spec=spec, bits=_BITS[type(of)])
        return of_values(compute, [number], types.TEXT)
    if spec.kind in _REAL and (types.is_floating(of) or types.is_decimal(of)):
        return of_values(partial(text_of_real, spec=spec), [_printed(compiler, value)], types.TEXT)
    if spec.kind == _TRUTH:
        truth = value.expr if of == types.BOOLEAN else value.expr.is_not_null()
        return of_values(partial(text_of, spec=spec), [truth.cast(types.TEXT)], types.TEXT)
    if spec.kind == _TEXT and (types.is_number(of) or of in (types.TEXT, types.BOOLEAN)):
        text = compiler.cast(value, types.TEXT).expr
        return text if plain else of_values(partial(text_of, spec=spec), [text], types.TEXT)
    wanted = {_TEXT: "a STRING", **dict.fromkeys(_WHOLE, "an integer")}.get(spec.kind, "a DOUBLE")
    raise compiler.wrong_type(
        f"{written} formats {wanted}", value, "convert it with CAST(... AS STRING)"
    )


# --- numbers ------------------------------------------------------------------------------------------

_PLACES = Takes("a number of digits, or a pattern", lambda of: types.is_integer(of) or of == types.TEXT)


def _printed(compiler: Compiler, value: Typed) -> pl.Expr:
    """Return numbers as they print in Java. A negative zero keeps its sign."""
    wide = compiler.cast(value, types.DOUBLE) if types.is_floating(value.type) else value
    return compiler.cast(wide, types.TEXT).expr


@computes_named("format_number")
def format_number(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile FORMAT_NUMBER(x, 2) and FORMAT_NUMBER(x, '#,##0.00')."""
    value, form = compiler.given(node, [NUMBER, _PLACES])
    number, floating = _printed(compiler, value), types.is_floating(value.type)
    if form.type != types.TEXT:
        places = compiler.cast(form, types.INT).expr
        bounded = pl.when(places.is_between(0, MOST_WIDTH)).then(places)
        compute = partial(_with_places, floating=floating)
        return Typed(of_values(compute, [number, bounded], types.TEXT), types.TEXT, node)
    pattern = None
    if isinstance(form.constant, str):
        pattern = number_pattern(form.constant or "#,##0", floating=floating)
    if pattern is None:
        raise compiler.sql.error(
            "FORMAT_NUMBER takes a constant pattern of digits", form.node, "write '#,##0.00'"
        )
    return Typed(of_values(pattern.format, [number], types.TEXT), types.TEXT, node)


def _with_places(printed: str, places: int, *, floating: bool) -> str:
    return places_pattern(places, floating=floating).format(printed)


def _format_of(compiler: Compiler, node: exp.Expr, form: Typed) -> NumberFormat:
    made = number_format(form.constant) if isinstance(form.constant, str) else None
    if made is None:
        raise compiler.sql.error(
            f"{kind(node)} takes a constant format of numbers",
            form.node,
            "a format has digits 0 or 9, and may have D, G, $, S, MI and PR: write '999G999D99'",
        )
    return made


@computes_named("to_number", "try_to_number")
def to_number(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile TO_NUMBER('12,454.8-', '99G999D9S'): null for a string of another format."""
    text, form = compiler.given(node, [TEXT, CONSTANT_TEXT])
    read = _format_of(compiler, node, form)
    return Typed(read.read(text.expr), read.type, node)


def number_to_char(compiler: Compiler, node: exp.Expr, value: Typed, form: Typed) -> Typed:
    """Compile TO_CHAR(78.12, '$99.99')."""
    made = _format_of(compiler, node, form)
    exact = types.as_decimal(value.type) if not types.is_floating(value.type) else _WIDE
    number = compiler.cast(value, exact).expr
    return Typed(of_values(made.write, [number], types.TEXT), types.TEXT, node)


_WIDE = pl.Decimal(38, 15)
"""Type of floats in TO_CHAR."""


def bytes_to_char(compiler: Compiler, node: exp.Expr, value: Typed, form: Typed) -> Typed:
    """Compile TO_CHAR(data, 'base64'), 'hex' or 'utf-8'."""
    name = {"base64": "base64", "hex": "hex"}.get(str(form.constant).lower())
    if name is None:
        if str(form.constant).lower() not in ("utf-8", "utf8"):
            raise compiler.sql.error(
                f"{kind(node)} writes bytes as 'base64', 'hex' or 'utf-8'", form.node
            )
        return Typed(compiler.cast(value, types.TEXT).expr, types.TEXT, node)
    made = (
        value.expr.bin.encode("hex").str.to_uppercase()
        if name == "hex"
        else value.expr.bin.encode("base64")
    )
    return Typed(made, types.TEXT, node)
