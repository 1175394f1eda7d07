"""Lines that Spark's JVM writes to stderr: those of its own log, and those of the workers' programs.

With a local master what workers print comes through the JVM, too, and stays where it is.
"""

from __future__ import annotations

import logging
import re

LOGGER = logging.getLogger("rheos.jvm")
"""Logger for the lines that Spark's JVM logs. Users see its failures as errors."""
LOGGER.addHandler(logging.NullHandler())
_LOGGED = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (.*)")
_AT_THE_START = re.compile(
    r"WARNING: |Using Spark's default log4j|Setting default log level to |To adjust logging level use "
)
_CONTINUED = re.compile(r"\tat |Caused by: |\t\.\.\. |\tSuppressed: ")
_LEVELS = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}


class JvmLines:
    """Sorts the lines of one JVM."""

    def __init__(self) -> None:
        self._level: int | None = None
        """Level of the JVM's previous line; None after a line from elsewhere."""

    def level(self, line: str) -> tuple[int, str] | None:
        """Return the level and the message of a line that the JVM logs; None for any other line."""
        logged = _LOGGED.match(line)
        if logged is not None:
            self._level = _LEVELS.get(logged[1], logging.INFO)
            return self._level, logged[2]
        if _AT_THE_START.match(line):
            self._level = logging.INFO
            return self._level, line
        if self._level is not None and _CONTINUED.match(line):
            return self._level, line
        self._level = None
        return None
