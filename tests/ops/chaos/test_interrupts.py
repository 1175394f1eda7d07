"""A job that a background process starts ends on SIGINT."""

from __future__ import annotations

import signal
import subprocess
import sys

from rheos.ops.chaos.processes import children_take_interrupts

SHOW = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


def takes_interrupts() -> str:
    shown = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def test_children_of_a_process_that_ignores_interrupts_take_them() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert takes_interrupts() == "False"
        with children_take_interrupts():
            assert takes_interrupts() == "True"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
