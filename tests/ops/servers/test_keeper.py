"""A keeper ends all processes of a server, whatever their state."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rheos.ops.servers import keeper

CHILD = "import os, sys, time\nwhile os.getppid() == int(sys.argv[1]): time.sleep(0.02)"
"""As a backend of PostgreSQL, it ends when it sees that its parent has ended."""
SERVER = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {CHILD!r}, str(os.getpid())])
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
@pytest.mark.parametrize("how", [b"s", b"k", b""], ids=["ended", "killed", "starter is gone"])
def test_all_processes_of_a_frozen_server_are_ended(how: bytes, tmp_path: Path) -> None:
    arguments = [str(tmp_path / "log"), "", str(int(signal.SIGTERM)), ""]
    kept = subprocess.Popen(
        [sys.executable, keeper.__file__, *arguments, sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
    )
    assert kept.stdin is not None
    processes: list[psutil.Process] = []
    while len(processes) < 2:
        processes = psutil.Process(kept.pid).children(recursive=True)
    for process in processes:
        process.suspend()
    kept.stdin.write(how)
    kept.stdin.close()
    kept.wait()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert alive == []
