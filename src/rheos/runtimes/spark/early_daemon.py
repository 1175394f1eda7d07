"""The daemon of Spark's Python workers, started before Spark needs one.

A worker's imports take a second or two, and Spark starts its daemon when the first task waits for it.
So if Rheos makes a session, a process starts with those imports while the JVM starts. Then it waits at
a socket, in a folder that only the user can enter, until Spark's daemon hands over (`daemon_handover`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rheos.runtimes.spark.jvm_options import surroundings

ONE_THREAD = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",  # Arrow's compute pool takes its size from it, too.
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
}
"""Environment variables that limit a worker's libraries to one thread. Some libraries read them when
they are imported."""

_MODULE = "rheos.runtimes.spark.daemon"
_LOOK_EVERY_S = 0.005
_ENDS_WITHIN_S = 5.0


class EarlyDaemon:
    """The early daemon, on the driver: its process, and the place where Spark's daemon finds it."""

    def __init__(self) -> None:
        self.surroundings = surroundings()
        from rheos.runtimes.host.sockets import SocketFolder  # `rheos run` need not import ZeroMQ.

        self._folder = SocketFolder()
        self.place = str(Path(self._folder.path, "daemon"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, "--ahead", self.place],
            stdin=subprocess.PIPE,  # Until Spark's daemon finds it, it ends when this pipe does.
            stderr=subprocess.DEVNULL,  # Until then, nobody needs its output.
            env={
                **os.environ,
                **ONE_THREAD,
                "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
                "PYTHONUNBUFFERED": "YES",
            },
            # Only the driver reacts to Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )

    def came_up(self) -> bool:
        """Wait until it listens, before its imports. Return False if it has ended: a new Python process
        does not find Rheos, and Spark's daemon would not, either."""
        while not os.path.exists(self.place):
            if self._process.poll() is not None:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True

    def discard(self) -> None:
        """Kill a daemon that was never taken over. It has forked nothing."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the daemon, and the processes that it has forked. May be called again."""
        self._process.terminate()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._folder.close()
