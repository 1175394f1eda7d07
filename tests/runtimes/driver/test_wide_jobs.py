"""The driver of a wide job looks at its subtasks less often, and at changes of the job at once."""

from __future__ import annotations

from dataclasses import replace

from rheos.core.checkpoint.events import AttemptRunning
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.task.config import TaskConfig
from rheos.runtimes.driver.master import Master
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore
from tests.runtimes.driver.test_master import CONFIG, SOURCE, Slots, Target, plan_of

WIDE = 1_000


class WideSlots(Slots):
    """Launcher with room for wide jobs."""

    def free_slots(self) -> int:
        return WIDE


def running(slots: int) -> tuple[Master, Slots, SimClock]:
    """Return the master of a running job with this many slots."""
    clock, launcher = SimClock(), WideSlots()
    io = SimIo(clock.monotonic_us, lambda: 0)
    master = Master(
        replace(plan_of(Target()), parallelism=slots, max_parallelism=slots),
        JobConfig(JobId("job"), replace(CONFIG, interval_ms=60_000), checkpoint_dir="DIR"),
        store=MemoryStore(),
        clock=clock,
        launcher=launcher,
        io=io,
        listing=io,
        splits={},
    )
    master.step()
    while io.run_due():
        master.step()
    launcher.events.append(AttemptRunning(Attempt(1)))
    master.step()
    return master, launcher, clock


def report(rows: int) -> control.Progress:
    return control.Progress(
        attempt=Attempt(1),
        subtask=0,
        step_us=rows,
        records_in={},
        records_out={SOURCE: rows},
        watermark_ms={},
        busy_us=0,
        blocked_us=0,
        counters={},
    )


def rows_of(master: Master) -> int:
    return master.status().operators[0].records_out


def test_reports_alone_lead_to_a_new_status_only_now_and_then() -> None:
    master, launcher, clock = running(WIDE)
    seen = []
    for rows in range(1, 401):
        launcher.events.append(report(rows))
        clock.advance(1_000)
        master.step()
        seen.append(rows_of(master))
    assert len(set(seen)) == 3, "a status each 200 ms, and the one before"
    due_us = master.next_step_us()
    assert due_us is not None
    clock.advance(due_us - clock.monotonic_us())
    master.step()
    assert rows_of(master) == 400, "the last report is shown even if none follows"


def test_what_the_job_does_is_shown_at_once() -> None:
    master, launcher, clock = running(WIDE)
    launcher.events.append(report(7))
    clock.advance(1_000)
    master.step()
    master.cancel()
    master.step()
    assert rows_of(master) == 7


def test_only_wide_jobs_wait_for_further_messages() -> None:
    assert [running(slots)[0].gather_us() for slots in (2, 99, 100, WIDE)] == [0, 0, 1_000, 10_000]


def test_subtasks_of_wide_jobs_report_less_often() -> None:
    config = TaskConfig()
    found = [config.report_interval_us(slots) / 1e6 for slots in (2, 500, WIDE, 2_000, 5_000)]
    assert found == [1, 1, 2, 4, 4]
