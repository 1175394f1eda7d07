"""Objects of the user's program as strings for errors: values by `repr`, exceptions by their message.

Both run the user's code, which may raise or return a string of any length. A defect of that code must
not hide the error that is being reported.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TypeGuard, TypeVar, cast

E = TypeVar("E", bound=BaseException)

MOST_VALUE_CHARACTERS = 500
"""Characters of a value that an error shows."""
MOST_MESSAGE_CHARACTERS = 10_000
"""Characters of an exception's message that an error shows."""


def shown(value: object) -> str:
    """Return the `repr` of a record, a key or another value, cut where it is long."""
    return _text(repr, value, MOST_VALUE_CHARACTERS)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, cut where it is long."""
    return _text(str, error, MOST_MESSAGE_CHARACTERS)


def named_error(error: BaseException) -> str:
    """Return the name of an exception's class and its message, as the last line of a traceback has
    them."""
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def is_error(error: BaseException, kind: type[E] | tuple[type[E], ...]) -> TypeGuard[E]:
    """Return whether an exception is of a class. Unlike `isinstance`, this reads no attribute of it."""
    return issubclass(type(error), kind)


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return the traceback of an exception, whatever its class does as attributes are read."""
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
        # An exact str: a subclass might do more of what is wrong with it.
        text = str.__str__(make(value))
    except (Exception, SystemExit) as raised:
        return f"<{type(value).__name__}, whose __{make.__name__}__ raised {type(raised).__name__}>"
    if len(text) <= most:
        return text
    return f"{text[:most]}... ({len(text):,} characters)"
