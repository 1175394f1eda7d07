"""The splits of a source."""

from __future__ import annotations

import msgspec

LISTING_TRIES = 5
"""Number of consecutive failed listings of a running job's source after which its attempt fails."""


class Split(msgspec.Struct, frozen=True):
    """One independently readable, replayable piece of a source.

    `id` is unique in the source and stable over restarts. Only the connector interprets `payload`.
    """

    id: str
    payload: bytes = b""
    phase: int = 0
    """Phase of the split. It is opened only after all subtasks have read all splits of lower phases."""
