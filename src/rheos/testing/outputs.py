"""Result of a tested program: a stream, or several by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rheos.api.streams import DataStream
from rheos.core.errors import ProgramError

OUT = "out"
"""Name of the output of a program with a single one."""


def named_outputs(made: Any) -> Mapping[str, DataStream]:
    """Return the streams by name. Raises ProgramError if they are not streams."""
    outputs = made if isinstance(made, Mapping) else {OUT: made}
    for stream in outputs.values():
        if not isinstance(stream, DataStream):
            raise ProgramError(
                f"the program returns {stream!r}, which is not a stream",
                hint='return the stream whose rows you need, or several by name: {"late": late}',
            )
    return outputs
