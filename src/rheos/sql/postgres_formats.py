"""Templates of TO_CHAR, TO_DATE and TO_NUMBER in PostgreSQL: `YYYY-MM-DD HH24:MI:SS`, `FM9,999.00`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext

# --- times --------------------------------------------------------------------------------------------

FIELDS = (
    *("HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "US", "FF1", "FF2", "FF3", "FF4", "FF5"),
    *("FF6", "AM", "PM", "A.M.", "P.M.", "YYYY", "YYY", "YY", "Y", "IYYY", "MONTH", "MON", "MM", "DAY"),
    *("DY", "DDD", "DD", "D", "ID", "WW", "W", "IW", "CC", "Q", "BC", "AD", "TZH", "TZM", "TZ", "OF"),
)
"""Fields of a template, in capital letters. The longest one that fits is read."""
_BY_LENGTH = sorted(FIELDS, key=len, reverse=True)
_PART = re.compile(
    r'"((?:[^"\\]|\\.)*)"|(FM)?(' + "|".join(map(re.escape, _BY_LENGTH)) + r")(TH)?|(.)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Part:
    """A field of a template, as it is written, or a literal text."""

    field: str
    """Empty for a literal text."""
    text: str = ""
    fills: bool = True
    """Whether numbers have zeros, and names blanks, up to the width of the field."""
    ordinal: str = ""
    """`th` or `TH`, if the number is an ordinal one."""


def parts_of(template: str) -> list[Part] | None:
    """Return the parts of a template for times; None if it has an unknown field."""
    parts: list[Part] = []
    for quoted, fill, field, ordinal, other in _PART.findall(template):
        if field:
            parts.append(Part(field, "", not fill, ordinal))
        elif other.isalpha():
            return None
        else:
            parts.append(Part("", other or re.sub(r"\\(.)", r"\1", quoted)))
    return parts


_JAVA = {
    **{"YYYY": "yyyy", "MM": "MM", "DD": "dd", "HH24": "HH", "HH12": "hh", "HH": "hh", "MI": "mm"},
    **{"SS": "ss", "MS": "SSS", "US": "SSSSSS", "AM": "a", "PM": "a", "MON": "MMM", "MONTH": "MMMM"},
    **{"DY": "EEE", "DAY": "EEEE", "FF3": "SSS", "FF6": "SSSSSS"},
}


def java_format(template: str) -> str | None:
    """Return a template for reading times in the letters of Java; None if it cannot be read.

    A number may have fewer digits than its field, unless the next field follows at once.
    """
    parts = parts_of(template)
    if parts is None:
        return None
    made = ""
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        if not part.field:
            made += "'" + part.text.replace("'", "''") + "'" if part.text.isalpha() else part.text
            continue
        letters = _JAVA.get(part.field.upper())
        if letters is None:
            return None
        alone = following is None or not following.field
        made += letters[0] if alone and letters in ("MM", "dd", "HH", "hh", "mm", "ss") else letters
    return made


# --- numbers ------------------------------------------------------------------------------------------

_NUMBER = re.compile(
    r"(?P<fill>FM)?(?P<begin>S|MI|L)?(?P<digits>[90.,DG]+)(?P<end>S|MI|PR)?", re.IGNORECASE
)
_MOST_PLACES = 40


@dataclass(frozen=True)
class NumberTemplate:
    """A template for numbers."""

    whole: str
    """Positions before the point: `9`, `0` and `,`."""
    fraction: str
    has_point: bool
    fills: bool
    begin: str
    end: str


def number_format(template: str) -> NumberTemplate | None:
    """Return the parts of a template such as `FM9,990.00`; None if it is not one."""
    found = _NUMBER.fullmatch(template)
    if found is None or len(template) > _MOST_PLACES:
        return None
    digits = found["digits"].upper().replace("D", ".").replace("G", ",")
    whole, point, fraction = digits.partition(".")
    begin, end = (found["begin"] or "").upper(), (found["end"] or "").upper()
    if "." in fraction or "," in fraction or begin == "L" or (begin and end):
        return None
    return NumberTemplate(whole, fraction, bool(point), not found["fill"], begin, end)


def number_text(value: Decimal, *, form: NumberTemplate) -> str | None:
    """Write a number. If it has too many digits, the result has `#` in their places."""
    with localcontext(prec=100):
        if not value.is_finite():
            return None
        unit = Decimal(1).scaleb(-len(form.fraction))
        exact = abs(value).quantize(unit, ROUND_HALF_UP)
    negative = value < 0 and exact != 0
    whole, _, fraction = f"{exact:f}".partition(".")
    slots = len(form.whole.replace(",", ""))
    if whole == "0" and form.fraction and "0" not in form.whole:
        whole = ""
    body, sign_at = _whole_text(form, whole, slots)
    if len(whole) > slots:
        body, fraction = re.sub("[90]", "#", form.whole), "#" * len(form.fraction)
        sign_at = 0
    if not form.fills:
        kept = len(form.fraction.rstrip("9"))
        fraction = fraction[:kept] + fraction[kept:].rstrip("0")
    number = body + ("." + fraction if form.has_point else "")
    return _signed(form, number, sign_at, negative)


def _whole_text(form: NumberTemplate, whole: str, slots: int) -> tuple[str, int]:
    """Return the digits before the point in their positions, and the place of the first one."""
    first_zero = form.whole.find("0")
    made, place = "", 0
    padded = whole.rjust(slots)
    for at, slot in enumerate(form.whole):
        if slot == ",":
            made += "," if made.strip() else " "
            continue
        digit = padded[place] if place < len(padded) else " "
        place += 1
        made += "0" if digit == " " and 0 <= first_zero <= at else digit
    stripped = made.lstrip(" ")
    return made, len(made) - len(stripped)


def _signed(form: NumberTemplate, number: str, sign_at: int, negative: bool) -> str:
    text = number.lstrip(" ")
    match form.begin or form.end:
        case "S":
            sign = "-" if negative else "+"
        case "MI":
            sign = "-" if negative else " "
        case "PR":
            made = " " * sign_at + (f"<{text}>" if negative else f" {text} ")
            return made if form.fills else made.strip()
        case _:
            sign = "-" if negative else " "
    blanks = " " * sign_at if form.fills else ""
    sign = sign if form.fills else sign.strip()
    return f"{blanks}{text}{sign}" if form.end else f"{blanks}{sign}{text}"


def number_of_text(text: str, *, form: NumberTemplate) -> Decimal | None:
    """Read a number that TO_CHAR writes; None if the string has no digits."""
    sign = -1 if "-" in text or text.strip().startswith("<") else 1
    digits = re.sub(r"[^0-9.]", "", text)
    if not re.fullmatch(r"[0-9]*\.?[0-9]*", digits) or not digits.strip("."):
        return None
    return sign * Decimal(digits).quantize(Decimal(1).scaleb(-len(form.fraction)), ROUND_HALF_UP)
