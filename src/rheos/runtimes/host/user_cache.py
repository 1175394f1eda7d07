"""Where what is made or fetched once for a user is kept. It imports nothing that takes time."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(what: str) -> Path:
    """The folder of the user's cache for `what`, which need not be there yet."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rheos" / what
