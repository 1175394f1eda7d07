"""Lines of Python's logging, in the form in which a worker sends them to the driver."""

from __future__ import annotations

import msgspec

MAX_MESSAGE_CHARS = 8_000
MAX_ERROR_CHARS = 16_000
"""Maximum length of a traceback. Its end is kept."""


class LogLine(msgspec.Struct, frozen=True):
    at_ms: int
    """Wall-clock time of the worker, ms since the epoch."""
    level: int
    """Level of Python's logging: 20 is INFO."""
    logger: str
    message: str
    operator: str | None = None
    """Id of the operator whose code logged the line; None for a line of no operator."""
    error: str = ""
    """Traceback that was logged with the line."""
