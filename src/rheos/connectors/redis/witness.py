"""Whether a Redis that was restarted still has what was written to it last.

A Redis without an append-only file loses its newest writes in a crash, or all of them. The sink's rows
are delivered by then, and nobody would notice. So a sink that connects to a server of another run looks
for the keys that it wrote last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rheos.connectors.redis.client_options import client
from rheos.connectors.redis.text import command
from rheos.core.protocol.elements import Batch

_LOOKED_FOR = 8
"""Number of keys that are looked for."""
_RUN_ID = re.compile(rb"run_id:(\w+)")


class Witness:
    """A writer's knowledge of the server: its run id, and rows that it has confirmed."""

    def __init__(self, keys: Callable[[Batch], list[bytes]]) -> None:
        """`keys` returns the keys of rows in Redis, except for those that may be gone rightly."""
        self._keys = keys
        self._run: bytes | None = None
        self._rows: Batch | None = None

    def confirmed(self, rows: Batch) -> None:
        """Remember rows that the server has confirmed, in place of those before."""
        self._rows = rows

    def lost_all(self, ask: Callable[..., list[Any]]) -> int:
        """Return how many keys are missing on a new connection: 0 if any is there, or if it is the same
        run of the server. `ask` sends commands, and returns their answers.

        Raises what the client raises, except where the server does not permit the question.
        """
        try:
            [info] = ask(command("INFO", "server"))
        except client().ResponseError:
            return 0
        found = _RUN_ID.search(info if isinstance(info, bytes) else str(info).encode())
        before, self._run = self._run, None if found is None else found[1]
        if before is None or self._run in (None, before) or self._rows is None:
            return 0
        rows = self._rows
        looked_for = self._keys(rows.slice(max(rows.num_rows - _LOOKED_FOR, 0)))
        if not looked_for:
            return 0
        [there] = ask(command("EXISTS", *looked_for))
        return 0 if there else len(looked_for)
