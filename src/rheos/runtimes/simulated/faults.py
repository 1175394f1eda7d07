"""The faults of a simulated world, drawn from its seed, and the requests of its users."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random


class SimulatedError(OSError):
    """An operation of the store, or a commit, that has failed by chance."""


@dataclass(frozen=True)
class Faults:
    """Rate of each fault, per second of virtual time; 0 means never. Faults stop at `until_us`."""

    crash_slot: float = 0.0
    """A worker dies at once."""
    crash_after_checkpoint: float = 0.0
    """Probability that a worker or the driver dies some ms after a checkpoint has completed: before all
    have heard of it, or later."""
    crash_driver: float = 0.0
    """The driver dies; a new one starts the same job. The old workers live on for a while."""
    zombie: float = 0.0
    """Probability that a worker does not hear that it is to stop, and goes on until its lease ends."""
    lose_message: float = 0.0
    """Probability that an acknowledgement is lost, or what a worker hears of splits that are found."""
    store_error: float = 0.0
    """Probability that a write fails, before, while or after it has taken effect."""
    commit_error: float = 0.0
    """Probability that a sink's commit fails; see `World.on_commit`."""
    clog: float = 0.0
    """A channel delivers nothing for a while."""
    freeze: float = 0.0
    """A worker freezes for a while, and then continues."""
    slow_network: float = 0.0
    """For a while everything that is sent takes long."""
    clock_jump: float = 0.0
    read_error: float = 0.0
    """Probability that reading a file, or listing a folder, fails."""
    store_outage: float = 0.0
    """For a while every operation of the store fails."""
    store_full: float = 0.0
    """For a while every write fails; reading and deleting work."""
    store_slow: float = 0.0
    """For a while every operation takes long."""
    die_in_slot_io: float = 0.0
    """Probability that a worker dies before, within or after one operation of its store or sinks."""
    die_in_driver_io: float = 0.0
    """The driver likewise: between the log's entry and what follows from it, or within recovery."""
    sleeping_driver: float = 0.0
    """Probability that a lost driver was only cut off, and comes back while its successor runs."""
    lose_slot: float = 0.0
    """A slot is lost for good, with the worker in it; one always stays."""
    clock_skew_ms: float = 0.0
    """Maximum difference in ms between the wall clocks of the processes."""
    until_us: int = 3_000_000

    @classmethod
    def draw(cls, rng: Random) -> Faults:
        """A swarm: some of the kinds, each at a rate of its own."""
        seed = rng.getrandbits(64)
        drawn = {name: _draw(Random(f"{seed}/{name}"), *limits) for name, limits in _LIMITS.items()}
        return cls(**drawn, until_us=Random(f"{seed}/until_us").randrange(500_000, 4_000_000))

    def __str__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        return ", ".join(f"{name}={value:.3g}" for name, value in shown.items())


_LIMITS = {
    "crash_slot": (0.5, 0.3, 2.0),
    "crash_after_checkpoint": (0.7, 0.05, 0.4),
    "crash_driver": (0.4, 0.2, 1.5),
    "zombie": (0.5, 0.2, 0.9),
    "lose_message": (0.5, 0.01, 0.2),
    "store_error": (0.5, 0.01, 0.1),
    "commit_error": (0.4, 0.05, 0.3),
    "clog": (0.5, 0.5, 5.0),
    "freeze": (0.5, 0.5, 5.0),
    "slow_network": (0.4, 0.5, 4.0),
    "clock_jump": (0.5, 0.5, 3.0),
    "read_error": (0.3, 0.01, 0.1),
    "store_outage": (0.25, 0.2, 1.5),
    "store_full": (0.25, 0.2, 1.5),
    "store_slow": (0.3, 0.3, 2.0),
    "die_in_slot_io": (0.4, 0.005, 0.05),
    "die_in_driver_io": (0.4, 0.005, 0.05),
    "sleeping_driver": (0.5, 0.2, 0.9),
    "lose_slot": (0.2, 0.2, 1.5),
    "clock_skew_ms": (0.4, 100.0, 600_000.0),
}
"""For each kind: the share of the worlds that have it, and the bounds of its rate. Each kind is drawn
by itself, so a new kind does not change the others of a seed."""


def _draw(rng: Random, share: float, low: float, high: float) -> float:
    return rng.uniform(low, high) if rng.random() < share else 0.0


@dataclass(frozen=True)
class Requests:
    """Rate of each request, per second of virtual time; 0 means never. Requests stop at `until_us`."""

    cancel: float = 0.0
    """The job is cancelled, and started again."""
    savepoint: float = 0.0
    stop: float = 0.0
    """The job is stopped with a savepoint, and started again."""
    drain: float = 0.0
    """The job is stopped with a savepoint after its input was asked to end."""
    rescale: float = 0.0
    """Request to continue with another parallelism, one of those that its drivers use."""
    resume_from_savepoint: float = 0.0
    """Probability that a stopped job is started from its savepoint, and not from its log."""
    leave: float = 0.0
    """Probability that a stopped job is not started again."""
    until_us: int = 1_500_000
