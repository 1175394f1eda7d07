"""Drill: how a job behaves while a server that it reads or writes is in trouble, and when it resumes.

usage: python benchmarks/outages.py [--away SECONDS ...] [--only SERVER-FAULT ...]

Needs rheos[kafka,postgres,redis]. It starts its own servers on loopback, and ends them. One job reads
a topic of Kafka and writes another (exactly once), a table of PostgreSQL (exactly once) and keys of
Redis. It reaches each server through a proxy. Faults are named SERVER-FAULT, such as kafka-killed:

    killed           SIGKILL, and started again on the same data
    frozen           SIGSTOP: the server stays connected and answers nothing
    cut              nothing passes its connections, which stay open
    cut-to-server    nothing passes towards the server
    cut-from-server  nothing passes from the server: it does what it is asked, and no answer arrives
    slow             200 ms for each packet, and 100 kB/s
    lossy            a third of the packets is lost and sent again later, as TCP does
    full             its disk is full (a small mounted file system, for which the drill has to run as
                     root; Redis: it has reached `maxmemory`)
    emptied          killed, and started again without its data: in a job of its own

The table has, for each fault, the time until the job's health showed it; for each sink the time from
the server's return until the sink had published a row that was sent after it; the longest time in
which the other sinks published nothing; and the rows that were lost and doubled.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic
from outage_faults import EMPTIED, KINDS, SERVERS, Servers, Strike, servers
from outage_watch import Pauses, Watch

import rheos as rh
from rheos.core.metrics.health import Severity
from rheos.runtimes.job import JobState

SETTLE_S = 10.0
RESUMED_WITHIN_S = 120.0
COMPLETE_WITHIN_S = 20.0
EMPTIED_WITHIN_S = 90.0
_ENDED = (JobState.FAILED, JobState.FINISHED, JobState.CANCELLED)


@dataclass
class Outcome:
    fault: str
    away_s: float
    shown_s: float | None
    shown: str
    resumed_s: dict[str, float | None]
    others_paused_s: dict[str, float]
    lost: int
    doubled: int
    restarts: int

    def line(self) -> str:
        resumed = [_seconds(self.resumed_s[sink]) for sink in SERVERS]
        others = ", ".join(f"{sink} {pause:.0f} s" for sink, pause in self.others_paused_s.items())
        cells = [self.fault, f"{self.away_s:.0f} s", _seconds(self.shown_s), *resumed]
        cells += [others or "no input", str(self.lost), str(self.doubled), str(self.restarts)]
        return f"| {' | '.join(cells)} |"


HEAD = (
    "| fault | away | shown after | Kafka resumed | PostgreSQL resumed | Redis resumed | longest pause "
    "of the others | lost | doubled | restarts |\n|---|---|---|---|---|---|---|---|---|---|"
)


def _seconds(seconds: float | None) -> str:
    return "no" if seconds is None else f"{seconds:.0f} s"


class Drill:
    """One job, and faults one after another."""

    def __init__(self, at: Servers, watch: Watch, job: rh.JobHandle) -> None:
        self._at = at
        self._watch = watch
        self._job = job

    def wait_for(self, reached: Callable[[], bool], within_s: float) -> float | None:
        """Return after how many seconds that was reached; None if it was not."""
        began = time.monotonic()
        while not reached():
            if time.monotonic() - began > within_s:
                return None
            time.sleep(0.2)
        return time.monotonic() - began

    def strike(self, server: str, kind: str, strike: Strike, away_s: float) -> Outcome:
        time.sleep(SETTLE_S)
        began, returned = time.monotonic(), threading.Event()
        restarts = self._job.status().restarts
        others = [sink for sink in SERVERS if sink != server] if server != "kafka" else []
        pauses = Pauses(self._watch)
        shown: list[tuple[float, str]] = []

        def look() -> None:
            while not returned.wait(0.5):
                pauses.look()
                found = self.shown()
                if found and not shown:
                    shown.append((time.monotonic() - began, found))

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        strike(away_s)
        returned.set()
        back, mark = time.monotonic(), self._watch.sent
        resumed: dict[str, float | None] = {}

        def all_resumed() -> bool:
            for sink in SERVERS:
                if sink not in resumed and self._watch.newest(sink) >= mark:
                    resumed[sink] = time.monotonic() - back
            return len(resumed) == len(SERVERS)

        self.wait_for(all_resumed, RESUMED_WITHIN_S)
        looking.join()
        lost, doubled = self.complete(mark)
        return Outcome(
            fault=f"{server}-{kind}",
            away_s=away_s,
            shown_s=shown[0][0] if shown else None,
            shown=shown[0][1] if shown else "",
            resumed_s={sink: resumed.get(sink) for sink in SERVERS},
            others_paused_s={sink: pauses.longest_s[sink] for sink in others},
            lost=lost,
            doubled=doubled,
            restarts=self._job.status().restarts - restarts,
        )

    def complete(self, below: int) -> tuple[int, int]:
        """Return how many of the numbers below `below` are lost, and how many rows are doubled."""
        watch = self._watch

        def lost() -> int:
            return sum(watch.lost(sink, below) for sink in SERVERS)

        self.wait_for(lambda: lost() == 0, COMPLETE_WITHIN_S)
        return lost(), sum(watch.doubled(sink) for sink in SERVERS)

    def empty(self, server: str) -> str:
        """Return a line that says what became of a job whose server has lost everything."""
        time.sleep(SETTLE_S)
        began = time.monotonic()
        self._at.empty(server)
        found = self.wait_for(lambda: self._job.status().state in _ENDED, EMPTIED_WITHIN_S)
        status = self._job.status()
        if found is not None:
            error = (status.failure or "").splitlines()
            return f"| {server}-{EMPTIED} | ended after {found:.0f} s | {' '.join(error[:3])} |"
        lost = self._watch.lost(server, self._watch.newest(server))
        took = time.monotonic() - began
        return f"| {server}-{EMPTIED} | runs after {took:.0f} s, {lost} rows gone | {self.shown()} |"

    def shown(self) -> str:
        """Return what the gravest finding of the job says; an empty string if there is none."""
        health = self._job.status().health
        if health is None or not health.findings or health.findings[0].severity is Severity.NOTE:
            return ""
        return health.findings[0].what


def submit(at: Servers, folder: str) -> rh.JobHandle:
    env = rh.Environment(
        parallelism=2,
        runtime="continuous",
        checkpoint_dir=f"{folder}/checkpoints",
        checkpoint_interval="1s",
    )
    brokers = at.address("kafka")
    source = rh.kafka.source(
        "in", brokers=brokers, schema=pa.schema([("n", pa.int64())]), format=rh.formats.json()
    )
    rows = env.from_source(source, uid="in")
    url = at.postgres.url.replace(at.postgres.address, at.address("postgres"))
    store = at.redis.url.replace(at.redis.address, at.address("redis"))
    rows.sink_to(rh.kafka.sink("out", brokers=brokers), name="kafka", uid="kafka")
    rows.sink_to(rh.postgres.sink("published", url=url), name="postgres", uid="postgres")
    rows.sink_to(rh.redis.sink(store, key="n:{n}"), name="redis", uid="redis")
    return env.execute_async("outages")


@contextmanager
def running_job() -> Iterator[Drill]:
    """A job that publishes to all sinks, at servers of its own."""
    with servers() as at, tempfile.TemporaryDirectory(prefix="outages-") as folder:
        admin = AdminClient({"bootstrap.servers": at.kafka.address})
        for made in admin.create_topics([NewTopic("in", 2, 1), NewTopic("out", 1, 1)]).values():
            made.result(60)
        with psycopg.connect(at.postgres.url) as session:
            session.execute("CREATE TABLE published (n bigint)")
        job = submit(at, folder)
        watch = Watch(at)
        with watch.watching():
            drill = Drill(at, watch, job)
            publishes = lambda: all(watch.newest(sink) > 0 for sink in SERVERS)  # noqa: E731
            if drill.wait_for(publishes, 300) is None:
                sys.exit(f"the job published nothing within 300 s: {job.status()}")
            try:
                yield drill
            finally:
                job.cancel()


def strike_all(faults: Sequence[tuple[str, str]], away: Sequence[float]) -> None:
    print(HEAD, flush=True)
    with running_job() as drill:
        for (server, kind), away_s in itertools.product(faults, away):
            strike = drill._at.strike(server, kind)
            if strike is None:
                print(f"| {server}-{kind} | not permitted here |", flush=True)
                continue
            outcome = drill.strike(server, kind, strike, away_s)
            print(outcome.line(), flush=True)
            print(f"  {outcome.fault}: {outcome.shown}", file=sys.stderr, flush=True)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    given.add_argument("--away", type=float, nargs="+", default=[20.0])
    given.add_argument("--only", nargs="+", default=[])
    options = given.parse_args()
    known = list(itertools.product(SERVERS, [*KINDS, EMPTIED]))
    faults = [each for each in known if not options.only or "-".join(each) in options.only]
    if not faults:
        given.error(f"--only takes some of {', '.join('-'.join(each) for each in known)}")
    # Servers and mounts go, also where it is asked to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    struck = [each for each in faults if each[1] != EMPTIED]
    if struck:
        strike_all(struck, options.away)
    for server, kind in faults:
        if kind == EMPTIED:
            with running_job() as drill:
                print(drill.empty(server), flush=True)


if __name__ == "__main__":
    main()
