"""A driver that receives SIGTERM leaves a checkpoint, and the next one repeats no row."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.savepoint import read_savepoint, verify_savepoint
from rheos.core.protocol.ids import JobId
from rheos.runtimes.host.stores import open_store
from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.deploy]
SIGTERM = 128 + signal.SIGTERM

ROWS = 12_000
JOB = """
import glob, sys, time
import rheos as rh

folder, how, settings = sys.argv[1], sys.argv[2], dict(each.split("=") for each in sys.argv[3:])
settings = {name: value or True for name, value in settings.items()}


def slow(row):
    if how == "stuck" and row["n"] % 100 < 2 and glob.glob(folder + "/out/*.parquet"):
        open(folder + "/stuck", "w").close()
        time.sleep(3600)
    return row


env = rh.Environment(
    2,
    runtime="continuous",
    master="local[3]",
    checkpoint_dir=folder + "/checkpoints",
    checkpoint_interval="1s" if how == "stuck" else "1h",
    **settings,
)
rate = {"for long": 100, "gradually": 300}.get(how, 2000)
numbers = rh.generator(lambda block: {"n": block.number()}, count=ROWS, rate_per_s=rate, splits=2)
rows = env.from_source(numbers).map(slow, returns={"n": int})
rows.sink_to(rh.files.sink(folder + "/out"))
job = env.execute_async("numbers")
while True:
    try:
        job.wait(0.1)
        break
    except TimeoutError:
        read = job.status().operators[0].records_out if job.status().operators else 0
        print("read", read, flush=True)
print("the program continues", flush=True)
""".replace("ROWS", str(ROWS))


class Run:
    """A driver of the job."""

    def __init__(self, folder: Path, started: Started, how: str, *settings: str) -> None:
        program = folder / "job.py"
        program.write_text(JOB)
        self._started = started
        command = [sys.executable, str(program), str(folder), how, *settings]
        self.process: subprocess.Popen[bytes] = started.command(command)

    @property
    def output(self) -> str:
        return self._started.output(self.process)

    def has_read(self, rows: int) -> None:
        def met() -> bool:
            assert self.process.poll() is None, self.output
            read = re.findall(r"^read (\d+)\n", self.output, re.MULTILINE)
            return bool(read) and int(read[-1]) > rows

        wait_for(met)

    def ends(self, code: int) -> None:
        assert self.process.wait(200) == code, self.output
        assert ("the program continues" in self.output) is (code == 0)


def rows(folder: Path) -> list[int]:
    return sorted(pl.read_parquet(folder / "out")["n"].to_list())


@pytest.mark.proves("local", faults=["the driver receives SIGTERM"])
def test_the_next_driver_resumes_from_a_checkpoint_of_the_end(tmp_path: Path, started: Started) -> None:
    first = Run(tmp_path, started, "gradually")
    first.has_read(1500)
    first.process.send_signal(signal.SIGTERM)
    first.ends(SIGTERM)
    published = len(rows(tmp_path))
    assert published >= 1500, "all that was read has been published"
    log = JobLog(open_store(str(tmp_path / "checkpoints")), JobId("numbers")).read()
    assert len(log.completed) == 1, "no checkpoint but the last"
    second = Run(tmp_path, started, "well")
    second.ends(0)
    assert rows(tmp_path) == list(range(ROWS))


@pytest.mark.slow
@pytest.mark.proves(
    "local",
    faults=["the driver receives SIGTERM, and a worker is stuck"],
    slow_because="every run ends a process after its grace period, without Spark",
)
def test_a_stuck_job_is_ended_after_the_grace_period_and_loses_no_row(
    tmp_path: Path, started: Started
) -> None:
    first = Run(tmp_path, started, "stuck", "termination_grace=1s")
    wait_for((tmp_path / "stuck").exists)
    first.process.send_signal(signal.SIGTERM)
    first.ends(SIGTERM)
    second = Run(tmp_path, started, "well")
    second.ends(0)
    assert rows(tmp_path) == list(range(ROWS))


@pytest.mark.slow
@pytest.mark.proves(
    "local",
    faults=["the driver of a job with a standby receives SIGTERM"],
    slow_because="every run has the note that the standby reads",
)
def test_a_standby_takes_over_and_a_savepoint_is_taken_if_set(tmp_path: Path, started: Started) -> None:
    program = tmp_path / "job.py"
    program.write_text(JOB)
    rheos = str(Path(sys.executable).parent / "rheos")
    command = [rheos, "run", str(program), "--standby", "--", str(tmp_path)]
    first = started.command([*command, "for long", "termination_savepoint="])
    wait_for(lambda: re.search("read [1-9]", started.output(first)))
    second = started.command([*command, "well"])
    wait_for(lambda: "standing by" in started.output(second))
    first.send_signal(signal.SIGTERM)
    assert first.wait(200) == SIGTERM, started.output(first)
    assert second.wait(200) == 0, started.output(second)
    assert "taking over the job" in started.output(second)
    assert rows(tmp_path) == list(range(ROWS))
    [savepoint] = (tmp_path / "checkpoints" / "numbers" / "savepoints").iterdir()
    store, directory = open_store(str(savepoint)), str(savepoint)
    verify_savepoint(store, read_savepoint(store, directory), directory)
