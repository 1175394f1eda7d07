"""Rates as users write them: "200000/s", "200k/s", "12M/min". Pure."""

from __future__ import annotations

import re

from rheos.core.errors import ConfigurationError

_RATE = re.compile(r"\s*(\d[\d_,]*(?:\.\d+)?)\s*([kM]?)\s*(?:/\s*(s|min|h))?\s*")
_FACTORS = {"": 1, "k": 1_000, "M": 1_000_000}
_SECONDS = {None: 1, "s": 1, "min": 60, "h": 3600}


def rows_per_s(text: str) -> float:
    """Return a rate in rows per second.

    Args:
        text: A number of rows, with k or M for thousands or millions, and the unit of time: s, min or
            h. The unit is s if it is missing.

    Raises:
        ConfigurationError: `text` is not a rate, or is 0.
    """
    match = _RATE.fullmatch(text)
    rate = 0.0
    if match is not None:
        number = float(match[1].replace(",", "").replace("_", ""))
        rate = number * _FACTORS[match[2]] / _SECONDS[match[3]]
    if not rate:
        raise ConfigurationError(
            f"{text!r} is not a rate", hint="write rows per second, such as 200000/s or 200k/s"
        )
    return rate
