"""Output of `rheos status`: the health of jobs, with advice on what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.text import Text

from rheos.cli.jobs import console, reported
from rheos.core.metrics.health import HealthState, JobHealth
from rheos.core.printable import printable
from rheos.core.protocol.durations import duration_text
from rheos.ops.control.job_list import ListedJob, job_object, listed_job, listed_jobs
from rheos.ops.control.registry import Registry
from rheos.ops.control.running_jobs import find_running

COLOURS = {
    HealthState.HEALTHY: "green",
    HealthState.DEGRADED: "yellow",
    HealthState.STUCK: "red",
    HealthState.FAILING: "red",
}


def show_status(wanted: str | None, as_json: bool) -> int:
    """Print the health of one job, or of all that run here. Return the command's exit code."""

    def show() -> int:
        seen = listed_jobs(Registry()) if wanted is None else [listed_job(find_running(wanted))]
        if as_json:
            print(json.dumps([job_object(job) for job in seen], indent=2))
        elif seen:
            for job in seen:
                for line in _lines(job):
                    console().print(line, soft_wrap=True)
        else:
            print("no jobs are running")
        return 0

    return reported(show)


def _lines(job: ListedJob) -> Iterator[Text]:
    name = printable(f"{job.record.job} ({job.record.name})")
    if job.health is None:
        yield Text(f"{name}: {job.state}")
        return
    state, health = job.health.state, job.health
    since = (
        ""
        if state is HealthState.HEALTHY
        else f" since {health.since} ({duration_text(health.for_ms)})"
    )
    yield Text.assemble(f"{name}: {job.state}, ", (state.value, COLOURS[state]), since)
    yield from finding_lines(health)


def finding_lines(health: JobHealth) -> Iterator[Text]:
    """Yield two lines for each finding: what is wrong and since when, and what to do."""
    for each in health.findings:
        severity, span = each.severity, duration_text(each.for_ms)
        head = (f"  {severity.value}: ", COLOURS[severity.state])
        yield Text.assemble(head, f"{printable(each.what)} (since {each.since}, {span})")
        yield Text(f"    what to do: {printable(each.what_to_do)}")
