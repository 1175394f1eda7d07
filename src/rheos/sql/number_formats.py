"""Formats of TO_NUMBER and TO_CHAR, such as `$99,999.99S`, as patterns that read and write decimals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import polars as pl

from rheos.sql import types

_FORM: Final = re.compile(
    r"(?P<first>MI|S)?(?P<dollar>\$)?(?P<whole>[09]*(?:,[09]+)*)(?:\.(?P<rest>[09]*))?"
    r"(?P<last>MI|S)?(?P<angle>PR)?"
)


@dataclass(frozen=True)
class NumberFormat:
    """A format of numbers."""

    groups: tuple[str, ...]
    """Digits before the point, `0` or `9` each, by the commas between them."""
    rest: str
    """Digits after the point."""
    has_point: bool
    has_dollar: bool
    first: str
    """Sign before the number: "", "S" or "MI"."""
    last: str
    """Sign after the number: "", "S", "MI", or "PR" for angle brackets."""

    @property
    def type(self) -> pl.Decimal:
        """Type of the numbers."""
        digits = sum(map(len, self.groups)) + len(self.rest)
        return pl.Decimal(digits, len(self.rest))

    def read(self, text: pl.Expr) -> pl.Expr:
        """Return the number of a string; null for a string of another format."""
        minus = {"S": "[+-]?", "MI": "-?", "": ""}
        dollar = r"\$" if self.has_dollar else ""
        rest = rf"(?:\.(?P<rest>[0-9]{{0,{len(self.rest)}}}))?" if self.has_point else ""
        number = f"(?P<first>{minus[self.first]}){dollar}(?P<whole>{self._whole()}){rest}"
        if self.last == "PR":
            number = f"(?P<last><?){number}>?"
        else:
            number += f"(?P<last>{minus[self.last]})"
        stripped = text.str.replace_all(" ", "", literal=True)  # As in Spark, everywhere.
        fields = stripped.str.extract_groups(f"^{number}$").struct
        fits = stripped.str.contains(f"^{number}$")
        if self.last == "PR":
            fits &= stripped.str.starts_with("<") == stripped.str.ends_with(">")
        negative = fields.field("first").eq("-") | fields.field("last").is_in(["-", "<"])
        digits = fields.field("whole").str.replace_all(",", "", literal=True)
        if self.has_point:
            digits = pl.concat_str([digits, pl.lit("."), fields.field("rest").fill_null("")])
        fits &= digits.str.contains("[0-9]")
        sign = pl.when(negative).then(pl.lit("-")).otherwise(pl.lit(""))
        exact = pl.when(fits).then(pl.concat_str([sign, pl.lit("0"), digits, pl.lit("0")]))
        made = types.cast(
            exact.str.strip_suffix("0") if not self.has_point else exact, types.TEXT, self.type
        )
        assert made is not None
        return made

    def _whole(self) -> str:
        """Return the pattern of the digits before the point: groups of 9 may be shorter, or missing."""
        made = ""
        for group in self.groups:
            exactly = group.startswith("0")
            size = f"{{{len(group)}}}" if exactly else f"{{0,{len(group)}}}"
            comma = "," if made else ""
            made = (
                f"(?:{made}{comma})?[0-9]{size}"
                if made and not exactly
                else f"{made}{comma}[0-9]{size}"
            )
        return made

    def write(self, value: Decimal) -> str:
        """Return a number in this format; of too many digits, `#` for each digit."""
        form, places = ",".join(self.groups), sum(map(len, self.groups))
        digits, _, rest = f"{abs(value):f}".partition(".")
        digits = digits.lstrip("0") or ("0" if self.has_point else "")
        rest = rest.rstrip("0").ljust(len(self.rest), "0")
        if len(digits) > places or len(rest) > len(self.rest):
            body = form.replace(",", " ") + ("." + self.rest if self.has_point else "")
            return self._signed(re.sub("[09]", "#", body), negative=value < 0)
        digits = digits.rjust(places)
        made, at, started = "", 0, False
        for char in form:
            if char == ",":
                made += "," if started else " "
                continue
            digit = digits[at]
            if digit == " " and (started or char == "0"):
                digit = "0"
            started = started or digit != " "
            made += digit
            at += 1
        return self._signed(made + ("." + rest if self.has_point else ""), negative=value < 0)

    def _signed(self, body: str, *, negative: bool) -> str:
        body = f"${body}" if self.has_dollar else body
        blank = len(body) - len(body.lstrip(" "))
        before, number = body[:blank], body[blank:]
        signs = {"S": "-" if negative else "+", "MI": "-" if negative else " ", "": ""}
        number = signs[self.first] + number
        if self.last == "PR":
            return f"{before}<{number}>" if negative else f"{before}{number}  "
        return before + number + signs[self.last]


def number_format(written: str) -> NumberFormat | None:
    """Return a format; None if the string is not one."""
    plain = written.upper().replace("D", ".").replace("G", ",")
    found = _FORM.fullmatch(plain)
    if found is None or (found["last"] and (found["first"] or found["angle"])):
        return None
    rest = found["rest"] or ""
    groups = tuple(found["whole"].split(","))
    digits = sum(map(len, groups)) + len(rest)
    if not 0 < digits <= types.MOST_DIGITS:
        return None
    return NumberFormat(
        groups,
        rest,
        found["rest"] is not None,
        found["dollar"] is not None,
        found["first"] or "",
        found["last"] or found["angle"] or "",
    )
