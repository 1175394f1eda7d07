"""What a command says beside the program: settings that win over the program's own.

A command sets them before it runs the user's file, in the same process:

    with overrides.applied(Overrides(parallelism=4)):
        runpy.run_path("job.py", run_name="__main__")

With `capture=True` nothing runs: the program's first `execute` raises `ProgramCaptured`, which carries
the environment, so that it can be explained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rheos.job import JobHandle, JobStatus
from rheos.protocol.durations import Duration
from rheos.site import call_site

if TYPE_CHECKING:
    from rheos.api.environment import Environment

Listener = Callable[[JobStatus], None]


@dataclass(frozen=True)
class Overrides:
    """None leaves a setting as the program has it."""

    parallelism: int | None = None
    max_parallelism: int | None = None
    runtime: str | None = None
    master: str | None = None
    checkpoint_dir: str | None = None
    checkpoint_interval: Duration | None = None
    from_savepoint: str | None = None
    allow_dropped: bool | None = None
    min_parallelism: int | None = None
    state_backend: str | None = None
    state_memory_bytes: int | None = None
    unaligned_after: Duration | None = None
    max_concurrent_checkpoints: int | None = None
    at_least_once: bool | None = None
    listener: Callable[[str], Listener] | None = None
    """Makes the listener of a job from its name."""
    submitted: Callable[[JobHandle], None] | None = None
    """Is told of each job that was started."""
    capture: bool = False


class ProgramCaptured(BaseException):
    """Carries the environment of a program that was to be looked at, not run."""

    def __init__(self, environment: Environment, job_name: str) -> None:
        super().__init__(job_name)
        self.environment = environment
        self.job_name = job_name
        self.site = call_site()
        """Where it was to be executed."""


_current = Overrides()


def current() -> Overrides:
    """What holds now, in this process."""
    return _current


@contextmanager
def applied(overrides: Overrides) -> Iterator[None]:
    """Sets the overrides of the process for a while."""
    global _current
    before, _current = _current, overrides
    try:
        yield
    finally:
        _current = before
