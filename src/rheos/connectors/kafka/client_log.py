"""What Kafka's client logs: the logger, and what is left out of it."""

from __future__ import annotations

import logging
import re

LOGGER = logging.getLogger("rheos.kafka")
"""What Kafka's client has to say, such as that a broker is away."""

_AGAIN_S = 30.0
_REMEMBERED = 256
_VARIES = re.compile(r"#(producer|consumer)-\d+|\(after \d+ms.*")
"""What differs between two messages that say the same."""


class OncePerWhile(logging.Filter):
    """Leaves out what was logged less than half a minute ago: a client that looks for a broker says
    twenty times a second that it has found none."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said = _VARIES.sub("", record.getMessage())
        last_s = self._logged_at_s.get(said)
        if last_s is not None and abs(record.created - last_s) < _AGAIN_S:
            return False
        if len(self._logged_at_s) >= _REMEMBERED:
            self._logged_at_s.clear()
        self._logged_at_s[said] = record.created
        return True
