"""Text forms of PostgreSQL's types, for single values: bytes, arrays, intervals and others."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import polars as pl

Elements = list[Any]
"""Elements of an array: strings, None and lists."""

# --- bytes --------------------------------------------------------------------------------------------

_OCTAL = re.compile(rb"\\(?:([0-3][0-7]{2})|(\\))")


def bytes_of(text: str) -> bytes | None:
    r"""Parse `\x1f`, or characters with escapes such as `\000`; None if it is neither."""
    if text.startswith("\\x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            return None
    return _OCTAL.sub(lambda found: bytes([int(found[1], 8)]) if found[1] else b"\\", text.encode())


def hex_text(data: bytes) -> str:
    return f"\\x{data.hex()}"


def escaped_text(data: bytes) -> str:
    r"""Return bytes as ENCODE(..., 'escape') does: other than ASCII ones are octal."""
    return "".join(
        "\\\\" if byte == 92 else chr(byte) if 0 < byte < 128 else f"\\{byte:03o}" for byte in data
    )


# --- arrays -------------------------------------------------------------------------------------------

_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^{},"]*?))\s*(?=[,}])', re.DOTALL)


def elements_of(text: str) -> Elements | None:
    """Parse `{1,NULL,"a b",{2}}`; None if it is malformed."""
    text = text.strip()
    open_lists: list[Elements] = []
    at, expects = 0, True
    while at < len(text):
        char = text[at]
        if char == "{" and expects:
            open_lists.append([])
            at += 1
        elif char == "}" and open_lists and not (expects and open_lists[-1]):
            done = open_lists.pop()
            at, expects = at + 1, False
            if not open_lists:
                return done if at == len(text) else None
            open_lists[-1].append(done)
        elif char == "," and not expects:
            at, expects = at + 1, True
        elif char.isspace():
            at += 1
        elif expects and open_lists and (found := _ELEMENT.match(text, at)):
            quoted, plain = found.groups()
            if quoted is None and not plain:
                return None
            null = quoted is None and plain.upper() == "NULL"
            value = re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else plain
            open_lists[-1].append(None if null else value)
            at, expects = found.end(), False
        else:
            return None
    return None


def levels_of(kind: Any) -> int:
    """Return how many levels of lists a type has."""
    return 1 + levels_of(kind.inner) if isinstance(kind, pl.List) else 0


def lists_of_texts(columns: Sequence[pl.Series], *, levels: int) -> pl.Series:
    """Parse arrays of strings; null for malformed ones and those of other levels. A row function."""
    [texts] = columns
    kind: pl.DataType = pl.String()
    for _ in range(levels):
        kind = pl.List(kind)
    parsed = [None if each is None else elements_of(each) for each in texts]
    fitting = [each if each is None or _has_levels(each, levels) else None for each in parsed]
    return pl.Series(texts.name, fitting, dtype=kind)


def _has_levels(value: Any, levels: int) -> bool:
    if not isinstance(value, list):
        return levels == 0 or value is None
    return levels > 0 and all(_has_levels(each, levels - 1) for each in value)


_PLAIN_ELEMENT = re.compile(r'[^\s{}",\\]+')


def texts_of_lists(columns: Sequence[pl.Series]) -> pl.Series:
    """Return arrays of strings as `{a,"b c",NULL}`. A row function."""
    [lists] = columns
    texts = [None if each is None else _array_text(each) for each in lists.to_list()]
    return pl.Series(lists.name, texts, dtype=pl.String())


def _array_text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case list():
            return "{" + ",".join(map(_array_text, value)) + "}"
    if _PLAIN_ELEMENT.fullmatch(value) and value.upper() != "NULL":
        return str(value)
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


# --- intervals ----------------------------------------------------------------------------------------

_UNITS_US = {
    **dict.fromkeys(("us", "usec", "microsecond"), 1),
    **dict.fromkeys(("ms", "msec", "millisecond"), 1_000),
    **dict.fromkeys(("s", "sec", "second"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute"), 60_000_000),
    **dict.fromkeys(("h", "hr", "hour"), 3_600_000_000),
    **dict.fromkeys(("d", "day"), 86_400_000_000),
    **dict.fromkeys(("w", "week"), 604_800_000_000),
}
_LONGEST_US = timedelta(days=999_999_999) // timedelta(microseconds=1)
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-z]+)\s*,?\s*")
_CLOCK = re.compile(r"\s*([+-]?)(\d{1,9}):(\d{1,2})(?::(\d{1,2}(?:\.\d*)?))?\s*")
_ISO = re.compile(
    r"P(?:(-?\d+(?:\.\d*)?)W)?(?:(-?\d+(?:\.\d*)?)D)?"
    r"(?:T(?:(-?\d+(?:\.\d*)?)H)?(?:(-?\d+(?:\.\d*)?)M)?(?:(-?\d+(?:\.\d*)?)S)?)?"
)


def interval_of(text: str) -> timedelta | None:
    """Parse `1 day 02:30:00`, `2 hours ago` or `P1DT2H`; None for others, and for months and years."""
    iso = _ISO.fullmatch(text.strip())
    if iso and any(iso.groups()):
        units = ("w", "d", "h", "m", "s")
        parts = [(each, unit) for each, unit in zip(iso.groups(), units, strict=True) if each]
        return _length([(Decimal(number), unit) for number, unit in parts])
    words = text.strip().lower()
    before, is_ago = words.removesuffix("ago"), words.endswith("ago")
    found: list[tuple[Decimal, str]] = []
    at = 0
    while at < len(before):
        if clock := _CLOCK.match(before, at):
            sign = -1 if clock[1] == "-" else 1
            amounts = (clock[2], clock[3], clock[4] or "0")
            found += [(sign * Decimal(n), u) for n, u in zip(amounts, "hms", strict=True)]
            at = clock.end()
        elif part := _QUANTITY.match(before, at):
            found.append((Decimal(part[1]), part[2]))
            at = part.end()
        else:
            return None
    length = _length(found) if found else None
    return -length if is_ago and length is not None else length


def _length(parts: list[tuple[Decimal, str]]) -> timedelta | None:
    micros = Decimal(0)
    for number, unit in parts:
        length = _UNITS_US.get(unit) or _UNITS_US.get(unit.removesuffix("s"))
        if length is None:
            return None
        micros += number * length
    whole = int(micros)
    return timedelta(microseconds=whole) if abs(whole) <= _LONGEST_US else None


def interval_text(length: timedelta) -> str:
    """Return `1 day 02:30:00`."""
    return calendar_interval_text(0, length // timedelta(microseconds=1))


def calendar_interval_text(months: int, micros: int) -> str:
    """Return `1 year 2 mons 3 days 02:30:00`. Positive parts after negative ones have a sign."""
    year, month = (_signed(part, months) for part in divmod(abs(months), 12))
    days, rest = (_signed(part, micros) for part in divmod(abs(micros), 86_400_000_000))
    parts: list[str] = []
    for number, unit in ((year, "year"), (month, "mon"), (days, "day")):
        if number:
            plus = "+" if number > 0 and parts and parts[-1].startswith("-") else ""
            parts.append(f"{plus}{number} {unit}{'' if number == 1 else 's'}")
    if rest or not parts:
        seconds, fraction = divmod(abs(rest), 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        clock += f".{fraction:06}".rstrip("0") if fraction else ""
        plus = "+" if parts and parts[-1].startswith("-") else ""
        parts.append(f"-{clock}" if rest < 0 else f"{plus}{clock}")
    return " ".join(parts)


def _signed(number: int, like: int) -> int:
    return -number if like < 0 else number


# --- floats and booleans ------------------------------------------------------------------------------


def real_text(shortest: str, *, digits: int) -> str:
    """Return a float, as its shortest decimal number, in PostgreSQL's form: with an exponent from this
    number of digits on, and below 0.0001."""
    if shortest in ("NaN", "nan"):
        return "NaN"
    if shortest.endswith("inf"):
        return shortest.replace("inf", "Infinity")
    number = Decimal(shortest)
    if not number:
        return "-0" if number.is_signed() else "0"
    number = number.normalize()
    exponent = number.adjusted()
    if -5 < exponent < digits:
        return f"{number:f}"
    sign, figures, _ = number.as_tuple()
    text = "".join(map(str, figures))
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{'-' if sign else ''}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def boolean_of(text: str) -> bool | None:
    """Parse `yes`, `off`, `t`, `1` and the beginnings of such words; None for others."""
    word = text.strip().lower()
    if not word:
        return None
    if word == "on" or any(name.startswith(word) for name in ("true", "yes", "1")):
        return True
    if word in ("of", "off") or any(name.startswith(word) for name in ("false", "no", "0")):
        return False
    return None


def whole_of(value: float) -> float | None:
    """Round to a whole number, halves to the even one; None if it is not finite."""
    return float(round(value)) if math.isfinite(value) else None
