"""Simulated jobs with materialized views, which tests advance step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

import rheos as rh
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.core.task.config import TaskConfig
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.faults import Faults
from rheos.runtimes.simulated.runtime import SimulatedJob
from rheos.runtimes.simulated.world import World

ROWS, USERS = 300, 7
VIEWS = """
    CREATE MATERIALIZED VIEW users AS SELECT user, COUNT(*) AS n, SUM(v) AS v FROM clicks GROUP BY user;
    CREATE MATERIALIZED VIEW raw AS SELECT v, user FROM clicks;
    CREATE MATERIALIZED VIEW latest (PRIMARY KEY (user) NOT ENFORCED) AS SELECT user, v FROM clicks;
"""


def clicks(block: rh.Block) -> pl.DataFrame:
    """Return rows with the numbers 0, 1, 2, ... as `v`."""
    index = pl.Series("v", block.index())
    return pl.DataFrame([("u" + (index % USERS).cast(pl.String)).alias("user"), index])


@dataclass
class Started:
    """Runtime that builds the world of a job, from the files of another one if it continues it."""

    after: SimulatedJob | None = None
    faults: Faults | None = None
    seed: int = 3
    retain: int = 2
    config: dict[str, Any] = field(default_factory=dict)

    def submit(self, plan: PhysicalPlan, config: JobConfig, listener: object = None) -> SimulatedJob:
        checkpoints = CheckpointConfig(interval_ms=50, timeout_ms=5000, retain=self.retain)
        made = JobConfig(JobId("job"), checkpoints, task=TaskConfig(batch_rows=16), **self.config)
        files = {} if self.after is None else dict(self.after.world.store.files)
        files = {path: data for path, data in files.items() if not path.startswith("job/")}
        return SimulatedJob(World(plan, made, self.seed, self.faults, files=files))


def started(
    views: str = VIEWS, *, parallelism: int = 2, rows: int = ROWS, **runtime: Any
) -> SimulatedJob:
    """Start a job that reads one click per ms."""
    env = rh.Environment(parallelism, max_parallelism=16, runtime=Started(**runtime))
    source = rh.generator(clicks, count=rows, rate_per_s=1000, splits=1)
    env.register("clicks", env.from_source(source))
    env.sql_script(views)
    job = env.execute_async("clicks")
    assert isinstance(job, SimulatedJob)
    return job


def reached(job: SimulatedJob, checkpoints: int) -> SimulatedJob:
    """Run the job until it has completed that number of checkpoints."""
    job.world.run_until(lambda: job.status().checkpoints_completed >= checkpoints)
    return job
