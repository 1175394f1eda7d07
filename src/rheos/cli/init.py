"""`rheos init NAME`: a new project with a job, its tests, its settings and a README."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from rheos.cli.terminal import report
from rheos.core.errors import ConfigurationError
from rheos.core.version import VERSION

FILES = ("README.md", "job.py", "test_job.py", "settings.toml", "requirements.txt", ".gitignore")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def init(folder: Path) -> int:
    """Write the project, print the next steps, and return the exit code."""
    try:
        make_project(folder)
    except ConfigurationError as error:
        return report(error)
    print(f"created {folder}: {', '.join(FILES)}\n\n")
    print(f"  cd {folder}")
    print("  pip install -r requirements.txt")
    print("  pytest                                     # its tests, without Spark")
    print("  rheos run job.py --config settings.toml    # the job, until Ctrl-C")
    return 0


def make_project(folder: Path) -> None:
    """Create the whole project; its job has the name of the folder. Raises ConfigurationError, and
    creates nothing then."""
    name = folder.name
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name or str(folder)!r} is not a valid job name",
            hint="a name starts with a letter, followed by up to 63 letters, digits, - and _: rheos "
            "init sensors",
        )
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ConfigurationError(
            f"{str(folder)!r} exists and is not a folder", hint="choose another name"
        )
    if not folder.parent.is_dir():
        raise ConfigurationError(
            f"the folder {str(folder.parent)!r} does not exist",
            hint="create it first, or choose another place",
        )
    made: str | None = None
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise ConfigurationError(
                f"the folder {str(folder)!r} is not empty",
                hint="choose another name; nothing was written",
            )
        # The project is created next to its place and then renamed, so that it is complete or does not
        # exist.
        made = tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent)
        for file in FILES:
            (Path(made) / file).write_text(text_of(file, name), encoding="utf-8")
        os.chmod(made, 0o777 & ~_umask())
        os.replace(made, folder)
    except OSError as error:
        raise ConfigurationError(
            f"the project {str(folder)!r} could not be written: {error.strerror or error}",
            hint="all files of it were removed again; check the folder's permissions and the disk",
        ) from error
    finally:
        if made is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(made)


def text_of(file: str, name: str) -> str:
    """Return the content for a file of the project."""
    template = files("rheos.cli") / "project" / f"{file.lstrip('.')}.template"
    text = template.read_text(encoding="utf-8")
    return text.replace("{{NAME}}", name).replace("{{VERSION}}", VERSION)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
