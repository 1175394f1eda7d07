"""The values in a string of JSON, which pseudonyms replace. Names, escapes and exponents stay. Pure."""

from __future__ import annotations

import json
import re

_VALUE = re.compile(
    r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<colon>\s*:)?|(?P<number>-?\d+(?:\.\d+)?)(?:[eE][+-]?\d+)?',
    re.ASCII,
)
_UNESCAPED = re.compile(r"(?:[^\\]+|(?P<escape>\\u....|\\.))")


def json_values(text: str) -> list[range] | None:
    """Return the places of strings and numbers in an object or array of JSON.

    A string with escapes has several places: the parts between its escapes.

    Returns:
        Their positions, in ascending order; None for other strings.

    >>> text = '{"user": "ada", "cents": 25}'
    >>> [text[place.start : place.stop] for place in json_values(text)]
    ['ada', '25']
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = []
    for value in _VALUE.finditer(text):
        if value["number"] is not None:
            found.append(range(*value.span("number")))
        elif value["colon"] is None:
            parts = _UNESCAPED.finditer(text, *value.span("string"))
            found += [range(*part.span()) for part in parts if part["escape"] is None]
    return found
