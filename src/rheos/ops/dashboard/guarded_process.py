"""A process under a guard (`replay_guard`), which limits its time and memory and ends it with us."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from math import ceil

import psutil


class GuardedProcess:
    """A process that reads one request from its input, and writes one answer to its output."""

    def __init__(
        self, command: Sequence[str], seconds: float, memory_bytes: int, *, shows_errors: bool = False
    ) -> None:
        """Start the guard.

        Args:
            command: the command of the process. Its folder and environment are part of the request.
            seconds: time limit.
            memory_bytes: limit of the process and its child processes.
            shows_errors: whether the process writes to our stderr. By default, that output is dropped.

        Raises:
            OSError: the guard cannot be started.
        """
        read, self._held = os.pipe()
        # While this process lives, it holds the other end of the guard's pipe.
        limits = [str(each) for each in (read, os.getpid(), ceil(seconds), memory_bytes)]
        guard = [sys.executable, "-P", "-m", "rheos.ops.dashboard.replay_guard"]
        try:
            self.guard = subprocess.Popen(
                [*guard, *limits, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if shows_errors else subprocess.DEVNULL,
                pass_fds=(read,),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._held)
            raise
        finally:
            os.close(read)

    def ask(self, request: bytes, most_bytes: int) -> bytes:
        """Write the request, which begins with `surroundings`. Return up to `most_bytes` of the answer.
        Afterwards the guard ends the process. Called once."""
        assert self.guard.stdin is not None
        assert self.guard.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                self.guard.stdin.write(request)
                self.guard.stdin.close()
            return self.guard.stdout.read(most_bytes)
        finally:
            os.close(self._held)

    def wait(self) -> int:
        """Wait until the guard has ended, after `ask`. Return its exit code, a `GuardExit`."""
        with self.guard as guard:
            return guard.wait()


def default_memory_bytes() -> int:
    """Return 4 GiB, or half of the machine's memory if that is less."""
    return min(4 << 30, int(psutil.virtual_memory().total) // 2)
