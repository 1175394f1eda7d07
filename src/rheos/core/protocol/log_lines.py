"""Lines of Python's logging, as they travel from a worker to the driver."""

from __future__ import annotations

import msgspec

MAX_MESSAGE_CHARS = 8_000
MAX_ERROR_CHARS = 16_000
"""Maximum length of a traceback. Its end is kept."""


class LogLine(msgspec.Struct, frozen=True):
    at_ms: int
    """Wall-clock time of the worker, ms since the epoch."""
    level: int
    """As Python's logging has it: 20 is INFO."""
    logger: str
    message: str
    operator: str | None = None
    """The id of the operator whose code said it; None where it is of none."""
    error: str = ""
    """The traceback that came with it."""
