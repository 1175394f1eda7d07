"""Ends this process on SIGTERM so that the next driver of its jobs repeats no work.

    SIGTERM ──> each job takes a checkpoint and ends ──> SystemExit(143) in the main thread
       │                                                      │ not within the grace period
       └── a second SIGTERM: killed by it <───────────────────┘

A program that handles SIGTERM itself keeps its handler.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn, Protocol

EXIT_CODE = 128 + signal.SIGTERM
"""Exit code of a driver that has ended its jobs on SIGTERM."""
_EXIT_WITHIN_S = 5.0
"""Time in seconds after the grace period in which a program whose jobs have ended may still end."""


class Leaving(Protocol):
    """A job that can end before its input does."""

    def leave(self, within_s: float) -> None: ...


class Termination:
    """The jobs of this process, and the handler of SIGTERM that ends them."""

    def __init__(self) -> None:
        self._jobs: dict[Leaving, float] = {}
        """Grace period in seconds of each job that runs."""
        self._process = os.getpid()
        self._begun = False
        self._is_ours = False
        """Whether the next SIGTERM is one that this object sends to the main thread."""
        self._exits = False
        """Whether the main thread is ending the program."""

    def add(self, job: Leaving, grace_s: float) -> None:
        """Let SIGTERM end the job within `grace_s`. In a thread other than the main one, Python cannot
        set a handler, so it does so only for the main thread's jobs and later ones."""
        self._jobs[job] = grace_s
        self._process = os.getpid()
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.received)

    def remove(self, job: Leaving) -> None:
        """Forget a job that has ended."""
        if not self._begun:
            self._jobs.pop(job, None)

    def received(self, number: int, frame: Any) -> None:
        """Handle SIGTERM, in the main thread."""
        if self._is_ours:
            self._is_ours = False
            if not self._exits:
                self.exit_program()
            return
        is_forked = os.getpid() != self._process
        if self._begun or is_forked or not self._jobs:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self._begun = True
        grace_s = max(self._jobs.values())
        print(f"SIGTERM: ending within {grace_s:g} s", file=sys.stderr, flush=True)
        threading.Thread(target=self._end, args=(grace_s,), name="rheos-sigterm", daemon=True).start()

    def exit_program(self) -> NoReturn:
        """Raise SystemExit, because the jobs have ended on SIGTERM, and the program must not continue
        as if they had ended by themselves."""
        self._exits = threading.current_thread() is threading.main_thread()
        raise SystemExit(EXIT_CODE)

    def _end(self, grace_s: float) -> None:
        deadline_s = time.monotonic() + grace_s
        leaving = [
            threading.Thread(target=job.leave, args=(grace_s,), daemon=True) for job in self._jobs
        ]
        for thread in leaving:
            thread.start()
        for thread in leaving:
            thread.join(max(deadline_s - time.monotonic(), 0))
        if not any(thread.is_alive() for thread in leaving) and time.monotonic() < deadline_s:
            # The main thread may wait for anything: only a signal reaches it.
            self._is_ours = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            time.sleep(deadline_s + _EXIT_WITHIN_S - time.monotonic())
        os._exit(EXIT_CODE)


TERMINATION = Termination()
