"""Jobs for the pictures of the page, the same at each run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from rheos.core.metrics.event_log import EventKind, EventLevel, JobEvent, ShownEvent
from rheos.core.metrics.health import (
    FindingKind,
    HealthState,
    JobFinding,
    JobHealth,
    Severity,
    iso_time,
)
from rheos.core.metrics.history_files import HistorySegment, HistoryView
from rheos.core.metrics.model import MetricsReport, metrics_object
from rheos.core.plan.outline import OutlinedChain, OutlinedEdge, OutlinedOperator, PlanOutline
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Cost
from rheos.core.protocol.ids import JobId, job_slug
from rheos.core.protocol.readings import Reading
from rheos.ops.control.job_list import ListedJob, checkpoint_object, job_object
from rheos.ops.control.job_logs import LoggedLine
from rheos.ops.control.processes import ProcessId
from rheos.ops.control.registry import JobRecord
from rheos.runtimes.job import CheckpointInfo, JobState, JobStatus, JobWait, job_key

NOW_MS = 1_795_536_000_000
"""2026-11-24T16:00:00Z"""
STARTED_MS = NOW_MS - 3_000_000
WIDTH = 12
"""Subtasks: two digits, so that their order is seen."""
HOSTILE = '<img src=x onerror="window.hurt=1"><b>bold</b>\u202e&amp;"\x07'
"""A name that is text, whatever is in it."""
LONG = "orders-of-all-customers-by-region-and-day-" * 4


def finding(
    kind: FindingKind, severity: Severity, what: str, to_do: str, for_ms: int, **about: Any
) -> JobFinding:
    since_ms = NOW_MS - for_ms
    return JobFinding(
        kind=kind,
        severity=severity,
        what=what,
        what_to_do=to_do,
        since_ms=since_ms,
        since=iso_time(since_ms),
        for_ms=for_ms,
        **about,
    )


def health(*findings: JobFinding) -> JobHealth:
    """Return the health of a job with these findings, the gravest first."""
    since_ms = findings[0].since_ms if findings else STARTED_MS + 20_000
    return JobHealth(
        state=findings[0].severity.state if findings else HealthState.HEALTHY,
        since_ms=since_ms,
        since=iso_time(since_ms),
        for_ms=NOW_MS - since_ms,
        at_ms=NOW_MS,
        findings=[*findings],
    )


HEALTHY = health()
STUCK = health(
    finding(
        FindingKind.SERVER,
        Severity.STUCK,
        "the server kafka at 127.0.0.1:9092 has not answered for 95 s",
        "start the broker, or repair the network to it. The sink retries every second.",
        95_000,
        operator="kafka",
        server="127.0.0.1:9092",
    ),
    finding(
        FindingKind.PUBLISHING,
        Severity.STUCK,
        "the sink 'kafka' has published nothing for 90 s; the output of 9 checkpoints waits",
        "start its target. Nothing is lost: each row is published once.",
        90_000,
        operator="kafka",
    ),
    finding(
        FindingKind.LATE,
        Severity.NOTE,
        "12 of 1,000 rows of 'minutes' were late",
        "allow more lateness if these rows matter.",
        600_000,
        operator="minutes",
    ),
)
FAILING = health(
    finding(
        FindingKind.FAILED,
        Severity.FAILING,
        "the job has failed: shop.py:12: operator 'lookup': ValueError: an order without a price",
        "correct the function, and start the job again: it continues from its newest checkpoint.",
        120_000,
    ),
)
DEGRADED = health(
    finding(
        FindingKind.SKEW,
        Severity.DEGRADED,
        "subtask 1 of 'minutes' has 60% of the rows by region, where 8% is its share",
        "aggregate by a finer key first.",
        60_000,
        operator="minutes",
    )
)
ERROR = """shop.py:12: operator 'lookup': ValueError: an order without a price
  record: {'order': 17, 'user': 'ada', 'price': None}
  what to do: give such records an output of their own (on_error=)

Traceback (most recent call last):
  File "shop.py", line 12, in priced
    raise ValueError("an order without a price")
ValueError: an order without a price"""


def plan(names: dict[str, str] | None = None) -> PlanOutline:
    """Return a plan of orders with a lookup, one-minute windows, and two sinks."""
    shown = {
        "orders": "orders",
        "lookup": "lookup",
        "minutes": "minutes",
        "kafka": "kafka",
        "postgres": "postgres",
    }
    shown |= names or {}

    def operator(id: str, line: int, columns: str, note: str = "") -> OutlinedOperator:
        outputs = {"": columns} if columns else {}
        return OutlinedOperator(
            id=id, name=shown[id], site=f"shop.py:{line}", note=note, outputs=outputs
        )

    def edge(id: str, source: str, sender: str, target: str, *keys: str) -> OutlinedEdge:
        exchange = "hash" if keys else "forward"
        return OutlinedEdge(
            id=id,
            source=source,
            sender=sender,
            target=target,
            exchange=exchange,
            keys=[*keys],
            feedback=False,
        )

    order = "order: int64, user: string, price: double"
    chains = [
        OutlinedChain(
            id="0",
            operators=[
                operator("orders", 8, order),
                operator("lookup", 12, f"{order}, region: string"),
            ],
            subtasks=WIDTH,
        ),
        OutlinedChain(
            id="1",
            operators=[
                operator(
                    "minutes", 15, "region: string, n: int64", "windows of one minute, late by 30 s"
                ),
                operator("kafka", 18, ""),
            ],
            subtasks=WIDTH,
        ),
        OutlinedChain(id="2", operators=[operator("postgres", 21, "")], subtasks=WIDTH),
    ]
    edges = [edge("0", "0", "lookup", "1", "region"), edge("1", "0", "lookup", "2", "user")]
    return PlanOutline(name="shop", parallelism=WIDTH, max_parallelism=128, chains=chains, edges=edges)


def metrics(published_ms: float = 3_000.0, behind: int = 104) -> MetricsReport:
    """Return metrics of twelve subtasks, sorted by their names as strings."""
    subtasks = sorted(str(n) for n in range(WIDTH))
    readings = [Reading("restarts", ("TransportError",), 1), Reading("restarts", ("WorkerLost",), 2)]
    for subtask in subtasks:
        n = int(subtask)
        readings += [
            Reading("memory_bytes", (subtask,), (180 + 5 * n) << 20),
            Reading("slot_busy_ms", (subtask,), 1000.0, 300.0 + 20 * n),
            Reading("slot_backpressured_ms", (subtask,), 100.0, 10.0 * n),
            Reading("cpu_ms", (subtask,), 5000.0, 350.0 + 20 * n),
            Reading("gc_ms", (subtask,), 20.0, 2.0),
            Reading("checkpoint_sync_ms", (subtask,), 1.5 + n),
            Reading("checkpoint_align_ms", (subtask,), 4.0 + n),
            Reading("checkpoint_async_ms", (subtask,), 30.0 + n),
            Reading("since_published_ms", ("kafka", subtask), published_ms),
            Reading("since_published_ms", ("postgres", subtask), 2_000.0),
            Reading("source_lag_rows", ("orders", subtask), behind // WIDTH),
        ]
        for chain, busy in (("0", 310.0), ("1", 640.0), ("2", 120.0)):
            readings.append(Reading("busy_ms", (chain, subtask), 1000.0, busy + 10 * n))
            readings.append(
                Reading("backpressured_ms", (chain, subtask), 10.0, 110.0 if chain == "0" else 0.0)
            )
        for operator in ("orders", "lookup", "minutes", "kafka", "postgres"):
            readings += [
                Reading("rows_in", (operator, subtask), 40_000 + 100 * n, 200.0 + n),
                Reading("rows_out", (operator, subtask), 40_000 + 90 * n, 190.0 + n),
                Reading("watermark_lag_ms", (operator, subtask), 1_500.0 + 10 * n),
            ]
        readings += [
            Reading("state_bytes", ("minutes", subtask), (3 + n) << 20),
            Reading("keys", ("minutes", subtask), 40 + n),
            Reading("counter", ("minutes", "late", subtask), n, 0.0),
            Reading(
                "accumulated",
                ("lookup", "cents", subtask),
                Accumulated(3, 6.0, 1.0, 3.0, {16: 3}),
            ),
        ]
        for edge in ("0", "1"):
            readings += [
                Reading("sent_rows", (edge, subtask), 40_000, 195.0),
                Reading("sent_bytes", (edge, subtask), 40_000 << 7, 195.0 * 128),
                Reading("received_rows", (edge, subtask), 40_000, 194.0),
                Reading("buffered_rows", (edge, subtask), n),
                Reading("credits_used", (edge, subtask), n % 4),
                Reading("queued_batches", (edge, subtask), n % 3),
            ]
    operators = {each.id: each.name for chain in plan().chains for each in chain.operators}
    return MetricsReport(
        job="shop",
        name="shop",
        at_ms=NOW_MS,
        attempt=2,
        operators=operators,
        chains={chain.id: [each.id for each in chain.operators] for chain in plan().chains},
        edges={edge.id: (edge.source, edge.target) for edge in plan().edges},
        readings=readings,
    )


def history(moments: int = 300) -> HistoryView:
    """Return fifty minutes of history: at the start the job reads a backlog."""
    paths = [(source, sink) for source in ("orders",) for sink in ("kafka", "postgres")]
    series = [
        "uptime_s",
        "source_rows_per_s",
        "source_lag_rows\torders",
        "watermark_lag_ms\tminutes",
        "watermark_lag_ms\torders",
        *(
            f"latency_ms\t{source}\t{sink}\t{q}"
            for source, sink in paths
            for q in ("p50", "p95", "p99")
        ),
        "since_published_ms\tkafka",
        "since_published_ms\tpostgres",
        "cpu_ms",
        "memory_bytes",
        *(f"checkpoint_duration_ms\t{q}" for q in ("p50", "p95", "p99")),
        "checkpoint_bytes",
    ]
    rows: list[list[float | None]] = []
    for n in range(moments):
        starting = n < 6
        wave = math.sin(n / 12) * 0.2 + math.sin(n / 5) * 0.05
        pause = 60 if 200 <= n < 212 else 0
        late = 20 if starting else 1
        latency = [
            round(40 * factor * late * (1 + wave) * (1 + pause / 20), 3)
            for sink in (1.0, 1.6)
            for factor in (1 * sink, 2 * sink, 3.4 * sink)
        ]
        rows.append(
            [
                float(10 * n + 5),
                round((48_000 if starting else 2_300) * (1 + wave) * (0.1 if pause else 1), 3),
                round((400_000 if starting else 90) * (1 + wave), 3),
                round((900_000 if starting else 1_800) * (1 + wave), 3),
                round((800_000 if starting else 1_200) * (1 + wave), 3),
                *latency,
                1000.0 * (3 + (n - 199) * 10 if pause else 3),
                2000.0,
                round(4_300 * (1 + wave), 3),
                float((2_100 + n // 4) << 20),
                *(round(130 * f * (1 + wave), 3) for f in (1, 1.5, 2)),
                float((40 + n / 10) * (1 << 20)),
            ]
        )
    at = [NOW_MS - 10_000 * (moments - 1 - n) for n in range(moments)]
    fine = HistorySegment("shop", "fine", 10_000, series, at, rows)
    coarse_at = [NOW_MS - 600_000 * (99 - n) for n in range(100)]
    coarse = HistorySegment(
        "shop", "coarse", 600_000, series, coarse_at, [rows[20 + n] for n in range(100)]
    )
    return HistoryView(fine, coarse)


def checkpoints() -> list[CheckpointInfo]:
    return [
        CheckpointInfo(
            checkpoint=230 + n,
            attempt=2,
            completed_ms=NOW_MS - 10_000 * (6 - n),
            duration_ms=120 + n,
            state_bytes=(61 + n) << 20,
            cost=Cost(sync_us=4200 + n, align_us=16_000, written_bytes=(3 + n) << 20, unaligned=n == 4),
            savepoint="/data/shop/savepoints/savepoint-232-0f3a" if n == 2 else "",
        )
        for n in range(6)
    ]


def events() -> list[ShownEvent]:
    at = NOW_MS - 600_000
    made = [
        JobEvent(
            id="5",
            at_ms=NOW_MS - 95_000,
            kind=EventKind.SERVER,
            level=EventLevel.ERROR,
            ongoing=True,
            what="kafka at 127.0.0.1:9092 does not answer",
            operator="kafka",
            attempt=2,
        ),
        JobEvent(
            id="4",
            at_ms=at + 200_000,
            kind=EventKind.SAVEPOINT,
            until_ms=at + 203_400,
            what="savepoint taken in /data/shop/savepoints/savepoint-232-0f3a",
            outcome="complete in {span}",
        ),
        JobEvent(
            id="3",
            at_ms=at,
            kind=EventKind.RESTART,
            level=EventLevel.WARNING,
            until_ms=at + 4000,
            what="worker 1 lost (killed by signal 9)",
            outcome="restarted in {span}",
            attempt=2,
            subtask=1,
            detail=ERROR,
        ),
        JobEvent(
            id="2",
            at_ms=at - 300_000,
            kind=EventKind.CHECKPOINT,
            level=EventLevel.WARNING,
            times=3,
            until_ms=at - 280_000,
            what="checkpoint failed: no space left on device",
        ),
        JobEvent(
            id="1",
            at_ms=STARTED_MS,
            kind=EventKind.STARTED,
            what="the job started",
            driver="4711 on host-a",
        ),
    ]
    return [ShownEvent.of(each, NOW_MS) for each in made]


def logs() -> list[LoggedLine]:
    def line(second: int, level: str, message: str, **where: Any) -> LoggedLine:
        return LoggedLine(
            time=f"2026-11-24T15:59:{second:02}.000Z",
            level=level,
            logger="rheos",
            message=message,
            **where,
        )

    return [
        line(1, "info", "checkpoint 234 is complete"),
        line(3, "info", "price list read", operator="lookup", subtask=0),
        line(9, "warning", "an order of an unknown region: 'atlantis'", operator="lookup", subtask=10),
        line(12, "error", "the job 'shop' restarts\nbecause a worker was lost", error=ERROR),
        line(20, "debug", HOSTILE, operator=HOSTILE, subtask=3),
    ]


SETTINGS = {
    "parallelism": "12",
    "checkpoint_interval": "10s",
    "checkpoint_dir": "s3://bucket/checkpoints",
    "restart": "exponential_delay, from 100 ms up to 60 s",
    "checkpoints.retain": "3",
    "state.backend": "rocksdb",
    "state.memory_bytes": "512 MB",
}

RUNNING = JobStatus(
    job=JobId("shop"),
    name="shop",
    state=JobState.RUNNING,
    attempt=2,
    running_s=3000.0,
    records_per_s=2345.6,
    watermark_ms=NOW_MS - 1500,
    checkpoints_completed=235,
    checkpoints_failed=3,
    last_checkpoint_ms=125,
    restarts=3,
    busy_ratio=0.6,
    backpressure_ratio=0.1,
    parallelism=WIDTH,
)


@dataclass
class FedJob:
    """Job as a server would describe it."""

    name: str = "shop"
    directory: str | None = "/data/checkpoints"
    status: JobStatus = RUNNING
    health: JobHealth | None = HEALTHY
    runs: bool = True
    behind: int = 104
    """Records."""
    published_ms: int = 3_000
    waits: tuple[JobWait, ...] = ()
    plan: PlanOutline = field(default_factory=plan)
    metrics: MetricsReport = field(default_factory=metrics)
    history: HistoryView = field(default_factory=history)
    events: list[ShownEvent] = field(default_factory=events)
    pid: int = 4711
    ended: dict[str, Any] = field(default_factory=dict)
    """What the list says of a job that has ended."""

    @property
    def key(self) -> str:
        return job_key(job_slug(self.name), self.directory)

    def listed(self) -> dict[str, Any]:
        host = ProcessId(host="host-a", boot="", namespace="", pid=self.pid, started_s=1.0)
        record = JobRecord(
            key=job_key(job_slug(self.name), self.directory),
            job=job_slug(self.name),
            name=self.name,
            process=host,
            runtime="continuous",
            checkpoint_dir=self.directory,
            started_ms=STARTED_MS,
            endpoint="",
            token="",
        )
        status = replace(
            self.status,
            name=self.name,
            health=self.health,
            source_lag_rows=self.behind,
            since_published_ms=self.published_ms,
            waits=self.waits,
        )
        shown = job_object(ListedJob(record, status))
        return {"runs": self.runs, **shown, **self.ended}

    def now(self) -> dict[str, Any]:
        shown = metrics_object(self.metrics) if self.runs else None
        return {"job": {**self.listed(), "operators": []}, "metrics": shown}

    def answer(self, what: str) -> Any:
        """Return the job's answer to a request, or None if only a running job answers it."""
        match what:
            case "plan":
                return msgspec.to_builtins(self.plan) if self.runs else None
            case "settings":
                return SETTINGS if self.runs else None
            case "history":
                return msgspec.to_builtins(self.history)
            case "checkpoints":
                return [checkpoint_object(each) for each in checkpoints()]
            case "logs":
                return logs()
            case _:
                return self.events


def failed() -> FedJob:
    """Return a job that has failed, and is still in the list."""
    status = replace(RUNNING, state=JobState.FAILED, failure=ERROR, records_per_s=0.0)
    return FedJob("returns", status=status, health=FAILING)


def stuck() -> FedJob:
    return FedJob(
        "shop",
        health=STUCK,
        published_ms=95_000,
        metrics=metrics(published_ms=95_000.0),
        waits=(JobWait("the sink 'kafka' waits for 127.0.0.1:9092", NOW_MS - 95_000),),
    )


def ended() -> FedJob:
    how = {
        "state": "failed",
        "problem": None,
        "failure": ERROR,
        "ended_ms": NOW_MS - 120_000,
        "source_lag_rows": None,
        "since_published_ms": None,
        "uptime_s": None,
        "records_per_s": None,
    }
    return FedJob("nightly", runs=False, health=FAILING, ended=how)


def many(count: int = 50) -> list[FedJob]:
    """Return jobs of several healths, in random order."""
    healths = [HEALTHY, HEALTHY, STUCK, DEGRADED]
    return [
        FedJob(
            f"job-{(7 * n) % count:02}",
            health=healths[n % len(healths)],
            behind=12 * n,
            published_ms=1000 * n,
        )
        for n in range(count)
    ]


def hostile() -> FedJob:
    names = dict.fromkeys(("orders", "lookup", "minutes", "kafka", "postgres"), HOSTILE)
    skewed = finding(
        FindingKind.SKEW, Severity.DEGRADED, HOSTILE + LONG, HOSTILE, 5_000, operator="minutes"
    )
    return FedJob(HOSTILE, directory=f"/data/{LONG}", plan=plan(names), health=health(skewed))


def long_names() -> FedJob:
    names = {id: f"{LONG}{id}" for id in ("orders", "lookup", "minutes", "kafka", "postgres")}
    return FedJob(LONG, directory=f"/data/{LONG}", plan=plan(names))
