"""What can go wrong in a simulated world: a swarm of faults, drawn from the seed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random


@dataclass(frozen=True)
class Faults:
    """How often each fault strikes, per second of virtual time; 0 never. They stop at `until_us`."""

    crash_slot: float = 0.0
    """A worker dies where it stands."""
    crash_driver: float = 0.0
    """The driver dies; a new one starts the same job. The old workers live on for a while."""
    zombie: float = 0.0
    """Probability that a worker told to stop does not hear it, and goes on until its lease ends."""
    lose_message: float = 0.0
    """Probability that a worker's acknowledgement is lost."""
    store_error: float = 0.0
    """Probability that a write fails, before or after it has taken effect."""
    commit_error: float = 0.0
    """Probability that a sink's commit fails; see `World.on_commit`."""
    clog: float = 0.0
    """A channel stands still for a while."""
    clock_jump: float = 0.0
    until_us: int = 3_000_000

    @classmethod
    def draw(cls, rng: Random) -> Faults:
        """A swarm: about half of the kinds, each at a rate of its own."""
        rates = {
            "crash_slot": (0.3, 3.0),
            "crash_driver": (0.2, 1.5),
            "zombie": (0.2, 0.9),
            "lose_message": (0.01, 0.2),
            "store_error": (0.005, 0.05),
            "commit_error": (0.05, 0.3),
            "clog": (0.5, 5.0),
            "clock_jump": (0.5, 3.0),
        }
        drawn = {
            name: rng.uniform(low, high) if rng.random() < 0.5 else 0.0
            for name, (low, high) in rates.items()
        }
        return cls(**drawn, until_us=rng.randrange(500_000, 4_000_000))

    def __str__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        return ", ".join(f"{name}={value:.3g}" for name, value in shown.items())
