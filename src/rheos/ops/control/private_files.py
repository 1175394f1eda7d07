"""Private files of this user, which others read while they are written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_privately(path: Path, data: bytes) -> None:
    """Write a file atomically, readable only by its owner. Raise OSError if it cannot be written."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
