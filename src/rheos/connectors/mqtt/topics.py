"""Topics: names that are built from columns, and filters. A value is one level, or a part of it."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.connectors.name_patterns import NameSyntax
from rheos.core.errors import ProgramError

_MOST_BYTES = 65_535
TOPICS = NameSyntax(
    argument="topic",
    part="a level",
    names=r"[^+#\x00{}$][^+#\x00{}]*",
    values=r"^[^/+#\x00]+$",
    values_rule="is not empty, and has no /, + or #",
    example="plants/{plant}/alarms",
    most_bytes=_MOST_BYTES,
)


def topic_filters(topic: str | Sequence[str]) -> tuple[str, ...]:
    """Return the filters of a user's argument.

    Args:
        topic: a filter, or several.

    Returns:
        The filters.

    Raises:
        ProgramError: One of them is not a filter of MQTT.
    """
    filters = (topic,) if isinstance(topic, str) else tuple(topic)
    if not filters or not all(map(_is_filter, filters)) or len(set(filters)) < len(filters):
        raise ProgramError(
            f"topic={topic!r} does not consist of topic filters",
            hint='write topic="sensors/+/temperature", or topic="sensors/#"',
        )
    return filters


def _is_filter(text: object) -> bool:
    if not (isinstance(text, str) and text and "\0" not in text):
        return False
    *levels, last = text.split("/")
    wildcards = [level for level in (*levels, last) if {"+", "#"} & {*level}]
    return (
        len(text.encode(errors="replace")) <= _MOST_BYTES
        and all(level in ("+", "#") for level in wildcards)
        and "#" not in levels
    )
