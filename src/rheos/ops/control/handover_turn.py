"""The right to hand one job over, which one command on this machine has at a time.

A second `rheos upgrade` or `rheos rollback` of the job is refused at its start, and not after it has
compared programs and restored state. The right is a lock on a file, which the system releases when the
process ends. A command on another machine does not see it: the driver of the job refuses that one when
it requests the handover.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

from rheos.core.checkpoint.names import safe_name
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.printable import printable
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import JobRecord, home_folder
from rheos.ops.control.running_jobs import find_running

_MAX_BYTES = 1 << 12


class HandoverTurn:
    """The right of this process. Used as a context manager, it ends with the block."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Let other commands hand the job over. May be called again."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> HandoverTurn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.release()


def take_turn(running: JobRecord, command: str) -> HandoverTurn:
    """Return the right to hand a job over.

    Args:
        running: the driver that runs the job.
        command: what this process does, for the message of a command that is refused.

    Raises:
        ConfigurationError: another command on this machine hands the job over.
    """
    path = home_folder() / "handovers" / f"{safe_name(running.key)}.lock"
    while True:
        descriptor = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
                raise FileNotFoundError(path)  # The process before has removed this file meanwhile.
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{this_process()}: {command}".encode()[:_MAX_BYTES])
            return HandoverTurn(path, descriptor)
        except BlockingIOError:
            other = os.read(descriptor, _MAX_BYTES).decode(errors="replace") or "another command"
            os.close(descriptor)
            raise ConfigurationError(
                f"the job {running.job!r} is being handed over already, by {printable(other)}",
                hint="wait until that command has handed the job over or has ended",
            ) from None
        except FileNotFoundError:
            if descriptor < 0:
                raise
            os.close(descriptor)
        except OSError:
            # The right only makes the refusal earlier: the driver refuses a second request itself.
            if descriptor >= 0:
                os.close(descriptor)
            return HandoverTurn(path, -1)


def take_turn_of(wanted: str, command: str, held: contextlib.ExitStack) -> JobRecord | None:
    """Take the turn of a running job, until `held` is closed. Return its driver; None if `wanted` names
    no running job, which a later step reports with the line of the program.

    Raises:
        ConfigurationError: another command on this machine hands the job over.
    """
    try:
        running = find_running(wanted)
    except RheosError:
        return None
    held.enter_context(take_turn(running, command))
    return running
