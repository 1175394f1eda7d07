"""TO_CHAR, TO_DATE, TO_TIMESTAMP and TO_NUMBER with PostgreSQL's templates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import polars as pl
from sqlglot import exp

from rheos.sql import postgres_formats, types
from rheos.sql.expressions.table import (
    ANY,
    CONSTANT_TEXT,
    NUMBER,
    TEXT,
    Compiler,
    Typed,
    computes_named,
    optional,
)
from rheos.sql.expressions.times import periods, time_of
from rheos.sql.postgres_formats import FIELDS, Part
from rheos.sql.text import kind
from rheos.sql.value_functions import of_values

_NUMBERS: dict[str, tuple[Callable[[pl.Expr], pl.Expr], int]] = {
    "HH24": (lambda t: t.dt.hour(), 2),
    **dict.fromkeys(("HH12", "HH"), (lambda t: (t.dt.hour().cast(types.INT) + 11) % 12 + 1, 2)),
    "MI": (lambda t: t.dt.minute(), 2),
    "SS": (lambda t: t.dt.second(), 2),
    **dict.fromkeys(("SSSS", "SSSSS"), (lambda t: t.dt.epoch("us") // 1_000_000 % 86_400, 1)),
    **dict.fromkeys(("MS", "FF3"), (lambda t: t.dt.microsecond() // 1_000, 3)),
    **dict.fromkeys(("US", "FF6"), (lambda t: t.dt.microsecond(), 6)),
    "FF1": (lambda t: t.dt.microsecond() // 100_000, 1),
    "FF2": (lambda t: t.dt.microsecond() // 10_000, 2),
    "FF4": (lambda t: t.dt.microsecond() // 100, 4),
    "FF5": (lambda t: t.dt.microsecond() // 10, 5),
    "YYYY": (lambda t: t.dt.year(), 4),
    "YYY": (lambda t: t.dt.year() % 1000, 3),
    "YY": (lambda t: t.dt.year() % 100, 2),
    "Y": (lambda t: t.dt.year() % 10, 1),
    "IYYY": (lambda t: t.dt.iso_year(), 4),
    "MM": (lambda t: t.dt.month(), 2),
    "DDD": (lambda t: t.dt.ordinal_day(), 3),
    "DD": (lambda t: t.dt.day(), 2),
    "D": (lambda t: t.dt.weekday() % 7 + 1, 1),
    "ID": (lambda t: t.dt.weekday(), 1),
    "WW": (lambda t: (t.dt.ordinal_day().cast(types.INT) - 1) // 7 + 1, 2),
    "W": (lambda t: (t.dt.day().cast(types.INT) - 1) // 7 + 1, 1),
    "IW": (lambda t: t.dt.week(), 2),
    "CC": (lambda t: periods(t, 100), 2),
    "Q": (lambda t: t.dt.quarter(), 1),
}
"""Numbers of a time, and their width."""
_NAMES = {"MONTH": "%B", "MON": "%b", "DAY": "%A", "DY": "%a"}
_LONGEST_NAME = 9
_UTC = {"TZ": "UTC", "TZH": "+00", "TZM": "00", "OF": "+00"}
_OF_INTERVALS = ("HH24", "HH12", "HH", "MI", "SS", "MS", "US", "DD", "SSSS", "SSSSS")


@computes_named("pg.to_char")
def to_char(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile TO_CHAR of a time, an interval or a number."""
    value, template = compiler.given(node, [ANY, CONSTANT_TEXT])
    if types.is_number(types.signed(value.type)):
        return _number_to_char(compiler, node, value, template)
    parts = postgres_formats.parts_of(template.constant)
    days = None
    if isinstance(value.type, pl.Duration):
        micros = compiler.cast(value, types.INTERVAL).expr.dt.total_microseconds()
        moment, days = types.moment(micros % 86_400_000_000), micros // 86_400_000_000
        known: tuple[str, ...] = _OF_INTERVALS
    else:
        time = time_of(compiler, node.expressions[0], kind(node))
        moment, known = _local(compiler, time), FIELDS
    wrong = parts is None or any(each.field and each.field.upper() not in known for each in parts)
    if parts is None or wrong:
        raise compiler.sql.error(
            f"{template.constant!r} is not a template for {kind(node)}",
            template.node,
            f"its fields are {', '.join(known)}; write other letters in double quotes",
        )
    made = pl.concat_str([pl.lit(""), *(_write_part(moment, each, days) for each in parts)])
    return Typed(pl.when(moment.is_not_null()).then(made), types.TEXT, node)


def _local(compiler: Compiler, time: Typed) -> pl.Expr:
    return compiler.cast(time, types.TIMESTAMP).expr


def _write_part(moment: pl.Expr, part: Part, days: pl.Expr | None) -> pl.Expr:
    field = part.field.upper()
    if not field:
        return pl.lit(part.text)
    if field in _NAMES:
        return _in_case(moment.dt.strftime(_NAMES[field]), part, field)
    if field in ("AM", "PM", "A.M.", "P.M."):
        words = ("AM", "PM") if len(field) == 2 else ("A.M.", "P.M.")
        half = pl.when(moment.dt.hour() < 12).then(pl.lit(words[0])).otherwise(pl.lit(words[1]))
        return half.str.to_lowercase() if part.field.islower() else half
    if field in ("BC", "AD"):
        era = pl.when(moment.dt.year() < 1).then(pl.lit("BC")).otherwise(pl.lit("AD"))
        return era.str.to_lowercase() if part.field.islower() else era
    if field in _UTC:
        return pl.lit(_UTC[field].lower() if part.field.islower() else _UTC[field])
    compute, width = _NUMBERS[field]
    number = days if days is not None and field == "DD" else compute(moment)
    text = number.cast(types.TEXT)
    text = text.str.zfill(width) if part.fills else text
    if not part.ordinal:
        return text
    end = _ordinal(number)
    return text + (end.str.to_uppercase() if part.ordinal.isupper() else end)


def _in_case(name: pl.Expr, part: Part, field: str) -> pl.Expr:
    """Return a name in the case of its field, which is as wide as the longest name."""
    if part.field.isupper():
        name = name.str.to_uppercase()
    elif part.field.islower():
        name = name.str.to_lowercase()
    wide = part.fills and field in ("MONTH", "DAY")
    return name.str.pad_end(_LONGEST_NAME) if wide else name


def _ordinal(number: pl.Expr) -> pl.Expr:
    last, teen = number % 10, (number % 100).is_between(11, 13)
    return (
        pl.when((last == 1) & ~teen)
        .then(pl.lit("st"))
        .when((last == 2) & ~teen)
        .then(pl.lit("nd"))
        .when((last == 3) & ~teen)
        .then(pl.lit("rd"))
        .otherwise(pl.lit("th"))
    )


def _number_format(
    compiler: Compiler, node: exp.Expr, template: Typed
) -> postgres_formats.NumberTemplate:
    form = postgres_formats.number_format(template.constant)
    if form is None:
        raise compiler.sql.error(
            f"{template.constant!r} is not a template for {kind(node)}",
            template.node,
            "write 'FM9,999.00': digits, one point, groups, and S, MI or PR for the sign",
        )
    return form


def _number_to_char(compiler: Compiler, node: exp.Expr, value: Typed, template: Typed) -> Typed:
    form = _number_format(compiler, node, template)
    floating = types.is_floating(value.type)
    of = pl.Decimal(types.MOST_DIGITS, 15) if floating else types.as_decimal(value.type)
    write = partial(postgres_formats.number_text, form=form)
    return Typed(of_values(write, [compiler.cast(value, of).expr], types.TEXT), types.TEXT, node)


@computes_named("pg.to_number")
def to_number(compiler: Compiler, node: exp.Anonymous) -> Typed:
    text, template = compiler.given(node, [TEXT, CONSTANT_TEXT])
    form = _number_format(compiler, node, template)
    to = pl.Decimal(types.MOST_DIGITS, len(form.fraction))
    read = partial(postgres_formats.number_of_text, form=form)
    return Typed(of_values(read, [text.expr], to), to, node)


@computes_named("pg.to_date", "pg.to_timestamp")
def time_of_text(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile TO_DATE(text, template), TO_TIMESTAMP(text, template) and TO_TIMESTAMP(seconds)."""
    _, *template = compiler.given(node, [ANY, optional(CONSTANT_TEXT)])
    name = node.name.removeprefix("pg.")
    given = list(node.expressions)
    if not template and name == "to_timestamp":
        compiler.given(node, [NUMBER])
        name = "timestamp_seconds"
    elif template:
        java = postgres_formats.java_format(template[0].constant)
        if java is None:
            raise compiler.sql.error(
                f"{template[0].constant!r} is not a template for {kind(node)}",
                template[0].node,
                "write 'YYYY-MM-DD HH24:MI:SS', and other letters in double quotes",
            )
        literal = exp.Literal.string(java)
        literal.meta.update(given[1].meta)
        given[1] = literal
    made = exp.Anonymous(this=name, expressions=given)
    made.meta.update(node.meta)
    return compiler.compile(made)
