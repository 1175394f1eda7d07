"""What the tests on real processes share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rheos.testing.chaos.processes import JobProcesses

ROOT = Path(__file__).parents[2]


def wait_for(condition: Callable[[], object], seconds: float = 180) -> None:
    """Polls what other processes bring about; the bound only ends a test that has failed."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


class Started:
    """Processes that a test has started: at its end none of them, and of theirs, is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self.processes = JobProcesses()

    def python(self, *arguments: str) -> subprocess.Popen[bytes]:
        """`python *arguments`; its output goes to a file of the test."""
        return self.command([sys.executable, *arguments])

    def command(self, command: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
        with open(self._folder / f"output-{len(self._started)}", "wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TTY_COMPATIBLE": "0", **environment},
                start_new_session=True,
            )
        self._started.append(process)
        self.processes.add(process.pid)
        return process

    def output(self, of: subprocess.Popen[bytes]) -> str:
        return (self._folder / f"output-{self._started.index(of)}").read_text()

    def end(self) -> None:
        self.processes.look()
        for process in self.processes.alive():
            process.send_signal(signal.SIGKILL)
        for started in self._started:
            started.wait(30)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    started = Started(tmp_path)
    yield started
    started.end()
