"""The faults of a simulated world, drawn from its seed, and the requests of its users."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random


class SimulatedError(OSError):
    """A random failure of a store's operation or of a commit."""


@dataclass(frozen=True)
class Faults:
    """The rate of each fault, per second of virtual time: `testing.Faults(crash_slot=0.5)`. 0 means
    never. Faults stop at `until_us`."""

    crash_slot: float = 0.0
    """Sudden death of a worker."""
    crash_after_checkpoint: float = 0.0
    """Probability that a worker or the driver dies some ms after a checkpoint has completed: before all
    processes are notified of it, or later."""
    crash_driver: float = 0.0
    """Death of the driver. A new one starts the same job. The old workers live on for a while."""
    zombie: float = 0.0
    """Probability that a worker receives no stop message, and continues until its lease ends."""
    lose_message: float = 0.0
    """Probability that an acknowledgement, or a worker's notification of discovered splits, is lost."""
    store_error: float = 0.0
    """Probability that a write fails, before, while or after it takes effect."""
    commit_error: float = 0.0
    """Probability that a sink's commit fails; see `World.on_commit`."""
    clog: float = 0.0
    """A pause in which a channel delivers nothing."""
    freeze: float = 0.0
    """A pause of a worker, which then continues."""
    slow_network: float = 0.0
    """A time in which all messages are slow."""
    clock_jump: float = 0.0
    read_error: float = 0.0
    """Probability that reading a file, or listing a folder, fails."""
    store_outage: float = 0.0
    """A time in which every operation of the store fails."""
    store_full: float = 0.0
    """A time in which every write fails; reading and deleting work."""
    store_slow: float = 0.0
    """A time in which every operation of the store is slow."""
    die_in_slot_io: float = 0.0
    """Probability that a worker dies before, within or after one operation of its store or sinks."""
    die_in_driver_io: float = 0.0
    """Probability that the driver dies between the log's entry and its effects, or in recovery."""
    sleeping_driver: float = 0.0
    """Probability that a lost driver was only cut off, and returns while its successor runs."""
    lose_slot: float = 0.0
    """Permanent loss of a slot, with the worker in it. One slot always stays."""
    clock_skew_ms: float = 0.0
    """Maximum difference in ms between the wall clocks of the processes."""
    until_us: int = 3_000_000

    @classmethod
    def draw(cls, rng: Random) -> Faults:
        """Draw some kinds of faults, each with a rate of its own.

        Args:
            rng: The random generator.

        Returns:
            The faults.
        """
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
"""The share of the worlds that have a kind of fault, and the bounds of its rate. Each kind is drawn
independently, so a new kind does not change the others of a seed."""


def _draw(rng: Random, share: float, low: float, high: float) -> float:
    return rng.uniform(low, high) if rng.random() < share else 0.0


@dataclass(frozen=True)
class Requests:
    """The rate of each request per second of virtual time: `testing.Requests(savepoint=0.5)`. 0 means
    never. They stop at `until_us`."""

    cancel: float = 0.0
    """Cancellation of the job, which is then started again."""
    savepoint: float = 0.0
    stop: float = 0.0
    """Stop of the job with a savepoint, after which it is started again."""
    drain: float = 0.0
    """Stop of the job with a savepoint, after its input was ended."""
    rescale: float = 0.0
    """Request for another parallelism, one of those that the world's drivers use."""
    resume_from_savepoint: float = 0.0
    """Probability that a stopped job is started from its savepoint, and not from its log."""
    leave: float = 0.0
    """Probability that a stopped job is not started again."""
    until_us: int = 1_500_000
