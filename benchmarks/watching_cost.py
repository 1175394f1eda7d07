"""What it costs that a job is watched: figures, markers, reports, history, dashboard, Prometheus.

usage: python -m benchmarks.watching_cost [--pairs N]

Grouping's slots, as `turn.py` has them, at full load: batches of 16,384 rows. In two parts, as they
come at different times:

- what is counted in each step of a slot. Short pieces with and without it alternate, so that a busy
  machine meets both alike; what that leaves of the machine's noise is printed with it. As it is more
  than what is looked for, the calls that count are also written down as they come, and made again by
  themselves: that is the figure which goes into the sum;
- what is done once a second for all of it, each by itself: the reports of the slots, made, encoded,
  decoded, held against the plan and kept; the figures of the job made of them, a moment of its history,
  what stands out, and JSON for a page that somebody looks at; Prometheus' text, which is asked for each
  5 s. A slot at full load has 1,000,000 us of processor time in that second.

Processor time, medians. What it comes to is a share of grouping's processor time, and so of its
throughput where the processors are full.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median
from unittest.mock import patch

import msgspec
import pyarrow as pa
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.metrics_cost import COUNTING, nothing
from benchmarks.turn import Slots
from rheos.core.metrics.history import HistoryConfig, MetricsHistory, MetricsMoment, MomentMaker
from rheos.core.metrics.model import metrics_object
from rheos.core.plan.outline import PlanOutline
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.task.latency import LatencyMarkers
from rheos.core.task.traffic import SpentTime, Traffic
from rheos.ops.export.prometheus import MetricsCollector
from rheos.runtimes.continuous.control import framed, from_worker
from rheos.runtimes.driver.metrics_keeper import MetricsKeeper
from rheos.runtimes.driver.subtask_reports import SubtaskReports
from rheos.runtimes.health.judge import Memory, health
from rheos.runtimes.health.moment import JobMoment
from rheos.runtimes.job import JobState, JobStatus

ROWS = 16_384
SLOTS = 2
PIECE = 8
TIMES = 200
TOKEN = b"0" * 32
SCRAPED_EVERY_S = 5
EACH_STEP = ((Traffic, "add"), (SpentTime, "turn"))
"""What counts in a job without a latency objective."""


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for kind, method in (*COUNTING, (LatencyMarkers, "born")):
            stack.enter_context(patch.object(kind, method, nothing))
        yield


def piece_ns(slots: Slots) -> float:
    """Of a row."""
    began = time.process_time_ns()
    rows = slots.steps(PIECE)
    return (time.process_time_ns() - began) / rows


def in_pairs(slots: Slots, pairs: int) -> tuple[float, list[float]]:
    """Nanoseconds of a row without what is counted, and of each pair how much more it is with it, as a
    share."""
    bare, more = [], []
    for pair in range(pairs):
        if pair % 2:
            with unwatched():
                without = piece_ns(slots)
            watched = piece_ns(slots)
        else:
            watched = piece_ns(slots)
            with unwatched():
                without = piece_ns(slots)
        bare.append(without)
        more.append(watched / without - 1)
    return median(bare), sorted(more)


def by_itself_ns(slots: Slots) -> float:
    """Of a row: the calls that count, made again."""
    calls: list[tuple[Callable[..., object], tuple[object, ...]]] = []

    def noting(method: Callable[..., object]) -> Callable[..., object]:
        def noted(*arguments: object) -> object:
            calls.append((method, arguments))
            return method(*arguments)

        return noted

    with contextlib.ExitStack() as stack:
        for kind, name in (*EACH_STEP, (LatencyMarkers, "born")):
            stack.enter_context(patch.object(kind, name, noting(getattr(kind, name))))
        rows = slots.steps(20 * PIECE)

    def again() -> None:
        for method, arguments in calls:
            method(*arguments)

    return typical_us(again) * 1000 / rows


def typical_us(work: Callable[[], object]) -> float:
    spent = []
    for _ in range(TIMES):
        began = time.process_time_ns()
        work()
        spent.append((time.process_time_ns() - began) / 1000)
    return median(spent)


def each_second(slots: Slots) -> dict[str, float]:
    """Microseconds of what is done once a second for a job of so many slots."""
    plan = slots.plan
    reports: list[control.Progress] = []
    for engine in slots.engines:
        with patch.object(engine, "_report", reports.append):
            engine.report_progress()
    newest = SubtaskReports(plan)
    newest.begin(SLOTS)
    keeper = MetricsKeeper(plan, JobId("job"), newest)
    keeper.begin(Attempt(1), 0)
    status = JobStatus(JobId("job"), "job", JobState.RUNNING, 1, 1.0, 0.0, None, 1, 0, 5, 0, 0.5, 0.5)
    outline = PlanOutline.of(plan)
    now_ms = 1_800_000_000_000

    def reported() -> None:
        nonlocal now_ms
        now_ms += 1000
        for report in reports:
            frame = framed(TOKEN, report)
            heard = from_worker.decode(frame[len(TOKEN) + 1 :])
            assert isinstance(heard, control.Progress)
            assert newest.take(heard, now_ms, now_ms * 1000)

    made = [typical_us(engine.report_progress) for engine in slots.engines]
    sent = typical_us(reported)
    measurements = keeper.now(status, now_ms, now_ms * 1000)
    maker, history = MomentMaker(), MetricsHistory(HistoryConfig())
    registry = CollectorRegistry()
    registry.register(MetricsCollector(lambda: [keeper.now(status, now_ms, now_ms * 1000)]))

    def moment() -> MetricsMoment:
        return maker.moment(measurements, now_ms * 1000)

    def looked_at() -> None:
        msgspec.json.encode(metrics_object(keeper.now(status, now_ms, now_ms * 1000)))

    def judged() -> None:
        now = keeper.now(status, now_ms, now_ms * 1000)
        health(JobMoment(status, outline, now, now_ms * 1000), Memory(), now_ms)

    return {
        "reports made": sum(made),
        "sent, checked and kept": sent,
        "history (each 10 s)": typical_us(lambda: history.add(moment())) / 10,
        "a page looks at it": typical_us(looked_at),
        "health (each 2 s)": typical_us(judged) / 2,
        f"Prometheus (each {SCRAPED_EVERY_S} s)": typical_us(lambda: generate_latest(registry))
        / SCRAPED_EVERY_S,
    }


def main(pairs: int) -> None:
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(prefix="rheos-watching-") as folder:
        slots = Slots(ROWS, SLOTS, folder)
        slots.steps(5 * PIECE)
        bare_ns, more = in_pairs(slots, pairs)
        counting_ns = by_itself_ns(slots)
        parts = each_second(slots)
        slots.close()
    quarter = len(more) // 4
    print(
        f"a row: {bare_ns:,.1f} ns; in pairs {median(more):+.2%} where it is counted "
        f"(half of {len(more)} pairs: {more[quarter]:+.2%} to {more[-quarter - 1]:+.2%})"
    )
    share = counting_ns / bare_ns
    print(f"{'counting, by itself':>26}: {counting_ns:>8,.3f} ns a row    ({share:.3%})")
    for name, us in parts.items():
        each = us / SLOTS / 1_000_000
        share += each
        print(f"{name:>26}: {us:>8,.0f} us a second ({each:.3%} of {SLOTS} slots)")
    print(f"{'in all':>26}: {share:.2%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=400)
    main(parser.parse_args().pairs)
