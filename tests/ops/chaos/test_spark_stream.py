"""A job over a Spark stream whose driver is killed, together with the streaming query and the JVM."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.connectors.jobs.from_a_stream import written
from tests.connectors.test_spark_streams import ROWS, put_file
from tests.processes import Started
from tests.waiting import wait_for

JOB = Path(__file__).parents[2] / "connectors" / "jobs" / "from_a_stream.py"
FILES = 3
"""For each of three runs, of which two are killed."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.deploy
def test_a_killed_driver_loses_and_duplicates_no_rows_of_a_spark_stream(
    tmp_path: Path, started: Started
) -> None:
    folder, all_rows = str(tmp_path), 3 * FILES * ROWS

    def put_more(run: int) -> None:
        for number in range(run * FILES, (run + 1) * FILES):
            put_file(tmp_path / "in", number)

    def killed(before: int) -> int:
        """How many rows were there when it was dead."""
        run = started.python(str(JOB), folder, str(all_rows))
        wait_for(lambda: len(written(folder)) > before or run.poll() is not None)
        os.killpg(run.pid, signal.SIGKILL)
        assert run.wait(60) == -signal.SIGKILL, started.output(run)
        return len(written(folder))

    put_more(0)
    first = killed(0)
    put_more(1)
    killed(first)
    put_more(2)
    last = started.python(str(JOB), folder, str(all_rows))
    assert last.wait(480) == 0, started.output(last)
    assert written(folder) == list(range(all_rows))
