"""The parent process of one replay. It ends the replay after its time limit, at its memory limit, and
with the dashboard.

    dashboard ── guard ── replay (a process group of its own, with all that it starts)

The guard does not depend on the dashboard. If the dashboard is killed, the system notifies the guard
(on Linux), and so does the pipe between the two. If the guard is killed, the system kills the replay.

    python -m rheos.ops.dashboard.replay_guard PIPE PARENT SECONDS MEMORY_BYTES COMMAND...

Its input begins with the replay's folder and environment (`surroundings`); the rest is the replay's.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Any

import psutil

from rheos.runtimes.host.process_ends import end_with_parent

_LOOK_EVERY_S = 0.1
_LENGTH_DIGITS = 9
_MEASURE_EVERY = 3
"""Number of checks between two measurements of memory."""


class GuardExit(IntEnum):
    """The guard's exit code: the reason why the replay has ended."""

    DONE = 0
    TOO_LATE = 3
    TOO_MUCH_MEMORY = 4
    ASKED = 5
    NOT_STARTED = 6


def main() -> int:
    pipe, parent, seconds, memory_bytes = map(int, sys.argv[1:5])
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    end_with_parent(parent, signal.SIGTERM)
    try:
        folder, environment = json.loads(_read(int(_read(_LENGTH_DIGITS))))
        replay = subprocess.Popen(
            sys.argv[5:],
            cwd=folder,
            env=environment,
            process_group=0,
            # This process has only one thread.
            preexec_fn=partial(end_with_parent, os.getpid(), signal.SIGKILL),
        )
    except (OSError, ValueError):
        return GuardExit.NOT_STARTED
    # Only the replay may keep these open: the dashboard reads to the end of its output.
    os.close(0)
    os.close(1)
    try:
        return _watch(replay, pipe, time.monotonic() + seconds, memory_bytes, asked)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(replay.pid, signal.SIGKILL)
        replay.wait()


def surroundings(folder: str | None, environment: Mapping[str, str]) -> bytes:
    """Return the start of the guard's input."""
    data = json.dumps([folder, dict(environment)]).encode()
    return b"%0*d" % (_LENGTH_DIGITS, len(data)) + data


def _read(count: int) -> bytes:
    """Read exactly `count` bytes; the rest is the replay's. Raise ValueError if there are fewer."""
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            raise ValueError("the dashboard has ended")
        data += part
    return data


def _watch(
    replay: subprocess.Popen[Any], pipe: int, deadline_s: float, memory_bytes: int, asked: list[int]
) -> GuardExit:
    looks = 0
    while not asked:
        ended, _, _ = select.select([pipe], [], [], _LOOK_EVERY_S)
        if ended:
            break
        # The process is not reaped before its group is killed, so nothing else receives its number.
        if os.waitid(os.P_PID, replay.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return GuardExit.DONE
        if time.monotonic() >= deadline_s:
            return GuardExit.TOO_LATE
        looks += 1
        if looks % _MEASURE_EVERY == 0 and _memory_bytes(replay.pid) > memory_bytes:
            return GuardExit.TOO_MUCH_MEMORY
    return GuardExit.ASKED


def _memory_bytes(pid: int) -> int:
    """Return the resident memory of the replay's process and its child processes."""
    found = 0
    with contextlib.suppress(psutil.Error):
        replay = psutil.Process(pid)
        for process in (replay, *replay.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                found += process.memory_info().rss
    return found


if __name__ == "__main__":
    sys.exit(main())
