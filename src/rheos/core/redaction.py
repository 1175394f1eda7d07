"""Removes the credentials in URLs from strings that are shown or recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

_USER = re.compile(
    # A user alone, or a user and a secret. The secret of an S3 key may contain a slash.
    r"(://)(?:[^\s'\"/:@]*:(?:(?!://)[^\s'\"])*|[^\s'\"/@]*)@"
)
_UNFINISHED_USER = re.compile(
    # A user and a secret before a host that is missing: what follows the colon is not a port.
    r"(://[^\s'\"/:@?#\[\]]+:)(?!\d{1,5}(?:[/?#,;:)\s'\"]|$)|[{<*])[^\s'\"/@?#]+(?![^\s'\"]*@)"
)
_NAMES = (
    r"(?:[^\s'\"=&;#]*(?:token|secret|passw|pwd|sig|key|credential|auth)[^\s'\"=&;#]*"
    r"|(?:[^\s'\"=&;#]*[_-])?pass|code|jwt|sas)"
)
_PARAMETER = re.compile(rf"([?&;#]{_NAMES}=)[^\s'\"&;#]*", re.IGNORECASE)

_HOST = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)(?:[^/?#]*@)?([^/?#@]+)")

_SECRET_NAME = re.compile(
    r"token|secret|passw|pwd|signature|credential|private|api_?key|access_?key|auth", re.IGNORECASE
)


def redacted(text: str) -> str:
    """Replace credentials in URLs by `***`: users, passwords, and query parameters named like secrets.

    >>> redacted("'s3://key:secret@bucket/a' and https://host/a?sig=abc&v=1, not s3://bucket/a@b")
    "'s3://***@bucket/a' and https://host/a?sig=***&v=1, not s3://bucket/a@b"
    """
    if "://" not in text:
        return text
    text = _UNFINISHED_USER.sub(r"\1***", _USER.sub(r"\1***@", text))
    return _PARAMETER.sub(r"\1***", text)


def redacted_values(value: Any) -> Any:
    """Return a JSON value without secrets: credentials in URLs, and values named like secrets.

    >>> redacted_values({"directory": "s3://k:s@b/a", "parameters": {"db_password": "x", "n": 3}})
    {'directory': 's3://***@b/a', 'parameters': {'db_password': '***', 'n': 3}}
    """
    match value:
        case str():
            return redacted(value)
        case dict():
            return {
                name: "***" if _SECRET_NAME.search(str(name)) else redacted_values(each)
                for name, each in value.items()
            }
        case list() | tuple():
            return [redacted_values(each) for each in value]
        case _:
            return value


def host_alone(url: str) -> str:
    """Return only the scheme and host of a URL, for addresses whose path is a secret.

    >>> host_alone("https://hooks.example.com:8443/services/T0/B0")
    'https://hooks.example.com:8443/***'
    """
    found = _HOST.match(url)
    return f"{found[1]}{found[2]}/***" if found else "***"


def without(text: str, secrets: Iterable[str]) -> str:
    """Replace each of the secrets in the string by `***`. The longest is replaced first, as one may be
    part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def redacted_repr(self: Any) -> str:
    """Return the `repr` of a dataclass without the credentials in its URLs. Used as its `__repr__`."""
    if not is_dataclass(self):
        return object.__repr__(self)
    values = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return redacted(f"{type(self).__name__}({', '.join(values)})")


class RedactedRepr:
    """Base of classes that show themselves without the credentials in their URLs, unless they define
    `__repr__`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__repr__ in (object.__repr__, redacted_repr):
            # In the class itself: `@dataclass` replaces one that is inherited.
            cls.__repr__ = redacted_repr  # type: ignore[method-assign]
