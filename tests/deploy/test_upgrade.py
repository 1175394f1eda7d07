"""A running job is handed over to a changed program, and back, between real processes that are killed.

Each row must be counted once, in the order of its key: the counts of a key are 1, 2, 3 and so on,
whichever program has written them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import psutil
import pytest

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted, LogEntry, decode_entry
from rheos.core.protocol.ids import JobId
from rheos.ops.control.registry import Registry
from rheos.runtimes.host.stores import open_store
from tests.processes import Started
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.deploy]

KEYS = 7
PROGRAM = """
import rheos as rh

VERSION = 1
env = rh.Environment(
    2,
    runtime="continuous",
    master="local[3]",
    checkpoint_dir="checkpoints",
    checkpoint_interval="500ms",
    max_parallelism=MAX,
)
numbers = rh.generator(lambda block: {"k": block.index() % 7}, rate_per_s=2_000, splits=2)
counts = env.from_source(numbers, uid="numbers").key_by("k").running(n=rh.agg.count()).uid("counts")
versions = counts.map(
    lambda row: {"k": row.k, "n": row.n, "v": VERSION}, returns={"k": int, "n": int, "v": int}
)
versions.sink_to(rh.files.sink("out"), name="files", uid="files")
env.execute("orders")
"""


class Upgrades:
    """A job in a folder, its drivers, and its log."""

    def __init__(self, folder: Path, started: Started) -> None:
        self.folder = folder
        self._started = started
        self._read: dict[Path, pl.DataFrame] = {}
        self._write("job.py", 1, 128)
        self._write("job_v2.py", 2, 128)
        self._write("misfit.py", 2, 64)

    def _write(self, name: str, version: int, groups: int) -> None:
        text = PROGRAM.replace("VERSION = 1", f"VERSION = {version}").replace("MAX", str(groups))
        (self.folder / name).write_text(text)

    def rheos(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command in the folder."""
        command = 'cd "$0" && exec "$@"'
        rheos = [sys.executable, "-m", "rheos", *words]
        return self._started.command(
            ["bash", "-c", command, str(self.folder), *rheos], RHEOS_HOME=str(self.folder / "home")
        )

    def output(self, process: subprocess.Popen[bytes]) -> str:
        return self._started.output(process)

    def newest(self) -> LogEntry | None:
        store = open_store(str(self.folder / "checkpoints"))
        paths = sorted(store.list(JobLog(store, JobId("orders")).folder))
        return decode_entry(store.get(paths[-1]), paths[-1]).entry if paths else None

    def is_named(self) -> bool:
        """Return whether the newest entry of the log names a successor."""
        entry = self.newest()
        return isinstance(entry, CheckpointCompleted) and entry.successor is not None

    def is_listed(self, process: subprocess.Popen[bytes]) -> bool:
        """Return whether the driver of the process is listed as one that waits."""
        records = Registry(self.folder / "home" / "jobs").records()
        return any(each.stands_by and each.process.pid == process.pid for each in records)

    def waits(self, condition: Callable[[], bool], *processes: subprocess.Popen[bytes]) -> None:
        """Wait for the condition, while the processes live."""

        def met() -> bool:
            for process in processes:
                assert process.poll() in (None, 0), self.output(process)
            return condition()

        wait_for(met)

    def rows(self) -> pl.DataFrame:
        files = sorted((self.folder / "out").glob("part-*"))
        for file in files:
            if file not in self._read:
                self._read[file] = pl.read_parquet(file)
        return pl.concat([self._read[file] for file in files]) if files else pl.DataFrame()

    def has_written(self, version: int, more: int = 0) -> bool:
        rows = self.rows()
        return len(rows) > 0 and len(rows.filter(pl.col("v") == version)) > more

    def starts(self) -> subprocess.Popen[bytes]:
        """Start version 1, and wait for its output."""
        first = self.rheos("run", "job.py")
        self.waits(lambda: self.has_written(1), first)
        return first

    def check(self) -> None:
        """Check that each row was counted and written once."""
        for counted in self.rows().group_by("k").agg(pl.col("n").sort())["n"]:
            assert counted.to_list() == list(range(1, len(counted) + 1))

    def ends(self, process: subprocess.Popen[bytes]) -> None:
        """End the driver, so that its output is complete, and check it."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(200) == 128 + signal.SIGTERM, self.output(process)
        self.check()


@pytest.fixture
def upgrades(tmp_path: Path, started: Started) -> Upgrades:
    return Upgrades(tmp_path, started)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_job_is_handed_over_and_back(upgrades: Upgrades) -> None:
    first = upgrades.starts()
    second = upgrades.rheos("upgrade", "orders", "job_v2.py", "--keep", "10m")
    upgrades.waits(lambda: upgrades.has_written(2), first, second)
    assert first.poll() is None, "it is kept ready"
    written = len(upgrades.rows().filter(pl.col("v") == 1))
    back = upgrades.rheos("rollback", "orders")
    upgrades.waits(lambda: upgrades.has_written(1, more=written), first, second, back)
    assert back.wait(200) == 0, upgrades.output(back)
    assert second.wait(200) == 0, upgrades.output(second)
    upgrades.ends(first)


@pytest.mark.slow
def test_a_job_is_handed_over_only_if_its_differences_are_allowed(upgrades: Upgrades) -> None:
    first = upgrades.starts()
    compare = ("upgrade", "orders", "job_v2.py", "--compare", "1s")
    refused = upgrades.rheos(*compare)
    assert refused.wait(200) == 3, upgrades.output(refused)
    assert "so the job 'orders' was not handed over" in upgrades.output(refused)
    assert not upgrades.has_written(2)
    second = upgrades.rheos(*compare, "--allow-differences", "files")
    upgrades.waits(lambda: upgrades.has_written(2), first, second)
    assert first.wait(200) == 0, upgrades.output(first)
    upgrades.ends(second)


@pytest.mark.slow
def test_a_program_that_does_not_fit_is_refused_and_the_job_continues(upgrades: Upgrades) -> None:
    first = upgrades.starts()
    refused = upgrades.rheos("upgrade", "orders", "misfit.py")
    assert refused.wait(200) == 1, upgrades.output(refused)
    assert "max_parallelism 128" in upgrades.output(refused)
    written = len(upgrades.rows())
    upgrades.waits(lambda: len(upgrades.rows()) > written, first)
    upgrades.ends(first)


@pytest.mark.slow
def test_the_incumbent_is_killed_when_the_log_names_the_successor(upgrades: Upgrades) -> None:
    first = upgrades.starts()
    second = upgrades.rheos("upgrade", "orders", "job_v2.py")
    upgrades.waits(lambda: upgrades.is_named() or first.poll() is not None, second)
    kill(first)
    upgrades.waits(lambda: upgrades.has_written(2), second)
    upgrades.ends(second)


@pytest.mark.slow
def test_the_successor_is_killed_after_its_claim(upgrades: Upgrades) -> None:
    first = upgrades.starts()
    owner = getattr(upgrades.newest(), "owner", None)
    second = upgrades.rheos("upgrade", "orders", "job_v2.py")
    upgrades.waits(lambda: getattr(upgrades.newest(), "owner", owner) != owner, first, second)
    kill(second)
    written = len(upgrades.rows())
    upgrades.waits(lambda: len(upgrades.rows()) > written + 5_000, first)
    upgrades.ends(first)


@pytest.mark.slow
def test_a_command_that_was_killed_is_run_again(upgrades: Upgrades) -> None:
    """It is killed while its slots start, and again when the log names it or it has claimed the job."""
    first = upgrades.starts()
    command = ("upgrade", "orders", "job_v2.py")
    starting = upgrades.rheos(*command)
    upgrades.waits(lambda: upgrades.is_listed(starting), first, starting)
    kill(starting)
    back = upgrades.rheos("rollback", "orders")
    assert back.wait(200) == 2, upgrades.output(back)
    assert "no earlier version of the job 'orders' is kept ready" in upgrades.output(back)
    owner = getattr(upgrades.newest(), "owner", None)
    second = upgrades.rheos(*command)
    upgrades.waits(
        lambda: upgrades.is_named() or getattr(upgrades.newest(), "owner", owner) != owner,
        first,
        second,
    )
    kill(second)
    written = len(upgrades.rows())
    upgrades.waits(lambda: len(upgrades.rows()) > written + 5_000, first)
    third = upgrades.rheos(*command)
    upgrades.waits(lambda: upgrades.has_written(2), first, third)
    assert first.wait(200) == 0, upgrades.output(first)
    upgrades.ends(third)


@pytest.mark.slow
def test_a_worker_is_killed_during_the_handover(upgrades: Upgrades) -> None:
    first = upgrades.starts()
    owner = getattr(upgrades.newest(), "owner", None)
    second = upgrades.rheos("upgrade", "orders", "job_v2.py")
    upgrades.waits(lambda: getattr(upgrades.newest(), "owner", owner) != owner, first, second)
    workers = [
        child
        for child in psutil.Process(second.pid).children(recursive=True)
        if "daemon" in " ".join(child.cmdline()) and not child.children()
    ]
    for worker in workers[:1]:
        worker.send_signal(signal.SIGKILL)
    upgrades.waits(lambda: upgrades.has_written(2), second)
    upgrades.ends(second)


@pytest.mark.slow
@pytest.mark.parametrize(("claimed", "restarted"), [(False, 1), (True, 2)])
def test_both_drivers_are_killed_and_one_is_restarted(
    upgrades: Upgrades, claimed: bool, restarted: int
) -> None:
    first = upgrades.starts()
    owner = getattr(upgrades.newest(), "owner", None)
    second = upgrades.rheos("upgrade", "orders", "job_v2.py")

    def is_reached() -> bool:
        has_claim = getattr(upgrades.newest(), "owner", owner) != owner
        return has_claim or (upgrades.is_named() and not claimed)

    upgrades.waits(is_reached, first, second)
    for process in (first, second):
        process.send_signal(signal.SIGKILL)
    for process in (first, second):
        process.wait()
    written = len(upgrades.rows().filter(pl.col("v") == restarted))
    third = upgrades.rheos("run", "job.py" if restarted == 1 else "job_v2.py")
    upgrades.waits(lambda: upgrades.has_written(restarted, more=written), third)
    upgrades.ends(third)
