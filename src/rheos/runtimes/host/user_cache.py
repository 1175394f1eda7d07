"""The folder for objects that are made or downloaded once per user. Imports only fast modules."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_MOST_FILES = 1000
"""Number of files above which a folder of the cache is emptied."""


def user_cache(what: str) -> Path:
    """Return the folder of the user's cache for `what`, which may not exist."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "rheos" / what


def own_user_cache(what: str) -> str | None:
    """Return an existing folder of the user's cache that no other user can write, for files that are
    executed. Return None if there cannot be one."""
    folder = user_cache(what)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return None
        files = [path for path in folder.rglob("*") if path.is_file()]
        if len(files) > _MOST_FILES:
            for path in files:
                path.unlink(missing_ok=True)
    except (OSError, RuntimeError):
        return None
    return str(folder)
