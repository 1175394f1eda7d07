"""Advice for exceptions of Python, Polars, pandas and Arrow that a user's code raises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches

from rheos.core.known_names import names_hint
from rheos.core.protocol.types import Row
from rheos.core.safe_strings import is_error, message_of, traceback_of
from rheos.core.unknown_names import hint_for

_FRAMES = {
    "polars": ("Polars", 'for pandas write .map_batches(..., form="pandas")'),
    "pandas": ("pandas", 'for Polars leave out form="pandas"'),
    "pyarrow": ("pyarrow", 'for Polars leave out form="arrow", for pandas write form="pandas"'),
}
"""Libraries of frames, by package: the name, and how to let a function receive frames of that
library."""

_TRUTH = re.compile("the truth value of an? .* is ambiguous", re.IGNORECASE)
_COMBINED = (
    "combine conditions with & (and), | (or) and ~ (not), each in parentheses: "
    '(rh.col("a") > 1) & (rh.col("b") == 2); instead of `in` and `1 < a < 5` write .is_in([...]) and '
    ".is_between(1, 5); instead of `if` write pl.when(...)"
)
_OF_STATE = re.compile(r"'\w*ValueHandle'")
_MISSING_COLUMN = ("KeyError", "ColumnNotFoundError")


def hint_for_error(error: BaseException, columns: Sequence[str] = ()) -> str:
    """Return the advice for an exception of the user's code.

    Args:
        error: The exception.
        columns: Columns of the batch that the function was called with, if any.

    Returns:
        The advice, or an empty string.
    """
    if is_error(error, (TypeError, ValueError)) and _TRUTH.match(message_of(error)):
        return _COMBINED
    if type(error) is TypeError and _OF_STATE.search(message_of(error)):
        return "a declared state is not its value: read and assign self.NAME.value"
    if type(error) is AttributeError and error.obj is not None:  # A user's class may raise when read.
        return _hint_for_attribute(str(error.name), error.obj)
    if columns and type(error).__name__ in _MISSING_COLUMN and _is_of_frame(error):
        key = error.args[0] if error.args else ""
        text = key if isinstance(key, str) else message_of(error)
        asked = re.findall(r"""['"]([^'"]*)['"]""", text) or [text]
        wrong = next((name for name in asked if name not in columns), "")
        return _hint_among(wrong, columns, "the batch has")
    return ""


def _is_of_frame(error: BaseException) -> bool:
    """Return whether a library of frames raised the error, rather than a dict of the user."""
    innermost = traceback_of(error)
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    file = "" if innermost is None else innermost.tb_frame.f_code.co_filename
    return type(error).__name__ != "KeyError" or any(name in file for name in _FRAMES)


def _hint_for_attribute(name: str, owner: object) -> str:
    kind = type(owner)
    package = kind.__module__.partition(".")[0]
    if kind.__module__.startswith("polars.expr."):
        parts = ("str", "dt", "list", "struct")
        own = [f"{part}.{each}" for part in parts for each in dir(getattr(owner, part, None))]
        return hint_for(name, [*own, *dir(kind)], ("expression",))
    if package in _FRAMES:
        return _hint_for_frame(name, owner, *_FRAMES[package])
    if issubclass(kind, Row):
        return _hint_among(name, kind.columns_, "the record has")
    if any(str(base.__module__).startswith("rheos.core.") for base in kind.__mro__):
        return hint_for(name, dir(kind), ("context", "state"))
    return (
        _hint_among(name, [field.name for field in fields(kind)], "it has")
        if is_dataclass(kind)
        else ""
    )


def _hint_for_frame(name: str, frame: object, system: str, other: str) -> str:
    kind = type(frame)
    columns = getattr(frame, "schema" if system == "pyarrow" else "columns", ())
    names = [str(each) for each in getattr(columns, "names", None) or columns]
    first = f"this is a {system} {kind.__name__}"
    if name in names:
        return f'{first}: a column is written ["{name}"]'
    close = get_close_matches(name, [each for each in dir(kind) if each[0] != "_"], 1, 0.75)
    return f"{first}; {other}" + (f"; or did you mean .{close[0]}(...)?" if close else "")


def _hint_among(wrong: str, names: Sequence[str], has: str) -> str:
    return names_hint(wrong, names, has)
