"""SIGTERM in a process with jobs: what they are asked, and how the process ends.

The jobs are stand-ins; processes and signals are real.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading, time
from rheos.ops.control.termination import TERMINATION

over = threading.Event()


class Job:
    def leave(self, within_s):
        print("asked", within_s, flush=True)
        if sys.argv[1] != "stuck":
            over.set()
        else:
            time.sleep(60)


if sys.argv[1] == "own handler":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
job = Job()
TERMINATION.add(job, float(sys.argv[2]))
if sys.argv[1] == "ended":
    TERMINATION.remove(job)
if sys.argv[1] == "forked" and (child := os.fork()):
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)
try:
    print("ready", os.getpid(), flush=True)  # After a fork, in the child, which may now be killed.
    if sys.argv[1] == "waits":
        over.wait()
        TERMINATION.exit_program()
    time.sleep(60)
    print("continues", flush=True)
finally:
    print("finally", flush=True)
"""


def ended(how: str, grace_s: float = 30, signals: int = 1) -> tuple[int, list[str]]:
    """Return the exit code and the output of a program that receives SIGTERM."""
    command = [sys.executable, "-c", PROGRAM, how, str(grace_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().split()[1])
        said: list[str] = []
        for n in range(signals):
            if n:
                said.append(process.stdout.readline().strip())
            os.kill(pid, signal.SIGTERM)
        said += process.stdout.read().split("\n")[:-1]
        return process.wait(60), said


@pytest.mark.parametrize("how", ["sleeps", "waits"])
def test_the_program_ends_once_its_jobs_have_ended(how: str) -> None:
    assert ended(how) == (143, ["asked 30.0", "finally"])


def test_a_second_signal_ends_the_process_at_once() -> None:
    assert ended("stuck", signals=2) == (-signal.SIGTERM, ["asked 30.0"])


def test_the_end_of_the_grace_period_ends_the_process() -> None:
    assert ended("stuck", 0.2) == (143, ["asked 0.2"])


def test_a_process_without_jobs_is_killed_by_the_signal() -> None:
    assert ended("ended") == (-signal.SIGTERM, [])


def test_a_handler_of_the_program_stays() -> None:
    assert ended("own handler") == (3, ["finally"])


def test_a_forked_child_is_killed_by_the_signal() -> None:
    assert ended("forked") == (0, [f"child {-signal.SIGTERM}"])
