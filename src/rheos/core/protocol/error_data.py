"""Errors as data: the form in which a RheosError is sent between processes.

The data names a class of `rheos.core.errors` and has its strings; nothing else can be created from it.
"""

from __future__ import annotations

import msgspec

from rheos.core import errors
from rheos.core.errors import RheosError, Site
from rheos.core.protocol.decoding import BoundedDecoder

_MAX_TEXT_CHARS = 16_384
_MAX_DETAIL_CHARS = 65_536
MAX_ERROR_BYTES = 1 << 20
"""Maximum size of an encoded error. The strings of one error never need as much."""


class ErrorData(msgspec.Struct, frozen=True, kw_only=True):
    """A RheosError without its class. Strings that are too long are shortened in the middle."""

    kind: str
    """Name of the error's class in `rheos.core.errors`. If the class is not in that module, the name of
    its nearest base there."""
    what: str
    file: str | None = None
    line: int = 0
    operator: str | None = None
    record: str | None = None
    key: str | None = None
    hint: str | None = None
    detail: str | None = None

    @classmethod
    def of(cls, error: RheosError) -> ErrorData:
        site = error.site
        return cls(
            kind=next(base.__name__ for base in type(error).__mro__ if _is_known(base)),
            what=_text(error.what) or "",
            file=_text(site.file) if site else None,
            line=site.line if site else 0,
            operator=_text(error.operator),
            record=_text(error.record),
            key=_text(error.key),
            hint=_text(error.hint),
            detail=_text(error.detail, _MAX_DETAIL_CHARS),
        )

    def error(self) -> RheosError:
        """Return the error. A class that is unknown here, such as one of a newer version, becomes a
        plain RheosError."""
        return _CLASSES.get(self.kind, RheosError)(
            self.what,
            site=None if self.file is None else Site(self.file, self.line),
            operator=self.operator,
            record=self.record,
            key=self.key,
            hint=self.hint,
            detail=self.detail,
        )


encode = msgspec.msgpack.Encoder().encode
decoder: BoundedDecoder[ErrorData] = BoundedDecoder(ErrorData, max_bytes=MAX_ERROR_BYTES)

_CLASSES: dict[str, type[RheosError]] = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, RheosError)
}


def _is_known(cls: type) -> bool:
    return _CLASSES.get(cls.__name__) is cls


def _text(value: object, max_chars: int = _MAX_TEXT_CHARS) -> str | None:
    """Return a string that UTF-8 can encode: records may contain lone surrogates."""
    if value is None:
        return None
    text = str(value).encode("utf-8", "backslashreplace").decode()
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]} ... {len(text) - 2 * half} characters ... {text[-half:]}"
