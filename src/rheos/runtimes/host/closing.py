"""Closing of objects that are no longer needed. An error is logged, so that it hides no other error."""

from __future__ import annotations

import logging
from collections.abc import Callable

LOGGER = logging.getLogger("rheos")


def close_logged(close: Callable[[], None]) -> None:
    """Call `close`, and log its error as a warning."""
    try:
        close()
    except Exception as error:
        LOGGER.warning("closing failed, continuing: %s", error)
