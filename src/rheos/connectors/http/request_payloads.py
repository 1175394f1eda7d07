"""Splits the body of a request into payloads: one payload, a JSON array of them, or lines."""

from __future__ import annotations

import msgspec

from rheos.core.formats.contract import Format
from rheos.formats.json_format import JsonFormat

_RAW = msgspec.json.Decoder(msgspec.Raw)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def payloads_of(body: bytes, format: Format) -> list[bytes]:
    """Return the payloads, possibly none. The format's decoder reports those that are invalid."""
    if isinstance(format, JsonFormat):
        return _of_json(body)
    lies = format.in_lines
    if lies is None:
        return [body] if body else []
    lines = [line.removesuffix(b"\r") for line in body.removesuffix(b"\n").split(b"\n")]
    return lines if lies.blank and body else [line for line in lines if line.strip()]


def _of_json(body: bytes) -> list[bytes]:
    """Return a single value, which may span lines; or the values of an array; or the value of each
    line."""
    try:
        found = _ARRAY.decode(body) if body.lstrip()[:1] == b"[" else [_RAW.decode(body)]
    # A value that is nested too deeply is invalid, too.
    except (msgspec.DecodeError, RecursionError):
        return [line for line in body.splitlines() if line.strip()]
    return [_on_one_line(bytes(each)) for each in found]


def _on_one_line(value: bytes) -> bytes:
    value = value.strip()
    # JSON strings contain no line ends, so any line end is between tokens.
    return value.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in value else value
