"""Strict parsing of request heads: a head that two programs could interpret differently is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

MAX_FIELDS = 100
"""Maximum number of header fields of a request."""
_MAX_QUERY_FIELDS = 100
_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_ONCE = ("host", "content-length", "authorization", "transfer-encoding")
_MAX_LENGTH_DIGITS = 15


class HttpError(Exception):
    """Raised to refuse a request, with the answer to send."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        """Create the error. `headers` have `_` for `-`."""
        super().__init__(why)
        self.status = status
        self.why = why
        self.headers = headers


class HeaderFields(Mapping[str, str]):
    """Header fields by name, case-insensitive. Values of repeated fields are joined."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            before = self._values.get(name)
            self._values[name] = value if before is None else f"{before}, {value}"

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class RequestHead:
    """Request line and header fields."""

    method: str
    target: str
    """Path and query as sent."""
    fields: list[tuple[str, str]]
    """Names in lower case, with values, in the order sent."""
    headers: HeaderFields
    content_length: int
    """Declared length of the body; 0 if none is declared."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query_string(self) -> str:
        return self.target.partition("?")[2]

    def query(self) -> Mapping[str, list[str]]:
        """Return the query parameters. Raises HttpError if there are too many."""
        try:
            return parse_qs(self.query_string, max_num_fields=_MAX_QUERY_FIELDS)
        except ValueError:
            raise HttpError(400, f"the query has more than {_MAX_QUERY_FIELDS} parameters") from None

    @property
    def bearer(self) -> str | None:
        """Return the token in the request's `Authorization` header, if any."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" and token else None


def parse_head(data: bytes) -> RequestHead:
    """Parse a head with the empty line that ends it. Raises HttpError."""
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise HttpError(400, "the first line is not an HTTP/1.1 request line")
    if len(lines) > MAX_FIELDS:
        raise HttpError(431, f"the request has more than {MAX_FIELDS} header fields")
    fields = []
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise HttpError(400, "a header field is malformed")
        fields.append((field[1].decode().lower(), field[2].decode("latin-1").rstrip(" \t")))
    names = [name for name, _ in fields]
    for name in _ONCE:
        if names.count(name) > 1:
            raise HttpError(400, f"the header field {name} was sent more than once")
    headers = HeaderFields(fields)
    length = _content_length(headers)
    return RequestHead(request[1].decode(), request[2].decode(), fields, headers, length)


def _content_length(headers: HeaderFields) -> int:
    if "transfer-encoding" in headers:
        raise HttpError(411, "send the header Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise HttpError(400, "Content-Length is not a number")
    if len(length) > _MAX_LENGTH_DIGITS:
        raise HttpError(413, "the body is too large")
    return int(length)
