"""Keeps a server that must not outlive its starter.

    python keeper.py LOG FOLDER SIGNAL USER COMMAND...

It runs the command, as USER if one is named, and appends its output to LOG. It reads its own standard
input, a pipe whose other end the starter holds:

    s          end the server, as a user would (SIGNAL, a number), and itself
    k          kill the server (SIGKILL), and itself
    the end    the starter has ended, for whatever reason: end the server, and remove FOLDER, if named

The script uses only the standard library, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_GRACE_S = 20.0
"""Maximum time in seconds for a server to end by itself."""
_LOOK_S = 1.0
"""Seconds between checks of the starter's id. A process that the starter has forked may hold the pipe
open after the starter's death."""
_PR_SET_PDEATHSIG = 1


def main(log: str, folder: str, ends_by: int, user: str, command: list[str]) -> int:
    starter = os.getppid()
    ended, ends = os.pipe()
    os.set_blocking(ends, False)
    signal.set_wakeup_fd(ends)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with open(log, "ab") as output:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            **_identity(user),
            # Called as the final user: a change of user cancels the request.
            preexec_fn=_die_with_parent,
        )
    while server.poll() is None:
        readable, _, _ = select.select([0, ended], [], [], _LOOK_S)
        letter = os.read(0, 1) if 0 in readable else None
        if letter == b"k":
            _thaw(server.pid)
            server.kill()
            return server.wait()
        if letter == b"s":
            return _end(server, ends_by)
        if letter is not None or os.getppid() != starter:
            _end(server, ends_by)
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            return 0
        if ended in readable:
            os.read(ended, 1)
    return server.returncode


def _identity(user: str) -> dict[str, Any]:
    if not user:
        return {}
    found = pwd.getpwnam(user)
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": [], "cwd": "/"}


def _end(server: subprocess.Popen[bytes], ends_by: int) -> int:
    _thaw(server.pid)
    server.send_signal(ends_by)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return server.wait(_GRACE_S)
    server.kill()
    return server.wait()


def _thaw(server: int) -> None:
    """Let the server and its children continue. While they are suspended (`Server.freeze`), they notice
    neither a signal nor the end of their parent, and would stay for ever."""
    of_parents = _children()
    waiting = [server]
    while waiting:
        pid = waiting.pop()
        waiting += of_parents.get(pid, [])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _children() -> dict[int, list[int]]:
    """Return the processes of each parent. Without /proc, as on macOS, return none."""
    of_parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of a program, in brackets, may contain any character.
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            of_parents.setdefault(parent, []).append(int(stat.parent.name))
    return of_parents


def _die_with_parent() -> None:
    """Request that the system kills this process when its parent dies, if the system can. So a killed
    keeper leaves no server running."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:]))
