"""Workers that were killed by a signal: the daemon reports them, and the driver names them."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from rheos.core.errors import WorkerLostError
from rheos.runtimes.continuous.control_server import WorkerProcess
from rheos.runtimes.continuous.launcher import SparkLauncher
from rheos.runtimes.spark.shipping import worker_error
from rheos.runtimes.spark.worker_exits import note_exit, signal_of, signal_text

DAEMON = """
import os, signal, time
from types import SimpleNamespace
from typing import Any
from rheos.runtimes.spark.worker_exits import report_exits

daemon = SimpleNamespace()
report_exits(daemon)
daemon.signal.signal(daemon.signal.SIGCHLD, daemon.signal.SIG_IGN)

def forked(work):
    pid = daemon.os.fork()
    if pid == 0:
        daemon.signal.signal(daemon.signal.SIGCHLD, daemon.signal.SIG_DFL)
        work()
        os._exit(0)
    return pid

def ended(pid):
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.01)

killed = forked(lambda: os.kill(os.getpid(), signal.SIGKILL))
ended(killed)
ended(forked(lambda: os._exit(3)))
by_spark = forked(lambda: time.sleep(60))
daemon.os.kill(by_spark, signal.SIGKILL)
ended(by_spark)
print(killed, flush=True)
of_the_group = forked(lambda: time.sleep(60))
daemon.signal.signal(daemon.signal.SIGHUP, daemon.signal.SIG_IGN)
daemon.os.kill(0, signal.SIGHUP)
ended(of_the_group)
"""


def test_the_daemon_reports_workers_killed_by_others() -> None:
    done = subprocess.run(
        [sys.executable, "-c", dedent(DAEMON)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        start_new_session=True,
    )
    (line,) = done.stderr.splitlines()
    pid = int(done.stdout)
    assert line == f"rheos: worker process {pid} was killed by signal 9"
    assert note_exit(line)
    assert not note_exit(f"a program prints: {line}")
    assert (signal_of(pid, 0.0), signal_of(pid, 0.0)) == (9, None)
    assert signal_text(9) == "signal 9 (SIGKILL)"
    assert signal_text(200) == "signal 200"


SPARK = (
    "Could not recover from a failed barrier ResultStage. Most recent failure reason: Stage failed "
    "because barrier task ResultTask(0, 1) finished unsuccessfully.\n"
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
)
ONE = "Lost task 2.0 in stage 0.0 (TID 1): Python worker exited unexpectedly (crashed)"


@pytest.mark.parametrize(
    ("text", "subtask", "what"),
    [
        (SPARK, 1, "worker 1 lost (process 4711 on host a, killed by signal 9 (SIGKILL)): its process"),
        (ONE, 2, "worker 2 lost (process 4712 on host a): its process ended without an error"),
        ("Python worker exited unexpectedly", None, "worker of Spark lost: its process ended"),
    ],
)
def test_a_lost_worker_error_names_subtask_process_and_signal(
    text: str, subtask: int | None, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = worker_error(RuntimeError(text))
    assert isinstance(error, WorkerLostError)
    assert error.subtask == subtask
    launcher = SparkLauncher.__new__(SparkLauncher)
    server: Any = SimpleNamespace(processes={1: WorkerProcess(4711, "a"), 2: WorkerProcess(4712, "a")})
    launcher._folder = SimpleNamespace(path="/tmp")  # type: ignore[assignment]
    monkeypatch.setattr("rheos.runtimes.continuous.launcher._SIGNAL_WITHIN_S", 0.0)
    assert note_exit("rheos: worker process 4711 was killed by signal 9")
    launcher._name_process(error, server)
    assert error.what.startswith(what)
    signal_of(4711, 0.0)
