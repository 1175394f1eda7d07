"""Positions in a collection's documents and then in its changes."""

from __future__ import annotations

from typing import Any

import msgspec

from rheos.connectors.mongodb.session import bson


class DocumentPosition(msgspec.Struct, frozen=True, array_like=True):
    """Position of a reader. Values of MongoDB are encoded as BSON."""

    token: bytes
    """Resume token of the change stream: the changes after it are to be read."""
    in_snapshot: bool = False
    """Whether documents are still to be read. Then the changes begin at `token`."""
    after: bytes | None = None
    """In the snapshot: `_id` of the last document that was returned."""

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, position: bytes) -> DocumentPosition:
        """Decode a position of a checkpoint."""
        return msgspec.msgpack.decode(position, type=cls)


def encoded(value: Any) -> bytes:
    """Return a value of a document as bytes."""
    content: bytes = bson().encode({"v": value})
    return content


def decoded(content: bytes) -> Any:
    """Return the value that `encoded` was passed."""
    return bson().decode(content)["v"]
