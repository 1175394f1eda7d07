"""The splits of a source."""

from __future__ import annotations

import msgspec

LISTING_TRIES = 5
"""As many listings of a source's splits may fail in a row while a job runs; then the attempt does."""


class Split(msgspec.Struct, frozen=True):
    """One independently readable, replayable piece of a source.

    `id` is unique in the source and stable over restarts; `payload` is the connector's own.
    """

    id: str
    payload: bytes = b""
    phase: int = 0
    """It is opened only when all splits of lower phases are read to their ends, in all subtasks."""
