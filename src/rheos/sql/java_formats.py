"""Strings formatted as Java's `Formatter` and `DecimalFormat` do, value by value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from typing import Final

_EXACT: Final = 1200
"""Digits of the longest double, in full."""
_MOST_PLACES: Final = 340
"""Maximum number of digits after the point of a float."""
MOST_WIDTH: Final = 10_000
"""Maximum width and precision in a format."""

SPECIFIER: Final = re.compile(
    r"%(?:(?P<place>\d+)\$|(?P<same><))?(?P<flags>[-#+ 0,(]*)(?P<width>\d+)?"
    r"(?:\.(?P<precision>\d+))?(?P<kind>[a-zA-Z%])"
)
"""Pattern of the parts of a format that arguments replace."""


@dataclass(frozen=True)
class Specifier:
    """A part of a format that an argument replaces, such as `%-8.2f`."""

    kind: str
    """Its letter, in lower case."""
    upper: bool
    flags: str
    width: int
    precision: int | None

    def padded(self, text: str, *, zeros: bool = False) -> str:
        """Return a string padded to the width. Zeros follow the sign of a number."""
        if self.upper:
            text = text.upper()
        missing = self.width - _length(text)
        if "-" in self.flags:
            return text + " " * missing
        if zeros and "0" in self.flags:
            sign = text[:1] if text[:1] in tuple("+-( ") else ""
            return sign + "0" * missing + text.removeprefix(sign)
        return " " * missing + text

    def signed(self, digits: str, *, negative: bool) -> str:
        """Return the digits of a number with their sign."""
        if negative:
            return f"({digits})" if "(" in self.flags else f"-{digits}"
        sign = "+" if "+" in self.flags else " " if " " in self.flags else ""
        return sign + digits


def text_of(text: str, spec: Specifier) -> str:
    """Format a string, of which the precision limits the length."""
    if spec.precision is not None and _length(text) > spec.precision:
        units = text.encode("utf-16-le", "surrogatepass")[: 2 * spec.precision]
        # Half of a character becomes a question mark.
        text = units.decode("utf-16-le", "replace").replace("\ufffd", "?")
    return spec.padded(text)


def _length(text: str) -> int:
    """Return the number of characters as Java counts them."""
    return len(text) + sum(char > "\uffff" for char in text)


def text_of_integer(value: int, spec: Specifier, bits: int) -> str:
    """Format an integer of a type of this size: by `%d`, `%x`, `%o` or `%c`."""
    match spec.kind:
        case "d":
            grouped = f"{abs(value):,}" if "," in spec.flags else str(abs(value))
            return spec.padded(spec.signed(grouped, negative=value < 0), zeros=True)
        case "c":
            return spec.padded(chr(value))
    prefix = {"x": "0x", "o": "0"}[spec.kind] if "#" in spec.flags else ""
    digits = format(value & ((1 << bits) - 1), spec.kind)
    if "0" in spec.flags:
        digits = digits.rjust(spec.width - len(prefix), "0")
    return spec.padded(prefix + digits)


def text_of_real(printed: str, spec: Specifier) -> str:
    """Format a float or decimal, by `%f`, `%e` or `%g`, from the string that it prints as. Halves are
    rounded up."""
    negative = printed.startswith("-")
    if printed[-1] in "Ny":
        return spec.padded(printed if printed == "NaN" else spec.signed("Infinity", negative=negative))
    with localcontext(prec=_EXACT):
        digits = _digits(Decimal(printed).copy_abs(), spec)
    if "," in spec.flags:
        whole, point, rest = digits.partition(".")
        digits = f"{int(whole):,}{point}{rest}"
    return spec.padded(spec.signed(digits, negative=negative), zeros=True)


def _digits(number: Decimal, spec: Specifier) -> str:
    precision = 6 if spec.precision is None else spec.precision
    match spec.kind:
        case "e":
            return _scientific(number, precision, spec)
        case "g":
            precision = precision or 1
            near = _significant(number, precision)
            if number == 0 or Decimal("0.0001") <= near < Decimal(10) ** precision:
                after = precision - (near.adjusted() + 1 if number else 1)
                return _plain(number, max(after, 0), spec)
            return _scientific(number, precision - 1, spec)
    return _plain(number, precision, spec)


def _plain(number: Decimal, places: int, spec: Specifier) -> str:
    made = f"{number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):f}"
    return made + "." if "#" in spec.flags and not places else made


def _significant(number: Decimal, digits: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(number.adjusted() - digits + 1), ROUND_HALF_UP)


def _scientific(number: Decimal, places: int, spec: Specifier) -> str:
    near = _significant(number, places + 1) if number else number
    exponent = near.adjusted() if number else 0
    mantissa = near.scaleb(-exponent).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    point = "." if "#" in spec.flags and not places else ""
    return f"{mantissa:f}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


# --- DecimalFormat ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberPattern:
    """A pattern of Java's `DecimalFormat`, such as `#,##0.00`."""

    prefix: str
    suffix: str
    whole: int
    """Least number of digits before the point."""
    least: int
    """Least number of digits after the point."""
    most: int
    """Maximum number of digits after the point."""
    group: int
    """Digits between two commas; 0: there are no commas."""
    floating: bool
    """Whether the numbers are floats."""

    def format(self, printed: str) -> str:
        """Return a number, from the string that it prints as. Halves are rounded to the even digit."""
        if printed == "NaN":
            return printed
        if printed.endswith("Infinity"):
            return f"{printed.removesuffix('Infinity')}{self.prefix}∞{self.suffix}"
        unit = Decimal(1).scaleb(-self.most)
        with localcontext(prec=_EXACT):
            number = Decimal(printed).copy_abs()
            exact = number.quantize(unit, ROUND_HALF_EVEN)
            if abs(number - exact) * 2 == unit and self.floating:
                # The binary number is more or less than the half that it prints as.
                exact = Decimal(float(number)).quantize(unit, ROUND_HALF_EVEN)
        digits, _, rest = f"{exact:f}".partition(".")
        digits = digits.lstrip("0").rjust(self.whole, "0")
        rest = rest.rstrip("0").ljust(self.least, "0")
        if not digits and not rest:
            digits = "0"
        if self.group:
            begin = len(digits) % self.group
            parts = [digits[:begin]] if begin else []
            parts += [digits[at : at + self.group] for at in range(begin, len(digits), self.group)]
            digits = ",".join(parts)
        sign = "-" if printed.startswith("-") else ""
        return f"{sign}{self.prefix}{digits}{'.' if rest else ''}{rest}{self.suffix}"


_PATTERN: Final = re.compile(r"([^#0,.;%‰'E¤]*)([#,]*[0,]*)(?:\.(0*)(#*))?([^#0,.;%‰'E¤]*)")


def number_pattern(written: str, *, floating: bool) -> NumberPattern | None:
    """Return a pattern of digits, commas and a point, with other characters at both ends; None for
    other patterns."""
    found = _PATTERN.fullmatch(written)
    if found is None or len(written) > MOST_WIDTH or found[2].endswith(","):
        return None
    prefix, whole, fraction, more, suffix = found.groups()
    group = len(whole) - whole.rindex(",") - 1 if "," in whole else 0
    digits, least, most = whole.count("0"), len(fraction or ""), len((fraction or "") + (more or ""))
    if not digits and not least and fraction is not None:
        # A pattern of # alone needs one digit: before the point, if it has a # there.
        digits, least = (1, 0) if whole else (0, min(most, 1))
    return NumberPattern(prefix, suffix, digits, least, most, group, floating)


def places_pattern(places: int, *, floating: bool) -> NumberPattern:
    """Return the pattern of FORMAT_NUMBER(x, places): `#,##0.00`."""
    places = min(places, _MOST_PLACES) if floating else places
    return NumberPattern("", "", 1, places, places, 3, floating)
