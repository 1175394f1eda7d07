"""Closing what nobody waits for any more: what fails there is logged, and hides no other error."""

from __future__ import annotations

import logging
from collections.abc import Callable

LOGGER = logging.getLogger("rheos")


def close_logged(close: Callable[[], None]) -> None:
    """Calls `close`; an error of it goes into the log, as a warning."""
    try:
        close()
    except Exception as error:
        LOGGER.warning("closing failed, continuing: %s", error)
