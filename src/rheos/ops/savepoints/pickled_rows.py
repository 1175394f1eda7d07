"""Rows that a savepoint holds as pickles, read without running what a pickle says.

Records without a class, as `reduce` combines them, are stored as pickles of named rows. A plain row is
made of a few types, and only these are made. Whatever else a pickle names is refused, unless the user
has said that the savepoint is trusted.
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
from rheos.core.shown import named_error


class _Refused(Exception):  # noqa: N818 - it never leaves this file
    pass


def read_row(data: bytes, state: str, *, trusted: bool) -> Any:
    """Raises UnrestorableError where the pickle is damaged, or names what no plain row is made of."""
    try:
        # Whoever asked for it has said that the savepoint may run code.
        return pickle.loads(data) if trusted else _RowUnpickler(io.BytesIO(data)).load()
    except _Refused as error:
        raise UnrestorableError(
            f"a row of state {state!r} is stored as a pickle that refers to {error}; since that "
            "could run any code, it was not loaded",
            hint="if you trust the author of the savepoint to run code here, pass trusted=True: "
            "rh.savepoint(spark, path, trusted=True)",
        ) from None
    except Exception as error:
        # A pickle that is wrong may raise any exception.
        raise UnrestorableError(
            f"a stored row of state {state!r} cannot be read: {named_error(error)}"
        ) from error


def _row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return types._restored_row(names, values)


def _zone(key: str, from_cache: int) -> ZoneInfo:
    return ZoneInfo(key)


# A pickle may also set attributes of what it names: so these are types that cannot be changed, or
# functions that nobody else uses.
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
            # Older protocols name a method of a class in this way.
            return _method
        if found is None and (module, name) == ("zoneinfo", "ZoneInfo"):
            return "zoneinfo.ZoneInfo"
        if found is None:
            raise _Refused(f"{module}.{name}")
        return found


def _method(owner: Any, name: str) -> Any:
    if (owner, name) == ("zoneinfo.ZoneInfo", "_unpickle"):
        return _zone
    raise _Refused(f"getattr of {name!r}")
