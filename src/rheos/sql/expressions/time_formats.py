"""Times as strings and strings as times, by formats of letters as Java has them: `yyyy-MM-dd HH:mm`."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

import polars as pl
from sqlglot import exp

from rheos.sql import types
from rheos.sql.expressions.calendars import LENGTHS_US
from rheos.sql.expressions.string_formats import bytes_to_char, number_to_char
from rheos.sql.expressions.table import (
    ANY,
    CONSTANT_TEXT,
    TEXT,
    WHOLE,
    Compiler,
    Typed,
    computes_named,
    optional,
)
from rheos.sql.expressions.times import not_repeatable, time_of
from rheos.sql.text import kind
from rheos.sql.value_functions import over_times

_DEFAULT = "yyyy-MM-dd HH:mm:ss"

# --- written ------------------------------------------------------------------------------------------


def _padded(number: pl.Expr, width: int | pl.Expr) -> pl.Expr:
    return number.cast(types.TEXT).str.zfill(width)


def _year(moment: pl.Expr, letters: int) -> pl.Expr:
    year = moment.dt.year()
    if letters == 2:
        return _padded(year.abs() % 100, 2)
    # A year of more than four digits has a sign if the format has four letters.
    sign = pl.when((year > 9999) & (letters > 3)).then(pl.lit("+")).otherwise(pl.lit(""))
    return sign + _padded(year, letters + (year < 0).cast(types.INT))


def _month(moment: pl.Expr, letters: int) -> pl.Expr:
    if letters < 3:
        return _padded(moment.dt.month(), letters)
    return moment.dt.strftime("%b" if letters == 3 else "%B")


def _quarter(moment: pl.Expr, letters: int) -> pl.Expr:
    number = moment.dt.quarter()
    if letters < 3:
        return _padded(number, letters)
    if letters == 3:
        return pl.lit("Q") + number.cast(types.TEXT)
    ends = pl.when(number == 1).then(pl.lit("st")).when(number == 2).then(pl.lit("nd"))
    return (
        number.cast(types.TEXT)
        + ends.when(number == 3).then(pl.lit("rd")).otherwise(pl.lit("th"))
        + pl.lit(" quarter")
    )


def _fraction(moment: pl.Expr, letters: int) -> pl.Expr:
    return (_padded(moment.dt.microsecond(), 6) + pl.lit("000")).str.head(letters)


def _hour(first: int, hours: int) -> _Letters:
    """Return how hours are written that count from `first`, up to 12 or 24 of them."""
    return lambda t, n: _padded((t.dt.hour().cast(types.INT) - first) % hours + first, n)


def _constant(*texts: str) -> _Letters:
    """Return how a constant string is written, by the number of letters."""
    return lambda t, n: pl.lit(texts[min(n, len(texts)) - 1])


def _era(moment: pl.Expr, letters: int) -> pl.Expr:
    before, after = ("BC", "AD") if letters < 4 else ("Before Christ", "Anno Domini")
    return pl.when(moment.dt.year() < 1).then(pl.lit(before)).otherwise(pl.lit(after))


_Letters: TypeAlias = Callable[[pl.Expr, int], pl.Expr]
_LETTERS: dict[str, tuple[_Letters, int]] = {
    "G": (_era, 4),
    "y": (_year, 6),
    **dict.fromkeys(("Q", "q"), (_quarter, 4)),
    **dict.fromkeys(("M", "L"), (_month, 4)),
    "d": (lambda t, n: _padded(t.dt.day(), n), 2),
    "D": (lambda t, n: _padded(t.dt.ordinal_day(), n), 3),
    "F": (lambda t, n: ((t.dt.day() - 1) % 7 + 1).cast(types.TEXT), 1),
    "H": (_hour(0, 24), 2),
    "k": (_hour(1, 24), 2),
    "K": (_hour(0, 12), 2),
    "h": (_hour(1, 12), 2),
    "m": (lambda t, n: _padded(t.dt.minute(), n), 2),
    "s": (lambda t, n: _padded(t.dt.second(), n), 2),
    "S": (_fraction, 9),
    "E": (lambda t, n: t.dt.strftime("%a" if n < 4 else "%A"), 4),
    "a": (lambda t, n: pl.when(t.dt.hour() < 12).then(pl.lit("AM")).otherwise(pl.lit("PM")), 1),
    "V": (_constant("", "UTC"), 2),
    "z": (_constant("UTC", "UTC", "UTC", "Coordinated Universal Time"), 4),
    "O": (_constant("GMT"), 4),
    "X": (_constant("Z"), 5),
    "x": (_constant("+00", "+0000", "+00:00", "+0000", "+00:00"), 5),
    "Z": (_constant("+0000", "+0000", "+0000", "GMT", "Z"), 5),
}
"""How each letter of a format is written in UTC, and how many times the letter may be repeated."""
_PARTS_OF_FORMAT = re.compile(
    r"'(?P<quoted>(?:[^']|'')*)'|(?P<letter>[A-Za-z])(?P=letter)*|(?P<other>[^A-Za-z'])"
)


def _parts(
    compiler: Compiler, written: exp.Expr, pattern: str, letters: dict[str, int]
) -> list[tuple[str, int]]:
    """Return the parts of a format: a letter and its count, or a literal text and 0. Raise ProgramError
    if a part is not valid.
    """
    parts, at = [], 0
    for found in _PARTS_OF_FORMAT.finditer(pattern):
        letter, count = found["letter"], len(found[0])
        text = (found["quoted"].replace("''", "'") or "'") if found["quoted"] is not None else found[0]
        valid = count <= letters.get(letter, 0) if letter else text not in tuple("[]{}#")
        if not valid or found.start() != at:
            break
        parts.append((letter, count) if letter else (text, 0))
        at = found.end()
    if at != len(pattern):
        raise compiler.sql.error(
            f"{pattern[at : at + 8]!r} is not valid in a date format",
            written,
            f"a format consists of {', '.join(letters)}, of 'text' in quotes, and of other characters",
        )
    return parts


_UNITS_US = {
    **dict.fromkeys("GyQqMLdDFEVzOXxZ", LENGTHS_US["DAY"]),
    **dict.fromkeys("HkKha", LENGTHS_US["HOUR"]),
    "m": LENGTHS_US["MINUTE"],
    "s": LENGTHS_US["SECOND"],
}
"""Length of time in which a letter is written in the same way, in microseconds."""


def format_moment(compiler: Compiler, node: exp.Expr, moment: pl.Expr, format_: Typed) -> Typed:
    """Return times as strings of a constant format. Raise ProgramError if the format is not valid."""
    pattern = str(format_.constant)
    most = {letter: most for letter, (_, most) in _LETTERS.items()}
    parts = _parts(compiler, format_.node, pattern, most)

    def written(of: pl.Expr) -> pl.Expr:
        made = [_LETTERS[text][0](of, count) if count else pl.lit(text) for text, count in parts]
        return pl.when(of.is_not_null()).then(pl.concat_str([pl.lit(""), *made]))

    letters = [letter for letter, count in parts if count]
    if not letters or not _UNITS_US.keys() >= {*letters}:
        return Typed(written(moment), types.TEXT, node)
    unit_us = min(_UNITS_US[letter] for letter in letters)
    return Typed(over_times(written, moment, unit_us, types.TEXT), types.TEXT, node)


@computes_named("date_format", "to_char", "to_varchar")
def date_format(compiler: Compiler, node: exp.Anonymous) -> Typed:
    value, format_ = compiler.given(node, [ANY, CONSTANT_TEXT])
    if node.name.casefold() != "date_format":
        if types.is_number(types.signed(value.type)):
            return number_to_char(compiler, node, value, format_)
        if value.type == pl.Binary():
            return bytes_to_char(compiler, node, value, format_)
    moment = compiler.cast(time_of(compiler, node.expressions[0], kind(node)), types.TIMESTAMP)
    return format_moment(compiler, node, moment.expr, format_)


@computes_named("from_unixtime")
def from_unixtime(compiler: Compiler, node: exp.Anonymous) -> Typed:
    seconds, *format_ = compiler.given(node, [WHOLE, optional(CONSTANT_TEXT)])
    moment = compiler.cast(seconds, types.TIMESTAMP).expr
    chosen = format_[0] if format_ else Typed(pl.lit(""), types.TEXT, node, _DEFAULT)
    return format_moment(compiler, node, types.dated(moment, types.TIMESTAMP), chosen)


# --- read ---------------------------------------------------------------------------------------------


def _names(names: Iterable[str]) -> str:
    return "(?i:" + "|".join(name for name in names if name) + ")"


_NUMBER_PATTERNS = ("0{0,17}[0-9]{1,2}", "[0-9]{2}")
"""Numbers of one letter, before which Java accepts zeros, and of two letters."""
_MONTH_PATTERNS = (
    *_NUMBER_PATTERNS,
    *(_names(calendar.month_abbr), _names(calendar.month_name)),
)
_OFFSETS = (
    *("[+-][0-9]{2}(?:[0-9]{2})?", "[+-][0-9]{4}", "[+-][0-9]{2}:[0-9]{2}"),
    *("[+-][0-9]{4}(?:[0-9]{2})?", "[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?"),
)


def _read_year(letters: int) -> str:
    """Return the pattern of a year. With four letters or more, longer ones have a sign."""
    if letters < 4:
        return "[0-9]{2}" if letters == 2 else "-?[0-9]{1,6}"
    return f"[0-9]{{{letters}}}|-[0-9]{{{letters},6}}|[+][0-9]{{{letters + 1},6}}"


_READ: dict[str, tuple[Callable[[int], str], int]] = {
    "y": (_read_year, 6),
    **dict.fromkeys(("M", "L"), (lambda n: _MONTH_PATTERNS[n - 1], 4)),
    **dict.fromkeys(("d", "H", "h", "m", "s"), (lambda n: _NUMBER_PATTERNS[n - 1], 2)),
    "S": (lambda n: f"[0-9]{{{n}}}", 9),
    "a": (lambda n: "(?i:AM|PM)", 1),
    "E": (lambda n: _names(calendar.day_abbr if n < 4 else calendar.day_name), 4),
    "X": (lambda n: f"[Zz]|{_OFFSETS[n - 1]}", 5),
    "x": (lambda n: _OFFSETS[n - 1], 5),
    "Z": (lambda n: _OFFSETS[1], 3),
    "V": (lambda n: r"[A-Za-z][A-Za-z0-9/_+:-]*|" + _OFFSETS[4], 2),
    "z": (lambda n: r"[A-Za-z][A-Za-z/_]*", 3),
}  # fmt: skip
"""The pattern that each letter of a format matches, and how many times the letter may be repeated."""
_MONTH_NUMBERS = {
    name.upper(): str(number)
    for names in (calendar.month_abbr, calendar.month_name)
    for number, name in enumerate(names)
    if name
}
_ABSENT = {"y": "1970", "M": "1", "d": "1", "H": "0", "m": "0", "s": "0"}


def parse_time(compiler: Compiler, text: pl.Expr, format_: Typed, to: pl.DataType) -> pl.Expr:
    """Return strings of a constant format as times; null for others. Raise ProgramError if the format
    is not valid.
    """
    pattern, counts = "^", {}
    most = {letter: most for letter, (_, most) in _READ.items()}
    for part, count in _parts(compiler, format_.node, str(format_.constant), most):
        letter = "M" if part == "L" else part
        if not count:
            pattern += re.escape(part).replace("\\\n", "\\n")
        elif letter in counts:
            raise compiler.sql.error(f"the format names {part} twice", format_.node, "name it once")
        else:
            counts[letter] = count
            pattern += f"(?P<{letter}>{_READ[part][0](count)})"
    groups = text.str.extract_groups(f"{pattern}$")
    found = {letter: groups.struct.field(letter) for letter in counts}
    for letter in "MdHhms":
        if counts.get(letter) == 1:
            found[letter] = found[letter].str.strip_chars_start("0").str.zfill(2)
    if counts.get("y") == 2:
        found["y"] = pl.lit("20") + found["y"]
    elif "y" in found:
        found["y"] = found["y"].str.zfill(4)
    if counts.get("M", 0) > 2:
        found["M"] = found["M"].str.to_uppercase().replace(_MONTH_NUMBERS)
    if "h" in found:
        hour = found["h"].cast(types.INT)
        half = (found["a"].str.to_uppercase() == "PM") if "a" in found else pl.lit(False)
        found["H"] = (pl.when(hour.is_between(1, 12)).then(hour % 12) + half * 12).cast(types.TEXT)
    if "X" in found:
        found["X"] = found["X"].str.to_uppercase()
    year, month, day, hour, minute, second = (
        found.get(letter, pl.lit(text)) for letter, text in _ABSENT.items()
    )
    parts = [year, "-", month, "-", day, " ", hour, ":", minute, ":", second]
    parts += [".", found["S"]] if "S" in found else []
    parts += (
        [" ", found[next(each for each in "XxZVz" if each in found)]] if {*"XxZVz"} & {*found} else []
    )
    made = pl.concat_str([pl.lit(each) if isinstance(each, str) else each for each in parts])
    matches = text.str.contains(f"{pattern}$")
    # A DATE, too, as the string may contain a time that does not exist.
    time = types.TIMESTAMP if to == types.DATE else to
    read = types.cast(pl.when(matches).then(made), types.TEXT, time)
    assert read is not None
    result = read if time == to else types.cast(read, time, to)
    assert result is not None
    return result


_TARGETS = {
    **dict.fromkeys(("to_date", "try_to_date"), types.DATE),
    **dict.fromkeys(("to_timestamp", "try_to_timestamp", "to_timestamp_ltz"), types.TIMESTAMP),
    "to_timestamp_ntz": pl.Datetime("us"),
}


@computes_named(*_TARGETS)
def time_of_text(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile TO_DATE and TO_TIMESTAMP, with a format or in the forms of CAST."""
    to = _TARGETS[node.name.casefold()]
    value, *format_ = compiler.given(node, [ANY, optional(ANY)])
    if format_ and types.is_number(value.type) and node.name.casefold() == "to_timestamp_ltz":
        return _since_precision(compiler, node, value, format_[0])
    if not format_ or value.type not in (types.TEXT, types.NULL):
        if types.is_timestamp(to) or to == types.DATE:
            value = compiler.cast_text(value, to)
        return Typed(compiler.cast(value, to).expr, to, node)
    text, constant = compiler.given(node, [TEXT, CONSTANT_TEXT])
    return Typed(parse_time(compiler, text.expr, constant, to), to, node)


@computes_named("flink.to_timestamp_ltz")
def time_of_milliseconds(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile Flink's TO_TIMESTAMP_LTZ(value): the milliseconds since 1970, or a string."""
    [value] = compiler.given(node, [ANY])
    if not types.is_number(value.type):
        return compiler.cast(compiler.cast_text(value, types.TIMESTAMP), types.TIMESTAMP)
    return _since_epoch(compiler, node, value, 1)


def _since_precision(compiler: Compiler, node: exp.Expr, value: Typed, precision: Typed) -> Typed:
    """Compile Flink's TO_TIMESTAMP_LTZ(number, precision): seconds since 1970, or milliseconds."""
    unit = {0: 1_000, 3: 1}.get(precision.constant)
    if unit is None:
        raise compiler.sql.error(
            "TO_TIMESTAMP_LTZ takes the precision 0 for seconds or 3 for milliseconds",
            precision.node,
            "write TO_TIMESTAMP_LTZ(ms, 3)",
        )
    return _since_epoch(compiler, node, value, unit)


def _since_epoch(compiler: Compiler, node: exp.Expr, value: Typed, unit: int) -> Typed:
    """Return the time a number of units of milliseconds after the beginning of 1970."""
    exact = types.BIGINT if types.is_integer(value.type) else types.DOUBLE
    millis = (compiler.cast(value, exact).expr * unit).cast(types.BIGINT, strict=False)
    return Typed(types.moment(millis * 1_000), types.TIMESTAMP, node)


@computes_named("unix_timestamp", "to_unix_timestamp")
def unix_timestamp(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile UNIX_TIMESTAMP(time[, format]): the seconds since 1970."""
    if not node.expressions:
        raise not_repeatable(compiler, node)
    value, *format_ = compiler.given(node, [ANY, optional(CONSTANT_TEXT)])
    if value.type == types.TEXT:
        chosen = format_[0] if format_ else Typed(pl.lit(""), types.TEXT, node, _DEFAULT)
        moment = parse_time(compiler, value.expr, chosen, types.TIMESTAMP)
    else:
        of = time_of(compiler, node.expressions[0], kind(node))
        moment = compiler.cast(of, types.TIMESTAMP).expr
    # Spark drops the fraction here, also before 1970.
    micros = moment.dt.epoch("us")
    return Typed(micros.sign() * (micros.abs() // 1_000_000), types.BIGINT, node)
