"""The mark by which a published object is recognised: a random nonce in the object's metadata.

Object stores may lose the answer of a request that took effect. Then the commit is repeated, finds the
object, and must decide whether it is its own or a stranger's (FS3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from uuid import uuid4

import msgspec

from rheos.connectors.files.publication.contract import FileCommittable, damaged

MARK = "rheos_file"
"""Name of the metadata entry. Azure allows letters, digits and underscores only."""

T = TypeVar("T")


def new_mark() -> str:
    """Return a mark that no other object has."""
    return uuid4().hex


def has_mark(metadata: Mapping[str, str] | None, mark: str) -> bool:
    """Return whether an object's metadata contain the mark. Services may change the case of names."""
    return any(name.lower() == MARK and value == mark for name, value in (metadata or {}).items())


def decode_upload(file: FileCommittable, kind: type[T]) -> T:
    """Decode `file.upload`. Raises UnrestorableError if the bytes are not such an upload."""
    try:
        return msgspec.msgpack.decode(file.upload, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise damaged(f"{file.target!r} has no upload of this store: {error}") from error
