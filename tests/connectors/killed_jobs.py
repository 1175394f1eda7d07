"""Runs the job of `jobs/into_a_table.py` twice: its driver is killed, and then a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.waiting import wait_for

JOB = Path(__file__).parent / "jobs" / "into_a_table.py"
"""In a folder of its own: what is next to a script hides packages of the same name, such as `http`."""
ROWS = 1600


def run_with_kills(
    kind: str, folder: Path, target: str, rows_there: Callable[[], int], die_at: int = 2
) -> list[int]:
    """Run the job until the driver dies between the log's entry and the table, and again until its end,
    with a worker that dies.

    Args:
        kind: kind of the tables.
        folder: folder for checkpoints and process ids.
        target: the table, or the folder of tables.
        rows_there: returns the number of rows in the table after the first run.
        die_at: number of the publication before which the driver dies.

    Returns:
        The sorted numbers that the job wrote: each of the two splits counts from 0.
    """
    with _start(kind, folder, target, die_at) as first:
        assert first.wait(400) == -signal.SIGKILL, first.stderr and first.stderr.read().decode()
    assert 0 < rows_there() < ROWS
    for pid in (folder / "pids").iterdir():
        pid.unlink()
    with _start(kind, folder, target, 0) as second:

        def workers() -> list[int]:
            """Return the workers' process ids, without the driver's, which has called the generator,
            too."""
            found = [int(pid.name) for pid in (folder / "pids").iterdir()]
            return [pid for pid in found if pid != second.pid]

        come = wait_for(lambda: workers() or second.poll() is not None)
        assert isinstance(come, list), second.stderr and second.stderr.read().decode()
        os.kill(come[0], signal.SIGKILL)
        assert second.wait(400) == 0, second.stderr and second.stderr.read().decode()
    return sorted([*range(ROWS // 2)] * 2)


def _start(kind: str, folder: Path, target: str, die_at: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(JOB), kind, "local[3]", str(folder), target, str(ROWS), str(die_at)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
