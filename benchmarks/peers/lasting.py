"""A system whose process stays between runs, so that many short runs share one start.

The process reads one cell per line, as `rheos bench` takes it, and answers each with a line of JSON.
Other lines that it prints are ignored.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

_ANSWERS_WITHIN_S = 180.0
_ENDS_WITHIN_S = 20.0


class LastingSystem:
    """A process that makes runs. The creator must close it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        self._rest = b""

    def measure(self, cell: str, seconds: float) -> dict[str, Any]:
        """Return the measurements of one run, by the names of `rheos bench --json`.

        Raises:
            RuntimeError: the process has ended, or does not answer.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{cell} --seconds {seconds:g}\n".encode())
        while not (line := self._line()).startswith(b"{"):
            pass
        measurements: dict[str, Any] = json.loads(line)
        return measurements

    def _line(self) -> bytes:
        out = self._process.stdout
        assert out is not None
        while b"\n" not in self._rest:
            ready, _, _ = select.select([out], [], [], _ANSWERS_WITHIN_S)
            more = out.read(65_536) if ready else b""
            if not more:
                raise RuntimeError(f"no answer from {self._process.args!r}")
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def close(self) -> None:
        """End the process: it ends with its input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def rheos(slots: int) -> LastingSystem:
    """Return Rheos with one Spark session for jobs of up to this number of slots."""
    return LastingSystem([sys.executable, "-m", "benchmarks.peers.rheos_side", str(slots)])
