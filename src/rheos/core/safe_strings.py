"""Strings for errors from objects of the user's program: values by `repr`, exceptions by message.

`repr` and `str` run the user's code, which may raise or return a string of any length. A defect in that
code must not hide the error that is being reported.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TypeGuard, TypeVar, cast

E = TypeVar("E", bound=BaseException)

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+(?=>)")

MOST_VALUE_CHARACTERS = 500
"""Maximum number of characters of a value that an error shows."""
MOST_MESSAGE_CHARACTERS = 10_000
"""Maximum number of characters of an exception's message that an error shows."""


def shown(value: object) -> str:
    """Return the `repr` of a record, a key or another value, shortened if it is long. Memory addresses,
    as in the `repr` of a function, are left out because they differ in each run."""
    text = _text(repr, value, MOST_VALUE_CHARACTERS)
    return text if isinstance(value, str) else _ADDRESS.sub("", text)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, shortened if it is long."""
    return _text(str, error, MOST_MESSAGE_CHARACTERS)


def named_error(error: BaseException) -> str:
    """Return the class name and the message of an exception, as in the last line of a traceback."""
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def is_error(error: BaseException, kind: type[E] | tuple[type[E], ...]) -> TypeGuard[E]:
    """Return whether an exception is of a class, without reading its attributes as `isinstance`
    does."""
    return issubclass(type(error), kind)


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return the traceback of an exception, even if its class overrides attribute access."""
    read = vars(BaseException)["__traceback__"].__get__
    return cast("TracebackType | None", read(error))


def formatted_traceback(error: BaseException) -> str:
    """Return an exception with its traceback and its causes, as Python prints them."""
    try:
        return "".join(traceback.format_exception(error))
    except (Exception, SystemExit):
        return "".join([*traceback.format_tb(traceback_of(error)), named_error(error)])


def _text(make: Callable[[object], str], value: object, most: int) -> str:
    try:
        # Convert to an exact str: a subclass might have more defects.
        text = str.__str__(make(value))
    except (Exception, SystemExit) as raised:
        return f"<{type(value).__name__}, whose __{make.__name__}__ raised {type(raised).__name__}>"
    if len(text) <= most:
        return text
    return f"{text[:most]}... ({len(text):,} characters)"
