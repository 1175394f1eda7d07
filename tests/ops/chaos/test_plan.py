"""Chaos kills only processes that the job has started, and reports the results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

import rheos as rh
from rheos.ops import chaos
from rheos.ops.chaos.processes import JobProcesses
from tests.ops.chaos.conftest import Started, wait_for

SLEEP = "import time; time.sleep(600)"
WITH_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"


def test_faults_are_read_from_the_command() -> None:
    assert chaos.Fault.parse("workers, driver") == {chaos.Fault.WORKERS, chaos.Fault.DRIVER}
    with pytest.raises(rh.ConfigurationError, match="unknown fault 'power'"):
        chaos.Fault.parse("workers,power")
    with pytest.raises(rh.ConfigurationError, match="no fault is specified"):
        chaos.Fault.parse(" ")


def test_only_descendants_are_found_and_orphans_are_remembered(started: Started) -> None:
    root, other = started.python("-c", WITH_A_CHILD), started.python("-c", WITH_A_CHILD)
    processes = JobProcesses()
    processes.add(root.pid)

    def both() -> bool:
        processes.look()
        return len(processes.alive()) == 2

    wait_for(both)
    wait_for(lambda: psutil.Process(other.pid).children())
    processes.look()
    found = {process.pid for process in processes.alive()}
    (child,) = found - {root.pid}
    assert psutil.Process(child).ppid() == root.pid
    root.kill()
    root.wait()
    processes.look()
    assert [process.pid for process in processes.alive()] == [child]
    assert processes.slots() == processes.executors() == []
    psutil.Process(child).kill()
    psutil.Process(other.pid).children()[0].kill()


def run(code: str) -> chaos.Report:
    return chaos.run(chaos.Plan([sys.executable, "-c", code], start_within_s=60))


def test_a_job_that_ends_before_any_fault_is_correct() -> None:
    done = run("pass")
    assert done.ok
    assert done.summary()[1:] == [
        "  no fault was injected: the job had already ended, or had no such process",
        "the job is correct (exit code 0)",
    ]


def test_a_job_that_fails_is_reported_as_failed() -> None:
    done = run("raise SystemExit(3)")
    assert not done.ok
    assert done.summary()[-1] == "the job failed: its driver ended with code 3 (exit code 3)"


def test_all_processes_of_a_job_are_ended(tmp_path: Path) -> None:
    """The job does not start in time, so chaos ends it and all processes that it has started."""
    pids = tmp_path / "pids"
    code = f"import os; open({str(pids)!r}, 'w').write(str(os.getpid())); {SLEEP}"
    done = chaos.run(chaos.Plan([sys.executable, "-c", code], start_within_s=5))
    assert done.failure == "it did not start within 5 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


STRUCK = """
import os, socket, time
from pathlib import Path

if not os.fork():  # The JVM.
    Path("/proc/self/comm").write_text("java")
    if not os.fork():  # Its daemon: a worker that is killed has another one in its place, twice.
        Path("/proc/self/comm").write_text("python")
        for _ in range(3):
            if not (worker := os.fork()):
                with socket.create_server(("127.0.0.1", 0)):
                    time.sleep(600)
            os.waitpid(worker, 0)
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
"""


def test_the_next_fault_waits_until_the_job_makes_progress() -> None:
    """Holds although the plan asks for a hundred faults per second, and the slot is filled at once."""
    told: list[str] = []

    def log(line: str) -> None:
        told.append(" ".join(line.split()[2:4]))

    def newest_checkpoint(driver: int) -> int:
        # Chaos reads this a few times while the job starts, and once when it injects a fault.
        asked.append(driver)
        if len(asked) % 5 == 4:
            told.append(f"checkpoint {len(asked) // 5 + 1}")
        return (len(asked) + 1) // 5

    asked: list[int] = []
    plan = chaos.Plan(
        [sys.executable, "-c", STRUCK], kill_every_s=0.01, progress=newest_checkpoint, seed=3
    )
    done = chaos.run(plan, log=log)
    assert done.ok, done.summary()
    assert told == [
        "checkpoint 1",
        "the job",
        "SIGKILL worker",
        "checkpoint 2",
        "job recovered,",
        "SIGKILL worker",
        "checkpoint 3",
        "job recovered,",
        "SIGKILL worker",
    ]


def test_the_summary_states_recovery_times() -> None:
    kinds = chaos.Fault
    strikes = [
        chaos.Strike(kinds.WORKERS, 1.0, 7, back_after_s=0.5),
        chaos.Strike(kinds.WORKERS, 6.0, 8, back_after_s=2.5),
        chaos.Strike(kinds.WORKERS, 9.0, 8),
        chaos.Strike(kinds.DRIVER, 12.0, 9, back_after_s=6.0),
    ]
    done = chaos.Report(strikes, drivers=2, exit_code=0, ran_s=60.4, left_behind=["9 (java)"])
    assert done.summary() == [
        "4 faults injected in 60 s, 2 starts of the driver",
        "  workers      3; recovered after 2.5 s (median), 2.5 s (maximum)",
        "  driver       1; recovered after 6.0 s (median), 6.0 s (maximum)",
        "  ended a process that was left over: 9 (java)",
        "the job is correct (exit code 0)",
    ]
