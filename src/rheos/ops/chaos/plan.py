"""The plan of a chaos run (which faults, how often), and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from rheos.core.errors import ConfigurationError
from rheos.ops.chaos.faulty_proxy import LinkFault

if TYPE_CHECKING:
    from rheos.ops.chaos.struck_servers import StruckServer


class Fault(StrEnum):
    """Kinds of faults."""

    WORKERS = "workers"
    """SIGKILL of the Python process of a slot."""
    FREEZE = "freeze"
    """SIGSTOP of the Python process of a slot, and SIGCONT later: it may wake as a zombie."""
    EXECUTORS = "executors"
    """SIGKILL of an executor's JVM, if the job's driver has started executors (local-cluster)."""
    DRIVER = "driver"
    """SIGKILL of the driver and its JVM, after which the same command is started again."""
    SERVER = "server"
    """SIGSTOP of a server's processes, and SIGCONT later."""
    CUT = "cut"
    """The link to a server transfers nothing for a while. This fault and the next ones are those of
    `faulty_proxy.LinkFault`."""
    CUT_TO_SERVER = "cut-to-server"
    CUT_FROM_SERVER = "cut-from-server"
    SLOW = "slow"
    LOSSY = "lossy"

    @property
    def of_link(self) -> bool:
        """Whether it affects a link to a server."""
        return self.value in {fault.value for fault in LinkFault}

    @classmethod
    def parse(cls, text: str) -> frozenset[Fault]:
        """Parse a list of faults: "workers,driver". Raise ConfigurationError if one is unknown."""
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in set(cls)]
        if unknown or not names:
            raise ConfigurationError(
                f"unknown fault {unknown[0]!r}" if unknown else "no fault is specified",
                hint=f"choose from {', '.join(cls)}, separated by commas",
            )
        return frozenset(cls(name) for name in names)


@dataclass(frozen=True)
class Plan:
    """Settings of a chaos run: which faults strike a job, and how often."""

    command: Sequence[str]
    """Command that starts the job, and starts it again after its driver was killed."""
    faults: frozenset[Fault] = frozenset({Fault.WORKERS})
    kill_every_s: float = 5.0
    """Seconds from the moment when the job runs, or runs again, to the next strike. One in five strikes
    comes sooner, but never two in a row."""
    strikes: int | None = None
    """Maximum number of strikes, after which the job runs undisturbed; None for no limit."""
    for_s: float | None = None
    """Duration of the strikes, after which the job is cancelled as soon as it runs again. None: strikes
    continue until the job ends without being cancelled."""
    runs: Callable[[], object] = lambda: None
    """Function that is called once, when the job runs for the first time."""
    drained: Callable[[], bool] = lambda: True
    """Function that is called repeatedly once strikes have ended. The job is cancelled when it returns
    True."""
    progress: Callable[[int], int] | None = None
    """Function that returns, for the driver's process id, a number that grows with durable progress,
    such as the number of the newest checkpoint; 0 if it is unknown. The job counts as running once its
    slots are filled and the number has grown. Without it, a job that needs longer than `kill_every_s`
    until its first checkpoint would be struck for ever and make no progress."""
    links: Sequence[StruckServer] = ()
    """Links that link faults can strike."""
    servers: Sequence[StruckServer] = ()
    """Processes that `Fault.SERVER` can strike."""
    seed: int = 0
    """Seed of the kinds, the victims and the durations of freezes."""
    freeze_s: float = 20.0
    """Longest duration in seconds of a freeze or a link fault. Half of them last as long, the others at
    most a tenth of it."""
    driver_back_after_s: float = 1.0
    start_within_s: float = 180.0
    """Maximum time in seconds until the job runs, at first and after each strike; `kill_every_s` if
    that is longer."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables in addition to this process's own."""
    finished: Callable[[], bool] = lambda: False
    """Function that is called when a restarted driver ends with an error. It returns whether the error
    only means that the job had already finished."""

    def __post_init__(self) -> None:
        for name in ("kill_every_s", "freeze_s", "start_within_s"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} must be greater than 0, not {getattr(self, name)}")
        if self.strikes is not None and self.strikes < 1:
            raise ConfigurationError(f"strikes must be at least 1, not {self.strikes}")
        if any(fault.of_link for fault in self.faults) and not self.links:
            raise ConfigurationError(
                "a fault of a link needs --link", hint="add the server's address: --link host:port"
            )
        if Fault.SERVER in self.faults and not self.servers:
            raise ConfigurationError(
                "the fault 'server' needs --server-pid",
                hint="add the id of the server's process: --server-pid PID",
            )

    @property
    def patience_s(self) -> float:
        """Maximum time in seconds to wait for the job to run."""
        return max(self.start_within_s, self.kill_every_s)


@dataclass
class Strike:
    """One strike, and the time until the job ran again (`Plan.progress`)."""

    fault: Fault
    at_s: float
    victim: str
    frozen_s: float = 0.0
    back_after_s: float | None = None


@dataclass
class Report:
    """Result of a chaos run: the strikes, and the outcome of the job."""

    strikes: list[Strike] = field(default_factory=list)
    drivers: int = 0
    """Number of times that the command was started."""
    exit_code: int | None = None
    """Exit code of the last driver; None if it had to be killed."""
    failure: str | None = None
    """Reason why the run counts as failed; None if it succeeded."""
    left_behind: list[str] = field(default_factory=list)
    """Processes that outlived the job, and were ended."""
    ran_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.failure is None

    def summary(self) -> list[str]:
        """Return lines to display."""
        lines = [
            (
                f"{len(self.strikes)} faults injected in {self.ran_s:.0f} s, {self.drivers} starts "
                "of the driver"
            )
        ]
        for fault in Fault:
            struck = [strike for strike in self.strikes if strike.fault is fault]
            if not struck:
                continue
            back = sorted(s.back_after_s for s in struck if s.back_after_s is not None)
            took = (
                f"; recovered after {back[len(back) // 2]:.1f} s (median), {back[-1]:.1f} s (maximum)"
                if back
                else ""
            )
            lines.append(f"  {fault:<10}{len(struck):>4}{took}")
        if not self.strikes:
            lines.append("  no fault was injected: the job had already ended, or had no such process")
        lines += [f"  ended a process that was left over: {process}" for process in self.left_behind]
        ended = f"the job failed: {self.failure}" if self.failure else "the job is correct"
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        return [*lines, ended + code]
