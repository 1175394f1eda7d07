"""The folder for objects that are made or downloaded once per user. Imports only fast modules."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(what: str) -> Path:
    """Return the folder of the user's cache for `what`, which may not exist."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rheos" / what
