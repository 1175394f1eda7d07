"""The payloads in the body of a request, by the format: one, an array of JSON, or lines."""

from __future__ import annotations

import msgspec

from rheos.core.formats.contract import Format
from rheos.formats.json_format import JsonFormat

_RAW = msgspec.json.Decoder(msgspec.Raw)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def payloads_of(body: bytes, format: Format) -> list[bytes]:
    """May be empty. What is no payload of the format is for its decoder to say."""
    if isinstance(format, JsonFormat):
        return _of_json(body)
    lies = format.in_lines
    if lies is None:
        return [body] if body else []
    lines = [line.removesuffix(b"\r") for line in body.removesuffix(b"\n").split(b"\n")]
    return lines if lies.blank and body else [line for line in lines if line.strip()]


def _of_json(body: bytes) -> list[bytes]:
    """One value, over as many lines as it likes; the values of an array; or a value in each line."""
    try:
        found = _ARRAY.decode(body) if body.lstrip()[:1] == b"[" else [_RAW.decode(body)]
    # a value that is nested too deeply is not valid either
    except (msgspec.DecodeError, RecursionError):
        return [line for line in body.splitlines() if line.strip()]
    return [_on_one_line(bytes(each)) for each in found]


def _on_one_line(value: bytes) -> bytes:
    value = value.strip()
    # A string in JSON contains no line end, so line ends are between its parts.
    return value.replace(b"\r", b" ").replace(b"\n", b" ") if b"\n" in value else value
