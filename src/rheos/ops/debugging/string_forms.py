"""Forms of strings that pseudonyms keep: dates, times, UUIDs, keys in hex, addresses, payment cards,
telephone numbers, zero-padded numbers, and JSON of these. Pure.

A form lists, for each position, the characters that may replace the one there. The choices do not
depend on each other: every combination has the form again. Only the last digit of a payment card is
computed from its other digits. A string may contain several forms: `orders/2024-05-17/a@b.com`.
"""

from __future__ import annotations

import ipaddress
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import TypeAlias

from rheos.ops.debugging.json_values import json_values


@dataclass(frozen=True)
class CheckDigit:
    """The last digit of a payment card, which the other digits determine."""

    start: int
    """Position of the card's first digit in the string."""

    def after(self, replaced: str) -> str:
        """Return the digit that makes the card valid.

        Args:
            replaced: The string up to the check digit, with its new characters.
        """
        return str(-_luhn_sum(replaced[self.start :] + "0") % 10)


Choice: TypeAlias = str | CheckDigit
"""Characters that may replace one, in ascending order. The character itself is among them."""

_DIGITS = string.digits
_NOT_ZERO = string.digits[1:]
_BLOCK = 64
"""Characters beyond ASCII are replaced by letters of the same block of this size."""
_BEFORE, _AFTER = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_CODE = r"(?:1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|\d{3})"
"""Country code of a telephone number. Codes that are not listed have three digits."""


def choices(text: str) -> list[Choice]:
    """Return what may replace each character of a string.

    Outside of forms, letters stay letters, in their case, and digits stay digits. A number in the
    string keeps its leading zeros, and its first other digit does not become zero. Of JSON, only the
    values are replaced.
    """
    if (places := json_values(text)) is None:
        return _choices(text, 0)
    found: list[Choice] = [*text]
    for place in places:
        found[place.start : place.stop] = _choices(text[place.start : place.stop], place.start)
    return found


def _choices(text: str, start: int) -> list[Choice]:
    """Return the choices of a string that begins at this position of a longer one."""
    found: list[Choice] = []
    for at, char in enumerate(text):
        begins = char in _DIGITS and (at == 0 or text[at - 1] not in _DIGITS or found[-1] == "0")
        found.append(_first_digit(char) if begins else _class_of(char))
    free = set(range(len(text)))
    for pattern, choices_of in _FORMS:
        for match in pattern.finditer(text):
            span = range(*match.span())
            if free.issuperset(span) and (own := choices_of(match)) is not None:
                assert len(own) == len(span), f"a form of {len(span)} characters has {len(own)} choices"
                found[match.start() : match.end()] = own
                free.difference_update(span)
    return [CheckDigit(each.start + start) if isinstance(each, CheckDigit) else each for each in found]


def _first_digit(digit: str) -> str:
    return "0" if digit == "0" else _NOT_ZERO


def _class_of(char: str) -> str:
    """Return the characters of the same class; the character alone if it is no letter and no digit."""
    for each in (string.digits, string.ascii_uppercase, string.ascii_lowercase):
        if char in each:
            return each
    if not char.isalpha():
        return char
    first = ord(char) // _BLOCK * _BLOCK
    return "".join(filter(str.isalpha, map(chr, range(first, first + _BLOCK))))


# --- dates and times ----------------------------------------------------------------------------------


def _date(match: re.Match[str]) -> Sequence[Choice] | None:
    """Return the choices of a date. The century stays. Dates after a 28th stay."""
    year, dash, month, day = match.group("year", "dash", "month", "day")
    if not _is_valid(date.fromisoformat, year + dash + month + dash + day):
        return None
    if not dash and year[:2] not in ("19", "20"):
        return None  # Rather a number of eight digits.
    if day > "28":
        return [*match.group()]
    months = (month[0], _NOT_ZERO if month[0] == "0" else "012")
    match day[1]:
        case "0":
            days = ("12", "012345678")
        case "9":
            days = ("01", _NOT_ZERO)
        case _:
            days = ("012", "12345678")
    return [year[0], year[1], _DIGITS, _DIGITS, *dash, *months, *dash, *days]


def _time(match: re.Match[str]) -> Sequence[Choice] | None:
    """Return the choices of a time of day. Its distance from UTC stays."""
    hour, colon, second = match.group("hour", "colon", "second")
    if not _is_valid(time.fromisoformat, match.group()):
        return None
    sixty = ("012345", _DIGITS)
    found = [*(("012", "0123") if hour[1] <= "3" else ("01", "456789")), *colon, *sixty]
    if second is not None:
        found += [*colon, *sixty]
    if (fraction := match["fraction"]) is not None:
        found += [fraction[0], *(_DIGITS for _ in fraction[1:])]
    return [*found, *(match["offset"] or "")]


def _is_valid(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


# --- keys and addresses -------------------------------------------------------------------------------


def _hex(match: re.Match[str]) -> Sequence[Choice]:
    """Return the choices of digits in hex. Letters may become digits: otherwise the places of the
    digits would identify the key."""
    return _in_hex(match.group())


def _in_hex(text: str) -> list[Choice]:
    lower, upper = _DIGITS + "abcdef", _DIGITS + "ABCDEF"
    of_digits = upper if re.search("[A-F]", text) and not re.search("[a-f]", text) else lower
    return [
        of_digits if char in _DIGITS else lower if char in lower else upper if char in upper else char
        for char in text
    ]


def _uuid(match: re.Match[str]) -> Sequence[Choice]:
    """Return the choices of a UUID. Its version and its variant stay."""
    text = match.group()
    return [text[at] if at in (14, 19) else choice for at, choice in enumerate(_in_hex(text))]


def _ipv4(match: re.Match[str]) -> Sequence[Choice] | None:
    parts = match["address"].split(".")
    if any(int(part) > 255 for part in parts):
        return None
    return [*_dotted(parts), *match["prefix"]]


def _dotted(parts: Sequence[str]) -> list[Choice]:
    found = [choice for part in parts for choice in (".", *_octet(part))]
    return found[1:]


def _octet(digits: str) -> Sequence[Choice]:
    if len(digits) < 3 or digits[0] == "0":
        stripped = digits.lstrip("0")
        zeros = digits[: len(digits) - len(stripped)]
        return [*zeros, *(_NOT_ZERO if at == 0 else _DIGITS for at in range(len(stripped)))]
    if digits[1] <= "4":
        return ["12", "01234", _DIGITS]
    if digits[1] == "5" and digits[2] <= "5":
        return ["12", "012345", "012345"]
    return ["1", _DIGITS, _DIGITS]


def _ipv6(match: re.Match[str]) -> Sequence[Choice] | None:
    address, prefix = match.group("address", "prefix")
    if not _is_valid(ipaddress.IPv6Address, address):
        return None
    groups, colon, last = address.rpartition(":")
    tail = _dotted(last.split(".")) if "." in last else _in_hex(last)
    return [*_in_hex(groups + colon), *tail, *prefix]


def _email(match: re.Match[str]) -> Sequence[Choice]:
    """Return the choices of an e-mail address. The top-level domain stays."""
    rest, last = match.group("rest", "last")
    return [*map(_class_of, rest), *last]


# --- cards and telephones -----------------------------------------------------------------------------


def _card(match: re.Match[str]) -> Sequence[Choice] | None:
    """Return the choices of a card's number. The first digit, which names the network, stays."""
    text = match.group()
    if _luhn_sum(text) % 10:
        return None
    return [text[0], *map(_class_of, text[1:-1]), CheckDigit(match.start())]


def _luhn_sum(text: str) -> int:
    digits = [int(char) for char in text if char in _DIGITS]
    doubled = (2 * digit - 9 * (digit > 4) for digit in digits[-2::-2])
    return sum(digits[-1::-2]) + sum(doubled)


def _telephone(match: re.Match[str]) -> Sequence[Choice]:
    """Return the choices of a telephone number. Its country code stays."""
    code, number = match.group("code", "number")
    first = next(at for at, char in enumerate(number) if char in _DIGITS)
    return [
        *code,
        *(_first_digit(char) if at == first else _class_of(char) for at, char in enumerate(number)),
    ]


_HEX_LENGTHS = (128, 64, 40, 32, 24, 16)
"""Lengths of keys and digests in hex, in characters. Shorter strings may be words."""
_KEY = "|".join(f"[0-9a-f]{{{n}}}|[0-9A-F]{{{n}}}" for n in _HEX_LENGTHS)
_TIME = (
    r"(?P<hour>\d\d)(?P<colon>:?)\d\d(?:(?P=colon)(?P<second>\d\d)(?P<fraction>[.,]\d{1,9})?)?"
    r"(?P<offset>Z|[+-]\d\d:?\d\d)?"
)
_FORMS: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], Sequence[Choice] | None]]] = [
    (re.compile(pattern, re.ASCII), choices_of)
    for pattern, choices_of in (
        (rf"(?i:{_BEFORE}[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_AFTER})", _uuid),
        (rf"(?i:{_BEFORE}[0-9a-f]{{2}}(?:([:-])[0-9a-f]{{2}})(?:\1[0-9a-f]{{2}}){{4}}{_AFTER})", _hex),
        (rf"{_BEFORE}(?=[0-9]*[A-Fa-f])(?=[A-Fa-f]*[0-9])(?:{_KEY}){_AFTER}", _hex),
        (
            r"(?i:(?<![0-9a-z:.])(?P<address>[0-9a-f]*:[0-9a-f]*:[0-9a-f:]*(?:(?<=:)[0-9.]+)?)"
            r"(?P<prefix>(?:/\d{1,3})?)(?![0-9a-z:.]))",
            _ipv6,
        ),
        (
            r"(?<![\w.])(?P<address>\d{1,3}(?:\.\d{1,3}){3})(?P<prefix>(?:/\d{1,2})?)(?!\w|\.\d)",
            _ipv4,
        ),
        (
            rf"{_BEFORE}(?P<year>\d{{4}})(?P<dash>-?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)"
            r"(?![0-9A-SU-Za-z]|T[^0-9])",
            _date,
        ),
        (rf"(?<=\dT){_TIME}{_AFTER}", _time),
        (rf"{_BEFORE}(?=\d\d:){_TIME}{_AFTER}", _time),
        (
            r"(?<![\w.+-])(?P<rest>[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.)"
            r"(?P<last>[A-Za-z]{2,})(?![\w-])",
            _email,
        ),
        (rf"(?<!\w\+)(?<=\+)(?P<code>{_CODE})(?P<number>(?:[ ()/.-]*\d){{6,12}}){_AFTER}", _telephone),
        (rf"{_BEFORE}[0-9](?:[ -]?[0-9]){{12,18}}{_AFTER}", _card),
    )
]
