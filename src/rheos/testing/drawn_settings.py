"""Settings of simulated jobs, drawn at random. None of them may change a result."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from random import Random

from rheos.core.checkpoint.config import CheckpointConfig, ExponentialDelay
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.runtimes.simulated.faults import Faults, Requests

CHECKPOINTS = CheckpointConfig(
    interval_ms=100,
    timeout_ms=1500,
    # Faults make checkpoints fail in rows; it is the end of the job that is asked for.
    tolerable_failures=100,
    slots_within_ms=100,
    # So small that the log of a short job is compacted.
    log_block=5,
    restart=ExponentialDelay(initial_ms=10, max_ms=200),
)


@dataclass(frozen=True)
class DrawnSettings:
    """Everything that a seed decides about how a program runs. The seed does not affect the input."""

    seed: int
    faults: Faults
    parallelisms: tuple[int, ...]
    """Parallelism under each of the job's drivers, in turn."""
    min_parallelism: int | None
    checkpoint: CheckpointConfig
    task: TaskConfig
    requests: Requests

    @classmethod
    def draw(cls, seed: int) -> DrawnSettings:
        """Draw each part independently. The job always ends after reading all of its input."""

        def drawing(what: str) -> Random:
            return Random(f"{seed}/{what}")

        rescaling = drawing("rescaling")
        return cls(
            seed=seed,
            # As long as slow sources are read: what strikes later costs time, and finds nothing.
            faults=replace(
                Faults.draw(drawing("faults")),
                until_us=drawing("until").randrange(300_000, 1_200_000),
            ),
            parallelisms=tuple(rescaling.randrange(1, 5) for _ in range(rescaling.choice([1, 3, 3]))),
            min_parallelism=rescaling.choice([None, 1]),
            checkpoint=draw_checkpoints(drawing("checkpoints")),
            task=draw_task(drawing("task"), has_least=False),
            requests=replace(draw_requests(drawing("requests")), drain=0.0, until_us=600_000),
        )

    def __str__(self) -> str:
        shown = [f"parallelism {' then '.join(map(str, self.parallelisms))}"]
        for what, rates in (("faults", self.faults), ("asked of it", self.requests)):
            rated = {field.name: getattr(rates, field.name) for field in fields(rates)}
            named = [
                f"{name}={rate:.3g}" for name, rate in rated.items() if rate and name != "until_us"
            ]
            shown += [f"{what}: {', '.join(named)}"] if named else []
        return "; ".join(shown)


def draw_checkpoints(rng: Random) -> CheckpointConfig:
    return replace(
        CHECKPOINTS,
        interval_ms=rng.choice([10, 20, 40, 100]),
        # Sometimes too short: then checkpoints are aborted while subtasks take them.
        timeout_ms=rng.choice([60, 100, 1500, 1500]),
        retain=rng.randrange(1, 4),
        max_concurrent=rng.choice([1, 1, 2, 3]),
    )


def draw_task(rng: Random, *, has_least: bool) -> TaskConfig:
    """Draw settings of the data plane. `has_least` is whether the job may repeat rows."""
    least = has_least and rng.random() < 0.1
    return TaskConfig(
        batch_rows=rng.choice([1, 3, 8, 16, 64]),
        buffer_timeout_us=rng.choice([0, 10_000, None]),
        credits=rng.randrange(1, 5),
        guarantee=Guarantee.AT_LEAST_ONCE if least else Guarantee.EXACTLY_ONCE,
        unaligned_after_us=None if least else rng.choice([None, None, None, 0, 0, 5_000, 30_000]),
        latency_us=rng.choice([None, None, None, 2_000, 20_000]),
    )


def draw_requests(rng: Random) -> Requests:
    """Draw requests: most worlds have some of them, few have none or all."""

    def rate(share: float, least: float, most: float) -> float:
        return rng.uniform(least, most) if rng.random() < share else 0.0

    return Requests(
        cancel=rate(0.3, 0.5, 3.0),
        savepoint=rate(0.4, 1.0, 6.0),
        stop=rate(0.4, 0.5, 3.0),
        drain=rate(0.1, 0.5, 2.0),
        resume_from_savepoint=rng.choice([0.0, 0.5, 1.0]),
    )
