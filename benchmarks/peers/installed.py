"""Packages of other systems, in folders of the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rheos.runtimes.host.user_cache import user_cache


def installed_once(name: str, install: Callable[[str], None]) -> Path:
    """Return a folder that `install` fills at first use. It exists whole or not at all.

    Args:
        name: Name of the folder in the user's cache.
        install: Function that fills the folder whose path it is given. What it raises passes through.
    """
    folder = user_cache(name)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = tempfile.mkdtemp(prefix=".new-", dir=folder.parent)
        try:
            install(new)
            os.rename(new, folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return folder


def pip_install(python: str | Path, arguments: Sequence[str]) -> None:
    """Install packages. Raises CalledProcessError."""
    pip = [str(python), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *arguments], check=True, stdout=sys.stderr)
