"""Pickled rows of a savepoint, read without running code from a pickle.

Records without a class that `reduce` combines are stored as pickles of named rows. A plain row consists
of a few types, and only these are made. Any other name in a pickle is refused, unless the user has
declared the savepoint as trusted.
"""

from __future__ import annotations

import datetime
import io
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from rheos.core.errors import UnrestorableError
from rheos.core.moved_names import name_today
from rheos.core.protocol import types
from rheos.core.safe_strings import named_error


class _RefusedPickle(Exception):  # noqa: N818 - it never leaves this file
    pass


def read_row(data: bytes, state: str, *, trusted: bool) -> Any:
    """Return the row. Raise UnrestorableError for a damaged pickle, or one with other types."""
    try:
        # The user has allowed the savepoint to run code.
        return pickle.loads(data) if trusted else _RowUnpickler(io.BytesIO(data)).load()
    except _RefusedPickle as error:
        raise UnrestorableError(
            f"a row of state {state!r} is stored as a pickle that refers to {error}; since that "
            "could run any code, it was not loaded",
            hint="if you trust the author of the savepoint to run code here, pass trusted=True: "
            "rh.savepoint(spark, path, trusted=True)",
        ) from None
    except Exception as error:
        # A damaged pickle may raise any exception.
        raise UnrestorableError(
            f"a stored row of state {state!r} cannot be read: {named_error(error)}"
        ) from error


def _row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return types._restored_row(names, values)


def _zone(key: str, from_cache: int) -> ZoneInfo:
    return ZoneInfo(key)


# A pickle may also set attributes of the objects that it names. So these are immutable types, or
# functions without other users.
_NAMED: dict[tuple[str, str], Callable[..., Any]] = {
    ("rheos.core.protocol.types", "_restored_row"): _row,
    ("zoneinfo", "ZoneInfo._unpickle"): _zone,
    ("datetime", "date"): datetime.date,
    ("datetime", "datetime"): datetime.datetime,
    ("datetime", "time"): datetime.time,
    ("datetime", "timedelta"): datetime.timedelta,
    ("datetime", "timezone"): datetime.timezone,
    ("decimal", "Decimal"): Decimal,
}


class _RowUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _NAMED.get((name_today(module), name))
        if found is None and (module, name) == ("builtins", "getattr"):
            # Older protocols refer to a method of a class like this.
            return _method
        if found is None and (module, name) == ("zoneinfo", "ZoneInfo"):
            return "zoneinfo.ZoneInfo"
        if found is None:
            raise _RefusedPickle(f"{module}.{name}")
        return found


def _method(owner: Any, name: str) -> Any:
    if (owner, name) == ("zoneinfo.ZoneInfo", "_unpickle"):
        return _zone
    raise _RefusedPickle(f"getattr of {name!r}")
