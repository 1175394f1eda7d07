"""Settings that a command passes, which take precedence over the program's own.

A command sets them before it runs the user's file, in the same process:

    with overrides.applied(Overrides(settings=(partial.from_file("job.toml"),))):
        runpy.run_path("job.py", run_name="__main__")

With `capture=True` nothing runs: the program's first `execute` raises `ProgramCapture`, which carries
the environment, so that it can be explained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rheos.api.partial_settings import PartialSettings
from rheos.core.redaction import redacted
from rheos.core.site import call_site
from rheos.runtimes.job import CommandSettings, JobStatus
from rheos.runtimes.job_handle import JobHandle

if TYPE_CHECKING:
    from rheos.api.environment import Environment

Listener = Callable[[JobStatus], None]


@dataclass(frozen=True)
class Overrides:
    settings: tuple[PartialSettings, ...] = ()
    """Settings; later ones take precedence, and all take precedence over the program's."""
    listener: Callable[[str], Listener] | None = None
    """Function that makes the listener of a job from the job's name."""
    submitted: Callable[[JobHandle], None] | None = None
    """Function that is called with each job that was started."""
    made: Callable[[Environment], None] | None = None
    """Function that is called with each environment that the program makes."""
    capture: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the job, which take precedence over the program's."""
    until_ms: int | None = None
    """Virtual time after which the input of a simulated job ends."""
    until_now: bool = False
    """Whether a job stops after reading the input that exists when it is submitted."""
    standby: bool = False
    """Whether to wait while another driver runs the job, and to take over when that driver is gone."""
    succeeds: str | None = None
    """Running job that is handed over to this driver; None if this driver starts its job itself."""
    succeeds_driver: str | None = None
    """Id of the driver that must still run that job; None for any driver."""
    keep_ms: int = 0
    """Time in ms for which the driver that hands the job over is kept ready."""

    @property
    def command_settings(self) -> CommandSettings:
        """Return the settings of the command: the path of its file of settings, and its options. Values
        that are not plain, or contain credentials, are left out."""
        file = next((each.file for each in self.settings if each.file is not None), None)
        options: dict[str, Any] = {}
        for partial in self.settings:
            if partial.file is None:
                options |= {name: value for name, value in partial.values.items() if _is_plain(value)}
        return CommandSettings(file, options)

    def override_of(self, name: str) -> Any:
        """Return the override of a setting; None if the command does not set it."""
        overriding = [partial.values[name] for partial in self.settings if name in partial.values]
        return overriding[-1] if overriding else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, [*value, *value.values()]))
    return isinstance(value, str | int | float) and redacted(str(value)) == str(value)


class ProgramCapture(BaseException):
    """Exception with the environment of a program that is inspected and not run. `execute` raises
    it."""

    def __init__(self, environment: Environment, job_name: str) -> None:
        super().__init__(job_name)
        self.environment = environment
        self.job_name = job_name
        self.site = call_site()
        """Line of the program that called `execute`."""


_current = Overrides()
_own: ContextVar[Overrides | None] = ContextVar("_own", default=None)
"""Overrides of this thread alone; None if those of the process apply."""


def current() -> Overrides:
    """Return the overrides in effect in this thread."""
    return _own.get() or _current


@contextmanager
def without_overrides() -> Iterator[None]:
    """Apply no overrides to this thread until the end of the block. Rheos runs queries of its own in
    the process of a program, and the options of the command are for the program."""
    before = _own.set(Overrides())
    try:
        yield
    finally:
        _own.reset(before)


@contextmanager
def applied(overrides: Overrides) -> Iterator[None]:
    """Apply overrides to this process until the end of the block."""
    global _current
    before, _current = _current, overrides
    try:
        yield
    finally:
        _current = before
