"""Keys of look-ups in the form of a request: JSON, by column or in the order of the key's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rheos.core.errors import ConfigurationError
from rheos.core.protocol.plain_values import plain_value
from rheos.core.safe_strings import shown


def chosen_key(key: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any] | Mapping[str, Any]:
    """Return the key of a call, which passes its values by position or by name. Raise
    ConfigurationError if it does both."""
    if key and named:
        raise ConfigurationError(
            "a key is passed both by position and by name", hint="pass all values by name"
        )
    return named or list(key)


def written_key(key: Sequence[Any] | Mapping[str, Any]) -> str:
    """Return one key as JSON. Raise ConfigurationError if JSON has no form of a value."""
    return _encode_json(_plain_key(key), key)


def written_keys(keys: Sequence[Any]) -> str:
    """Return several keys as JSON. A key that is neither a list, a tuple nor a mapping is the value of
    the only key column. Raise ConfigurationError if JSON has no form of a value."""
    return _encode_json([_plain_key(key) for key in keys], keys)


def _plain_key(key: Any) -> Any:
    if isinstance(key, Mapping):
        return {name: plain_value(value) for name, value in key.items()}
    return [plain_value(value) for value in (key if isinstance(key, list | tuple) else [key])]


def _encode_json(plain: Any, key: Any) -> str:
    try:
        return msgspec.json.encode(plain).decode()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{shown(key)} cannot be a key: {error}",
            hint="pass numbers, strings, times, dates, decimals, booleans or bytes",
        ) from error
