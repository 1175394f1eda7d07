"""Runs of `rheos bench` in this process, on the session that is there."""

from __future__ import annotations

from typing import Any

from benchmarks.paper.experiment import Options
from benchmarks.paper.sampling import Sampler
from rheos.cli.benchmarks.driver import BenchSettings, run
from rheos.cli.benchmarks.programs import PROGRAMS
from rheos.cli.benchmarks.report import as_json

RHEOS = "Rheos"
SPARK = "Structured Streaming"


def bench(program: str, options: Options, *, parallelism: int, **settings: Any) -> dict[str, Any]:
    """The object that `rheos bench --json` prints, and `us_per_record`: processor time of this process
    and all below it (the driver, Spark's JVM, the workers) for each record."""
    given = {"seconds": options.seconds, "warmup_s": options.warmup_s, **settings}
    with Sampler() as sampler:
        outcome = run(
            PROGRAMS[program], BenchSettings(parallelism=parallelism, **given), lambda _: None
        )
    window = outcome.window
    cpu_s = sampler.cpu_between(window.begins_ns, window.ends_ns)
    records = window.records_per_s * (window.ends_ns - window.begins_ns) / 1e9
    return {
        **as_json(outcome),
        "us_per_record": round(cpu_s * 1e6 / max(records, 1), 4),
        "checkpoint_bytes": outcome.status.last_checkpoint_bytes,
        "checkpoint_sync_us": outcome.status.last_checkpoint_sync_us,
    }
