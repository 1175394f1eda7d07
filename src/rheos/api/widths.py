"""Parallelism of a job: a fixed number of subtasks, or bounds within which it follows the load."""

from __future__ import annotations

import re

from rheos.core.errors import ConfigurationError
from rheos.core.graph.validate import check_parallelism
from rheos.core.state.key_groups import MAX_KEY_GROUPS
from rheos.runtimes.job import ScalingBounds

_AUTO = re.compile(r"auto(?::(\d+)\.\.(\d*))?")


def read_width(value: int | str, max_parallelism: int) -> tuple[int, ScalingBounds | None]:
    """Return the initial parallelism, and the bounds within which it follows the load; None if it is
    fixed.

    Raise ConfigurationError or ProgramError if it is invalid.

    >>> read_width("auto:2..8", 128)
    (2, ScalingBounds(least=2, most=8))
    """
    if not isinstance(value, str):
        check_parallelism(value, max_parallelism, MAX_KEY_GROUPS)
        return value, None
    match = _AUTO.fullmatch(value)
    if match is None:
        raise ConfigurationError(
            f"parallelism={value!r} is not valid",
            hint='write a number, "auto:2..8" to follow the load between 2 and 8, or "auto" to '
            "use up to all slots",
        )
    least, most = int(match[1] or 1), int(match[2]) if match[2] else None
    for bound in (least, most or least):
        check_parallelism(bound, max_parallelism, MAX_KEY_GROUPS)
    if most is not None and most < least:
        raise ConfigurationError(
            f"{value!r} has a minimum of {least} and a maximum of {most}",
            hint="write the minimum first",
        )
    return least, ScalingBounds(least, most)
