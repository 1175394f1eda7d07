from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rheos.runtimes.host.process_ends import os_exit_raises


def test_os_exit_raises_only_inside_the_context() -> None:
    before = os._exit
    with os_exit_raises(), pytest.raises(SystemExit, match=r"os\._exit\(3\)"):
        os._exit(3)
    assert os._exit is before


@pytest.mark.parametrize("where", ["thread", "fork"])
def test_os_exit_still_ends_other_threads_and_forks(where: str) -> None:
    program = """
import os, sys, threading
from rheos.runtimes.host.process_ends import os_exit_raises
with os_exit_raises():
    if sys.argv[1] == "thread":
        threading.Thread(target=os._exit, args=(7,)).start()
        threading.Event().wait()
    child = os.fork()
    if child == 0:
        os._exit(7)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program, where], check=False).returncode == 7
