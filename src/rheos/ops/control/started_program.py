"""The program that a driver runs: which file, with what, so that it can be looked at again."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec


class StartedProgram(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    """Absolute."""
    arguments: list[str]
    folder: str
    """The working directory of its driver."""
    parameters: dict[str, str]
    """Of the job, those that the command gave over the program's own."""
    digest: str
    """Of the file, when the job was started."""
    interpreter: str = ""
    """The Python that runs the driver; empty where its version did not record it."""

    @property
    def as_started(self) -> bool:
        """Whether the file is still what it was."""
        return _digest(Path(self.file)) == self.digest


def started_program(parameters: Mapping[str, object]) -> StartedProgram | None:
    """What this process runs; None where that is no file, as in a notebook."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None:
        return None
    return program_of(Path(main).absolute(), sys.argv[1:], parameters)


def program_of(
    file: Path, arguments: Sequence[str], parameters: Mapping[str, object]
) -> StartedProgram | None:
    """What a process in this folder would run; None where there is no such file."""
    digest = _digest(file)
    if digest is None:
        return None
    return StartedProgram(
        file=str(file),
        arguments=list(arguments),
        folder=os.getcwd(),
        parameters={name: str(value) for name, value in parameters.items()},
        digest=digest,
        interpreter=sys.executable or "",
    )


def _digest(file: Path) -> str | None:
    try:
        return hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return None
