"""Decodes bytes from a peer: bounded in size and in depth, and never by pickle.

Every decoder of data from a socket is a `BoundedDecoder`. It checks the bounds before the inner decoder
sees the bytes, because the inner decoder recurses into nested values and allocates announced sizes.

    >>> BoundedDecoder(list[int], max_bytes=100).decode(b"\\x92\\x01\\x02")
    [1, 2]
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

MAX_DEPTH = 16
"""Maximum nesting depth. All messages of Rheos are less deep."""


class MalformedError(ValueError):
    """Bytes that do not encode a value of the expected type, or that exceed its bounds."""


class BoundedDecoder(Generic[T]):
    """Decodes MessagePack into values of one type.

    Decoding raises only MalformedError, whatever the bytes are: longer than `max_bytes`, nested deeper
    than `max_depth`, truncated, or of another type.
    """

    def __init__(self, type_: Any, *, max_bytes: int, max_depth: int = MAX_DEPTH) -> None:
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(type_)
        self._max_bytes = max_bytes
        self._max_depth = max_depth

    def decode(self, data: bytes) -> T:
        if len(data) > self._max_bytes:
            raise MalformedError(f"{len(data)} bytes, but the maximum is {self._max_bytes}")
        _check_nesting(data, self._max_depth)
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            raise MalformedError(str(error)) from error


def _check_nesting(data: bytes, max_depth: int) -> None:
    """Check the first value without recursion: no container is deeper than `max_depth`, and none
    declares more items than bytes follow."""
    around: list[int] = []
    """Number of values that are still to come, for each enclosing container."""
    left = 1
    at, end = 0, len(data)
    while at < end:
        code = data[at]
        if size := _PLAIN[code]:
            at += size
        elif code in _TEXTS:
            field, before = _TEXTS[code]
            at += before + int.from_bytes(data[at + 1 : at + 1 + field], "big")
        else:
            field, per_item = _CONTAINERS[code]
            items = int.from_bytes(data[at + 1 : at + 1 + field], "big") if field else code & 0x0F
            at += 1 + field
            if held := items * per_item:
                if held > end - at:
                    raise MalformedError("it is truncated")
                if len(around) >= max_depth:
                    raise MalformedError(f"it is nested deeper than {max_depth}")
                around.append(left)
                left = held
                continue
        left -= 1
        while not left:
            if not around:
                return
            left = around.pop() - 1


_CONTAINERS = {
    **dict.fromkeys(range(0x80, 0x90), (0, 2)),
    **dict.fromkeys(range(0x90, 0xA0), (0, 1)),
    **{0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)},
}
"""By code: size of the length field (0 if the code itself contains the length), and values per item."""
_TEXTS = {
    **{0xC4: (1, 2), 0xC5: (2, 3), 0xC6: (4, 5), 0xD9: (1, 2), 0xDA: (2, 3), 0xDB: (4, 5)},
    **{0xC7: (1, 3), 0xC8: (2, 4), 0xC9: (4, 6)},
}
"""Sizes for strings, bytes and extensions, by code: size of the length field, and number of bytes
between it and the counted ones."""
_FIXED = {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}
_FIXED |= {0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18}
_FIXED |= {code: 1 + (code & 0x1F) for code in range(0xA0, 0xC0)}
_PLAIN = [0 if code in _CONTAINERS or code in _TEXTS else _FIXED.get(code, 1) for code in range(256)]
"""Number of bytes of a value whose size the code alone determines, by code; otherwise 0."""
