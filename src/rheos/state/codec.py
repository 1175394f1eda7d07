"""How the values of declared state become bytes: msgspec by the declared type, pickle where none is.

A dataclass may gain fields with defaults, or lose some, between the versions of a program.
"""

from __future__ import annotations

import dataclasses
import enum
import pickle
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, get_type_hints

import msgspec

from rheos.errors import StateAccessError

_IMMUTABLE = (int, float, str, bytes, bool, type(None), datetime, date, timedelta, Decimal)


class ValueCodec:
    """Encodes the values of one state. `name` is for the errors."""

    def __init__(self, name: str, declared: Any) -> None:
        self._name = name
        self._declared = declared
        self.immutable = is_immutable(declared)
        self._exact = declared if declared in _IMMUTABLE else None
        self._pickled = declared is object or declared is Any
        self._encoder = msgspec.msgpack.Encoder()
        self._decode: Callable[[bytes], Any] = (
            pickle.loads if self._pickled else msgspec.msgpack.Decoder(declared).decode
        )

    def encode(self, value: Any, key: Any) -> bytes:
        """Raises StateAccessError, naming state and key, where the value is not of the type."""
        if self._pickled:
            return pickle.dumps(value)
        try:
            data = self._encoder.encode(value)
            if type(value) is not self._exact:
                # Encoding takes what it can; only reading back tells whether the type is right.
                self._decode(data)
        except (msgspec.MsgspecError, TypeError, OverflowError) as error:
            shown = getattr(self._declared, "__name__", str(self._declared))
            raise StateAccessError(
                f"state {self._name!r} holds {value!r}, which is not {shown}: {error}",
                key=repr(key),
                hint=f"write values of the declared type, or declare {self._name!r} otherwise",
            ) from error
        return data

    def decode(self, data: bytes) -> Any:
        return self._decode(data)


def is_immutable(declared: Any) -> bool:
    """Whether a value of the type can change only by being replaced."""
    if declared in _IMMUTABLE:
        return True
    if not isinstance(declared, type):
        return False
    if issubclass(declared, enum.Enum):
        return True
    if dataclasses.is_dataclass(declared) and declared.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return all(is_immutable(hint) for hint in get_type_hints(declared).values())
    return False
