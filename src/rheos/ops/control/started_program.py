"""The program that a driver runs: its file and arguments, so that it can be inspected later."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rheos.runtimes.job import CommandSettings

NO_SETTINGS = CommandSettings()


class StartedProgram(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    """Absolute path."""
    arguments: list[str]
    folder: str
    """Working directory of the driver."""
    parameters: dict[str, str]
    """Job parameters that the command passed instead of the program's own."""
    digest: str
    """Digest of the file when the job was started."""
    config: str | None = None
    """Absolute path of the command's file of settings; None if it has no such file."""
    config_digest: str | None = None
    """Digest of that file when the job was started."""
    options: dict[str, Any] = {}
    """Other settings of the command, by the names of `rh.Settings`. Those with credentials are left
    out."""
    interpreter: str = ""
    """Path of the Python that runs the driver; empty if the driver's version did not record it."""

    @property
    def as_started(self) -> bool:
        """Return whether the file is unchanged."""
        return _digest(Path(self.file)) == self.digest

    @property
    def has_same_settings_file(self) -> bool:
        """Return whether the file of settings is unchanged."""
        return self.config is None or _digest(Path(self.config)) == self.config_digest


def started_program(
    parameters: Mapping[str, object], command: CommandSettings = NO_SETTINGS
) -> StartedProgram | None:
    """Return the program of this process; None if it is not a file, as in a notebook."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None:
        return None
    return program_of(Path(main).absolute(), sys.argv[1:], parameters, command)


def program_of(
    file: Path,
    arguments: Sequence[str],
    parameters: Mapping[str, object],
    command: CommandSettings = NO_SETTINGS,
) -> StartedProgram | None:
    """Return the program that a process in this folder would run; None if the file does not exist."""
    digest = _digest(file)
    if digest is None:
        return None
    return StartedProgram(
        file=str(file),
        arguments=list(arguments),
        folder=os.getcwd(),
        parameters={name: str(value) for name, value in parameters.items()},
        digest=digest,
        config=command.file,
        config_digest=None if command.file is None else _digest(Path(command.file)),
        options=dict(command.options),
        interpreter=sys.executable or "",
    )


def _digest(file: Path) -> str | None:
    try:
        return hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return None
